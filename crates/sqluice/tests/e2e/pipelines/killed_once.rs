//! A long read that was killed is over: whoever hears of the kill first, it is not run again.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::{one_worker, pipelined, until_it_runs};
use crate::support::{all, families};

/// Reads that are killed at a time, each by a killer of its own.
const READS: u64 = 4;
/// How often each is killed.
const ROUNDS: u64 = 15;
/// A read that ran again would take this long.
const LONG: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_killed_read_is_not_run_again() {
    for family in families() {
        let front = one_worker(family, "pipeline_time_ms = 5").await;
        let mut pairs = JoinSet::new();
        for me in 0..READS {
            let (mut long, mut killer) = (front.client().await, front.client().await);
            pairs.spawn(async move {
                let kill = format!("KILL QUERY {}", long.greeting().connection_id);
                for round in 0..ROUNDS {
                    // A form of its own: one that was long is off pipelines for a while.
                    let sleep = |s: u64| format!("SELECT n AS n{me}x{round}, SLEEP({s}) FROM piped WHERE n = 5");
                    all(&mut long, &sleep(0)).await;
                    let (read, begun) = (sleep(LONG.as_secs()), Instant::now());
                    let once = async {
                        until_it_runs(&mut killer, &read).await;
                        all(&mut killer, &kill).await;
                    };
                    let (ended, ()) = tokio::join!(long.query(&read), once);
                    assert!(ended.as_ref().err().is_none_or(|error| error.code() == Some(1317)), "{ended:?}");
                    assert!(begun.elapsed() < LONG / 2, "round {round}: {:?}", begun.elapsed());
                }
            });
        }
        while let Some(ended) = pairs.join_next().await {
            ended.unwrap();
        }
        // One of each form is short, and one is long.
        assert!(pipelined(&front).await > (READS * ROUNDS) as f64, "{family:?}: the reads were on pipelines");
    }
}
