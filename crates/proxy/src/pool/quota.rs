//! How many backend connections may exist, counted over all workers.
//!
//! Pools belong to workers; what they share is this count and the knowledge of who is short. A worker that gives a
//! connection back looks here whether another one waits for it.

use std::sync::atomic::{AtomicU32, Ordering};

/// The limit of one server (or of one cluster), and who uses how much of it.
#[derive(Debug)]
pub struct Quota {
    /// 0 is no limit.
    max: AtomicU32,
    total: AtomicU32,
    workers: Box<[Share]>,
}

/// One worker's part.
#[derive(Debug, Default)]
struct Share {
    held: AtomicU32,
    waiting: AtomicU32,
}

impl Quota {
    /// A limit shared by so many workers; 0 is no limit.
    pub fn new(max: u32, workers: usize) -> Quota {
        Quota {
            max: AtomicU32::new(max),
            total: AtomicU32::new(0),
            workers: (0..workers).map(|_| Share::default()).collect(),
        }
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

    /// Which other worker should get what this one has to give: one that waits while this one has nobody waiting, or
    /// that holds less than its fair part while this one holds more.
    pub fn needy(&self, worker: usize) -> Option<usize> {
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
        assert_eq!(quota.needy(0), None);
        quota.begin_waiting(1);
        assert_eq!(quota.needy(0), Some(1));
        quota.begin_waiting(0);
        assert_eq!(quota.needy(0), Some(1), "worker 0 holds 4 of 4, worker 1 none");
        quota.transfer(0, 1);
        quota.transfer(0, 1);
        assert_eq!(quota.needy(0), None, "both hold their part");
        quota.end_waiting(0);
        assert_eq!(quota.needy(0), Some(1));
    }
}
