//! The columns of tables that list connections, as servers have named them.

use std::cell::RefCell;
use std::rc::Rc;

use facts::view::ServerId;
use sql::connections::IdTable;

/// Tables whose columns are remembered.
const TABLES_MAX: usize = 64;

/// The names of a table's columns, in order.
pub type Names = Rc<[String]>;

/// The columns of tables that list connections, as one server has them.
#[derive(Debug, Default)]
pub struct KnownColumns {
    known: RefCell<Vec<(ServerId, &'static IdTable, Names)>>,
}

impl KnownColumns {
    /// The columns of this table on a server, if they were read before.
    pub fn find(&self, server: ServerId, table: &'static IdTable) -> Option<Names> {
        let known = self.known.borrow();
        let found = known.iter().find(|(at, known, _)| *at == server && std::ptr::eq(*known, table));
        found.map(|(_, _, columns)| columns.clone())
    }

    /// Remembers the columns that a server has named.
    pub fn insert(&self, server: ServerId, table: &'static IdTable, columns: &Names) {
        let mut known = self.known.borrow_mut();
        if known.len() >= TABLES_MAX {
            known.clear();
        }
        known.push((server, table, columns.clone()));
    }
}
