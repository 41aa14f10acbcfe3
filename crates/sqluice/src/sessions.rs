//! `sqluice sessions` and `sqluice kill`: the sessions of the running process, and their ends.

use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};

use crate::api::{Answer, Api, ApiArgs, part};
use crate::cache::bytes;
use crate::out;

/// Characters of a form that are shown in a line.
const FORM_CHARS_MAX: usize = 100;
/// Characters of a name that are shown.
const NAME_CHARS_MAX: usize = 32;

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// Print only sessions for which this holds: FIELD=VALUE, with one of = != < <= > >= ~, and `and` between several. Fields
    /// are those of --json; `ms` is how long a session is in its state, `~` looks for a part of a text.
    #[arg(long = "where", value_name = "CONDITION", default_value = "")]
    condition: String,
    /// Print them in this order: busy (for longest first), id, transaction (oldest first), connected (longest first), bytes (most
    /// first), waited (longest first).
    #[arg(long, value_name = "ORDER", default_value = "busy")]
    order: String,
    /// Print at most this many.
    #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 100,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    limit: usize,
    /// Print JSON, one session a line.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct KillArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// The session's id, as `sqluice sessions`, CONNECTION_ID() and SHOW PROCESSLIST show it.
    #[arg(value_name = "ID", required_unless_present = "condition", conflicts_with = "condition")]
    id: Option<u32>,
    /// Kill all sessions for which this holds, as in 'digest=4f2a6c1e9b0d7733 and ms>1000'.
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// Kill what a session runs, and let the session live.
    #[arg(long)]
    query: bool,
    /// Only say which sessions that would be.
    #[arg(long, requires = "condition")]
    dry_run: bool,
}

pub(crate) fn list(args: &ListArgs) -> anyhow::Result<ExitCode> {
    let api = Api::find(&args.api)?;
    let query = format!("order={}&limit={}&where={}", part(&args.order), args.limit, part(&args.condition));
    let page = good(api.ask("GET", &format!("/sessions?{query}"), "")?)?;
    let sessions = page["sessions"].as_array().map_or(&[][..], Vec::as_slice);
    if !args.json {
        out::line(&row([
            "id",
            "user",
            "client",
            "state",
            "for",
            "waited",
            "in",
            "out",
            "server",
            "pins",
            "statement",
        ]))?;
    }
    for session in sessions {
        let line = if args.json { session.to_string() } else { describe(session) };
        out::line(&line)?;
    }
    if sessions.len() as u64 != page["all"].as_u64().unwrap_or(0) {
        out::say(format_args!("{} of {} sessions, {} of all", sessions.len(), page["met"], page["all"]));
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn kill(args: &KillArgs) -> anyhow::Result<ExitCode> {
    let api = Api::find(&args.api)?;
    let what = if args.query { "query" } else { "session" };
    let Some(condition) = &args.condition else {
        let id = args.id.unwrap_or_default();
        let page = good(api.ask("PUT", &format!("/sessions/{id}/kill"), &json!({ "what": what }).to_string())?)?;
        if page["killed"] == Value::Bool(true) {
            out::line(&format!("{what} of {id} was killed"))?;
            return Ok(ExitCode::SUCCESS);
        }
        bail!("session {id} runs nothing");
    };
    let body = json!({ "what": what, "where": condition, "dry_run": args.dry_run });
    let page = good(api.ask("PUT", "/sessions/kill", &body.to_string())?)?;
    for session in page["sessions"].as_array().map_or(&[][..], Vec::as_slice) {
        out::line(&describe(session))?;
    }
    let met = page["sessions"].as_array().map_or(0, Vec::len);
    if args.dry_run {
        out::say(format_args!("{met} sessions meet the condition; nothing was killed (--dry-run)"));
        return Ok(ExitCode::SUCCESS);
    }
    out::say(format_args!("{} of {met} were killed", page["killed"]));
    let failed = page["failed"].as_array().map_or(&[][..], Vec::as_slice);
    for failure in failed {
        out::say(format_args!(
            "session {}: {}",
            failure["id"],
            cut(failure["error"].as_str().unwrap_or_default(), 200)
        ));
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) fn good(answer: Answer) -> anyhow::Result<Value> {
    match answer.status {
        200 => Ok(answer.page),
        status => {
            let page = answer.page;
            bail!("the API says {status}: {}", page.as_str().map_or_else(|| page.to_string(), str::to_owned))
        }
    }
}

/// A session in one line.
fn describe(session: &Value) -> String {
    let text = |key: &str| cut(session[key].as_str().unwrap_or("-"), NAME_CHARS_MAX);
    let ms = session["ms"].as_f64().unwrap_or(0.0);
    let pins: Vec<&str> = session["pins"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let form = session["form"].as_str().or_else(|| session["digest"].as_str());
    let waited_ms = session["waited_ms"].as_f64().unwrap_or(0.0);
    row([
        &session["id"].to_string(),
        &text("user"),
        &text("client"),
        &text("state"),
        &format!("{:.3} s", ms / 1000.0),
        &format!("{:.3} s", waited_ms / 1000.0),
        &bytes(&session["received_bytes"]),
        &bytes(&session["sent_bytes"]),
        &text("server"),
        &if pins.is_empty() { "-".to_owned() } else { pins.join(",") },
        &cut(form.unwrap_or("-"), FORM_CHARS_MAX),
    ])
}

fn row([id, user, client, state, time, waited, received, sent, server, pins, statement]: [&str; 11]) -> String {
    let who = format!("{id:<11} {user:<16} {client:<21} {state:<20}");
    format!("{who} {time:>11} {waited:>9} {received:>9} {sent:>9} {server:<12} {pins:<14} {statement}")
}

pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    out::one_line(text, chars_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_one_line_without_signs_that_move_the_cursor() {
        let session = json!({
            "id": 1073741824, "user": "a\u{1b}[2Jpp", "client": "10.0.0.7:4711", "state": "running", "ms": 1234.5, "waited_ms": 250.0,
            "received_bytes": 512, "sent_bytes": 3 << 20,
            "server": "db1", "pins": ["transaction", "user_lock"], "form": "SELECT ?\nFROM t",
        });
        let line = describe(&session);
        assert!(!line.contains('\u{1b}') && !line.contains('\n'), "{line:?}");
        assert!(line.starts_with("1073741824  ") && line.contains("1.234 s") || line.contains("1.235 s"), "{line}");
        assert!(line.contains(" 0.250 s ") && line.contains(" 512 ") && line.contains(" 3.0 MiB "), "{line}");
        assert!(line.contains("transaction,user_lock") && line.contains("SELECT ?"), "{line}");
    }
}
