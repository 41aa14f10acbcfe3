//! `sqluice log`: the last events of the running process.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use serde_json::Value;

use crate::api::{Api, ApiArgs, part};
use crate::out;

/// How often the process is asked for more.
const PACE: Duration = Duration::from_millis(300);
/// Most events of one answer.
const LIMIT_MAX: usize = 10_000;
/// Characters of a statement that are shown in a line.
const TEXT_CHARS_MAX: usize = 160;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the last events: queries, logins, ends of sessions.
    Tail(Tail),
}

#[derive(Debug, clap::Args)]
struct Tail {
    #[command(flatten)]
    api: ApiArgs,
    /// Print at most this many of the events that are there.
    #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 20,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=LIMIT_MAX as u64))]
    limit: usize,
    /// Print events as they come, until Ctrl-C.
    #[arg(long, short)]
    follow: bool,
    /// Print only events for which this holds: FIELD=VALUE, with one of = != < <= > >= ~, and `and` between several. `ms` is
    /// the whole time in milliseconds, `~` looks for a part of a text.
    #[arg(long = "where", value_name = "CONDITION", default_value = "")]
    condition: String,
    /// Print JSON, one event a line, as the file of events has them.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Command::Tail(args) = &args.command;
    let api = Api::find(&args.api)?;
    let condition = part(&args.condition);
    let mut page = ask(&api, &format!("limit={}&where={condition}", args.limit))?;
    loop {
        if let Some(missed) = page["missed"].as_u64().filter(|missed| *missed > 0) {
            out::say(format_args!("{missed} events came too fast to be shown; the file of events has them"));
        }
        for event in page["events"].as_array().map_or(&[][..], Vec::as_slice) {
            let line = if args.json { event.to_string() } else { describe(event) };
            out::line(&line)?;
        }
        if !args.follow {
            return Ok(ExitCode::SUCCESS);
        }
        let newest = page["newest"].as_u64().unwrap_or(0);
        std::thread::sleep(PACE);
        page = ask(&api, &format!("after={newest}&limit={LIMIT_MAX}&where={condition}"))?;
    }
}

fn ask(api: &Api, query: &str) -> anyhow::Result<Value> {
    let answer = api.ask("GET", &format!("/events/tail?{query}"), "")?;
    if answer.status != 200 {
        bail!("the API says {}: {}", answer.status, answer.page);
    }
    Ok(answer.page)
}

/// An event in one line.
fn describe(event: &Value) -> String {
    let text = |key: &str| event[key].as_str().unwrap_or_default();
    let time = text("ts").get(11..23).unwrap_or_default();
    let kind = text("kind");
    // Nobody has proven a refused client's name.
    let who = format!("{}@{} #{}", cut(text("user")), cut(text("client")), event["session"]);
    let ms = event["times"]["total"].as_f64().unwrap_or(0.0) / 1000.0;
    match kind {
        "gap" => format!("{time} gap: {} events are lost", event["lost"]),
        "start" => format!("{time} start of {} {}", text("node"), text("version")),
        "query" | "refused" => {
            let place = match text("server") {
                "" => text("answered_by"),
                server => server,
            };
            let outcome = match &event["error"]["code"] {
                Value::Null => format!(
                    "{} rows",
                    event["rows_sent"].as_u64().unwrap_or(0).max(event["rows_affected"].as_u64().unwrap_or(0),)
                ),
                code => format!("error {code}"),
            };
            format!("{time} {kind} {who} {place} {ms:.3} ms {outcome}: {}", cut(text("form")))
        }
        "admin" => {
            let outcome = if event["ok"] == true { "" } else { " refused" };
            let order = Some(text("order")).filter(|order| !order.is_empty()).map(|order| format!(" {order}"));
            let said = format!("{}{}: {}", text("action"), order.unwrap_or_default(), text("result"));
            format!("{time} admin {}@{} by {}{outcome}: {}", text("user"), cut(text("client")), text("way"), cut(&said))
        }
        "login_refused" => {
            let (client, count) = (cut(text("client")), &event["count"]);
            format!("{time} {count} clients refused at {} {client}: {}", text("listener"), cut(text("reason")))
        }
        _ => match (event["ok"].as_bool(), text("reason")) {
            (Some(true), _) => format!("{time} {kind} {who} {ms:.3} ms"),
            (Some(false), reason) => format!("{time} {kind} {who} refused: {}", cut(reason)),
            (None, reason) => format!("{time} {kind} {who} after {ms:.0} ms: {}", cut(reason)),
        },
    }
}

fn cut(text: &str) -> String {
    out::one_line(text, TEXT_CHARS_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_kind_has_its_line() {
        let common = |more: Value| {
            let mut event = json!({
                "ts": "2026-11-26T12:00:01.234567Z", "session": 7, "client": "10.0.0.5:4711", "user": "app",
            });
            event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            describe(&event)
        };
        let query = json!({
            "kind": "query", "server": "db1", "form": "SELECT a\nFROM t WHERE id = ?", "rows_sent": 3,
            "times": { "total": 1500 },
        });
        assert_eq!(
            common(query),
            "12:00:01.234 query app@10.0.0.5:4711 #7 db1 1.500 ms 3 rows: SELECT a FROM t WHERE id = ?"
        );
        let failed = json!({
            "kind": "query", "answered_by": "sqluice", "form": "SELECT ?", "error": { "code": 1064 },
            "times": { "total": 10 },
        });
        assert_eq!(common(failed), "12:00:01.234 query app@10.0.0.5:4711 #7 sqluice 0.010 ms error 1064: SELECT ?");
        let login = json!({ "kind": "login", "ok": false, "reason": "wrong\u{1b}[31m password" });
        assert_eq!(common(login), "12:00:01.234 login app@10.0.0.5:4711 #7 refused: wrong [31m password");
        let named = json!({ "kind": "login", "ok": false, "user": "a\u{1b}[2J\nb", "reason": "no" });
        assert_eq!(common(named), "12:00:01.234 login a [2J b@10.0.0.5:4711 #7 refused: no");
        let logout = json!({ "kind": "logout", "reason": "the client left", "times": { "total": 5_000_000 } });
        assert_eq!(common(logout), "12:00:01.234 logout app@10.0.0.5:4711 #7 after 5000 ms: the client left");
        let order = json!({
            "kind": "admin", "user": "operate", "way": "api", "action": "PUT /x", "order": "{}", "ok": true,
            "result": "200 OK",
        });
        assert_eq!(common(order), "12:00:01.234 admin operate@10.0.0.5:4711 by api: PUT /x {}: 200 OK");
        let turned = json!({ "kind": "login_refused", "listener": "app", "count": 3, "reason": "full" });
        assert_eq!(common(turned), "12:00:01.234 3 clients refused at app 10.0.0.5:4711: full");
        assert_eq!(common(json!({ "kind": "gap", "lost": 5 })), "12:00:01.234 gap: 5 events are lost");
    }
}
