//! How many backend connections may exist, counted over all workers.
//!
//! Pools belong to workers; what they share is this count and the knowledge of who is short. A worker that gives a
//! connection back looks here whether another one waits for it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How much longer somebody must have waited at another worker to get a connection that somebody waits for here, too:
/// moving one costs both workers a few microseconds.
const WORTH_MOVING: Duration = Duration::from_millis(1);
/// No session waits.
const NOBODY: u64 = u64::MAX;

/// The limit of one server (or of one cluster), and who uses how much of it.
#[derive(Debug)]
pub struct Quota {
    /// 0 is no limit.
    max: AtomicU32,
    total: AtomicU32,
    workers: Box<[Share]>,
    /// The moment from which the times in the shares count.
    start: Instant,
}

/// One worker's part.
#[derive(Debug)]
struct Share {
    held: AtomicU32,
    waiting: AtomicU32,
    /// Since when its first in the queue waits, in microseconds.
    oldest: AtomicU64,
}

impl Default for Share {
    fn default() -> Share {
        Share { held: AtomicU32::new(0), waiting: AtomicU32::new(0), oldest: AtomicU64::new(NOBODY) }
    }
}

impl Quota {
    /// A limit shared by so many workers; 0 is no limit.
    pub fn new(max: u32, workers: usize) -> Quota {
        Quota {
            max: AtomicU32::new(max),
            total: AtomicU32::new(0),
            workers: (0..workers).map(|_| Share::default()).collect(),
            start: Instant::now(),
        }
    }

    /// How many workers share it.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// The limit; 0 is none.
    pub fn max(&self) -> u32 {
        self.max.load(Ordering::Relaxed)
    }

    /// Changes the limit. Connections beyond a lower limit are not closed, only not replaced.
    pub fn set_max(&self, max: u32) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Connections that exist or are being opened.
    pub fn total(&self) -> u32 {
        self.total.load(Ordering::Relaxed)
    }

    /// Whether there is no room.
    pub fn is_full(&self) -> bool {
        self.max() > 0 && self.total() >= self.max()
    }

    /// Takes the right to one more connection, if there is one.
    pub fn try_take(&self, worker: usize) -> bool {
        let max = self.max();
        let room = |total| (max == 0 || total < max).then_some(total + 1);
        let taken = self.total.fetch_update(Ordering::AcqRel, Ordering::Relaxed, room).is_ok();
        if taken {
            self.workers[worker].held.fetch_add(1, Ordering::Relaxed);
        }
        taken
    }

    /// Gives the right back.
    pub fn release(&self, worker: usize) {
        self.workers[worker].held.fetch_sub(1, Ordering::Relaxed);
        self.total.fetch_sub(1, Ordering::AcqRel);
    }

    /// The right goes from one worker to another, with its connection or without.
    pub fn transfer(&self, from: usize, to: usize) {
        self.workers[from].held.fetch_sub(1, Ordering::Relaxed);
        self.workers[to].held.fetch_add(1, Ordering::Relaxed);
    }

    /// A statement of this worker begins to wait.
    pub fn begin_waiting(&self, worker: usize) {
        self.workers[worker].waiting.fetch_add(1, Ordering::SeqCst);
    }

    /// It waits no longer.
    pub fn end_waiting(&self, worker: usize) {
        self.workers[worker].waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Statements of all workers that wait.
    pub fn waiting(&self) -> usize {
        self.workers.iter().map(|share| share.waiting.load(Ordering::Relaxed) as usize).sum()
    }

    /// Since when the first in this worker's queue waits; `None` when none does.
    pub fn set_oldest(&self, worker: usize, since: Option<Instant>) {
        let micros = |since: Instant| u64::try_from(since.saturating_duration_since(self.start).as_micros());
        let oldest = since.map_or(NOBODY, |since| micros(since).unwrap_or(NOBODY));
        self.workers[worker].oldest.store(oldest, Ordering::SeqCst);
    }

    /// Which other worker should get what this one has to give: the one where a session waits longest, if none has
    /// waited about as long here. So all are served in the order in which they came, whichever worker they are with.
    pub fn waits_longer(&self, worker: usize) -> Option<usize> {
        let mine = self.workers[worker].oldest.load(Ordering::SeqCst);
        let others = self.workers.iter().enumerate().filter(|(index, _)| *index != worker);
        let oldest = others.map(|(index, share)| (share.oldest.load(Ordering::SeqCst), index)).min();
        let (theirs, index) = oldest.filter(|(since, _)| *since != NOBODY)?;
        let worth = if mine == NOBODY { 0 } else { WORTH_MOVING.as_micros() as u64 };
        (theirs.saturating_add(worth) < mine).then_some(index)
    }

    /// Which other worker should get the permit of a connection that cannot be moved, and has to be closed for it: one
    /// that waits while no session waits here, or that holds less than its fair part while this one holds more.
    pub fn lacks_its_part(&self, worker: usize) -> Option<usize> {
        let mine = &self.workers[worker];
        let fair = self.max().div_ceil(self.workers.len() as u32).max(1);
        let generous =
            mine.waiting.load(Ordering::SeqCst) == 0 || (self.max() > 0 && mine.held.load(Ordering::Relaxed) > fair);
        if !generous {
            return None;
        }
        let i_wait = mine.waiting.load(Ordering::Relaxed) > 0;
        self.workers.iter().enumerate().position(|(index, share)| {
            index != worker
                && share.waiting.load(Ordering::SeqCst) > 0
                && (!i_wait || share.held.load(Ordering::Relaxed) < fair)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_over_all_workers() {
        let quota = Quota::new(2, 2);
        assert!(quota.try_take(0) && quota.try_take(1) && !quota.try_take(0));
        quota.release(1);
        assert!(quota.try_take(0));
        assert_eq!(quota.total(), 2);
        let unlimited = Quota::new(0, 1);
        assert!((0..1000).all(|_| unlimited.try_take(0)));
    }

    #[test]
    fn who_waits_gets_from_who_has_nobody_waiting_or_more_than_its_part() {
        let quota = Quota::new(4, 2);
        (0..4).for_each(|_| assert!(quota.try_take(0)));
        assert_eq!(quota.lacks_its_part(0), None);
        quota.begin_waiting(1);
        assert_eq!(quota.lacks_its_part(0), Some(1));
        quota.begin_waiting(0);
        assert_eq!(quota.lacks_its_part(0), Some(1), "worker 0 holds 4 of 4, worker 1 none");
        quota.transfer(0, 1);
        quota.transfer(0, 1);
        assert_eq!(quota.lacks_its_part(0), None, "both hold their part");
        quota.end_waiting(0);
        assert_eq!(quota.lacks_its_part(0), Some(1));
    }

    #[test]
    fn who_waits_longest_gets_what_is_free_at_any_worker() {
        let quota = Quota::new(4, 3);
        let came = |ms| Some(quota.start + Duration::from_millis(ms));
        assert_eq!(quota.waits_longer(0), None);
        quota.set_oldest(1, came(50));
        assert_eq!((quota.waits_longer(0), quota.waits_longer(1)), (Some(1), None), "nobody waits at worker 0");
        quota.set_oldest(0, came(10));
        quota.set_oldest(2, came(30));
        assert_eq!((quota.waits_longer(0), quota.waits_longer(1), quota.waits_longer(2)), (None, Some(0), Some(0)));
        quota.set_oldest(1, came(11));
        assert_eq!(quota.waits_longer(1), None, "as good as together");
        quota.set_oldest(0, None);
        assert_eq!((quota.waits_longer(0), quota.waits_longer(2)), (Some(1), Some(1)));
    }
}
