//! The demo's text: a page for a terminal, a line for a log, and the totals.

use facts::view::Health;

use super::figures::{Figures, ServerFigures};
use super::load::Done;

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Strong,
    Faint,
    Bad,
}

/// One line of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) tone: Tone,
}

fn line_of(tone: Tone, text: impl Into<String>) -> Line {
    Line { text: text.into(), tone }
}

const KEYS: &str = "[q] quit   [k] kill -9 a replica   [r] start it again";

/// The page.
pub(super) fn page(figures: &Figures, done: Option<&Done>, hello: &[String], log: &[String]) -> Vec<Line> {
    let mut page = vec![line_of(Tone::Strong, format!("Sqluice demo, {} s", figures.elapsed.as_secs()))];
    page.push(line_of(Tone::Plain, ""));
    page.push(line_of(Tone::Strong, columns(HEAD)));
    page.extend(figures.servers.iter().map(server_line));
    page.push(line_of(Tone::Plain, ""));
    let used: i64 = figures.servers.iter().map(|server| server.used).sum();
    let open: i64 = figures.servers.iter().map(|server| server.used + server.idle).sum();
    page.push(line_of(
        Tone::Plain,
        format!(
            "{} sessions share {open} backend connections, {used} in use; {:.0} queries/s",
            figures.sessions, figures.queries_rate
        ),
    ));
    page.push(line_of(Tone::Plain, format!("pinned now:    {}", reasons(&figures.pins))));
    page.push(line_of(Tone::Plain, format!("pinned so far: {}", reasons(&figures.pinned))));
    let (errors, last) = errors(figures, done);
    let tone = if errors > 0 { Tone::Bad } else { Tone::Plain };
    let last = last.map(|last| format!("; the last: {last}")).unwrap_or_default();
    let retries = figures.retries;
    page.push(line_of(
        tone,
        format!("errors that clients saw: {errors}{last}; reads tried again elsewhere: {retries}"),
    ));
    page.push(line_of(Tone::Plain, ""));
    page.extend(hello.iter().map(|text| line_of(Tone::Plain, text)));
    page.push(line_of(Tone::Plain, ""));
    page.extend(log.iter().map(|text| line_of(Tone::Faint, text)));
    page.push(line_of(Tone::Plain, ""));
    page.push(line_of(Tone::Strong, KEYS));
    page
}

const HEAD: [&str; 10] = ["server", "role", "state", "lag", "reads/s", "writes/s", "used", "idle", "p50", "p99"];

fn columns([name, role, state, lag, reads, writes, used, idle, p50, p99]: [&str; 10]) -> String {
    format!("{name:<8} {role:<8} {state:<8} {lag:>7} {reads:>9} {writes:>9} {used:>6} {idle:>6} {p50:>9} {p99:>9}")
}

fn server_line(server: &ServerFigures) -> Line {
    let cells = [
        &server.lag.map_or("-".to_owned(), |lag| format!("{:.2} s", lag.as_secs_f64())),
        &format!("{:.0}", server.reads_rate),
        &format!("{:.0}", server.writes_rate),
        &server.used.to_string(),
        &server.idle.to_string(),
        &milliseconds(server.p50_us),
        &milliseconds(server.p99_us),
    ];
    let [lag, reads, writes, used, idle, p50, p99] = cells.map(String::as_str);
    let (name, role, health) = (&*server.name, server.role.word(), server.health.word());
    let text = columns([name, role, health, lag, reads, writes, used, idle, p50, p99]);
    line_of(if server.health == Health::Up { Tone::Plain } else { Tone::Bad }, text)
}

fn milliseconds(us: Option<u64>) -> String {
    us.map_or("-".to_owned(), |us| format!("{:.2} ms", us as f64 / 1000.0))
}

fn reasons<T: std::fmt::Display>(counts: &[(&str, T)]) -> String {
    if counts.is_empty() {
        return "nobody".to_owned();
    }
    counts.iter().map(|(reason, count)| format!("{reason} {count}")).collect::<Vec<_>>().join(", ")
}

/// The errors that clients saw: the load knows best; without one, those that Sqluice sent.
fn errors<'a>(figures: &Figures, done: Option<&'a Done>) -> (u64, Option<&'a str>) {
    match done {
        Some(done) => (done.errors, done.last_error.as_deref()),
        None => (figures.own_errors, None),
    }
}

/// The same, shorter, in one line.
pub(super) fn line(figures: &Figures, done: Option<&Done>) -> String {
    let servers: Vec<String> = figures
        .servers
        .iter()
        .map(|server| {
            let (name, role, health) = (&server.name, server.role.word(), server.health.word());
            format!("{name} {role} {health}: {:.0} reads/s {:.0} writes/s", server.reads_rate, server.writes_rate)
        })
        .collect();
    let (errors, last) = errors(figures, done);
    let last = last.map(|last| format!(" (the last: {last})")).unwrap_or_default();
    format!(
        "{:3} s  {} sessions, {:.0} queries/s; {}; pinned: {}; errors: {errors}{last}",
        figures.elapsed.as_secs(),
        figures.sessions,
        figures.queries_rate,
        servers.join(", "),
        reasons(&figures.pins)
    )
}

/// The sums at the end.
pub(super) fn totals(figures: &Figures, done: Option<&Done>) -> Vec<String> {
    let seconds = figures.elapsed.as_secs_f64();
    let mut totals = Vec::new();
    if let Some(done) = done {
        totals.push(format!(
            "totals: {} statements in {seconds:.1} s, {} errors that clients saw, {} reads tried again elsewhere",
            done.statements, done.errors, figures.retries
        ));
        totals.extend(done.last_error.iter().map(|error| format!("  the last error: {error}")));
    }
    totals.extend(figures.servers.iter().map(|server| {
        let (name, role, reads, writes) = (&server.name, server.role.word(), server.reads, server.writes);
        format!("  {name} ({role}): {reads} reads, {writes} writes")
    }));
    totals.push(format!("  sessions were pinned by: {}", reasons(&figures.pinned)));
    totals
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use facts::view::Role;

    use super::*;

    fn figures() -> Figures {
        let server = |name: &str, role, health| ServerFigures {
            name: name.into(),
            role,
            health,
            lag: Some(Duration::from_millis(1250)),
            reads_rate: 12_345.6,
            writes_rate: 0.0,
            reads: 99,
            writes: 1,
            used: 3,
            idle: 4,
            p50_us: Some(420),
            p99_us: None,
        };
        Figures {
            elapsed: Duration::from_secs(7),
            servers: vec![server("db1", Role::Primary, Health::Up), server("db2", Role::Replica, Health::Down)],
            sessions: 16,
            queries_rate: 2000.0,
            own_errors: 2,
            retries: 0,
            pins: vec![("transaction", 2)],
            pinned: Vec::new(),
        }
    }

    #[test]
    fn columns_stand_under_their_heads() {
        let (head, row) = (columns(HEAD), server_line(&figures().servers[0]).text);
        assert_eq!(row.len(), head.len());
        for (name, value) in [("lag", "1.25 s"), ("reads/s", "12346"), ("idle", "4"), ("p50", "0.42 ms"), ("p99", "-")]
        {
            let end = head.find(name).unwrap() + name.len();
            assert!(row[..end].ends_with(value), "{name} of {row:?}");
        }
    }

    #[test]
    fn what_is_wrong_stands_out() {
        let page = page(&figures(), None, &["connect: x".into()], &["a log line".into()]);
        let of = |part: &str| page.iter().find(|line| line.text.contains(part)).map(|line| line.tone);
        assert_eq!(of("db1"), Some(Tone::Plain));
        assert_eq!(of("db2"), Some(Tone::Bad));
        assert_eq!(of("errors that clients saw: 2"), Some(Tone::Bad));
        assert_eq!(of("a log line"), Some(Tone::Faint));
        assert!(of("16 sessions share 14 backend connections, 6 in use; 2000 queries/s").is_some());
    }

    #[test]
    fn a_load_counts_the_errors_that_clients_saw() {
        let done = Done { statements: 5, errors: 1, last_error: Some("boom".into()) };
        let line = line(&figures(), Some(&done));
        assert!(line.ends_with("pinned: transaction 2; errors: 1 (the last: boom)"), "{line}");
        let totals = totals(&figures(), Some(&done));
        assert!(totals[0].contains("5 statements in 7.0 s, 1 errors"), "{totals:?}");
        assert_eq!(totals[1], "  the last error: boom");
        assert_eq!(totals[2], "  db1 (primary): 99 reads, 1 writes");
    }
}
