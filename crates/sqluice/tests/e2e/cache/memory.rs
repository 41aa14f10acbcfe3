//! The cache's memory, measured at the process: hostile questions stay within the bound, and large results are not buffered.

use std::process::Stdio;

use super::*;
use crate::support::{blocking, client_program};

/// The result that is not to be buffered.
const LARGE_MIB: u64 = 256;

/// The most memory that the program has taken until now, in MiB.
fn peak_mib(front: &Front) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", front.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() / 1024
}

#[tokio::test]
async fn hostile_questions_stay_within_the_bound() {
    const BOUND_MIB: u64 = 8;
    let table = "cache_hostile";
    let front = start(
        Family::MariaDb,
        table,
        &format!(
            "[cache]\nmemory_max = \"{BOUND_MIB}MiB\"\nentry_max = \"1MiB\"\n{}",
            rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000")
        ),
    )
    .await;
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(front.client().await);
    }
    let question = |number: u64, text: usize, reply: usize| {
        let padding = "p".repeat(text);
        format!("SELECT REPEAT('x', {reply}), {number} FROM {table} WHERE id = 1 /* {padding} */")
    };
    // The memory of texts, replies and digests as such, before the cache is full.
    for number in 0..8 {
        all(&mut clients[0], &question(number, 100_000, 700_000)).await;
    }
    let before = peak_mib(&front);
    let page_before = page(&front).await["evicted"].as_u64().unwrap();
    let mut tasks = Vec::new();
    for (worker, mut client) in clients.into_iter().enumerate() {
        let table = table.to_owned();
        tasks.push(tokio::spawn(async move {
            for round in 0..60_u64 {
                let number = 1_000 * (worker as u64 + 1) + round;
                // Long texts, large replies, and small ones in number; and the same of all, for which they wait.
                let padding = "p".repeat(100_000);
                for sql in [
                    format!("SELECT {number} FROM {table} WHERE id = 1 /* {padding} */"),
                    format!("SELECT REPEAT('x', 300000), {number} FROM {table} WHERE id = 1"),
                    format!("SELECT REPEAT('y', 300000), {round} FROM {table} a, {table} b, {table} c LIMIT 1"),
                ] {
                    all(&mut client, &sql).await;
                }
                for small in 0..20 {
                    all(&mut client, &format!("SELECT {number}, {small} FROM {table} WHERE id = 1")).await;
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let now = page(&front).await;
    assert!(now["bytes"].as_u64().unwrap() <= BOUND_MIB << 20, "{now}");
    assert!(now["evicted"].as_u64().unwrap() > page_before + 500, "{now}");
    let grown = peak_mib(&front) - before;
    // 300 MiB were asked for. Beside the bound eight clients' buffers grow, and the allocator keeps some.
    assert!(grown < BOUND_MIB + 24, "{grown} MiB over {before}");
}

#[tokio::test]
async fn a_large_result_is_not_buffered() {
    for family in families() {
        let front =
            start(family, "cache_stream", &rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000"))
                .await;
        let mut client = front.client().await;
        all(&mut client, "DROP TABLE IF EXISTS cache_stream_rows").await;
        all(&mut client, "CREATE TABLE cache_stream_rows (n INT)").await;
        let rows = vec!["(1)"; 32].join(",");
        all(&mut client, &format!("INSERT INTO cache_stream_rows VALUES {rows}")).await;
        until_hit(&front, &mut client, "SELECT COUNT(*) FROM cache_stream_rows").await;
        let (before, refused_before) = (peak_mib(&front), refused(&front, "all", "too_large").await);
        let mut command = front.cli(&client_program(family));
        let sql =
            format!("SELECT REPEAT('x', 1048576) FROM cache_stream_rows a, cache_stream_rows b LIMIT {LARGE_MIB}");
        command.args(["--quick", "--max-allowed-packet=64M", "--execute", &sql]).stdout(Stdio::null());
        let status = blocking(move || command.status().unwrap()).await;
        assert!(status.success(), "{}", front.log());
        let grown = peak_mib(&front) - before;
        assert!(grown < 20, "{grown} MiB for a result of {LARGE_MIB}");
        until("the answer to be refused", async || {
            (refused(&front, "all", "too_large").await > refused_before).then_some(())
        })
        .await;
    }
}
