//! `sqluice cache`: the result cache of the running process.

mod digests;
mod warm;

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::Value;

use crate::api::{Api, ApiArgs, part};
use crate::change::complaint;
use crate::out;
use crate::status::table;

/// Reasons that are shown for a rule, the most frequent first.
const REASONS_SHOWN: usize = 4;

/// Arguments of `sqluice cache`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<CacheCommand>,
    #[command(flatten)]
    common: Common,
}

/// Options of all words.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    #[command(flatten)]
    api: ApiArgs,
    /// Print the API's JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum CacheCommand {
    /// Show the cached results, and the effect of each rule. The default.
    Show(Show),
    /// Wipe cached results: those that fit all options.
    Wipe(Wipe),
    /// Show the effect on statements by their digest: hits, time saved, and the reasons of misses.
    Digests(digests::Digests),
    /// Show reads for which a rule would have saved time, with the rules to paste.
    Advise(digests::Advise),
    /// Run the files of [warm.NAME], so that the cache has their results.
    Warm(warm::Warm),
}

#[derive(Debug, clap::Args)]
struct Show {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Wipe {
    #[command(flatten)]
    common: Common,
    /// Results that this rule lets the cache keep.
    #[arg(long, value_name = "NAME")]
    rule: Option<String>,
    /// Results of statements with this digest, by its hash.
    #[arg(long, value_name = "HASH")]
    digest: Option<String>,
    /// Results of this cluster.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Results that were read from this table or view.
    #[arg(long, value_name = "SCHEMA.TABLE")]
    table: Option<String>,
    /// All results.
    #[arg(long, conflicts_with_all = ["rule", "digest", "cluster", "table"])]
    all: bool,
}

/// Does it and prints what came of it. The exit code is 1 when it was refused.
///
/// # Errors
/// The process cannot be asked.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.what {
        None => show(&args.common),
        Some(CacheCommand::Show(show_args)) => show(&show_args.common),
        Some(CacheCommand::Wipe(args)) => wipe(args),
        Some(CacheCommand::Digests(args)) => digests::digests(args),
        Some(CacheCommand::Advise(args)) => digests::advise(args),
        Some(CacheCommand::Warm(args)) => warm::warm(args),
    }
}

fn show(common: &Common) -> anyhow::Result<ExitCode> {
    ask(common, "GET", "/cache", describe)
}

fn wipe(args: &Wipe) -> anyhow::Result<ExitCode> {
    let named = [("rule", &args.rule), ("digest", &args.digest), ("cluster", &args.cluster), ("table", &args.table)];
    let named: Vec<String> = named
        .into_iter()
        .filter_map(|(key, value)| value.as_ref().map(|value| format!("{key}={}", part(value))))
        .collect();
    if named.is_empty() && !args.all {
        anyhow::bail!("say what to wipe: --rule, --digest, --cluster, --table, or --all");
    }
    ask(&args.common, "DELETE", &format!("/cache?{}", named.join("&")), |page| {
        format!("{} answers wiped, {}\n", number(&page["answers"]), bytes(&page["bytes"]))
    })
}

/// Asks, and prints the answer.
fn ask(common: &Common, method: &str, path: &str, describe: impl Fn(&Value) -> String) -> anyhow::Result<ExitCode> {
    let answer = Api::find(&common.api)?.ask(method, path, "")?;
    if answer.status >= 300 {
        out::say(format_args!("error: {}", complaint(&answer.page)));
        return Ok(ExitCode::FAILURE);
    }
    out::print(&match common.json {
        true => format!("{}\n", answer.page),
        false => describe(&answer.page),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The cache for people.
fn describe(page: &Value) -> String {
    let mut out = format!(
        "{} answers, {} of {}; {} gave way to others\n",
        number(&page["answers"]),
        bytes(&page["bytes"]),
        bytes(&page["memory_max"]),
        number(&page["evicted"])
    );
    out.push_str(&tier(&page["tier"]));
    for (cluster, followed) in page["follow"].as_object().into_iter().flatten() {
        out.push_str(&follow(cluster, followed));
    }
    for (cluster, known) in page["rights"].as_object().into_iter().flatten() {
        if *known == false {
            let _ = writeln!(out, "rights of users of {cluster} are not known now: each has answers of its own");
        }
    }
    let rules = page["rules"].as_array().map_or(&[][..], Vec::as_slice);
    if rules.is_empty() {
        out.push_str("no rule has cache = \"on\" or \"advise\"\n");
        return out;
    }
    let head = ["RULE", "HITS", "RATIO", "STALE", "MISSES", "WAITS", "KEPT", "GIVEN OUT", "SAVED"].map(str::to_owned);
    let mut rows = vec![head];
    rows.extend(rules.iter().map(row));
    table(&rows, &mut out);
    for rule in rules {
        let reasons = reasons(&rule["refused"], REASONS_SHOWN);
        if !reasons.is_empty() {
            let _ = writeln!(out, "  {} not answered: {reasons}", rule["rule"].as_str().unwrap_or_default());
        }
    }
    out
}

/// The log of a cluster, if it is followed.
fn follow(cluster: &str, followed: &Value) -> String {
    let Some(delay) = followed["delay_ms"].as_u64() else {
        return format!("log of {cluster} is not followed now: where that is asked for, servers answer\n");
    };
    let max = followed["delay_max_ms"].as_u64().map_or_else(String::new, |max| format!(", {max} ms at most"));
    let serves = if followed["serves"] == true { "" } else { ": servers answer" };
    let position = followed["position"].as_str().filter(|position| !position.is_empty());
    let position = position.map_or_else(String::new, |position| format!("; at {position}"));
    format!("log of {cluster} {delay} ms behind{max}{serves}{position}\n")
}

/// The shared tier, if there is one.
fn tier(tier: &Value) -> String {
    let Some(address) = tier["address"].as_str() else { return String::new() };
    let word = |key: &str| tier[key].as_str().unwrap_or_default().to_owned();
    let trouble = tier["trouble"].as_str().map_or_else(String::new, |trouble| format!(": {trouble}"));
    format!(
        "tier {address} {}{trouble}; {} members; {} answers found there, {} in memory called good, {} not known\n",
        word("state"),
        tier["members"].as_array().map_or(0, Vec::len),
        number(&tier["found"]),
        number(&tier["good"]),
        number(&tier["missed"])
    )
}

fn row(rule: &Value) -> [String; 9] {
    let count = |key: &str| number(&rule[key]);
    let (hits, misses) = (rule["hits"].as_u64().unwrap_or(0), rule["misses"].as_u64().unwrap_or(0));
    [
        rule["rule"].as_str().unwrap_or_default().to_owned(),
        count("hits"),
        percent(hits, hits.saturating_add(misses)),
        count("stale"),
        count("misses"),
        count("waits"),
        count("kept"),
        bytes(&rule["bytes"]),
        time(&rule["saved_us"]),
    ]
}

/// The most frequent reasons with their counts.
pub(crate) fn reasons(of: &Value, shown: usize) -> String {
    let mut reasons: Vec<(&str, u64)> =
        of.as_object().into_iter().flatten().map(|(word, count)| (&**word, count.as_u64().unwrap_or(0))).collect();
    reasons.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more = reasons.len().saturating_sub(shown);
    let mut words: Vec<String> = reasons.iter().take(shown).map(|(word, count)| format!("{word} {count}")).collect();
    if more > 0 {
        words.push(format!("{more} other reasons"));
    }
    words.join(", ")
}

fn number(value: &Value) -> String {
    value.as_u64().unwrap_or(0).to_string()
}

/// A share in percent; of nothing there is none.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "-".into() } else { format!("{:.0}%", part as f64 / whole as f64 * 100.0) }
}

/// Bytes with a unit.
pub(crate) fn bytes(value: &Value) -> String {
    let bytes = value.as_u64().unwrap_or(0);
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.into_iter().find(|(_, bits)| bytes >> bits > 0) {
        Some((unit, bits)) => format!("{:.1} {unit}", bytes as f64 / f64::from(1_u32 << bits)),
        None => format!("{bytes} bytes"),
    }
}

/// Microseconds as a time.
pub(crate) fn time(value: &Value) -> String {
    let millis = value.as_f64().unwrap_or(0.0) / 1e3;
    match millis {
        millis if millis < 1_000.0 => format!("{millis:.1} ms"),
        millis if millis < 600_000.0 => format!("{:.1} s", millis / 1e3),
        millis if millis < 36_000_000.0 => format!("{:.1} min", millis / 6e4),
        millis => format!("{:.1} h", millis / 3.6e6),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_cache_reads_like_a_table() {
        let page = json!({
            "answers": 812, "bytes": 1_403_312, "memory_max": 67_108_864, "evicted": 0,
            "follow": { "main": { "delay_ms": 104, "delay_max_ms": 2000, "serves": true, "position": "0-1-812" },
                        "other": { "delay_ms": null }, "third": { "delay_ms": 3000, "delay_max_ms": 2000, "serves": false } },
            "rights": { "main": true, "other": false },
            "rules": [{ "rule": "pages", "hits": 900, "stale": 0, "misses": 100, "waits": 3, "kept": 99, "bytes": 2048,
                        "saved_us": 61_500_000, "refused": { "pinned": 311, "raced": 8, "a": 1, "b": 1, "c": 1 } }],
        });
        let text = describe(&page);
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "812 answers, 1.3 MiB of 64.0 MiB; 0 gave way to others",
                "log of main 104 ms behind, 2000 ms at most; at 0-1-812",
                "log of other is not followed now: where that is asked for, servers answer",
                "log of third 3000 ms behind, 2000 ms at most: servers answer",
                "rights of users of other are not known now: each has answers of its own",
                "  RULE   HITS  RATIO  STALE  MISSES  WAITS  KEPT  GIVEN OUT  SAVED",
                "  pages  900   90%    0      100     3      99    2.0 KiB    61.5 s",
                "  pages not answered: pinned 311, raced 8, a 1, b 1, 1 other reasons",
            ]
        );
        assert!(describe(&json!({})).contains("no rule has"), "what is missing is no reason to panic");
    }

    #[test]
    fn numbers_have_units() {
        assert_eq!([bytes(&json!(5)), bytes(&json!(3_u64 << 30))], ["5 bytes", "3.0 GiB"]);
        assert_eq!([time(&json!(1_500)), time(&json!(7_200_000_000_u64))], ["1.5 ms", "120.0 min"]);
        assert_eq!([percent(1, 3), percent(0, 0)], ["33%", "-"]);
    }
}
