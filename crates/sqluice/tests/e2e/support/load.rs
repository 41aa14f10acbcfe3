//! Clients that write and read their own rows while servers of a group come and go, and what they saw.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use net::query::{Client, Limits, QueryError};
use tokio::task::JoinHandle;

use super::{Front, app, until};

/// Clients that write.
pub const WRITERS: i32 = 6;
/// Clients that only read.
const READERS: i32 = 4;
/// Between statements of clients that have [calmed down](Clients::calm_down).
const CALM_PAUSE: Duration = Duration::from_millis(50);
/// The tables of the clients.
pub const TABLES: &str = "CREATE TABLE app.t (client INT, n INT, PRIMARY KEY (client, n)); \
                          CREATE TABLE app.hot (id INT PRIMARY KEY, n INT); INSERT INTO app.hot VALUES (1, 0)";
/// The rows that they have written.
pub const ROWS: &str = "SELECT client, n FROM app.t";

/// The experience of the clients.
#[derive(Default)]
pub struct Load {
    pub acknowledged: Vec<(i32, i32)>,
    pub reads: u64,
    pub errors: Vec<String>,
    /// Statements of which nobody knows whether they were done: their server died, or lost its group.
    pub in_doubt: usize,
    /// The rows of those that were writes.
    pub doubted: Vec<(i32, i32)>,
    pub stale: Vec<String>,
    pub longest: Duration,
}

impl Load {
    /// Every acknowledged row is among these, the output of [`ROWS`] on server `index`. Gives how many of those in doubt are there, too.
    pub fn is_kept(&self, index: usize, rows: &str) -> usize {
        let row = |line: &str| {
            let (client, n) = line.split_once('\t').unwrap();
            (client.parse::<i32>().unwrap(), n.parse::<i32>().unwrap())
        };
        let kept: HashSet<(i32, i32)> = rows.lines().map(row).collect();
        let lost: Vec<_> = self.acknowledged.iter().filter(|row| !kept.contains(row)).collect();
        assert!(lost.is_empty(), "acknowledged, but not on db{}: {lost:?}", index + 1);
        self.doubted.iter().filter(|row| kept.contains(row)).count()
    }
}

/// Clients that insert and read their own rows in single statements, and clients that only read.
pub struct Clients {
    stop: Arc<AtomicBool>,
    calm: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<Load>>,
}

impl Clients {
    pub async fn start(front: &Front) -> Clients {
        Clients::start_at(front, 0).await
    }

    /// Rows are numbered from here.
    pub async fn start_at(front: &Front, first: i32) -> Clients {
        let [stop, calm] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let written = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for number in 0..WRITERS + READERS {
            let mut client = front.client().await;
            let (stop, calm, written, target) = (stop.clone(), calm.clone(), written.clone(), front.target());
            tasks.push(tokio::spawn(async move {
                let mut load = Load::default();
                for n in first.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let begun = Instant::now();
                    let done = if number < WRITERS {
                        write_and_read(&mut client, number, n, &mut load).await
                    } else {
                        let read = client.query("SELECT COUNT(*) FROM app.hot").await.map(drop);
                        load.reads += u64::from(read.is_ok());
                        read.map_err(|error| error.to_string())
                    };
                    match done {
                        Ok(()) if number < WRITERS => {
                            written.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(()) => {}
                        Err(error) => {
                            if error.contains("not known") || error.contains("8007") {
                                load.in_doubt += 1;
                                load.doubted.push((number, n));
                            } else {
                                load.errors.push(error);
                            }
                            client = Client::connect(&target, app(), Limits::default()).await.unwrap();
                        }
                    }
                    load.longest = load.longest.max(begun.elapsed());
                    assert!(load.errors.len() < 100, "{:?}", load.errors.last());
                    if calm.load(Ordering::Relaxed) {
                        tokio::time::sleep(CALM_PAUSE).await;
                    }
                }
                load
            }));
        }
        Clients { stop, calm, written, tasks }
    }

    pub async fn more(&self, count: u64) {
        let goal = self.written.load(Ordering::Relaxed) + count;
        until("writes to go on", async || (self.written.load(Ordering::Relaxed) >= goal).then_some(())).await;
    }

    /// From now on all wait between their statements: a server that joins may never catch up with clients that do not.
    pub fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    pub async fn end(self) -> Load {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum = Load::default();
        for task in self.tasks {
            let mut own = task.await.unwrap();
            sum.acknowledged.append(&mut own.acknowledged);
            sum.errors.append(&mut own.errors);
            sum.stale.append(&mut own.stale);
            sum.reads += own.reads;
            sum.in_doubt += own.in_doubt;
            sum.doubted.append(&mut own.doubted);
            sum.longest = sum.longest.max(own.longest);
        }
        sum
    }
}

/// Writes a row and looks for it: wherever the read goes, it must be there.
async fn write_and_read(client: &mut Client, number: i32, n: i32, load: &mut Load) -> Result<(), String> {
    let text = |error: QueryError| error.to_string();
    client.query(format!("INSERT INTO app.t VALUES ({number}, {n})")).await.map_err(text)?;
    load.acknowledged.push((number, n));
    let sql = format!("SELECT COUNT(*) FROM app.t WHERE client = {number} AND n = {n}");
    let found = client.query_one(sql).await.map_err(text)?;
    load.reads += 1;
    if found.scalar().as_deref() != Some("1") {
        load.stale.push(format!("client {number} does not see its row {n}"));
    }
    Ok(())
}

/// Tells it to who runs the tests by hand.
pub fn report(what: &str, load: &Load, stood_still: Option<Duration>) {
    eprintln!(
        "{what}: {} writes, {} reads, {} errors, {} in doubt, the longest took {:?}; the group stood still for {:?}; \
         first error {:?}",
        load.acknowledged.len(),
        load.reads,
        load.errors.len(),
        load.in_doubt,
        load.longest,
        stood_still,
        load.errors.first()
    );
}
