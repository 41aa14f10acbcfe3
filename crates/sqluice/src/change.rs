//! `sqluice switchover`, `failover`, `rejoin`, `acknowledge` and `server`: changes that the running process carries out.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::api::{Answer, Api, ApiArgs, part};
use crate::out;
use crate::status::journal_line;

/// Options of all changes.
#[derive(Debug, clap::Args)]
struct Common {
    #[command(flatten)]
    api: ApiArgs,
    /// The cluster. Not needed if there is only one.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Print the API's JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of `sqluice switchover`.
#[derive(Debug, clap::Args)]
pub(crate) struct Switchover {
    #[command(flatten)]
    common: Common,
    /// The new primary. Without it Sqluice chooses the best server.
    #[arg(long, value_name = "SERVER")]
    to: Option<String>,
    /// Print the steps and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Arguments of `sqluice failover`.
#[derive(Debug, clap::Args)]
pub(crate) struct Failover {
    #[command(flatten)]
    common: Common,
    /// The new primary. Without it Sqluice chooses the best server.
    #[arg(long, value_name = "SERVER")]
    to: Option<String>,
    /// Print the steps and change nothing.
    #[arg(long)]
    dry_run: bool,
    /// Act even if the primary may be alive or data is lost: transactions that only other servers have.
    #[arg(long)]
    force: bool,
}

/// Arguments of `sqluice rejoin`.
#[derive(Debug, clap::Args)]
pub(crate) struct Rejoin {
    #[command(flatten)]
    common: Common,
    /// The server that becomes a replica of the primary.
    server: String,
    /// Print the steps and change nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Arguments of `sqluice acknowledge`.
#[derive(Debug, clap::Args)]
pub(crate) struct Acknowledge {
    #[command(flatten)]
    common: Common,
}

/// Arguments of `sqluice server`.
#[derive(Debug, clap::Args)]
pub(crate) struct Server {
    #[command(flatten)]
    common: Common,
    /// The action.
    #[arg(value_enum)]
    what: ServerCommand,
    /// The server.
    server: String,
    /// With drain and maintenance: wait until no session uses the server, up to this many seconds (at most 60; without a number 60).
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60", value_parser = clap::value_parser!(u64).range(..=60))]
    wait: Option<u64>,
}

/// The actions on a server.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ServerCommand {
    /// Let the server finish its work, and send it no new work.
    Drain,
    /// Use the server again.
    Resume,
    /// Leave the server alone: no traffic, no promotion, no repair.
    Maintenance,
}

/// Does it and prints what was done. The exit code is 1 when it was refused or given up.
///
/// # Errors
/// The process cannot be asked.
pub(crate) fn switchover(args: &Switchover) -> anyhow::Result<ExitCode> {
    let body = json!({ "to": args.to, "dry_run": args.dry_run });
    ask(&args.common, |cluster| format!("/clusters/{cluster}/switchover"), &body)
}

/// As [`switchover`].
pub(crate) fn failover(args: &Failover) -> anyhow::Result<ExitCode> {
    let body = json!({ "to": args.to, "dry_run": args.dry_run, "force": args.force });
    ask(&args.common, |cluster| format!("/clusters/{cluster}/failover"), &body)
}

/// As [`switchover`].
pub(crate) fn rejoin(args: &Rejoin) -> anyhow::Result<ExitCode> {
    let server = part(&args.server);
    let body = json!({ "dry_run": args.dry_run });
    ask(&args.common, |cluster| format!("/clusters/{cluster}/servers/{server}/rejoin"), &body)
}

/// As [`switchover`].
pub(crate) fn acknowledge(args: &Acknowledge) -> anyhow::Result<ExitCode> {
    ask(&args.common, |cluster| format!("/clusters/{cluster}/acknowledge"), &json!({}))
}

/// As [`switchover`].
pub(crate) fn server(args: &Server) -> anyhow::Result<ExitCode> {
    let server = part(&args.server);
    let what = match args.what {
        ServerCommand::Drain => "drain",
        ServerCommand::Resume => "resume",
        ServerCommand::Maintenance => "maintenance",
    };
    let body = match args.wait {
        Some(_) if matches!(args.what, ServerCommand::Resume) => anyhow::bail!("--wait is for drain and maintenance"),
        Some(seconds) => json!({ "wait_ms": seconds * 1000 }),
        None => json!({}),
    };
    ask(&args.common, |cluster| format!("/clusters/{cluster}/servers/{server}/{what}"), &body)
}

fn ask(common: &Common, path: impl FnOnce(&str) -> String, body: &Value) -> anyhow::Result<ExitCode> {
    let api = Api::find(&common.api)?;
    let cluster = api.cluster(common.cluster.as_deref())?;
    let Answer { status, page } = api.ask("PUT", &path(&part(&cluster)), &body.to_string())?;
    if common.json {
        out::print(&format!("{page}\n"))?;
    } else if status < 300 {
        out::print(&describe(&page))?;
    } else {
        out::print(&timings(&page))?;
        out::say(format_args!("error: {}", complaint(&page)));
    }
    for warning in page["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        out::say(format_args!("warning: {warning}"));
    }
    // Sessions still use the server at the end of the wait.
    let late = status == 202 && page["connections"].is_u64();
    Ok(if status < 300 && !late { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The text of an error's page.
pub(crate) fn complaint(page: &Value) -> String {
    let mut out = page["error"].as_str().unwrap_or("refused without a word").to_owned();
    let words = |key: &str| page[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
    let (known, others) = (words("known"), words("others"));
    if !known.is_empty() {
        let _ = write!(out, "; there are: {}", known.join(", "));
    }
    others.iter().for_each(|line| out.push_str(&format!("\n  {line}")));
    out
}

/// The steps that were done, or would be.
fn describe(page: &Value) -> String {
    let mut out = String::new();
    let words = |key: &str| page[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
    let result = page["result"].as_str().unwrap_or_default();
    if result == "dry_run" {
        let _ = writeln!(out, "this would be done:");
        words("steps").iter().enumerate().for_each(|(at, step)| {
            let _ = writeln!(out, "  {}. {step}", at + 1);
        });
    }
    words("others").iter().for_each(|line| {
        let _ = writeln!(out, "  not chosen: {line}");
    });
    out.push_str(&timings(page));
    let primary =
        page["primary"].as_str().map_or("there is no primary".to_owned(), |name| format!("primary is {name}"));
    match result {
        "finished" if page["connections"].is_u64() => {
            let _ = writeln!(out, "done in {} ms: no session uses it", page["took_ms"]);
        }
        "running" if page["connections"].is_u64() => {
            let _ = writeln!(out, "sessions still use {} connections to it", page["connections"]);
        }
        "finished" => {
            let _ = writeln!(out, "done in {} ms; {primary}", page["took_ms"]);
        }
        "running" => {
            let _ = writeln!(out, "run {} goes on; `sqluice status` tells how", page["run"]);
        }
        "done" => {
            let _ = writeln!(out, "done; {primary}");
        }
        _ => {}
    }
    out
}

/// The steps with their times; where none was timed, the journal's lines.
fn timings(page: &Value) -> String {
    let mut out = String::new();
    let steps = page["timings"].as_array().map_or(&[][..], Vec::as_slice);
    for step in steps {
        let server = step["server"].as_str().map_or(String::new(), |server| format!("{server}: "));
        let failed = if step["ok"] == Value::Bool(false) { " (failed)" } else { "" };
        let text = step["text"].as_str().or(step["step"].as_str()).unwrap_or_default();
        let _ = writeln!(out, "  {:>6} ms  {server}{text}{failed}", step["ms"].as_u64().unwrap_or_default());
    }
    if steps.is_empty() {
        for line in page["journal"].as_array().into_iter().flatten() {
            let _ = writeln!(out, "  {}", journal_line(line));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_read_like_prose() {
        let dry = json!({ "result": "dry_run", "steps": ["hold writes", "promote db2"], "others": ["db3: is behind"] });
        assert_eq!(
            describe(&dry),
            "this would be done:\n  1. hold writes\n  2. promote db2\n  not chosen: db3: is behind\n"
        );
        let done = json!({
            "result": "finished", "took_ms": 180, "primary": "db2",
            "timings": [{ "server": "db2", "text": "promote", "ms": 40, "ok": true }, { "text": "hook", "ms": 7, "ok": false }],
        });
        assert_eq!(
            describe(&done),
            "      40 ms  db2: promote\n       7 ms  hook (failed)\ndone in 180 ms; primary is db2\n"
        );
        let refused = json!({ "error": "nobody fits", "others": ["db2: must_not"] });
        assert_eq!(complaint(&refused), "nobody fits\n  db2: must_not");
        assert_eq!(
            complaint(&json!({ "error": "there is no cluster", "known": ["a", "b"] })),
            "there is no cluster; there are: a, b"
        );
    }
}
