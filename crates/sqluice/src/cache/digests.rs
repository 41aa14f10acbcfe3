//! `sqluice cache digests` and `advise`: what the cache does for statements of one form, and for which it would be worth a rule.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::Value;

use super::{Common, ask, number, percent, reasons, time};
use crate::out::one_line;
use crate::status::table;

/// Reasons that are shown for a form.
const REASONS_SHOWN: usize = 3;
/// Characters of a statement that are shown in a line.
const TEXT_CHARS_MAX: usize = 100;

#[derive(Debug, clap::Args)]
pub(super) struct Digests {
    #[command(flatten)]
    common: Common,
    /// Print at most this many.
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    limit: usize,
}

#[derive(Debug, clap::Args)]
pub(super) struct Advise {
    #[command(flatten)]
    common: Common,
    /// The longest age of cached results.
    #[arg(long, value_name = "MILLISECONDS", value_parser = ["1000", "10000", "60000"], default_value = "1000")]
    ttl_ms: String,
    /// Print at most this many.
    #[arg(long, value_name = "NUMBER", default_value_t = 10)]
    limit: usize,
}

pub(super) fn digests(args: &Digests) -> anyhow::Result<ExitCode> {
    ask(&args.common, "GET", &format!("/cache/digests?limit={}", args.limit), describe_digests)
}

pub(super) fn advise(args: &Advise) -> anyhow::Result<ExitCode> {
    let path = format!("/cache/candidates?ttl_ms={}&limit={}", args.ttl_ms, args.limit);
    ask(&args.common, "GET", &path, describe_candidates)
}

fn text<'a>(of: &'a Value, key: &str) -> &'a str {
    of[key].as_str().unwrap_or_default()
}

/// A statement in one line.
fn line(of: &Value) -> String {
    one_line(text(of, "text"), TEXT_CHARS_MAX)
}

fn describe_digests(page: &Value) -> String {
    let rows = page["digests"].as_array().map_or(&[][..], Vec::as_slice);
    if rows.is_empty() {
        return "no rule has asked the cache for a statement\n".to_owned();
    }
    let head = ["DIGEST", "USER", "STATEMENTS", "HITS", "RATIO", "SAVED", "NOT ANSWERED", "TEXT"].map(str::to_owned);
    let mut cells = vec![head];
    cells.extend(rows.iter().map(|row| {
        let (hits, misses) = (row["hits"].as_u64().unwrap_or(0), row["misses"].as_u64().unwrap_or(0));
        let refused = reasons(&row["refused"], REASONS_SHOWN);
        [
            text(row, "hash").to_owned(),
            text(row, "user").to_owned(),
            number(&row["statements"]),
            number(&row["hits"]),
            percent(hits, hits.saturating_add(misses)),
            time(&row["saved_us"]),
            if refused.is_empty() { "-".to_owned() } else { refused },
            line(row),
        ]
    }));
    let mut out = String::new();
    table(&cells, &mut out);
    out
}

fn describe_candidates(page: &Value) -> String {
    let mut out = String::new();
    let candidates = page["candidates"].as_array().map_or(&[][..], Vec::as_slice);
    if candidates.is_empty() {
        out.push_str("no read is asked often enough that a rule would save anything\n");
    }
    for one in candidates {
        let asked = one["asked"].as_u64().unwrap_or(0);
        let share = |ttl: &str| percent(one["hits"][ttl].as_u64().unwrap_or(0), asked);
        let _ = writeln!(out, "# {}", line(one));
        let _ = writeln!(
            out,
            "# {} statements took {}; the very same was asked within 1 s: {}, 10 s: {}, 60 s: {}",
            number(&one["statements"]),
            time(&one["time_us"]),
            share("1000"),
            share("10000"),
            share("60000"),
        );
        let measured = &one["measured"];
        if measured.is_object() {
            let refused = reasons(&measured["refused"], REASONS_SHOWN);
            let not = if refused.is_empty() { String::new() } else { format!("; not answered: {refused}") };
            let (hits, saved) = (number(&measured["hits"]), time(&measured["saved_us"]));
            let _ = writeln!(
                out,
                "# a rule counts already: {hits} answers would be, or are, the cache's and saved {saved}{not}"
            );
        }
        let _ = writeln!(
            out,
            "# this rule would have saved up to {}; {} writes of its tables end answers",
            time(&one["saved_us"]),
            number(&one["writes"])
        );
        let _ = writeln!(out, "{}", text(one, "rule"));
    }
    let refused = page["not_cacheable"].as_array().map_or(&[][..], Vec::as_slice);
    if !refused.is_empty() {
        let _ = writeln!(out, "# not for the cache, and why:");
        for one in refused {
            let _ = writeln!(out, "#   {} {}: {}", time(&one["time_us"]), text(one, "reason"), line(one));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn candidates_are_rules_with_their_reasons() {
        let page = json!({
            "candidates": [{ "hash": "ab", "text": "SELECT a\nFROM t", "statements": 1000, "asked": 1000, "time_us": 5_000_000,
                "writes": 7, "saved_us": 4_500_000, "hits": { "1000": 900, "10000": 950, "60000": 990 },
                "measured": { "hits": 5, "saved_us": 2_000, "refused": { "pinned": 3 } }, "rule": "[[rule]]\nname = \"x\"\n" }],
            "not_cacheable": [{ "text": "SELECT NOW()", "time_us": 90_000, "reason": "no_table" }],
        });
        let text = describe_candidates(&page);
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "# SELECT a FROM t",
                "# 1000 statements took 5.0 s; the very same was asked within 1 s: 90%, 10 s: 95%, 60 s: 99%",
                "# a rule counts already: 5 answers would be, or are, the cache's and saved 2.0 ms; not answered: pinned 3",
                "# this rule would have saved up to 4.5 s; 7 writes of its tables end answers",
                "[[rule]]",
                "name = \"x\"",
                "",
                "# not for the cache, and why:",
                "#   90.0 ms no_table: SELECT NOW()",
            ]
        );
        assert!(describe_candidates(&json!({})).starts_with("no read is asked often"));
    }

    #[test]
    fn digests_read_like_a_table() {
        let page = json!({ "digests": [{ "hash": "00ab", "text": "SELECT a FROM t", "user": "bob", "statements": 10, "hits": 6,
            "misses": 2, "saved_us": 1_500, "refused": {} }] });
        assert_eq!(
            describe_digests(&page).lines().collect::<Vec<_>>(),
            [
                "  DIGEST  USER  STATEMENTS  HITS  RATIO  SAVED   NOT ANSWERED  TEXT",
                "  00ab    bob   10          6     75%    1.5 ms  -             SELECT a FROM t",
            ]
        );
        assert!(describe_digests(&json!({})).starts_with("no rule"));
    }
}
