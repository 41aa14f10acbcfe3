//! The write counters of a cluster's tables and rows. A write raises the counters of its tables or rows. A cached result has a
//! [`Stamp`]: the counters before it was read. It is stale as soon as one of them has grown. A write costs a few additions,
//! however many results the cache holds.
//!
//! A result that was read of one row alone has that row's counter, and that of its table for writes whose rows are not
//! known. Other results that were read from the table are stale after any write of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tables share so many counters. A write to one of two tables with the same counter invalidates the results of both.
pub(crate) const SLOTS: usize = 4096;

/// Rows of all tables together share so many, one MiB in all.
const ROWS: usize = 1 << 17;

/// The counter of a table, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(u16);

impl TableId {
    /// The table with this key: all bits of it count.
    pub fn of(key: u64) -> TableId {
        TableId(((key ^ key >> 32) % SLOTS as u64) as u16)
    }

    /// Its place among [`SLOTS`].
    pub(crate) fn slot(self) -> usize {
        usize::from(self.0)
    }
}

/// The counter of a row, by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(u32);

impl RowId {
    /// The row with this key, which tells it among those of all tables: all bits of it count.
    pub fn of(key: u64) -> RowId {
        RowId((key ^ key >> 32) as u32)
    }

    /// Its place among so many, a power of two.
    pub(crate) fn slot(self, places: usize) -> usize {
        self.0 as usize & places.wrapping_sub(1)
    }
}

/// The tables or rows of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reads {
    /// These tables.
    Tables(Vec<TableId>),
    /// Of this table nothing but this row, whether or not it is there.
    Row(TableId, RowId),
}

/// A table that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableWrite {
    /// The table.
    pub table: TableId,
    /// No other rows than these; `None`: any.
    pub rows: Option<Box<[RowId]>>,
}

impl From<TableId> for TableWrite {
    fn from(table: TableId) -> TableWrite {
        TableWrite { table, rows: None }
    }
}

/// How many writes ended answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// Those of which all rows were known.
    pub by_row: u64,
    /// Those of which the tables were known.
    pub by_table: u64,
    /// Those that may have been to any table.
    pub to_any: u64,
}

/// Where the writes of all clusters are counted.
pub trait CountedWrites: Send + Sync {
    /// Those of each cluster of which answers may have been kept, by its name.
    fn writes(&self) -> Vec<(Arc<str>, Writes)>;
}

/// The counters of one cluster.
#[derive(Debug)]
pub struct WriteCounters {
    /// Moves with each write of whatever table.
    any: AtomicU64,
    /// Moves with writes of which it is not known what they wrote.
    all: AtomicU64,
    /// Move with each write of their tables.
    tables: Box<[AtomicU64]>,
    /// Move with writes of their tables of which the rows are not known.
    unknown_rows: Box<[AtomicU64]>,
    /// Move with writes of their rows.
    rows: Box<[AtomicU64]>,
    by_row: AtomicU64,
    by_table: AtomicU64,
    to_any: AtomicU64,
}

impl Default for WriteCounters {
    fn default() -> WriteCounters {
        WriteCounters::with_rows(ROWS)
    }
}

/// The counters before a read was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// It is not known what was read: any write makes it stale.
    Any(u64),
    /// These tables were read.
    Tables {
        /// Of writes to unknown tables.
        all: u64,
        /// Each table's.
        tables: Box<[(TableId, u64)]>,
    },
    /// One row was read.
    Row {
        /// Of writes to unknown tables.
        all: u64,
        /// The table's, of writes to unknown rows.
        table: (TableId, u64),
        /// The row's.
        row: (RowId, u64),
    },
}

impl WriteCounters {
    /// With so many counters of rows, or the next power of two. Rows with the same counter invalidate each other's results.
    pub fn with_rows(rows: usize) -> WriteCounters {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        WriteCounters {
            any: AtomicU64::new(0),
            all: AtomicU64::new(0),
            tables: zeros(SLOTS),
            unknown_rows: zeros(SLOTS),
            rows: zeros(rows.next_power_of_two()),
            by_row: AtomicU64::new(0),
            by_table: AtomicU64::new(0),
            to_any: AtomicU64::new(0),
        }
    }

    /// The present counters of the tables or the row that `reads` finds; `None` if it is not known what is read. `reads` may look in a catalogue that
    /// a definition has just made out of date: the definition's own counter is read first.
    pub fn stamp(&self, reads: impl FnOnce() -> Option<Reads>) -> Stamp {
        let (any, all) = (self.any.load(Ordering::SeqCst), self.all.load(Ordering::SeqCst));
        match reads() {
            None => Stamp::Any(any),
            Some(Reads::Tables(tables)) => {
                let tables = tables.into_iter().map(|table| (table, at(&self.tables, table.slot())));
                Stamp::Tables { all, tables: tables.collect() }
            }
            Some(Reads::Row(table, row)) => Stamp::Row {
                all,
                table: (table, at(&self.unknown_rows, table.slot())),
                row: (row, at(&self.rows, row.slot(self.rows.len()))),
            },
        }
    }

    /// Whether nothing was written since.
    pub fn is_current(&self, stamp: &Stamp) -> bool {
        match stamp {
            Stamp::Any(any) => self.any.load(Ordering::SeqCst) == *any,
            Stamp::Tables { all, tables } => {
                self.all.load(Ordering::SeqCst) == *all
                    && tables.iter().all(|(table, counter)| at(&self.tables, table.slot()) == *counter)
            }
            Stamp::Row { all, table, row } => {
                self.all.load(Ordering::SeqCst) == *all
                    && at(&self.unknown_rows, table.0.slot()) == table.1
                    && at(&self.rows, row.0.slot(self.rows.len())) == row.1
            }
        }
    }

    /// This was written; `None` if it is not known what was.
    pub fn written(&self, tables: Option<&[TableWrite]>) {
        match tables {
            None => {
                add(&self.all);
                add(&self.to_any);
            }
            Some(tables) => {
                for write in tables {
                    add_at(&self.tables, write.table.slot());
                    match &write.rows {
                        None => add_at(&self.unknown_rows, write.table.slot()),
                        Some(rows) => rows.iter().for_each(|row| add_at(&self.rows, row.slot(self.rows.len()))),
                    }
                }
                let by_row = tables.iter().all(|write| write.rows.is_some());
                if !tables.is_empty() {
                    add(if by_row { &self.by_row } else { &self.by_table });
                }
            }
        }
        add(&self.any);
    }

    /// How many writes there were.
    pub fn writes(&self) -> Writes {
        let [by_row, by_table, to_any] =
            [&self.by_row, &self.by_table, &self.to_any].map(|count| count.load(Ordering::Relaxed));
        Writes { by_row, by_table, to_any }
    }
}

fn at(counters: &[AtomicU64], slot: usize) -> u64 {
    counters.get(slot).map_or(0, |counter| counter.load(Ordering::SeqCst))
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::SeqCst);
}

fn add_at(counters: &[AtomicU64], slot: usize) {
    if let Some(counter) = counters.get(slot) {
        add(counter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> [TableId; 2] {
        [TableId::of(0x1234_5678_9abc_def0), TableId::of(7)]
    }

    fn tables(tables: &[TableId]) -> Option<Reads> {
        Some(Reads::Tables(tables.to_vec()))
    }

    #[test]
    fn a_write_makes_stale_what_read_its_tables_and_no_more() {
        let counters = WriteCounters::default();
        let [orders, users] = ids();
        assert_ne!(orders, users);
        let (of_orders, of_users) = (counters.stamp(|| tables(&[orders])), counters.stamp(|| tables(&[users])));
        let (of_both, of_any) = (counters.stamp(|| tables(&[orders, users])), counters.stamp(|| None));
        counters.written(Some(&[users.into()]));
        assert!(counters.is_current(&of_orders));
        for stale in [&of_users, &of_both, &of_any] {
            assert!(!counters.is_current(stale), "{stale:?}");
        }
        assert!(counters.is_current(&counters.stamp(|| tables(&[users]))));
    }

    #[test]
    fn a_write_to_nobody_knows_what_makes_all_stale() {
        let counters = WriteCounters::default();
        let [orders, _] = ids();
        let (of_orders, of_any) = (counters.stamp(|| tables(&[orders])), counters.stamp(|| None));
        counters.written(None);
        assert!(!counters.is_current(&of_orders) && !counters.is_current(&of_any));
    }

    #[test]
    fn a_definition_while_tables_are_looked_up_makes_stale_what_they_were_looked_up_for() {
        let counters = WriteCounters::default();
        let [orders, _] = ids();
        let stamp = counters.stamp(|| {
            counters.written(None);
            tables(&[orders])
        });
        assert!(!counters.is_current(&stamp));
    }

    #[test]
    fn a_write_to_a_row_leaves_other_rows_alone() {
        let counters = WriteCounters::default();
        let [orders, users] = ids();
        let [one, two] = [RowId::of(1), RowId::of(2 << 32)];
        let stamps = || {
            let row = |table, row| counters.stamp(|| Some(Reads::Row(table, row)));
            [
                counters.stamp(|| tables(&[orders])),
                row(orders, one),
                row(orders, two),
                row(users, one),
                counters.stamp(|| None),
            ]
        };
        let current = |stamps: &[Stamp; 5]| stamps.each_ref().map(|stamp| counters.is_current(stamp));
        let before = stamps();
        counters.written(Some(&[TableWrite { table: orders, rows: Some([one].into()) }]));
        // A row that shares a counter with another one may be stale without need.
        assert_eq!(current(&before), [false, false, true, false, false]);
        let before = stamps();
        counters.written(Some(&[orders.into()]));
        assert_eq!(current(&before), [false, false, false, true, false]);
        let before = stamps();
        counters.written(None);
        assert_eq!(current(&before), [false; 5]);
        assert_eq!(counters.writes(), Writes { by_row: 1, by_table: 1, to_any: 1 });
    }
}
