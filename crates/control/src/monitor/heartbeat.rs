//! The heartbeat: a row of the primary that tells the time of its writing, and how fresh a replica is by it.
//!
//! Both times come from this process's clock, so servers' clocks need not agree. Each machine that runs Sqluice writes a
//! row of its own, chosen by its name, so that rows never pile up.

mod row;
pub(crate) mod writer;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use facts::view::ServerId;

pub(crate) use self::row::HeartbeatRow;
use super::link::ServerAccess;

/// Writes that are remembered; older rows are judged by their own time.
const WRITES_MAX: usize = 4096;
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
    pub(crate) access: ServerAccess,
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
