//! `sqluice cache warm`: filling the cache from the files of the configuration.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Common, number, reasons};
use crate::api::{Api, part};
use crate::change::complaint;
use crate::out;

/// How often it is looked at.
const LOOK_EACH: Duration = Duration::from_millis(100);
/// Reasons that are shown.
const REASONS_SHOWN: usize = 5;

#[derive(Debug, clap::Args)]
pub(super) struct Warm {
    #[command(flatten)]
    common: Common,
    /// Only the files of this cluster.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Print the result of the last run.
    #[arg(long)]
    show: bool,
    /// Wait at most this many seconds; the run goes on.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    wait_s: u64,
}

/// The exit code is 1 when a statement of the run failed, no client was seen, or it took longer than the wait.
pub(super) fn warm(args: &Warm) -> anyhow::Result<ExitCode> {
    let api = Api::find(&args.common.api)?;
    let query = args.cluster.as_ref().map_or(String::new(), |name| format!("?cluster={}", part(name)));
    let mut answer = match args.show {
        true => api.ask("GET", "/cache/warm", "")?,
        false => api.ask("PUT", &format!("/cache/warm{query}"), "")?,
    };
    let before = answer.page.clone();
    let deadline = Instant::now() + Duration::from_secs(args.wait_s);
    while answer.status == 200 && !args.show && is_under_way(&before, &answer.page) && Instant::now() < deadline {
        std::thread::sleep(LOOK_EACH);
        answer = api.ask("GET", "/cache/warm", "")?;
    }
    if answer.status >= 300 {
        out::say(format_args!("error: {}", complaint(&answer.page)));
        return Ok(ExitCode::FAILURE);
    }
    out::print(&match args.common.json {
        true => format!("{}\n", answer.page),
        false => describe(&answer.page),
    })?;
    let files = answer.page["files"].as_array().map_or(&[][..], Vec::as_slice);
    let is_bad = |file: &Value| !args.show && file["last"]["failed"].as_u64() > Some(0);
    let nobody = !args.show && before["started"].as_u64() == Some(0);
    if nobody {
        out::say("error: no client was seen for whom the cache could be filled");
    }
    let late = !args.show && is_under_way(&before, &answer.page);
    Ok(if nobody || late || files.iter().any(is_bad) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Something runs, or what was asked for has not begun.
fn is_under_way(before: &Value, now: &Value) -> bool {
    let files = |page: &Value| page["files"].as_array().cloned().unwrap_or_default();
    let runs = |page: &Value| files(page).iter().filter_map(|file| file["runs"].as_u64()).sum::<u64>();
    let running = files(now).iter().any(|file| file["running"].as_u64() > Some(0));
    running || before["started"].as_u64() > Some(0) && runs(now) == runs(before)
}

fn describe(page: &Value) -> String {
    let files = page["files"].as_array().map_or(&[][..], Vec::as_slice);
    let mut out = String::new();
    if files.is_empty() {
        out.push_str("the configuration has no [warm.NAME]\n");
    }
    for file in files {
        let text = |key: &str| file[key].as_str().unwrap_or("-").to_owned();
        let _ = writeln!(
            out,
            "{}: {} with {} statements, for {} of {} in {}; {} kinds of clients were seen",
            text("name"),
            text("file"),
            number(&file["statements"]),
            text("user"),
            text("cluster"),
            text("schema"),
            number(&file["kinds"])
        );
        let last = &file["last"];
        if !last.is_object() {
            out.push_str("  has not been run yet\n");
            continue;
        }
        let count = |key: &str| number(&last[key]);
        let refused = reasons(&last["refused"], REASONS_SHOWN);
        let refused = if refused.is_empty() { String::new() } else { format!(", not for the cache: {refused}") };
        let _ = writeln!(
            out,
            "  last run ({}): {} kept, {} there already, {} without a rule, {} failed{refused}; {} ms",
            last["why"].as_str().unwrap_or_default(),
            count("kept"),
            count("there"),
            count("without_rule"),
            count("failed"),
            count("took_ms")
        );
        for mistake in last["mistakes"].as_array().into_iter().flatten() {
            let error = mistake["error"].as_str().unwrap_or_default();
            let _ = writeln!(out, "  {}:{}: {error}", text("file"), number(&mistake["line"]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_is_reported_with_its_mistakes() {
        let page = json!({ "files": [{ "name": "pages", "file": "/w.sql", "statements": 4, "user": "app", "cluster": "main",
            "schema": "shop", "kinds": 1, "running": 0, "runs": 1, "last": { "why": "asked for", "kept": 2, "there": 0,
            "without_rule": 0, "failed": 1, "refused": { "no_table": 1 }, "took_ms": 7,
            "mistakes": [{ "line": 9, "error": "error 1146: none" }] } }] });
        assert_eq!(
            describe(&page).lines().collect::<Vec<_>>(),
            [
                "pages: /w.sql with 4 statements, for app of main in shop; 1 kinds of clients were seen",
                "  last run (asked for): 2 kept, 0 there already, 0 without a rule, 1 failed, not for the cache: no_table 1; 7 ms",
                "  /w.sql:9: error 1146: none",
            ]
        );
        assert!(describe(&json!({})).contains("no [warm.NAME]"));
        assert!(!is_under_way(&json!({}), &json!({})));
    }
}
