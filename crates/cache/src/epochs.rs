//! When was each table last written? Epochs answer without a list of what is stored: an answer carries the epochs that it was
//! read at, and is stale as soon as one of them has moved on. A write costs one addition, whatever the cache holds.

use std::sync::atomic::{AtomicU64, Ordering};

/// Tables share so many epochs: two tables with the same one only make each other's answers stale too often.
pub(crate) const SLOTS: usize = 4096;

/// A table, as epochs know it.
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

/// The epochs of one cluster.
#[derive(Debug)]
pub struct Epochs {
    /// Moves with each write of whatever table.
    any: AtomicU64,
    /// Moves with writes of which it is not known what they wrote.
    all: AtomicU64,
    tables: Box<[AtomicU64]>,
}

impl Default for Epochs {
    fn default() -> Epochs {
        Epochs {
            any: AtomicU64::new(0),
            all: AtomicU64::new(0),
            tables: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

/// The epochs that an answer was read at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// It is not known what was read: any write makes it stale.
    Any(u64),
    /// These tables were read.
    Tables {
        /// Of writes to nobody knows what.
        all: u64,
        /// Each table's.
        tables: Box<[(TableId, u64)]>,
    },
}

impl Epochs {
    /// The epochs now of the tables that `tables` finds; `None` if it is not known what is read. Whoever looks that up may do so in what
    /// a definition has just made out of date: the definition's own epoch is taken before.
    pub fn stamp(&self, tables: impl FnOnce() -> Option<Vec<TableId>>) -> Stamp {
        let (any, all) = (self.any.load(Ordering::SeqCst), self.all.load(Ordering::SeqCst));
        match tables() {
            None => Stamp::Any(any),
            Some(tables) => {
                Stamp::Tables { all, tables: tables.into_iter().map(|table| (table, self.at(table))).collect() }
            }
        }
    }

    /// Whether nothing was written since.
    pub fn is_current(&self, stamp: &Stamp) -> bool {
        match stamp {
            Stamp::Any(any) => self.any.load(Ordering::SeqCst) == *any,
            Stamp::Tables { all, tables } => {
                self.all.load(Ordering::SeqCst) == *all && tables.iter().all(|(table, epoch)| self.at(*table) == *epoch)
            }
        }
    }

    /// These tables were written; `None` if it is not known what was.
    pub fn written(&self, tables: Option<&[TableId]>) {
        match tables {
            None => drop(self.all.fetch_add(1, Ordering::SeqCst)),
            Some(tables) => {
                for table in tables {
                    if let Some(epoch) = self.tables.get(usize::from(table.0)) {
                        epoch.fetch_add(1, Ordering::SeqCst);
                    }
                }
            }
        }
        self.any.fetch_add(1, Ordering::SeqCst);
    }

    fn at(&self, table: TableId) -> u64 {
        self.tables.get(usize::from(table.0)).map_or(0, |epoch| epoch.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> [TableId; 2] {
        [TableId::of(0x1234_5678_9abc_def0), TableId::of(7)]
    }

    #[test]
    fn a_write_makes_stale_what_read_its_tables_and_no_more() {
        let epochs = Epochs::default();
        let [orders, users] = ids();
        assert_ne!(orders, users);
        let (of_orders, of_users) = (epochs.stamp(|| Some(vec![orders])), epochs.stamp(|| Some(vec![users])));
        let (of_both, of_any) = (epochs.stamp(|| Some(vec![orders, users])), epochs.stamp(|| None));
        epochs.written(Some(&[users]));
        assert!(epochs.is_current(&of_orders));
        for stale in [&of_users, &of_both, &of_any] {
            assert!(!epochs.is_current(stale), "{stale:?}");
        }
        assert!(epochs.is_current(&epochs.stamp(|| Some(vec![users]))));
    }

    #[test]
    fn a_write_to_nobody_knows_what_makes_all_stale() {
        let epochs = Epochs::default();
        let [orders, _] = ids();
        let (of_orders, of_any) = (epochs.stamp(|| Some(vec![orders])), epochs.stamp(|| None));
        epochs.written(None);
        assert!(!epochs.is_current(&of_orders) && !epochs.is_current(&of_any));
    }

    #[test]
    fn a_definition_while_tables_are_looked_up_makes_stale_what_they_were_looked_up_for() {
        let epochs = Epochs::default();
        let [orders, _] = ids();
        let stamp = epochs.stamp(|| {
            epochs.written(None);
            Some(vec![orders])
        });
        assert!(!epochs.is_current(&stamp));
    }
}
