//! A kill that comes before its read counts as long: the session's connection is not known yet.

use std::time::{Duration, Instant};

use super::{one_worker, pipelined};
use crate::support::{all, families, until, value};

/// A read counts as long after so much, in milliseconds: the kills come before that.
const LONG_AFTER_MS: u64 = 1000;

#[tokio::test]
async fn a_kill_that_comes_early_ends_the_read_once_it_is_long() {
    for family in families() {
        let front = one_worker(family, &format!("pipeline_time_ms = {LONG_AFTER_MS}")).await;
        let (mut long, mut killer) = (front.client().await, front.client().await);
        let id = long.greeting().connection_id;
        until("a read that shares a connection", async || {
            // A pipeline begins with an idle connection in the session's state.
            assert_eq!(value(&mut long, "SELECT SLEEP(0) FROM piped WHERE n = 1").await, "0");
            (pipelined(&front).await > 0.0).then_some(())
        })
        .await;
        let begun = Instant::now();
        let asked = tokio::spawn(async move {
            // As servers do: MariaDB with an error, MySQL with a row that says so.
            match long.query_one("SELECT SLEEP(30) FROM piped WHERE n = 5").await {
                Ok(result) => assert_eq!(result.rows[0][0].as_deref(), Some(&b"1"[..])),
                Err(error) => assert_eq!(error.code(), Some(1317), "{error}"),
            }
            long
        });
        until("the read on a pipeline", async || {
            (front.metrics().await.sum("sqluice_pipelined_reads_outstanding", &[]) == 1.0).then_some(())
        })
        .await;
        all(&mut killer, &format!("KILL QUERY {id}")).await;
        assert!(begun.elapsed() < Duration::from_millis(LONG_AFTER_MS), "the kill was to come before");
        let mut long = asked.await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(20), "{family:?}: nobody has killed it");
        // A kill that finds nothing is not for the next read.
        all(&mut killer, &format!("KILL QUERY {id}")).await;
        assert_eq!(value(&mut long, "SELECT SLEEP(1.5) FROM piped WHERE n = 6").await, "0");
    }
}
