//! The writes of all sessions of this process to a cluster, for reads that must see them (`consistency = "cluster"` and
//! `"table"`).
//!
//! Workers share it, so it is kept only once a read has asked for it: before, writes cost nothing more. It reads the clock
//! itself: a moment counts only if it is read after the flags by which sessions begin to note their writes are set.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use facts::gtid::WrittenGtids;
use facts::positions::Positions;
use facts::tables::{TableKey, TableScope};
use facts::view::{ServerId, View};

use route::{OwnWrites, SharedWrites};

/// Intervals of each MySQL server that are kept of what all sessions wrote: those of transactions that are under way at the
/// same time may overtake one another.
const INTERVALS_MAX: usize = 64;

/// Places for the last writes of tables. Tables whose keys lead to the same place count for one another.
const PLACES: usize = 4096;

/// A write, as far as its reply reported it.
#[derive(Clone, Debug)]
pub enum Write {
    /// It has this position.
    Reported(WrittenGtids),
    /// It was done on this server before this moment.
    Unreported(ServerId, Instant),
    /// It was done on this member of a Galera group before this moment.
    InGroup(ServerId, Instant),
    /// It was done on this member of a Galera group, or on others, before this moment.
    AllOverGroup(ServerId, Instant),
}

/// When and where a read is routed.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The view.
    pub view: &'a View,
    /// The positions that servers reported last.
    pub positions: &'a Positions,
    /// How long a write counts for which no position will be reported.
    pub window: Duration,
}

/// The last writes of all sessions.
#[derive(Debug, Default)]
pub struct ClusterWrites {
    /// Writes are noted.
    watched: AtomicBool,
    /// Writes from before that are covered, too.
    armed: AtomicBool,
    last: ArcSwap<OwnWrites>,
    /// The same by tables, once somebody asks for that.
    by_table: OnceLock<ByTable>,
    by_table_armed: AtomicBool,
}

#[derive(Debug)]
struct ByTable {
    /// Writes that may have been to any table.
    any: ArcSwap<OwnWrites>,
    /// Writes to known tables, in the places that their keys lead to.
    places: Box<[ArcSwap<OwnWrites>]>,
}

impl ByTable {
    fn new() -> ByTable {
        let nothing = Arc::new(OwnWrites::default());
        ByTable { any: ArcSwap::default(), places: (0..PLACES).map(|_| ArcSwap::new(nothing.clone())).collect() }
    }

    fn place(&self, key: TableKey) -> &ArcSwap<OwnWrites> {
        &self.places[key.0 as usize % PLACES]
    }
}

impl ClusterWrites {
    /// Whether writes are to be noted, before their clients hear of them.
    pub fn are_watched(&self) -> bool {
        self.watched.load(Ordering::SeqCst)
    }

    /// Whether it matters which tables a write is to.
    pub fn are_watched_by_table(&self) -> bool {
        self.by_table.get().is_some()
    }

    /// From now on writes are noted by table; the tables of earlier writes are unknown.
    pub fn watch_by_table(&self, moment: Moment<'_>) {
        self.by_table(moment);
    }

    fn by_table(&self, moment: Moment<'_>) -> &ByTable {
        let by_table = self.by_table.get_or_init(ByTable::new);
        if !self.by_table_armed.load(Ordering::SeqCst) {
            self.watched.store(true, Ordering::SeqCst);
            add(&by_table.any, &anything(moment));
            self.by_table_armed.store(true, Ordering::SeqCst);
        }
        by_table
    }

    /// Notes a write to these tables.
    pub fn note(&self, write: &Write, scope: &TableScope) {
        add(&self.last, write);
        let Some(by_table) = self.by_table.get() else { return };
        match scope {
            TableScope::Any => add(&by_table.any, write),
            TableScope::Tables(keys) => keys.iter().for_each(|key| add(by_table.place(*key), write)),
        }
    }

    /// The writes that a read must find that is routed now. The first call begins to watch: earlier writes count as made on
    /// the primary at that moment.
    pub fn last(&self, moment: Moment<'_>) -> SharedWrites {
        if !self.armed.load(Ordering::SeqCst) {
            // Sessions that wrote without noting it did so before this moment.
            self.watched.store(true, Ordering::SeqCst);
            add(&self.last, &anything(moment));
            self.armed.store(true, Ordering::SeqCst);
        }
        settled(&self.last, moment)
    }

    /// The same as [`ClusterWrites::last`], for a read of these tables.
    pub fn last_of(&self, scope: &TableScope, moment: Moment<'_>) -> Vec<SharedWrites> {
        let by_table = self.by_table(moment);
        match scope {
            // Members of a group tell no positions that could be compared.
            TableScope::Tables(keys) if moment.view.group.is_none() => {
                let of_tables = keys.iter().map(|key| settled(by_table.place(*key), moment));
                [settled(&by_table.any, moment)].into_iter().chain(of_tables).collect()
            }
            _ => vec![self.last(moment)],
        }
    }
}

/// Whatever was written until now.
fn anything(moment: Moment<'_>) -> Write {
    let (server, now) = (moment.view.primary.unwrap_or(ServerId::NONE), Instant::now());
    match moment.view.group {
        Some(_) => Write::AllOverGroup(server, now),
        None => Write::Unreported(server, now),
    }
}

fn add(last: &ArcSwap<OwnWrites>, write: &Write) {
    last.rcu(|last| {
        let mut next = OwnWrites::clone(last);
        match write {
            Write::Reported(written) => next.tell_of_many(written.clone(), INTERVALS_MAX, Instant::now),
            Write::Unreported(server, at) => next.wrote_unreported(*server, *at),
            Write::InGroup(server, at) => next.was_in_group(*server, *at),
            Write::AllOverGroup(server, at) => next.was_all_over_group(*server, *at),
        }
        next
    });
}

/// The writes, positions of unreported ones looked for.
fn settled(writes: &ArcSwap<OwnWrites>, moment: Moment<'_>) -> SharedWrites {
    let last = writes.load();
    if !last.awaits_position() {
        return last;
    }
    drop(last);
    let now = Instant::now();
    writes.rcu(|last| {
        let mut next = OwnWrites::clone(last);
        next.settle(moment.view, moment.positions, moment.window, now);
        next
    });
    writes.load()
}

#[cfg(test)]
mod tests {
    use super::*;
    use facts::gtid::Applied;
    use facts::gtid::mariadb::Gtids;
    use route::{Needs, Reason};

    const PRIMARY: ServerId = ServerId(0);
    const REPLICA: ServerId = ServerId(1);

    fn reported(server: ServerId, sequence: u64) -> Option<(Applied, bool)> {
        let all = Gtids::parse(&format!("0-1-{sequence}")).unwrap();
        let replicated = if server == PRIMARY { Gtids::default() } else { all.clone() };
        Some((Applied::MariaDb { server: u32::from(server.0) + 1, replicated, current: all }, true))
    }

    fn lacking(writes: &ClusterWrites, positions: &Positions) -> Option<Reason> {
        let view = View { primary: Some(PRIMARY), ..View::empty("main") };
        let all = [writes.last(Moment { view: &view, positions, window: Duration::from_secs(5) })];
        Needs { own: None, all: &all, before: None, positions }.lacking(REPLICA)
    }

    fn lacking_of(writes: &ClusterWrites, tables: &[u64], positions: &Positions) -> Option<Reason> {
        let view = View { primary: Some(PRIMARY), ..View::empty("main") };
        let moment = Moment { view: &view, positions, window: Duration::from_secs(5) };
        let all = writes.last_of(&scope(tables), moment);
        Needs { own: None, all: &all, before: None, positions }.lacking(REPLICA)
    }

    fn scope(tables: &[u64]) -> TableScope {
        TableScope::of(tables.iter().map(|table| TableKey(*table)).collect())
    }

    fn reported_write(sequence: u64) -> Write {
        Write::Reported(WrittenGtids::parse(true, &format!("0-1-{sequence}")).unwrap())
    }

    #[test]
    fn what_was_written_before_anybody_asked_counts_too() {
        let writes = ClusterWrites::default();
        assert!(!writes.are_watched());
        let positions = Positions::default().with(PRIMARY, reported(PRIMARY, 10), Instant::now());
        let positions = positions.with(REPLICA, reported(REPLICA, 9), Instant::now());
        assert_eq!(lacking(&writes, &positions), Some(Reason::ClusterWrite), "nobody knows what the primary has");
        assert!(writes.are_watched());
        let positions = positions.with(PRIMARY, reported(PRIMARY, 10), Instant::now());
        assert_eq!(lacking(&writes, &positions), Some(Reason::ClusterWrite), "the replica lacks it");
        let positions = positions.with(REPLICA, reported(REPLICA, 10), Instant::now());
        assert_eq!(lacking(&writes, &positions), None);
    }

    #[test]
    fn a_write_of_any_session_counts_and_one_that_is_reported_late_is_no_step_back() {
        let writes = ClusterWrites::default();
        let positions = Positions::default().with(REPLICA, reported(REPLICA, 10), Instant::now());
        lacking(&writes, &positions);
        let positions = positions.with(PRIMARY, reported(PRIMARY, 10), Instant::now());
        assert_eq!(lacking(&writes, &positions), None);
        for sequence in [12, 11] {
            writes.note(&reported_write(sequence), &TableScope::Any);
        }
        let positions = positions.with(REPLICA, reported(REPLICA, 11), Instant::now());
        assert_eq!(lacking(&writes, &positions), Some(Reason::ClusterWrite));
        let positions = positions.with(REPLICA, reported(REPLICA, 12), Instant::now());
        assert_eq!(lacking(&writes, &positions), None);
    }

    #[test]
    fn a_write_that_is_reported_late_is_no_step_back_behind_another_server_s_either() {
        let writes = ClusterWrites::default();
        let positions = Positions::default().with(REPLICA, reported(REPLICA, 10), Instant::now());
        lacking(&writes, &positions);
        let positions = positions.with(PRIMARY, reported(PRIMARY, 10), Instant::now());
        let note =
            |text: &str| writes.note(&Write::Reported(WrittenGtids::parse(true, text).unwrap()), &TableScope::Any);
        note("0-3-15");
        note("0-1-11");
        for (sequence, expected) in [(11, Some(Reason::ClusterWrite)), (14, Some(Reason::ClusterWrite)), (15, None)] {
            let positions = positions.with(REPLICA, reported(REPLICA, sequence), Instant::now());
            assert_eq!(lacking(&writes, &positions), expected, "{sequence}");
        }
    }

    #[test]
    fn a_read_waits_for_its_own_tables_only() {
        let writes = ClusterWrites::default();
        let positions = Positions::default().with(REPLICA, reported(REPLICA, 10), Instant::now());
        assert_eq!(
            lacking_of(&writes, &[1], &positions),
            Some(Reason::ClusterWrite),
            "who knows what was written before"
        );
        let positions = positions.with(PRIMARY, reported(PRIMARY, 10), Instant::now());
        assert_eq!(lacking_of(&writes, &[1], &positions), None);
        writes.note(&reported_write(11), &scope(&[1, 2]));
        assert_eq!(lacking_of(&writes, &[1], &positions), Some(Reason::ClusterWrite));
        assert_eq!(lacking_of(&writes, &[3, 2], &positions), Some(Reason::ClusterWrite));
        assert_eq!(lacking_of(&writes, &[3], &positions), None, "nobody has written that");
        assert_eq!(lacking_of(&writes, &[], &positions), None);
        assert_eq!(lacking(&writes, &positions), Some(Reason::ClusterWrite), "what was written anywhere counts there");
        let positions = positions.with(REPLICA, reported(REPLICA, 11), Instant::now());
        assert_eq!(lacking_of(&writes, &[1, 2, 3], &positions), None);
        writes.note(&reported_write(12), &TableScope::Any);
        assert_eq!(lacking_of(&writes, &[3], &positions), Some(Reason::ClusterWrite), "it may have been to any table");
        assert_eq!(
            lacking_of(&writes, &[], &positions),
            Some(Reason::ClusterWrite),
            "and have made one that is none here"
        );
        let positions = positions.with(REPLICA, reported(REPLICA, 12), Instant::now());
        assert_eq!(lacking_of(&writes, &[3], &positions), None);
    }

    #[test]
    fn a_write_without_a_position_counts_for_its_tables() {
        let writes = ClusterWrites::default();
        let positions = Positions::default().with(REPLICA, reported(REPLICA, 10), Instant::now());
        lacking_of(&writes, &[1], &positions);
        let positions = positions.with(PRIMARY, reported(PRIMARY, 10), Instant::now());
        assert_eq!(lacking_of(&writes, &[1], &positions), None);
        writes.note(&Write::Unreported(PRIMARY, Instant::now()), &scope(&[1]));
        assert_eq!(lacking_of(&writes, &[1], &positions), Some(Reason::ClusterWrite));
        assert_eq!(lacking_of(&writes, &[2], &positions), None);
        let positions = positions.with(PRIMARY, reported(PRIMARY, 11), Instant::now());
        assert_eq!(lacking_of(&writes, &[1], &positions), Some(Reason::ClusterWrite));
        let positions = positions.with(REPLICA, reported(REPLICA, 11), Instant::now());
        assert_eq!(lacking_of(&writes, &[1], &positions), None);
    }
}
