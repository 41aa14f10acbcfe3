//! Cached results that are followed: the servers' binary log invalidates them, whichever client wrote.
//!
//! A log tells of a change before sessions see it. From then until it is known to be visible its tables are *in motion*: what was read of them
//! before is stale, and what is read of them meanwhile is not kept, since it may be from before the change and would look as if it were from
//! behind it. As long as the log is behind, answers may be as old as its delay; where that is not known, or too long, none is given.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::judge::Refusal;
use crate::write_counters::{Reads, SLOTS, Stamp, TableWrite, WriteCounters};

/// Rows of all tables together share so many counts: a change of one keeps answers of another from being kept, and no more.
const ROWS: usize = 1 << 14;

/// The state of following the log of one cluster.
#[derive(Debug)]
pub struct Follow {
    /// Moments count from here.
    since: Instant,
    /// No answer is given while the log is further behind.
    delay_max: Duration,
    /// Microseconds of the moment before which all was reported, plus one; 0: the log is not followed.
    as_of: AtomicU64,
    /// The number of unknown changes that are not visible.
    all_moving: AtomicU32,
    /// How many changes of each table are not visible.
    moving: Box<[AtomicU32]>,
    /// The number of them with unknown rows.
    unknown_rows: Box<[AtomicU32]>,
    /// How many changes of each row are not visible.
    rows: Box<[AtomicU32]>,
    /// These changes, the oldest first.
    hidden: Mutex<VecDeque<Option<Vec<TableWrite>>>>,
}

impl Follow {
    /// Nothing is known. No moment may be before `since`; while the log is further behind than `delay_max`, no answer is good.
    pub fn new(since: Instant, delay_max: Duration) -> Follow {
        let zeros = |count: usize| (0..count).map(|_| AtomicU32::new(0)).collect();
        Follow {
            since,
            delay_max,
            as_of: AtomicU64::new(0),
            all_moving: AtomicU32::new(0),
            moving: zeros(SLOTS),
            unknown_rows: zeros(SLOTS),
            rows: zeros(ROWS),
            hidden: Mutex::default(),
        }
    }

    /// The log tells of a change of these tables; `None` if it is not known what was changed.
    pub fn changed(&self, counters: &WriteCounters, tables: Option<Vec<TableWrite>>) {
        // In motion first: a fill that finds the new counters finds that, too.
        self.count(tables.as_deref(), |moving| moving.fetch_add(1, Ordering::SeqCst));
        counters.written(tables.as_deref());
        self.hidden.lock().unwrap_or_else(PoisonError::into_inner).push_back(tables);
    }

    /// The oldest changes, so many, are visible on the server that logged them.
    pub fn visible(&self, changes: usize) {
        let mut hidden = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = changes.min(hidden.len());
        for tables in hidden.drain(..changes) {
            self.count(tables.as_deref(), |moving| moving.fetch_sub(1, Ordering::SeqCst));
        }
    }

    /// All that was committed before this moment has been reported.
    pub fn caught_up(&self, as_of: Instant) {
        let micros = as_of.saturating_duration_since(self.since).as_micros();
        self.as_of.store(u64::try_from(micros).unwrap_or(u64::MAX - 1) + 1, Ordering::SeqCst);
    }

    /// Changes may be missing. Those that were not visible are reported again, or are lost.
    pub fn lost(&self) {
        // Nothing is kept any more before less is in motion.
        self.as_of.store(0, Ordering::SeqCst);
        self.visible(usize::MAX);
    }

    /// Answers are no older than this: longer ago all changes are known. `None`: that is not known.
    pub fn delay(&self, now: Instant) -> Option<Duration> {
        let as_of = self.as_of.load(Ordering::SeqCst).checked_sub(1)?;
        Some(now.saturating_duration_since(self.since).saturating_sub(Duration::from_micros(as_of)))
    }

    /// Whether answers are good enough.
    pub fn serves(&self, now: Instant) -> bool {
        self.delay(now).is_some_and(|delay| delay <= self.delay_max)
    }

    /// The stamp of an answer that is about to be read, with what `reads` finds.
    ///
    /// # Errors
    /// It could not be kept: the log is not followed, a change is under way, or it is not known what is read.
    pub fn stamp(
        &self,
        counters: &WriteCounters,
        now: Instant,
        reads: impl FnOnce() -> Option<Reads>,
    ) -> Result<Stamp, Refusal> {
        let stamp = counters.stamp(reads);
        let moves = |counts: &[AtomicU32], slot: usize| {
            counts.get(slot).is_some_and(|moving| moving.load(Ordering::SeqCst) > 0)
        };
        let all_move = self.all_moving.load(Ordering::SeqCst) > 0;
        let is_moving = match &stamp {
            Stamp::Any(_) => return Err(Refusal::UnknownTables),
            Stamp::Tables { tables, .. } => tables.iter().any(|(table, _)| moves(&self.moving, table.slot())),
            Stamp::Row { table: (table, _), row: (row, _), .. } => {
                moves(&self.unknown_rows, table.slot()) || moves(&self.rows, row.slot(ROWS))
            }
        };
        // Behind the look at what is in motion: a stream that was lost forgets that.
        match () {
            () if !self.serves(now) => Err(Refusal::NotFollowing),
            () if all_move || is_moving => Err(Refusal::Raced),
            () => Ok(stamp),
        }
    }

    fn count(&self, tables: Option<&[TableWrite]>, change: impl Fn(&AtomicU32) -> u32) {
        let Some(tables) = tables else {
            change(&self.all_moving);
            return;
        };
        let count = |counts: &[AtomicU32], slot: usize| _ = counts.get(slot).map(&change);
        for write in tables {
            count(&self.moving, write.table.slot());
            match &write.rows {
                None => count(&self.unknown_rows, write.table.slot()),
                Some(rows) => rows.iter().for_each(|row| count(&self.rows, row.slot(ROWS))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write_counters::{RowId, TableId};

    const MAX: Duration = Duration::from_secs(2);

    fn table(number: u64) -> Option<Vec<TableWrite>> {
        Some(vec![TableId::of(number).into()])
    }

    fn reads(number: u64) -> Option<Reads> {
        Some(Reads::Tables(vec![TableId::of(number)]))
    }

    #[test]
    fn what_is_read_while_a_change_is_not_visible_is_not_kept() {
        let (start, counters) = (Instant::now(), WriteCounters::default());
        let follow = Follow::new(start, MAX);
        let stamp = |of: u64| follow.stamp(&counters, start, || reads(of));
        assert_eq!(stamp(1), Err(Refusal::NotFollowing));
        follow.caught_up(start);
        let (before, other) = (stamp(1).unwrap(), stamp(2).unwrap());
        follow.changed(&counters, table(1));
        follow.changed(&counters, table(1));
        assert!(!counters.is_current(&before) && counters.is_current(&other));
        assert_eq!((stamp(1), stamp(2).is_ok()), (Err(Refusal::Raced), true));
        follow.visible(1);
        assert_eq!(stamp(1), Err(Refusal::Raced));
        follow.visible(1);
        assert!(counters.is_current(&stamp(1).unwrap()));
        follow.changed(&counters, None);
        assert_eq!((stamp(2), counters.is_current(&other)), (Err(Refusal::Raced), false));
        assert_eq!(follow.stamp(&counters, start, || None), Err(Refusal::UnknownTables));
    }

    #[test]
    fn answers_are_no_older_than_the_delay_that_is_shown() {
        let start = Instant::now();
        let follow = Follow::new(start, MAX);
        assert_eq!((follow.delay(start), follow.serves(start)), (None, false));
        follow.caught_up(start);
        assert_eq!(follow.delay(start + MAX), Some(MAX));
        assert!(follow.serves(start + MAX) && !follow.serves(start + MAX * 2));
        follow.caught_up(start + MAX);
        assert!(follow.serves(start + MAX * 2));
        follow.lost();
        assert_eq!(follow.delay(start + MAX), None);
    }

    #[test]
    fn a_lost_stream_leaves_nothing_in_motion() {
        let (start, counters) = (Instant::now(), WriteCounters::default());
        let follow = Follow::new(start, MAX);
        follow.caught_up(start);
        follow.changed(&counters, None);
        follow.changed(&counters, table(1));
        follow.lost();
        assert_eq!(follow.stamp(&counters, start, || reads(1)), Err(Refusal::NotFollowing));
        follow.caught_up(start);
        assert!(follow.stamp(&counters, start, || reads(1)).is_ok());
    }

    #[test]
    fn a_row_is_kept_while_another_one_is_in_motion() {
        let (start, counters) = (Instant::now(), WriteCounters::default());
        let follow = Follow::new(start, MAX);
        follow.caught_up(start);
        let table = TableId::of(1);
        let row = |of: u64| follow.stamp(&counters, start, || Some(Reads::Row(table, RowId::of(of))));
        let change = |rows: Option<Box<[RowId]>>| follow.changed(&counters, Some(vec![TableWrite { table, rows }]));
        let (one, two) = (row(1).unwrap(), row(2).unwrap());
        change(Some([RowId::of(1)].into()));
        assert!(!counters.is_current(&one) && counters.is_current(&two));
        assert_eq!((row(1), row(2).is_ok()), (Err(Refusal::Raced), true));
        assert_eq!(follow.stamp(&counters, start, || reads(1)), Err(Refusal::Raced));
        follow.visible(1);
        assert!(row(1).is_ok());
        change(None);
        assert_eq!((row(2), counters.is_current(&two)), (Err(Refusal::Raced), false));
        follow.visible(1);
        assert!(row(2).is_ok());
    }
}
