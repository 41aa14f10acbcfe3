//! Clients that write while a primary is replaced, and remember each answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use net::query::{Client, Limits};
use tokio::task::JoinHandle;

use crate::support::{Front, app, until};

/// Clients that insert one row after the other.
pub struct Writers {
    stop: Arc<AtomicBool>,
    /// Pause behind each write, in milliseconds.
    pause_ms: Arc<AtomicU64>,
    written: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<Wrote>>,
}

/// Results of writers.
#[derive(Default)]
pub struct Wrote {
    /// Client and number of each row whose INSERT was answered with OK.
    pub acknowledged: Vec<(i32, i32)>,
    pub errors: Vec<String>,
    /// The longest wait for an answer.
    pub longest: Duration,
}

impl Writers {
    /// So many of them, each on a connection of its own.
    pub async fn start(front: &Front, count: i32) -> Writers {
        let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let pause_ms = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for number in 0..count {
            let mut client = front.client().await;
            let (stop, written, target) = (stop.clone(), written.clone(), front.target());
            let pause_ms = pause_ms.clone();
            tasks.push(tokio::spawn(async move {
                let mut wrote = Wrote::default();
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let begun = Instant::now();
                    match client.query(format!("INSERT INTO app.t VALUES ({number}, {n})")).await {
                        Ok(_) => {
                            wrote.acknowledged.push((number, n));
                            written.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => {
                            // The outcome of a statement that was under way is not known, and its session ends.
                            wrote.errors.push(error.to_string());
                            client = Client::connect(&target, app(), Limits::default()).await.unwrap();
                        }
                    }
                    wrote.longest = wrote.longest.max(begun.elapsed());
                    assert!(wrote.errors.len() < 100, "{:?}", wrote.errors.last());
                    let pause_ms = pause_ms.load(Ordering::Relaxed);
                    if pause_ms > 0 {
                        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
                    }
                }
                wrote
            }));
        }
        Writers { stop, pause_ms, written, tasks }
    }

    /// From now on each writer rests behind each write.
    pub fn pause(&self, pause: Duration) {
        self.pause_ms.store(pause.as_millis() as u64, Ordering::Relaxed);
    }

    /// Waits until so many rows more are written.
    pub async fn more(&self, count: u64) {
        let goal = self.written.load(Ordering::Relaxed) + count;
        until("writes to go on", async || (self.written.load(Ordering::Relaxed) >= goal).then_some(())).await;
    }

    /// Ends them. Returns the results of all.
    pub async fn end(self) -> Wrote {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Wrote::default();
        for task in self.tasks {
            let mut own = task.await.unwrap();
            all.acknowledged.append(&mut own.acknowledged);
            all.errors.append(&mut own.errors);
            all.longest = all.longest.max(own.longest);
        }
        all
    }
}
