//! Clients whose every read takes a tenth of a second and longer, while servers of their cluster come, go and change their roles.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use net::query::{Client, Limits, QueryError};
use tokio::task::JoinSet;

use super::{Front, app, until};

/// So many clients work on each server that no connection to it is idle.
const CLIENTS: usize = 24;
/// A read may wait for another server, and its client waits for it longer than Sqluice does.
const LIMITS: Limits = Limits { reply_bytes_max: 1 << 20, timeout: Duration::from_secs(60) };
/// A read, with what it gives.
pub type Read = (&'static str, &'static [&'static str]);
/// The long reads. All of a reply comes at its end: half a reply that a client has got cannot be taken back.
const READS: [Read; 4] = [
    ("SELECT SLEEP(0.1), 'short'", &["0", "short"]),
    ("SELECT SLEEP(0.3), 'longer'", &["0", "longer"]),
    ("SELECT SLEEP(0.5), 'half'", &["0", "half"]),
    ("SELECT SLEEP(1), 'longest'", &["0", "longest"]),
];

/// Clients that read all the time. None of them may see an error or the end of its connection.
pub struct LongReads {
    stop: Arc<AtomicBool>,
    reads: Arc<AtomicU64>,
    tasks: JoinSet<Vec<String>>,
}

impl LongReads {
    pub async fn start(front: &Front) -> LongReads {
        LongReads::start_with(front, &READS).await
    }

    /// With these reads instead.
    pub async fn start_with(front: &Front, all: &'static [Read]) -> LongReads {
        let (stop, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = JoinSet::new();
        for number in 0..CLIENTS {
            let (target, stop, reads) = (front.target(), stop.clone(), reads.clone());
            tasks.spawn(async move {
                let mut errors = Vec::new();
                let mut client = Client::connect(&target, app(), LIMITS).await.unwrap();
                while !stop.load(Ordering::Relaxed) {
                    let (text, expected) = all[number % all.len()];
                    // Every second one of a kind reads within a transaction.
                    let done = match number / all.len() % 2 {
                        0 => read(&mut client, text, expected).await,
                        _ => read_in_transaction(&mut client, text, expected).await,
                    };
                    if let Err(error) = done {
                        errors.push(format!("{text}: {error}"));
                        client = Client::connect(&target, app(), LIMITS).await.unwrap();
                    }
                    reads.fetch_add(1, Ordering::Relaxed);
                }
                errors
            });
        }
        LongReads { stop, reads, tasks }
    }

    /// Waits until so many reads more have ended.
    pub async fn more(&self, count: u64) {
        let goal = self.reads.load(Ordering::Relaxed) + count;
        until("reads to go on", async || (self.reads.load(Ordering::Relaxed) >= goal).then_some(())).await;
    }

    /// Gives the number of reads, and the errors.
    pub async fn end(mut self) -> (u64, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let mut errors = Vec::new();
        while let Some(ended) = self.tasks.join_next().await {
            errors.extend(ended.unwrap());
        }
        (self.reads.load(Ordering::Relaxed), errors)
    }
}

async fn read(client: &mut Client, text: &str, expected: &[&str]) -> Result<(), QueryError> {
    let result = client.query_one(text).await?;
    let values = result.rows.iter().flat_map(|row| row.iter());
    let values: Vec<_> = values.map(|value| String::from_utf8_lossy(value.as_deref().unwrap())).collect();
    assert_eq!(values, expected, "{text}");
    Ok(())
}

async fn read_in_transaction(client: &mut Client, text: &str, expected: &[&str]) -> Result<(), QueryError> {
    client.query("START TRANSACTION READ ONLY").await?;
    read(client, text, expected).await?;
    client.query("COMMIT").await.map(drop)
}
