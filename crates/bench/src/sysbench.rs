//! sysbench: its scripts, and what it reports.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use lab::{APP_PASSWORD, APP_USER};

use crate::process;
use crate::world::DATABASE;

/// Tables, and rows of each: all fit into the server's memory, because the proxies are measured, not the server.
pub(crate) const TABLES: u32 = 4;
/// Rows of a table.
pub(crate) const TABLE_ROWS: u32 = 10_000;
/// Time that sysbench may need beside the measured time: connecting, and stopping.
const MORE_TIME: Duration = Duration::from_secs(90);
/// sysbench prints it when all of its threads are connected, and begins.
const STARTED: &str = "Threads started!";
/// The first line of its report, after its threads have ended.
const ENDED: &str = "SQL statistics:";

/// How statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Protocol {
    /// As text.
    Text,
    /// Prepared, in the binary protocol.
    Prepared,
}

impl Protocol {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Protocol::Text => "text",
            Protocol::Prepared => "prepared",
        }
    }
}

/// One of sysbench's scripts, with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) script: &'static str,
    pub(crate) protocol: Protocol,
    pub(crate) connections: u32,
    pub(crate) seconds: u32,
    /// Leave out BEGIN and COMMIT.
    pub(crate) skip_transactions: bool,
    /// How many tables.
    pub(crate) tables: u32,
    /// Ask for few rows often, as sysbench does by default; else for all alike.
    pub(crate) favours_rows: bool,
}

/// The counts of sysbench.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Report {
    /// Queries of all kinds.
    pub(crate) queries: u64,
    /// Errors that were passed over (deadlocks), and reconnects.
    pub(crate) errors: u64,
    /// Measured time, in seconds.
    pub(crate) seconds: f64,
    /// 99th percentile of an event (for point selects: a query), in milliseconds.
    pub(crate) p99_ms: Option<f64>,
}

impl Work {
    /// An event is one query, so that times of events are times of queries.
    pub(crate) fn is_point(&self) -> bool {
        self.script == "oltp_point_select"
    }

    /// The command, without where to connect.
    fn options(&self) -> Vec<String> {
        let ps_mode = match self.protocol {
            Protocol::Text => "disable",
            Protocol::Prepared => "auto",
        };
        let mut options = vec![self.script.to_owned()];
        options.extend(tables(self.tables));
        options.extend([
            format!("--db-ps-mode={ps_mode}"),
            format!("--threads={}", self.connections),
            format!("--time={}", self.seconds),
            format!("--rand-type={}", if self.favours_rows { "special" } else { "uniform" }),
            "--percentile=99".to_owned(),
        ]);
        if self.skip_transactions {
            options.push("--skip-trx=on".to_owned());
        }
        options
    }

    /// The command as it is told in a report.
    pub(crate) fn shown(&self) -> String {
        let generic = self.options().into_iter().filter(|option| !option.starts_with("--threads"));
        format!("sysbench {} run", generic.collect::<Vec<_>>().join(" "))
    }

    /// Runs it. `on_started` is called when all connections are there, `on_ended` when the last query is over.
    ///
    /// # Errors
    /// sysbench fails, such as when an error comes that it does not pass over.
    pub(crate) fn run(
        &self,
        address: SocketAddr,
        mut on_started: impl FnMut() -> anyhow::Result<()>,
        mut on_ended: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<Report> {
        let mut command = Command::new("sysbench");
        command.args(self.options()).args(place(address)).arg("run");
        let limit = Duration::from_secs(self.seconds.into()) + MORE_TIME;
        let text = process::run(command, limit, |line| match line {
            STARTED => on_started(),
            ENDED => on_ended(),
            _ => Ok(()),
        })?;
        parse(&text)
    }
}

/// Makes the tables, on a server.
///
/// # Errors
/// sysbench fails.
pub(crate) fn prepare(server: SocketAddr, count: u32) -> anyhow::Result<()> {
    let mut command = Command::new("sysbench");
    command.arg("oltp_common").args(tables(count)).args(place(server));
    command.arg(format!("--threads={}", TABLES.min(count))).arg("prepare");
    process::run(command, MORE_TIME, |_| Ok(())).map(drop)
}

fn tables(count: u32) -> [String; 2] {
    [format!("--tables={count}"), format!("--table-size={TABLE_ROWS}")]
}

fn place(address: SocketAddr) -> [String; 5] {
    [
        format!("--mysql-host={}", address.ip()),
        format!("--mysql-port={}", address.port()),
        format!("--mysql-user={APP_USER}"),
        format!("--mysql-password={APP_PASSWORD}"),
        format!("--mysql-db={DATABASE}"),
    ]
}

/// Reads the report.
fn parse(text: &str) -> anyhow::Result<Report> {
    if let Some(line) = text.lines().find(|line| line.starts_with("FATAL")) {
        bail!("sysbench says: {line}");
    }
    let number = |name: &str| figure(text, name).with_context(|| format!("sysbench's report has no '{name}':\n{text}"));
    Ok(Report {
        queries: number("queries:")? as u64,
        errors: (number("ignored errors:")? + number("reconnects:")?) as u64,
        seconds: number("total time:")?,
        p99_ms: figure(text, "99th percentile:"),
    })
}

/// The first number behind a name that begins a line.
fn figure(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.trim_start().strip_prefix(name))?;
    rest.split_whitespace().next()?.trim_end_matches('s').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
Threads started!

SQL statistics:
    queries performed:
        read:                            14000
        write:                           4000
        other:                           2000
        total:                           20000
    transactions:                        1000   (199.42 per sec.)
    queries:                             20000  (3988.40 per sec.)
    ignored errors:                      3      (0.60 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          5.0146s
    total number of events:              1000

Latency (ms):
         min:                                    3.10
         avg:                                    5.01
         max:                                   14.42
         99th percentile:                        9.56
         sum:                                 5012.11
";

    #[test]
    fn a_report_is_read() {
        let expected = Report { queries: 20_000, errors: 3, seconds: 5.0146, p99_ms: Some(9.56) };
        assert_eq!(parse(REPORT).unwrap(), expected);
    }

    #[test]
    fn what_is_missing_is_said() {
        let error = parse("FATAL: unable to connect to MySQL server").unwrap_err();
        assert!(error.to_string().contains("unable to connect"), "{error}");
        let error = parse("queries: 5\n").unwrap_err();
        assert!(error.to_string().contains("ignored errors"), "{error}");
    }

    #[test]
    fn the_command_tells_all_but_where() {
        let work = Work {
            script: "oltp_point_select",
            protocol: Protocol::Text,
            connections: 16,
            seconds: 5,
            skip_transactions: false,
            tables: TABLES,
            favours_rows: false,
        };
        let shown = work.shown();
        assert!(shown.contains("--db-ps-mode=disable") && shown.contains("--time=5"), "{shown}");
        assert!(!shown.contains("password") && !shown.contains("--threads") && !shown.contains("skip-trx"), "{shown}");
    }
}
