//! The rows that one statement changed, as a log shows them.

use wire::binlog::TableMap;
use wire::binlog::rows::{Change, Rows};

/// The table whose rows count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub table: String,
    /// How many columns it has.
    pub columns: usize,
    /// Which of them is AUTO_INCREMENT.
    pub counter: Option<usize>,
}

/// The changes of one transaction to the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Rows that are new.
    pub inserted: u64,
    /// Rows that were changed.
    pub updated: u64,
    /// Rows that are gone.
    pub deleted: u64,
    /// The number in the AUTO_INCREMENT column of the first new row.
    pub first_id: Option<u64>,
    /// The statement itself stands in the log, without an error, instead of rows.
    pub is_statement: bool,
    /// The first AUTO_INCREMENT value that a statement in the log made.
    pub made_id: Option<u64>,
    /// An engine with transactions has committed it: no half of it was done.
    pub committed: bool,
    /// Some of it is not understood.
    pub is_unclear: bool,
    /// `server_id` of the server that it began on.
    pub server: u32,
    /// The target's map.
    pub(crate) map: Option<TableMap>,
}

impl Changed {
    /// The rows that follow may be this table's.
    pub fn table(&mut self, map: &TableMap, target: &Target) {
        if *map.schema == *target.schema && *map.name == *target.table {
            self.is_unclear |= map.columns() != target.columns;
            self.map = Some(map.clone());
        }
    }

    /// Counts rows.
    pub fn rows(&mut self, rows: &Rows<'_>, target: &Target) {
        let Some(map) = self.map.take_if(|map| map.number == rows.table) else { return };
        self.is_unclear |= !self.count(rows, &map, target);
        self.map = Some(map);
    }

    fn count(&mut self, rows: &Rows<'_>, map: &TableMap, target: &Target) -> bool {
        let mut first = None;
        let mut count = 0_u64;
        let all = rows.each(map, target.counter, |number| {
            first = first.or(Some(number));
            count += 1;
        });
        let counted = match rows.change {
            Change::Insert => &mut self.inserted,
            Change::Update => &mut self.updated,
            Change::Delete => &mut self.deleted,
        };
        if rows.change == Change::Insert && *counted == 0 {
            self.first_id = first.flatten();
        }
        *counted = counted.saturating_add(count);
        all.is_ok()
    }
}
