//! The heartbeat: a row of the primary that tells the time of its writing, and how fresh a replica is by it.
//!
//! Both times come from this process's clock, so servers' clocks need not agree. Each machine that runs Sqluice writes a
//! row of its own, chosen by its name, so that rows never pile up.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cluster::view::ServerId;
use config::Heartbeat as Mode;
use net::query::{Client, Limits, QueryError};
use tokio::sync::watch;
use wire::handshake::ServerError;

use super::dialect::is_on;
use super::link::{Way, is_denied};
use crate::status::ClusterStatus;

/// Writes that are remembered; older rows are judged by their own time.
const WRITES_MAX: usize = 4096;
/// How many machines' rows there are at most.
const SLOTS: u64 = 1024;
/// `ER_OPTION_PREVENTS_STATEMENT`, of which `read_only` is the likeliest here.
const READ_ONLY: u16 = 1290;
/// Wait before another attempt when the monitor user lacks rights.
const DENIED_RETRY: Duration = Duration::from_secs(60);
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

    /// How far behind a replica is whose row says `row_us`: the age of the oldest write that it does not have yet.
    pub(crate) fn lag(&self, now_us: u64, row_us: u64) -> Option<Duration> {
        if !self.is_alive(now_us) {
            return None;
        }
        let missing = match self.writes.front() {
            Some(oldest) if row_us < *oldest => Some(row_us),
            _ => self.writes.iter().copied().find(|write| *write > row_us),
        };
        Some(Duration::from_micros(missing.map_or(0, |write| now_us.saturating_sub(write))))
    }
}

/// Where the row is.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    schema: Arc<str>,
    slot: u64,
}

impl Place {
    pub(crate) fn new(schema: &Arc<str>) -> Place {
        let mut hasher = DefaultHasher::new();
        std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().hash(&mut hasher);
        Place { schema: schema.clone(), slot: hasher.finish() % SLOTS }
    }

    fn table(&self) -> String {
        format!("`{}`.heartbeat", self.schema.replace('`', "``"))
    }

    /// Reads the row's time.
    pub(crate) fn select(&self) -> String {
        format!("SELECT at_us FROM {} WHERE writer = {}", self.table(), self.slot)
    }

    /// Writes the row, or changes nothing on a server that is read-only: failover gives the user rights that see past
    /// `read_only`, and must not find a transaction that no other server has. A server that becomes read-only waits for
    /// statements that write, and those that come later look after it has become so.
    fn write(&self, at_us: u64) -> String {
        format!(
            "INSERT INTO {} (writer, at_us) SELECT {}, {at_us} FROM DUAL \
             WHERE CAST(@@global.read_only AS CHAR) IN ('0', 'OFF') ON DUPLICATE KEY UPDATE at_us = {at_us}",
            self.table(),
            self.slot
        )
    }

    /// The same without looking: replicas that are told the statement itself would look at their own state.
    fn write_plainly(&self, at_us: u64) -> String {
        format!(
            "INSERT INTO {} (writer, at_us) VALUES ({}, {at_us}) ON DUPLICATE KEY UPDATE at_us = {at_us}",
            self.table(),
            self.slot
        )
    }

    fn create_schema(&self) -> String {
        format!("CREATE DATABASE IF NOT EXISTS `{}`", self.schema.replace('`', "``"))
    }

    fn create_table(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {} (writer SMALLINT UNSIGNED NOT NULL PRIMARY KEY, \
             at_us BIGINT UNSIGNED NOT NULL) ENGINE = InnoDB \
             COMMENT 'Sqluice measures replication lag with it; one row per machine'",
            self.table()
        )
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
        loop {
            let Some(primary) = self.primary.borrow_and_update().clone() else {
                if self.primary.changed().await.is_err() {
                    return;
                }
                continue;
            };
            self.log.borrow_mut().writes.clear();
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
        let limits = Limits { reply_bytes_max: 1 << 20, timeout: self.timeout };
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
            if let Err(error) = self.write(&mut client, at_us, by_statement).await {
                return match error.code() {
                    // Read-only: the server is the primary no longer, and the prober will notice.
                    Some(READ_ONLY | 1836) => Stop::Failed(None),
                    Some(code) if is_denied(code) => Stop::Denied(error.to_string()),
                    _ => Stop::Failed(Some(error.to_string())),
                };
            }
            if !told.is_empty() {
                tracing::info!(cluster = &*self.cluster, server = &*primary.name, "the heartbeat is written again");
                told.clear();
            }
            self.log.borrow_mut().wrote(at_us);
            self.status.figures().heartbeat_writes += 1;
            tokio::select! {
                () = tokio::time::sleep(self.interval) => {}
                changed = self.primary.changed() => {
                    let same = self.primary.borrow().as_ref().is_some_and(|new| new.id == primary.id);
                    if changed.is_err() || !same {
                        return Stop::Moved;
                    }
                }
            }
        }
    }

    async fn write(&self, client: &mut Client, at_us: u64, by_statement: bool) -> Result<(), QueryError> {
        let refused = || {
            let message = "the server is read-only".to_owned();
            Err(QueryError::Server(ServerError { code: READ_ONLY, sqlstate: None, message }))
        };
        if by_statement && is_read_only(client).await? {
            return refused();
        }
        let statement = if by_statement { self.place.write_plainly(at_us) } else { self.place.write(at_us) };
        match client.query_one(&statement).await {
            Ok(written) if written.affected == 0 => return refused(),
            Ok(_) => return Ok(()),
            // No such schema (which is told as a missing table, too) or table yet.
            Err(error) if matches!(error.code(), Some(1049 | 1146)) => {
                if is_read_only(client).await? {
                    return refused();
                }
                match client.query(self.place.create_table()).await {
                    Err(error) if error.code() == Some(1049) => {
                        client.query(self.place.create_schema()).await?;
                        client.query(self.place.create_table()).await?;
                    }
                    created => drop(created?),
                }
            }
            Err(error) => return Err(error),
        }
        client.query(statement).await.map(drop)
    }
}

async fn is_read_only(client: &mut Client) -> Result<bool, QueryError> {
    let read_only = client.query_one("SELECT @@global.read_only").await?;
    Ok(read_only.scalar().is_none_or(|value| is_on(&value)))
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
    }

    #[test]
    fn the_log_is_bounded() {
        let mut log = log(&[]);
        (0..10_000).for_each(|at| log.wrote(at));
        assert_eq!(log.writes.len(), WRITES_MAX);
        assert_eq!(log.writes.back(), Some(&9_999));
    }

    #[test]
    fn a_schema_name_cannot_break_out_of_its_quotes() {
        let place = Place { schema: "a`b".into(), slot: 3 };
        assert_eq!(place.select(), "SELECT at_us FROM `a``b`.heartbeat WHERE writer = 3");
        assert!(place.write(9).ends_with("ON DUPLICATE KEY UPDATE at_us = 9"));
        assert!(place.write_plainly(9).contains("VALUES (3, 9)"));
    }
}
