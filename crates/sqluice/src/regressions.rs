//! `sqluice regressions`: digests of the running process that are new, slower or more frequent since a moment.

use std::process::ExitCode;

use serde_json::Value;

use crate::api::{Api, ApiArgs, part};
use crate::out;
use crate::sessions::{cut, good};

/// Characters of a digest's text that are shown in a line.
const TEXT_CHARS_MAX: usize = 100;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    api: ApiArgs,
    /// Compare the time since this moment with the time before: seconds since 1970, or as -30m, -2h, -1d.
    #[arg(long, value_name = "TIME", default_value = "-1h", allow_hyphen_values = true, conflicts_with = "mark")]
    since: String,
    /// Compare the time since this mark, as the API's /marks numbers them.
    #[arg(long, value_name = "NUMBER")]
    mark: Option<i64>,
    /// Print digests that are so many times as slow, as frequent, as large or as often wrong as before.
    #[arg(long, value_name = "NUMBER", default_value_t = 3.0)]
    factor: f64,
    /// Print at most this many.
    #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = 20)]
    limit: u64,
    /// Print JSON, one digest a line.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let api = Api::find(&args.api)?;
    let since = match args.mark {
        Some(mark) => format!("mark={mark}"),
        None => format!("since={}", part(&args.since)),
    };
    let query = format!("{since}&factor={}&limit={}", args.factor, args.limit);
    let page = good(api.ask("GET", &format!("/regressions?{query}"), "")?)?;
    let digests = page["digests"].as_array().map_or(&[][..], Vec::as_slice);
    for digest in digests {
        out::line(&if args.json { digest.to_string() } else { describe(digest) })?;
    }
    if page["compared_with"].as_array().is_none_or(Vec::is_empty) {
        out::say("there is no history before that moment, so nothing can be compared");
    } else if digests.is_empty() {
        out::say("no digest has changed so much");
    }
    Ok(ExitCode::SUCCESS)
}

/// One line: the changes, what it was and is, and the digest.
fn describe(digest: &Value) -> String {
    let text = |name: &str| digest[name].as_str().unwrap_or_default();
    let factor = |(change, factor): (&String, &Value)| match factor.as_f64() {
        Some(factor) => format!("{change} {factor:.1}x"),
        None => change.clone(),
    };
    let mut changes: Vec<String> = digest["changes"].as_object().into_iter().flatten().map(factor).collect();
    match digest["plan"]["changed"].as_bool() {
        Some(true) => changes.push("plan changed".to_owned()),
        Some(false) => changes.push("same plan".to_owned()),
        None => {}
    }
    let side = |name: &str| {
        let of = &digest[name];
        let number = |field: &str| of[field].as_f64().unwrap_or(0.0);
        format!("{:.1}/s p95 {:.1} ms", number("per_second"), number("time_us_p95") / 1000.0)
    };
    let before = if digest["before"].is_null() { "nothing".to_owned() } else { side("before") };
    format!(
        "{}  {before} -> {}  {} {}@{} {}",
        changes.join(", "),
        side("after"),
        text("hash"),
        cut(text("user"), 32),
        cut(text("schema"), 32),
        cut(text("text"), TEXT_CHARS_MAX)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_has_the_changes_and_both_sides() {
        let digest = json!({
            "changes": { "slower": 8.25, "new": null }, "hash": "00ff", "user": "app", "schema": "shop", "text": "SELECT ?",
            "before": { "per_second": 2.0, "time_us_p95": 900 }, "after": { "per_second": 2.5, "time_us_p95": 8000 },
        });
        let line = describe(&digest);
        assert!(line.contains("slower 8.2x") && line.contains("new"), "{line}");
        let plan = |changed: Value| {
            let mut digest = digest.clone();
            digest["plan"] = json!({ "changed": changed });
            describe(&digest)
        };
        assert!(plan(json!(true)).contains("plan changed  2.0/s") && plan(json!(false)).contains("same plan"));
        assert!(!plan(Value::Null).contains("plan") && !line.contains("plan"), "{line}");
        assert!(line.ends_with("2.0/s p95 0.9 ms -> 2.5/s p95 8.0 ms  00ff app@shop SELECT ?"), "{line}");
    }
}
