//! When was each table last written? Epochs answer without a list of what is stored: an answer carries the epochs that it was
//! read at, and is stale as soon as one of them has moved on. A write costs one addition, whatever the cache holds.

use std::sync::atomic::{AtomicU64, Ordering};

/// Tables share so many epochs: two tables with the same one only make each other's answers stale too often.
const SLOTS: usize = 4096;

/// A table, as epochs know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(u16);

impl TableId {
    /// The table of this name. Whether servers fold names is their affair: names that differ in case alone are one table here.
    pub fn new(schema: &str, table: &str) -> TableId {
        // FNV-1a: the same in each process, and nobody gains by a collision.
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        let mut take = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        schema
            .chars()
            .flat_map(char::to_lowercase)
            .for_each(|c| c.encode_utf8(&mut [0; 4]).bytes().for_each(&mut take));
        take(0);
        table.chars().flat_map(char::to_lowercase).for_each(|c| c.encode_utf8(&mut [0; 4]).bytes().for_each(&mut take));
        TableId(((hash ^ hash >> 32) % SLOTS as u64) as u16)
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
    /// The epochs of these tables now; `None` if it is not known what is read.
    pub fn stamp(&self, tables: Option<&[TableId]>) -> Stamp {
        match tables {
            None => Stamp::Any(self.any.load(Ordering::SeqCst)),
            Some(tables) => Stamp::Tables {
                all: self.all.load(Ordering::SeqCst),
                tables: tables.iter().map(|table| (*table, self.of(*table))).collect(),
            },
        }
    }

    /// Whether nothing was written since.
    pub fn is_current(&self, stamp: &Stamp) -> bool {
        match stamp {
            Stamp::Any(any) => self.any.load(Ordering::SeqCst) == *any,
            Stamp::Tables { all, tables } => {
                self.all.load(Ordering::SeqCst) == *all && tables.iter().all(|(table, epoch)| self.of(*table) == *epoch)
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

    fn of(&self, table: TableId) -> u64 {
        self.tables.get(usize::from(table.0)).map_or(0, |epoch| epoch.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> [TableId; 2] {
        [TableId::new("shop", "orders"), TableId::new("shop", "users")]
    }

    #[test]
    fn a_write_makes_stale_what_read_its_tables_and_no_more() {
        let epochs = Epochs::default();
        let [orders, users] = ids();
        assert_ne!(orders, users);
        let (of_orders, of_users) = (epochs.stamp(Some(&[orders])), epochs.stamp(Some(&[users])));
        let (of_both, of_any) = (epochs.stamp(Some(&[orders, users])), epochs.stamp(None));
        epochs.written(Some(&[users]));
        assert!(epochs.is_current(&of_orders));
        for stale in [&of_users, &of_both, &of_any] {
            assert!(!epochs.is_current(stale), "{stale:?}");
        }
        assert!(epochs.is_current(&epochs.stamp(Some(&[users]))));
    }

    #[test]
    fn a_write_to_nobody_knows_what_makes_all_stale() {
        let epochs = Epochs::default();
        let [orders, _] = ids();
        let (of_orders, of_any) = (epochs.stamp(Some(&[orders])), epochs.stamp(None));
        epochs.written(None);
        assert!(!epochs.is_current(&of_orders) && !epochs.is_current(&of_any));
    }

    #[test]
    fn names_that_differ_in_case_alone_are_one_table() {
        assert_eq!(TableId::new("Shop", "Orders"), TableId::new("shop", "ORDERS"));
        assert_eq!(TableId::new("läden", "ÄPFEL"), TableId::new("LÄDEN", "äpfel"));
        assert_ne!(TableId::new("a", "bc"), TableId::new("ab", "c"), "the dot counts");
    }
}
