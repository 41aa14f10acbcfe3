//! sysbench, as operators run it before they trust a proxy.

use std::process::Command;
use std::time::Duration;

use lab::Family;

use crate::support::{Front, Ran, blocking, calm, run};

const THREADS: u32 = 64;

fn seconds() -> u32 {
    std::env::var("SQLUICE_SYSBENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4)
}

/// Runs `sysbench` with these options, through the proxy.
async fn sysbench(front: &Front, database: &str, script: &str, options: &[&str], action: &str) -> Ran {
    let found = Command::new("sysbench").arg("--version").output();
    assert!(found.is_ok(), "sysbench is missing: `./dev test` installs it, or `apt-get install sysbench`");
    let (host, port) = front.address.rsplit_once(':').unwrap();
    let mut command = Command::new("sysbench");
    command.args([script, "--tables=4", "--table-size=1000"]).args(options);
    command.args([format!("--mysql-host={host}"), format!("--mysql-port={port}"), format!("--mysql-db={database}")]);
    command.args([format!("--mysql-user={}", lab::APP_USER), format!("--mysql-password={}", lab::APP_PASSWORD)]);
    command.arg(action);
    run(command, "").await
}

/// The number behind a word in sysbench's report.
fn figure(report: &str, word: &str) -> u64 {
    let line = report.lines().find(|line| line.trim_start().starts_with(word)).unwrap_or_else(|| panic!("{report}"));
    line.split(':')
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or_else(|| panic!("{line}"))
}

/// Runs one script; gives the reads that the primary and the replicas got.
pub async fn check(family: Family, script: &str, ps_mode: &str) {
    let servers = calm(family).await;
    let front = Front::start(servers, |_| {}).await;
    let mode = format!("--db-ps-mode={ps_mode}");
    let database = format!("sysbench_{script}_{ps_mode}");
    blocking({
        let sql = format!("DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}");
        move || servers.primary().sql(&sql).unwrap()
    })
    .await;
    sysbench(&front, &database, script, &[&mode], "prepare").await.output();
    blocking(|| servers.wait_in_sync(Duration::from_secs(20)).unwrap()).await;
    let before = front.metrics().await;
    let (threads, time) = (format!("--threads={THREADS}"), format!("--time={}", seconds()));
    let mut options = vec![&*mode, &threads, &time, "--report-interval=0"];
    if script == "oltp_read_only" {
        options.push("--skip-trx=on");
    }
    let ran = sysbench(&front, &database, script, &options, "run").await;
    assert!(ran.good && !ran.err.contains("FATAL") && !ran.out.contains("FATAL"), "{}\n{}", ran.out, ran.err);
    assert_eq!(figure(&ran.out, "reconnects"), 0, "{}", ran.out);
    assert!(figure(&ran.out, "transactions") > u64::from(THREADS), "{}", ran.out);
    let after = front.metrics().await;
    let reads = |server: &str| after.reads(server) - before.reads(server);
    eprintln!(
        "{family:?} {script} {ps_mode}: {} transactions, reads: primary {}, replicas {} and {}",
        figure(&ran.out, "transactions"),
        reads("db1"),
        reads("db2"),
        reads("db3")
    );
    if script == "oltp_read_only" {
        // Outside transactions every read belongs to a replica, and both take their part. On a machine that is too busy to
        // answer the monitor in time, the primary helps out.
        assert_eq!(figure(&ran.out, "ignored errors"), 0, "{}", ran.out);
        assert!(reads("db1") < 0.1 * (reads("db2") + reads("db3")), "{}", reads("db1"));
        let (one, other) = (reads("db2"), reads("db3"));
        assert!(one.min(other) > 0.2 * (one + other), "{one} and {other}");
    } else {
        assert!(after.writes("db1") - before.writes("db1") > 100.0);
    }
    front.is_pinned_by(&[]).await;
    blocking(move || {
        servers.wait_in_sync(Duration::from_secs(30)).unwrap();
        let sums = servers.checksums(&database).unwrap();
        assert_eq!(sums[0].len(), 4);
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
        servers.primary().sql(&format!("DROP DATABASE {database}")).unwrap();
    })
    .await;
}

#[tokio::test]
async fn read_write_with_prepared_statements() {
    check(Family::MariaDb, "oltp_read_write", "auto").await;
}

#[tokio::test]
async fn read_write_as_text() {
    check(Family::MariaDb, "oltp_read_write", "disable").await;
}

#[tokio::test]
async fn read_only_with_prepared_statements() {
    check(Family::MariaDb, "oltp_read_only", "auto").await;
}

#[tokio::test]
async fn read_only_as_text() {
    check(Family::MariaDb, "oltp_read_only", "disable").await;
}
