//! The heartbeat: a row of the primary that tells the time of its writing, and how fresh a replica is by it.
//!
//! Both times come from this process's clock, so servers' clocks need not agree. Each machine that runs Sqluice writes a
//! row of its own, chosen by its name, so that rows never pile up.

mod place;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cluster::observation::{NotWritten, Seen};
use cluster::view::ServerId;
use config::Heartbeat as Mode;
use net::query::{Client, Limits, QueryError};
use tokio::sync::{mpsc, watch};
use wire::errno;

pub(crate) use self::place::Place;
use super::link::{Way, is_denied};
use super::probe::Probed;
use super::unwritten;
use crate::status::ClusterStatus;

/// Writes that are remembered; older rows are judged by their own time.
const WRITES_MAX: usize = 4096;
/// Wait before another attempt when the monitor user lacks rights.
const DENIED_RETRY: Duration = Duration::from_secs(60);
/// A write that hangs for longer is begun anew. Until then there is one, for another would hang beside it.
const HANGS_MAX: Duration = Duration::from_secs(120);
/// Without a write for so long (or four intervals) a heartbeat says nothing.
const SILENT_AFTER_MIN: Duration = Duration::from_secs(2);

/// Microseconds since 1970 that never go backwards while the process lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    started_us: u64,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { started: Instant::now(), started_us: since.as_micros() as u64 }
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.started_us + self.started.elapsed().as_micros() as u64
    }
}

/// The writes that the present primary has acknowledged.
#[derive(Debug)]
pub(crate) struct Log {
    /// When they were sent, in microseconds, ascending.
    writes: VecDeque<u64>,
    interval: Duration,
}

impl Log {
    pub(crate) fn new(interval: Duration) -> Log {
        Log { writes: VecDeque::new(), interval }
    }

    fn wrote(&mut self, at_us: u64) {
        if self.writes.len() >= WRITES_MAX {
            self.writes.pop_front();
        }
        self.writes.push_back(at_us);
    }

    /// Whether heartbeats are written now.
    pub(crate) fn is_alive(&self, now_us: u64) -> bool {
        let limit = SILENT_AFTER_MIN.max(self.interval * 4).as_micros() as u64;
        self.writes.back().is_some_and(|last| now_us.saturating_sub(*last) < limit)
    }

    /// Whether the present primary has acknowledged any.
    pub(crate) fn has_writes(&self) -> bool {
        !self.writes.is_empty()
    }

    /// How far behind a replica is whose row says `row_us`: the age of the oldest write that it does not have yet. One that has
    /// them all is not behind only while heartbeats are written; one that lacks any is, whether or not others come.
    pub(crate) fn lag(&self, now_us: u64, row_us: u64) -> Option<Duration> {
        let missing = match self.writes.front() {
            Some(oldest) if row_us < *oldest => Some(row_us),
            _ => self.writes.iter().copied().find(|write| *write > row_us),
        };
        match missing {
            Some(write) => Some(Duration::from_micros(now_us.saturating_sub(write))),
            None => self.is_alive(now_us).then_some(Duration::ZERO),
        }
    }
}

/// The primary to write to.
#[derive(Clone)]
pub(crate) struct Primary {
    pub(crate) id: ServerId,
    pub(crate) name: Arc<str>,
    pub(crate) way: Way,
}

/// Writes to whoever is the primary, each interval.
pub(crate) struct Writer {
    pub(crate) cluster: Arc<str>,
    pub(crate) mode: Mode,
    pub(crate) place: Place,
    pub(crate) clock: Clock,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    pub(crate) log: Rc<RefCell<Log>>,
    pub(crate) status: Arc<ClusterStatus>,
    pub(crate) primary: watch::Receiver<Option<Primary>>,
    /// Where it is told that writes fail, and that they are done again.
    pub(crate) results: mpsc::Sender<Probed>,
    /// That they fail was told.
    pub(crate) told_not_written: bool,
}

/// Why writing stopped.
enum Stop {
    /// Another primary, or none.
    Moved,
    /// Rights are missing; in words.
    Denied(String),
    /// Anything else; in words, if worth telling.
    Failed(Option<String>),
}

impl Writer {
    /// Runs until the task is aborted.
    pub(crate) async fn run(mut self) {
        if self.mode == Mode::Off {
            return;
        }
        // The same complaint is told once until something works again.
        let mut told = String::new();
        let mut before = None;
        loop {
            let Some(primary) = self.primary.borrow_and_update().clone() else {
                if self.primary.changed().await.is_err() {
                    return;
                }
                continue;
            };
            // Writes to the same one count on: replicas may lack them still.
            if before.replace(primary.id) != Some(primary.id) {
                self.log.borrow_mut().writes.clear();
            }
            let stop = self.serve(&primary, &mut told).await;
            let (wait, complaint) = match stop {
                Stop::Moved => continue,
                Stop::Denied(words) => (DENIED_RETRY, Some(words)),
                Stop::Failed(words) => (self.interval, words),
            };
            if let Some(words) = complaint {
                self.status.figures().heartbeat_failures += 1;
                if told != words {
                    self.complain(&primary.name, &words);
                    told = words;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                changed = self.primary.changed() => if changed.is_err() { return },
            }
        }
    }

    fn complain(&self, server: &str, words: &str) {
        let cluster = &*self.cluster;
        match self.mode {
            Mode::On => tracing::error!(cluster, server, "no heartbeat can be written: {words}"),
            Mode::Auto | Mode::Off => tracing::warn!(
                cluster,
                server,
                "no heartbeat can be written, so lag is what the servers tell, in whole seconds: {words}"
            ),
        }
    }

    async fn serve(&mut self, primary: &Primary, told: &mut String) -> Stop {
        let limits = Limits { reply_bytes_max: 1 << 20, timeout: HANGS_MAX };
        let mut client = match primary.way.open(self.timeout, limits).await {
            Ok(client) => client,
            // The prober tells what is wrong with the server.
            Err(_) => return Stop::Failed(None),
        };
        let format = client.query_one("SELECT @@global.binlog_format").await.ok();
        let by_statement =
            format.and_then(|row| Some(row.scalar()?.eq_ignore_ascii_case("statement"))).unwrap_or(false);
        loop {
            let at_us = self.clock.now_us();
            let Some(written) = self.write_patiently(primary, &mut client, (at_us, by_statement), told).await else {
                return Stop::Moved;
            };
            if let Err(error) = written {
                if let Some(seen) = unwritten::of_error(&error) {
                    self.tell(primary.id, Some(seen)).await;
                }
                return match error.code() {
                    // Most likely read-only: the server is the primary no longer, and the prober will notice.
                    Some(errno::ER_OPTION_PREVENTS_STATEMENT | errno::ER_READ_ONLY_MODE) => Stop::Failed(None),
                    Some(code) if is_denied(code) => Stop::Denied(error.to_string()),
                    _ => Stop::Failed(Some(error.to_string())),
                };
            }
            if !told.is_empty() {
                tracing::info!(cluster = &*self.cluster, server = &*primary.name, "the heartbeat is written again");
                told.clear();
            }
            self.tell(primary.id, None).await;
            self.log.borrow_mut().wrote(at_us);
            self.status.figures().heartbeat_writes += 1;
            tokio::select! {
                () = tokio::time::sleep(self.interval) => {}
                changed = self.primary.changed() => if changed.is_err() || self.has_moved(primary) {
                    return Stop::Moved;
                },
            }
        }
    }

    /// Writes, and tells meanwhile why it takes so long. `None`: there is another primary, or none.
    async fn write_patiently(
        &mut self,
        primary: &Primary,
        client: &mut Client,
        (at_us, by_statement): (u64, bool),
        told: &mut String,
    ) -> Option<Result<(), QueryError>> {
        let (id, place) = (client.greeting().connection_id, self.place.clone());
        let mut write = std::pin::pin!(place.write_to(client, at_us, by_statement));
        let mut wait = self.timeout;
        loop {
            tokio::select! {
                done = &mut write => return Some(done),
                () = tokio::time::sleep(wait) => {}
                changed = self.primary.changed() => {
                    if changed.is_err() || self.has_moved(primary) {
                        return None;
                    }
                    continue;
                }
            }
            // A server that does not answer either is the prober's matter.
            let Some(seen) = unwritten::look(&primary.way, self.timeout, id).await else {
                return Some(Err(QueryError::Timeout(self.timeout)));
            };
            self.status.figures().heartbeat_failures += 1;
            if *told != *seen.text {
                self.complain(&primary.name, &seen.text);
                *told = seen.text.to_string();
            }
            self.tell(primary.id, Some(seen)).await;
            wait = self.interval;
        }
    }

    fn has_moved(&self, primary: &Primary) -> bool {
        self.primary.borrow().as_ref().is_none_or(|new| new.id != primary.id)
    }

    /// Tells that a write failed, and once that they are done again.
    async fn tell(&mut self, id: ServerId, failed: Option<NotWritten>) {
        if failed.is_none() && !self.told_not_written {
            return;
        }
        self.told_not_written = failed.is_some();
        let seen = failed.map_or(Seen::Written, Seen::NotWritten);
        // Nobody listens when the cluster is watched no more.
        let _ = self.results.send(Probed { id, seen, took: Duration::ZERO, told: None }).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(writes: &[u64]) -> Log {
        let mut log = Log::new(Duration::from_millis(500));
        writes.iter().for_each(|write| log.wrote(*write));
        log
    }

    #[test]
    fn lag_is_the_age_of_the_oldest_missing_write() {
        let log = log(&[1_000_000, 1_500_000, 2_000_000]);
        for (row, lag_us) in [
            (2_000_000, 0),
            (2_100_000, 0), // a write whose acknowledgement is still under way
            (1_500_000, 100_000),
            (1_000_000, 600_000),
            (400_000, 1_700_000), // from before the log: its own age
        ] {
            assert_eq!(log.lag(2_100_000, row), Some(Duration::from_micros(lag_us)), "{row}");
        }
    }

    #[test]
    fn a_silent_heartbeat_says_nothing() {
        let log = log(&[1_000_000]);
        assert!(log.is_alive(2_999_999));
        assert_eq!(log.lag(3_000_000, 1_000_000), None);
        assert_eq!(Log::new(Duration::from_secs(1)).lag(5, 5), None);
        assert_eq!(log.lag(3_000_000, 900_000), Some(Duration::from_micros(2_100_000)), "it lacks the last one");
    }

    #[test]
    fn the_log_is_bounded() {
        let mut log = log(&[]);
        (0..10_000).for_each(|at| log.wrote(at));
        assert_eq!(log.writes.len(), WRITES_MAX);
        assert_eq!(log.writes.back(), Some(&9_999));
    }
}
