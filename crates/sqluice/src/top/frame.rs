//! One frame: the difference between two moments, as lines of text.

use super::figures::{Digest, Figures};
use crate::out;

/// Lines that digests take at most, with their head.
const DIGEST_LINES_MAX: usize = 13;

/// The room for a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) lines: usize,
}

/// The lines of a frame, each no longer than the room.
pub(super) fn lines(before: &Figures, now: &Figures, size: Size) -> Vec<String> {
    let mut lines = load(before, now);
    lines.push(String::new());
    lines.extend(servers(before, now));
    lines.push(String::new());
    lines.extend(digests(before, now).into_iter().take(DIGEST_LINES_MAX));
    lines.push(String::new());
    lines.extend(sessions(now));
    lines.truncate(size.lines);
    lines.iter().map(|line| line.chars().take(size.columns).collect()).collect()
}

/// Seconds between two moments.
fn passed(before: &Figures, now: &Figures) -> f64 {
    now.at.saturating_duration_since(before.at).as_secs_f64().max(0.001)
}

fn load(before: &Figures, now: &Figures) -> Vec<String> {
    let seconds = passed(before, now);
    let rate = |name: &str| (now.sum(name, "") - before.sum(name, "")).max(0.0) / seconds;
    let (hits, misses) = (rate("sqluice_cache_hits_total"), rate("sqluice_cache_misses_total"));
    let share = if hits + misses > 0.0 { 100.0 * hits / (hits + misses) } else { 0.0 };
    vec![
        format!(
            "requests {:.0}/s  reads {:.0}/s  writes {:.0}/s  local {:.0}/s  cache {:.0}/s ({share:.0} %)  errors {:.1}/s",
            rate("sqluice_requests_total"),
            rate("sqluice_server_reads_total"),
            rate("sqluice_server_writes_total"),
            rate("sqluice_local_answers_total"),
            hits,
            rate("sqluice_server_errors_total") + rate("sqluice_own_errors_total"),
        ),
        format!(
            "sessions {}: {} running, {} wait for a connection, {} for a server; {} pinned; logins {:.1}/s, refused {:.1}/s",
            now.sessions_all,
            now.running,
            now.sum("sqluice_pool_waiting_statements", ""),
            now.sum("sqluice_held_statements", ""),
            now.sum("sqluice_pinned_sessions", ""),
            rate("sqluice_logins_total"),
            rate("sqluice_login_failures_total"),
        ),
    ]
}

fn servers(before: &Figures, now: &Figures) -> Vec<String> {
    let seconds = passed(before, now);
    let mut lines = vec![format!(
        "{:<16} {:<10} {:<8} {:>7} {:>9} {:>9} {:>7} {:>6} {:>6} {:>9}",
        "cluster", "server", "role", "health", "reads/s", "writes/s", "errors", "used", "idle", "mean ms"
    )];
    for cluster in now.labels("sqluice_server_up", "cluster") {
        for server in now.labels("sqluice_server_up", "server") {
            let own = format!("cluster=\"{cluster}\",server=\"{server}\"");
            // Names of servers are unique within their cluster only.
            if now.sum("sqluice_server_role", &own) == 0.0 {
                continue;
            }
            let grown = |name: &str| (now.sum(name, &own) - before.sum(name, &own)).max(0.0);
            let word = |name: &str, label: &str| {
                let words = now.labels(name, label);
                let is_set = |word: &String| now.sum(name, &format!("{own},{label}=\"{word}\"")) > 0.0;
                words.into_iter().find(is_set).unwrap_or_else(|| "-".to_owned())
            };
            let connections = |state: &str| now.sum("sqluice_server_connections", &format!("{own},state=\"{state}\""));
            let count = grown("sqluice_server_latency_seconds_count");
            let mean_ms = if count > 0.0 { 1000.0 * grown("sqluice_server_latency_seconds_sum") / count } else { 0.0 };
            lines.push(format!(
                "{:<16} {:<10} {:<8} {:>7} {:>9.0} {:>9.0} {:>7.1} {:>6} {:>6} {mean_ms:>9.3}",
                out::one_line(&cluster, 16),
                out::one_line(&server, 10),
                word("sqluice_server_role", "role"),
                word("sqluice_server_health", "health"),
                grown("sqluice_server_reads_total") / seconds,
                grown("sqluice_server_writes_total") / seconds,
                grown("sqluice_server_errors_total") / seconds,
                connections("used"),
                connections("idle"),
            ));
        }
    }
    lines
}

/// Digests by the time that they took between two moments.
fn digests(before: &Figures, now: &Figures) -> Vec<String> {
    let seconds = passed(before, now);
    let mut grown: Vec<(Digest, &str)> = Vec::new();
    for (key, digest) in &now.digests {
        let known = before.digests.get(key).filter(|known| known.statements <= digest.statements);
        let known = known.cloned().unwrap_or_default();
        let difference = Digest {
            statements: digest.statements - known.statements,
            errors: digest.errors - known.errors,
            rows: digest.rows - known.rows,
            pipelined: digest.pipelined - known.pipelined,
            time_us: digest.time_us - known.time_us,
            ..digest.clone()
        };
        if difference.statements > 0.0 {
            grown.push((difference, &key.1));
        }
    }
    grown.sort_by(|(one, _), (other, _)| other.time_us.total_cmp(&one.time_us));
    let all_us: f64 = grown.iter().map(|(digest, _)| digest.time_us).sum::<f64>().max(1.0);
    // With one cluster that is no question.
    let several = now.labels("sqluice_server_up", "cluster").len() > 1;
    let of_clusters = |clusters: &str| match several {
        true => format!("{:<16} ", out::one_line(clusters, 16)),
        false => String::new(),
    };
    let head = format!(
        "{:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}  {:<12} {}statement",
        "time",
        "number/s",
        "mean ms",
        "p95 ms",
        "rows/s",
        "pipelined",
        "errors",
        "user",
        of_clusters("clusters")
    );
    let line = |(digest, user): &(Digest, &str)| {
        format!(
            "{:>4.0}% {:>9.1} {:>9.3} {:>9.3} {:>9.0} {:>8.0}% {:>7.1}  {:<12} {}{}",
            100.0 * digest.time_us / all_us,
            digest.statements / seconds,
            digest.time_us / digest.statements / 1000.0,
            digest.p95_us / 1000.0,
            digest.rows / seconds,
            100.0 * digest.pipelined / digest.statements,
            digest.errors / seconds,
            out::one_line(user, 12),
            of_clusters(&digest.clusters),
            out::one_line(&digest.text, 200),
        )
    };
    std::iter::once(head).chain(grown.iter().map(line)).collect()
}

fn sessions(now: &Figures) -> Vec<String> {
    let row = |id: &str, user: &str, client: &str, state: &str, time: &str, server: &str, statement: &str| {
        format!("{id:<11} {user:<12} {client:<21} {state:<20} {time:>9} {server:<10} {statement}")
    };
    let head = row("session", "user", "client", "state", "seconds", "server", "statement");
    let line = |session: &serde_json::Value| {
        let text = |key: &str, chars: usize| out::one_line(session[key].as_str().unwrap_or("-"), chars);
        let form = session["form"].as_str().or_else(|| session["digest"].as_str()).unwrap_or("-");
        row(
            &session["id"].to_string(),
            &text("user", 12),
            &text("client", 21),
            &text("state", 20),
            &format!("{:.1}", session["ms"].as_f64().unwrap_or(0.0) / 1000.0),
            &text("server", 10),
            &out::one_line(form, 200),
        )
    };
    std::iter::once(head).chain(now.sessions.iter().map(line)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::{Value, json};

    use super::*;

    fn figures(at: Instant, requests: u64, digest: Value, sessions: Value) -> Figures {
        let metrics = format!(
            "# HELP sqluice_requests_total x\nsqluice_requests_total {requests}\nsqluice_pinned_sessions{{reason=\"a\"}} 1\n\
             sqluice_pinned_sessions{{reason=\"b\"}} 2\nsqluice_server_up{{cluster=\"main\",server=\"db1\"}} 1\n\
             sqluice_server_role{{cluster=\"main\",server=\"db1\",role=\"primary\"}} 1\n\
             sqluice_server_role{{cluster=\"main\",server=\"db1\",role=\"replica\"}} 0\n\
             sqluice_server_health{{cluster=\"main\",server=\"db1\",health=\"up\"}} 1\n\
             sqluice_server_reads_total{{cluster=\"main\",server=\"db1\"}} {requests}\n\
             sqluice_server_connections{{cluster=\"main\",server=\"db1\",state=\"used\"}} 3\n"
        );
        let sessions = json!({ "sessions": sessions, "all": 40 });
        Figures::read(at, &metrics, &json!({ "digests": digest }), (sessions, 1)).unwrap()
    }

    fn digest(text: &str, statements: u64, time_us: u64) -> Value {
        json!({ "hash": text, "user": "app", "schema": "", "text": text, "statements": statements, "time_us": time_us,
                "rows_sent": statements, "pipelined": statements / 2, "time_us_p95": 2500 })
    }

    #[test]
    fn a_frame_shows_what_happened_between_two_moments() {
        let at = Instant::now();
        let before = figures(at, 1000, json!([digest("SELECT a", 100, 50_000), digest("SELECT old", 7, 9)]), json!([]));
        let session = json!({ "id": 7, "user": "app", "client": "10.0.0.7:1", "state": "running", "ms": 1500.0,
                              "server": "db1", "form": "SELECT\u{1b}[2J b" });
        let digests =
            json!([digest("SELECT a", 300, 90_000), digest("SELECT b", 10, 120_000), digest("SELECT old", 7, 9)]);
        let now = figures(at + Duration::from_secs(2), 3000, digests, json!([session]));
        let shown = lines(&before, &now, PLAIN_SIZE);
        assert!(shown[0].starts_with("requests 1000/s  reads 1000/s"), "{}", shown[0]);
        assert!(shown[1].starts_with("sessions 40: 1 running,") && shown[1].contains("3 pinned"), "{}", shown[1]);
        let server = shown.iter().find(|line| line.starts_with("main")).unwrap();
        let words: Vec<&str> = server.split_whitespace().collect();
        assert_eq!(words[..7], ["main", "db1", "primary", "up", "1000", "0", "0.0"]);
        let forms: Vec<&str> =
            shown.iter().filter(|line| line.contains('%') && line.contains("SELECT")).map(|line| line.trim()).collect();
        assert_eq!(forms.len(), 2, "one digest did not run: {forms:?}");
        assert!(forms[0].starts_with("75%") && forms[0].ends_with("SELECT b"), "{forms:?}");
        let words: Vec<&str> = forms[1].split_whitespace().collect();
        assert_eq!(words[..6], ["25%", "100.0", "0.200", "2.500", "100", "50%"]);
        assert!(shown.last().unwrap().contains("1.5 db1        SELECT [2J b"), "{:?}", shown.last());
        assert!(shown.iter().all(|line| !line.contains('\u{1b}')));
        let small = lines(&before, &now, Size { columns: 20, lines: 5 });
        assert!(small.len() == 5 && small.iter().all(|line| line.chars().count() <= 20));
    }

    #[test]
    fn with_several_clusters_a_digest_names_its_own() {
        let at = Instant::now();
        let figures = |at, statements| {
            let mut row = digest("SELECT a", statements, 9);
            row["clusters"] = json!(["main", "other"]);
            let metrics = "sqluice_server_up{cluster=\"main\",server=\"a\"} 1\nsqluice_server_up{cluster=\"other\",server=\"a\"} 1\n";
            Figures::read(at, metrics, &json!({ "digests": [row] }), (json!({}), 0)).unwrap()
        };
        let shown = lines(&figures(at, 1), &figures(at + Duration::from_secs(1), 3), PLAIN_SIZE);
        assert!(shown.iter().any(|line| line.ends_with("user         clusters         statement")), "{shown:#?}");
        assert!(shown.iter().any(|line| line.ends_with("app          main,other       SELECT a")), "{shown:#?}");
    }

    const PLAIN_SIZE: Size = Size { columns: 160, lines: 40 };
}
