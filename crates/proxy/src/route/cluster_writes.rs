//! What any session of this process has written to a cluster, for reads that must see it (`consistency = "cluster"`).
//!
//! Workers share it, so it is kept only once a read has asked for it: before, writes cost nothing more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use cluster::gtid::Written;
use cluster::positions::Positions;
use cluster::view::{ServerId, View};

use super::causal_reads::OwnWrites;

/// Intervals of each MySQL server that are kept of what all sessions wrote: those of transactions that are under way at the
/// same time may overtake one another.
const INTERVALS_MAX: usize = 64;

/// A write, as far as its reply told.
#[derive(Clone, Debug)]
pub enum Write {
    /// It has this position.
    Told(Written),
    /// It was done on this server before this moment.
    Untold(ServerId, Instant),
    /// It was done on this member of a Galera group before this moment.
    InGroup(ServerId, Instant),
}

/// The last writes of all sessions.
#[derive(Debug, Default)]
pub struct ClusterWrites {
    /// Writes are noted.
    watched: AtomicBool,
    /// Writes from before that are covered, too.
    armed: AtomicBool,
    last: ArcSwap<OwnWrites>,
}

impl ClusterWrites {
    /// Whether writes are to be noted, before their clients hear of them.
    pub fn are_watched(&self) -> bool {
        self.watched.load(Ordering::SeqCst)
    }

    /// Notes a write.
    pub fn note(&self, write: &Write) {
        self.last.rcu(|last| {
            let mut next = OwnWrites::clone(last);
            match write {
                Write::Told(written) => next.tell_of_many(written.clone(), INTERVALS_MAX),
                Write::Untold(server, at) => next.wrote_untold(*server, *at),
                Write::InGroup(server, at) => next.was_in_group(*server, *at),
            }
            next
        });
    }

    /// What a read must find that is routed now. The first call begins to watch: what was written before it counts as written on the
    /// primary at that moment.
    pub fn last(&self, view: &View, positions: &Positions, window: Duration) -> Arc<OwnWrites> {
        if !self.armed.load(Ordering::SeqCst) {
            // Whoever wrote without noting it did so before this moment.
            self.watched.store(true, Ordering::SeqCst);
            let (server, now) = (view.primary.unwrap_or(ServerId(0)), Instant::now());
            self.note(&match view.group {
                Some(_) => Write::InGroup(server, now),
                None => Write::Untold(server, now),
            });
            self.armed.store(true, Ordering::SeqCst);
        }
        let last = self.last.load();
        if !last.awaits_position() {
            return last.clone();
        }
        drop(last);
        let now = Instant::now();
        self.last.rcu(|last| {
            let mut next = OwnWrites::clone(last);
            next.settle(view, positions, window, now);
            next
        });
        self.last.load_full()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::{Needs, Reason};
    use cluster::gtid::Applied;
    use cluster::gtid::mariadb::Gtids;

    const PRIMARY: ServerId = ServerId(0);
    const REPLICA: ServerId = ServerId(1);

    fn told(server: ServerId, sequence: u64) -> Option<(Applied, bool)> {
        let all = Gtids::parse(&format!("0-1-{sequence}")).unwrap();
        let replicated = if server == PRIMARY { Gtids::default() } else { all.clone() };
        Some((Applied::MariaDb { server: u32::from(server.0) + 1, replicated, current: all }, true))
    }

    fn lacking(writes: &ClusterWrites, positions: &Positions) -> Option<Reason> {
        let view = View { primary: Some(PRIMARY), ..View::empty("main") };
        let all = writes.last(&view, positions, Duration::from_secs(5));
        Needs { own: None, all: Some(&all), before: None, positions }.lacking(REPLICA)
    }

    #[test]
    fn what_was_written_before_anybody_asked_counts_too() {
        let writes = ClusterWrites::default();
        assert!(!writes.are_watched());
        let positions = Positions::default().with(PRIMARY, told(PRIMARY, 10), Instant::now());
        let positions = positions.with(REPLICA, told(REPLICA, 9), Instant::now());
        assert_eq!(lacking(&writes, &positions), Some(Reason::ClusterWrite), "nobody knows what the primary has");
        assert!(writes.are_watched());
        let positions = positions.with(PRIMARY, told(PRIMARY, 10), Instant::now());
        assert_eq!(lacking(&writes, &positions), Some(Reason::ClusterWrite), "the replica lacks it");
        let positions = positions.with(REPLICA, told(REPLICA, 10), Instant::now());
        assert_eq!(lacking(&writes, &positions), None);
    }

    #[test]
    fn a_write_of_any_session_counts_and_one_that_is_told_late_is_no_step_back() {
        let writes = ClusterWrites::default();
        let positions = Positions::default().with(REPLICA, told(REPLICA, 10), Instant::now());
        lacking(&writes, &positions);
        let positions = positions.with(PRIMARY, told(PRIMARY, 10), Instant::now());
        assert_eq!(lacking(&writes, &positions), None);
        for sequence in [12, 11] {
            writes.note(&Write::Told(Written::parse(true, &format!("0-1-{sequence}")).unwrap()));
        }
        let positions = positions.with(REPLICA, told(REPLICA, 11), Instant::now());
        assert_eq!(lacking(&writes, &positions), Some(Reason::ClusterWrite));
        let positions = positions.with(REPLICA, told(REPLICA, 12), Instant::now());
        assert_eq!(lacking(&writes, &positions), None);
    }
}
