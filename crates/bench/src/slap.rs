//! mysqlslap, the load of the first ProxySQL's announcement.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use lab::{APP_DATABASE, APP_PASSWORD, APP_USER};

use crate::process;

/// Longest that a run may take.
const LIMIT: Duration = Duration::from_secs(300);
/// The line in which it tells the time that it took.
const AVERAGE: &str = "Average number of seconds to run all queries:";

/// Queries of clients that run side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) clients: u32,
    /// Of all clients together.
    pub(crate) queries: u32,
}

impl Work {
    fn options(self) -> [String; 8] {
        [
            "--no-defaults".to_owned(),
            "--protocol=tcp".to_owned(),
            // Sqluice offers TLS, which it would use.
            "--skip-ssl".to_owned(),
            format!("--create-schema={APP_DATABASE}"),
            "--no-drop".to_owned(),
            "--query=SELECT 1111".to_owned(),
            format!("--concurrency={}", self.clients),
            format!("--number-of-queries={}", self.queries),
        ]
    }

    /// The command as it is told in a report.
    pub(crate) fn shown(self) -> String {
        let [.., query, _, queries] = self.options();
        format!("mysqlslap --skip-ssl '{query}' {queries}")
    }

    /// Runs it; gives the seconds that its queries took.
    ///
    /// # Errors
    /// It fails, such as when one of its queries does.
    pub(crate) fn run(self, address: SocketAddr) -> anyhow::Result<f64> {
        let name = if Path::new("/usr/bin/mariadb-slap").exists() { "mariadb-slap" } else { "mysqlslap" };
        let mut command = Command::new(name);
        command.args(self.options()).arg(format!("--host={}", address.ip())).arg(format!("--port={}", address.port()));
        command.arg(format!("--user={APP_USER}")).env("MYSQL_PWD", APP_PASSWORD);
        parse(&process::run(command, LIMIT, |_| Ok(()))?)
    }
}

fn parse(text: &str) -> anyhow::Result<f64> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(AVERAGE));
    let seconds = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    seconds.filter(|seconds| *seconds > 0.0).with_context(|| format!("mysqlslap's report tells no time:\n{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_found() {
        let text = "Benchmark\n\tAverage number of seconds to run all queries: 1.234 seconds\n\tMinimum number: 1.0\n";
        assert_eq!(parse(text).unwrap(), 1.234);
        assert!(parse("mysqlslap: Error").is_err());
        assert!(Work { clients: 2, queries: 10 }.shown().ends_with("--number-of-queries=10"));
    }
}
