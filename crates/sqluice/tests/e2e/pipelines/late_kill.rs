//! A kill that comes when its query has just ended: no query of another session on the same connection feels it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use net::query::Client;
use tokio::task::JoinSet;

use super::one_worker;
use crate::support::{all, families, value};

/// Long reads, each with its kill.
const ROUNDS: u64 = 120;
/// Sessions whose reads share the connection of the long ones.
const OTHERS: u64 = 8;
/// A long read takes so much, in milliseconds, and its kill comes about then.
const LONG_MS: u64 = 15;

/// Reads that take a little: a kill would end one, with an error or with another value.
async fn reads_unharmed(mut client: Client, me: u64, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let slept = value(&mut client, &format!("SELECT SLEEP(0.001) FROM piped WHERE n = {me}")).await;
        assert_eq!(slept, "0", "a kill of another session's query");
    }
}

#[tokio::test]
async fn a_kill_that_comes_late_hits_no_other_session() {
    for family in families() {
        let front = one_worker(family, "pipelines = 1\npipeline_time_ms = 5").await;
        let (stop, mut others) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for me in 0..OTHERS {
            others.spawn(reads_unharmed(front.client().await, me, stop.clone()));
        }
        let (mut long, mut killer) = (front.client().await, front.client().await);
        let kill = format!("KILL QUERY {}", long.greeting().connection_id);
        let read = format!("SELECT SLEEP({}) FROM piped WHERE n = 77", LONG_MS as f64 / 1000.0);
        for round in 0..ROUNDS {
            let late = async {
                tokio::time::sleep(Duration::from_micros(1000 * LONG_MS + 40 * (round % 50))).await;
                all(&mut killer, &kill).await;
            };
            // Killed or not: either is right.
            let (read, ()) = tokio::join!(long.query(&read), late);
            assert!(read.as_ref().err().is_none_or(|error| error.code() == Some(1317)), "{read:?}");
        }
        stop.store(true, Ordering::Relaxed);
        while let Some(ended) = others.join_next().await {
            ended.unwrap();
        }
    }
}
