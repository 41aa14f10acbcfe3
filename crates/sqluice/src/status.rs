//! `sqluice status`: what the running process knows of its clusters.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::Value;

use crate::api::{Api, ApiArgs, part};
use crate::out;

/// Longest GTID set that is shown; sets of MySQL can be long.
const GTID_CHARS_MAX: usize = 48;
/// Lines of the journal that are shown.
const JOURNAL_LINES: usize = 5;

/// Arguments of `sqluice status`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    api: ApiArgs,
    /// Only this cluster.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Print the API's JSON.
    #[arg(long)]
    json: bool,
}

/// Prints it. The exit code is 1 when a cluster has no primary.
///
/// # Errors
/// The process cannot be asked.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let api = Api::find(&args.api)?;
    let path = match &args.cluster {
        Some(name) => format!("/clusters/{}", part(name)),
        None => "/clusters".into(),
    };
    let answer = api.ask("GET", &path, "")?;
    if answer.status != 200 {
        out::say(format_args!("error: {}", crate::change::complaint(&answer.page)));
        return Ok(ExitCode::FAILURE);
    }
    if args.json {
        out::print(&format!("{}\n", answer.page))?;
    }
    let one = std::slice::from_ref(&answer.page);
    let clusters = answer.page["clusters"].as_array().map_or(one, Vec::as_slice);
    if !args.json {
        out::print(&clusters.iter().map(describe).collect::<String>())?;
    }
    let all_well = clusters.iter().all(|cluster| cluster["primary"].is_string());
    Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A cluster for people.
fn describe(cluster: &Value) -> String {
    let mut out = String::new();
    let text = |key: &str| cluster[key].as_str().unwrap_or("-").to_owned();
    let primary = cluster["primary"].as_str().map_or("no primary".to_owned(), |name| format!("primary {name}"));
    let mut head =
        format!("cluster {}: {primary}, failover {}, epoch {}", text("name"), text("failover"), cluster["epoch"]);
    if cluster["hold_writes"] == Value::Bool(true) {
        head.push_str(", holding writes");
    }
    if let Some(words) = cluster["lease"]["text"].as_str() {
        let held = if cluster["lease"]["held"] == Value::Bool(true) { "held" } else { "not held" };
        let _ = write!(head, ", lease {held} ({words})");
    }
    let _ = writeln!(out, "{head}");
    let mut rows =
        vec![["SERVER", "ADDRESS", "ROLE", "HEALTH", "LAG", "READS", "SEMI-SYNC", "GTID"].map(str::to_owned)];
    let servers = cluster["servers"].as_array().map_or(&[][..], Vec::as_slice);
    rows.extend(servers.iter().map(row));
    table(&rows, &mut out);
    for server in servers.iter().filter(|server| !is_well(server)) {
        let _ = writeln!(out, "  {}: {}", name(server), server["reason"].as_str().unwrap_or_default());
    }
    for diagnosis in cluster["diagnoses"].as_array().into_iter().flatten() {
        let words = diagnosis["text"].as_str().unwrap_or_default();
        let _ = writeln!(out, "  problem {}: {words}", diagnosis["name"].as_str().unwrap_or_default());
    }
    if let Some(words) = cluster["last_decision"]["text"].as_str() {
        let _ = writeln!(out, "  last decision, {}: {words}", clock(&cluster["last_decision"]));
    }
    let journal = cluster["journal"].as_array().map_or(&[][..], Vec::as_slice);
    for line in &journal[journal.len().saturating_sub(JOURNAL_LINES)..] {
        let _ = writeln!(out, "  {}", journal_line(line));
    }
    out
}

/// A line of the journal for people.
pub(crate) fn journal_line(line: &Value) -> String {
    let server = line["server"].as_str().map_or(String::new(), |server| format!("{server}: "));
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    format!("{} run {} {} {server}{}", clock(line), line["run"], text("kind"), text("text"))
}

/// The time of day in UTC at which a line was written.
fn clock(line: &Value) -> String {
    let millis = line["at_ms"].as_u64().unwrap_or_default();
    let seconds = millis / 1000;
    format!("{:02}:{:02}:{:02}.{:03}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60, millis % 1000)
}

fn name(server: &Value) -> &str {
    server["name"].as_str().unwrap_or_default()
}

fn is_well(server: &Value) -> bool {
    let primary = server["role"].as_str() == Some("primary");
    server["health"].as_str() == Some("up") && (primary || server["serves_reads"] == Value::Bool(true))
}

fn row(server: &Value) -> [String; 8] {
    let text = |key: &str| server[key].as_str().unwrap_or("-").to_owned();
    let health = match server["fenced"] == Value::Bool(true) {
        true => format!("{}, fenced", text("health")),
        false => text("health"),
    };
    let primary = server["role"].as_str() == Some("primary");
    let lag = server["lag_ms"].as_u64().filter(|_| !primary).map_or("-".into(), |lag| format!("{lag} ms"));
    let reads = if server["serves_reads"] == Value::Bool(true) { "yes" } else { "no" };
    let mut gtid = text("gtid_executed");
    if gtid.chars().count() > GTID_CHARS_MAX {
        gtid = gtid.chars().take(GTID_CHARS_MAX - 1).chain(['…']).collect();
    }
    [text("name"), text("address"), text("role"), health, lag, reads.into(), text("semi_sync"), gtid]
}

/// Lines with columns of equal width.
pub(crate) fn table<const N: usize>(rows: &[[String; N]], out: &mut String) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        let _ = writeln!(out, "  {}", cells.join("  ").trim_end());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_reads_like_a_table() {
        let page = json!({
            "name": "main", "epoch": 3, "primary": "db1", "failover": "auto", "hold_writes": false,
            "lease": { "held": true, "text": "2 of 3 locks are needed; locks held on db1, db2" },
            "servers": [
                { "name": "db1", "address": "10.0.0.1:3306", "role": "primary", "health": "up", "lag_ms": 0,
                  "serves_reads": true, "fenced": false, "semi_sync": "source", "gtid_executed": "0-1-5" },
                { "name": "db2", "address": "10.0.0.2:3306", "role": "unknown", "health": "down", "lag_ms": null,
                  "serves_reads": false, "fenced": true, "reason": "does not answer: refused" },
            ],
            "diagnoses": [{ "name": "replication_broken", "text": "replication of db2 does not run" }],
            "last_decision": { "at_ms": 3_723_004, "text": "db1 it is" },
            "journal": [{ "at_ms": 3_723_004, "run": 7, "kind": "done", "server": "db1", "text": "promoted" }],
        });
        let text = describe(&page);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "cluster main: primary db1, failover auto, epoch 3, lease held (2 of 3 locks are needed; locks held on db1, db2)",
                "  SERVER  ADDRESS        ROLE     HEALTH        LAG  READS  SEMI-SYNC  GTID",
                "  db1     10.0.0.1:3306  primary  up            -    yes    source     0-1-5",
                "  db2     10.0.0.2:3306  unknown  down, fenced  -    no     -          -",
                "  db2: does not answer: refused",
                "  problem replication_broken: replication of db2 does not run",
                "  last decision, 01:02:03.004: db1 it is",
                "  01:02:03.004 run 7 done db1: promoted",
            ]
        );
        assert!(describe(&json!({})).starts_with("cluster -: no primary"), "what is missing is no reason to panic");
    }
}
