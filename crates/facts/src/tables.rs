//! The catalogue of tables: what a statement touches beyond the names in its text.
//!
//! A text names tables and views ([`sql::tables()`]). A [`TableCatalog`] tells which tables hold the rows: views are followed to
//! the tables that they read, and a write counts for all that triggers and foreign keys may make of it. An unknown statement
//! touches anything: [`TableScope::Any`]. The last write of each table is kept by
//! [`TableCatalog::read_by`] (the tables that a statement reads) and [`TableCatalog::written_by`] (the tables that it writes), cached
//! results by [`TableCatalog::answered_by`]; if two statements share a key, or one of them has `Any`, the one may change what the other sees.
//!
//! Of a table whose primary key is known it also tells which row a statement means ([`TableCatalog::key_of`]).
//!
//! The catalogue is that of the primary. It is read while somebody wants it ([`crate::published::Published::watch_tables`]),
//! every `catalog_refresh_s` and after each definition that went through Sqluice; between such a definition's beginning and
//! the reading after its end [`crate::believed::Believed::current`] gives nothing, which stands for `Any`. Definitions that
//! Sqluice does not see (made on the server itself, or by a procedure) are known with the next reading.

mod build;
mod rows;

use std::collections::HashMap;
use std::sync::Arc;

use sql::{TableName, Tables, Unread};

pub use build::{Cascade, ComputedColumns, KeyRow, QualifiedName, TableKind, TableRow, TableRows};
pub use rows::{KeyColumn, KeyKind, KeyValue, PrimaryKey, ROWS_MAX, RowKey, WrittenRows, plain_number};

/// The catalogue as both planes share it.
pub type PublishedTables = crate::believed::Believed<TableCatalog>;

/// Stands for one table, in every catalogue of every process: processes that share results of reads tell each other by it what was
/// written, whatever their versions. Two tables may share a key, if hardly ever: each then counts for the other, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableKey(pub u64);

/// The tables that a statement touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableScope {
    /// Any table: it is not known.
    Any,
    /// These tables, sorted, none twice.
    Tables(Arc<[TableKey]>),
}

/// More tables than this are as good as any.
pub const SCOPE_TABLES_MAX: usize = 64;

impl TableScope {
    /// No table.
    pub fn nothing() -> TableScope {
        TableScope::Tables(Arc::new([]))
    }

    /// These tables.
    pub fn of(mut keys: Vec<TableKey>) -> TableScope {
        keys.sort_unstable();
        keys.dedup();
        if keys.len() > SCOPE_TABLES_MAX { TableScope::Any } else { TableScope::Tables(keys.into()) }
    }

    /// Both together.
    #[must_use]
    pub fn and(&self, other: &TableScope) -> TableScope {
        match (self, other) {
            (TableScope::Any, _) | (_, TableScope::Any) => TableScope::Any,
            (TableScope::Tables(one), TableScope::Tables(two)) if one == two || two.is_empty() => {
                TableScope::Tables(one.clone())
            }
            (TableScope::Tables(one), TableScope::Tables(two)) => {
                TableScope::of(one.iter().chain(&**two).copied().collect())
            }
        }
    }
}

/// The known facts of a table or view.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TableEntry {
    /// The tables that a read of it reads.
    reads: TableScope,
    /// The tables that a write to it may write.
    writes: TableScope,
    /// How its rows are identified.
    rows: Option<rows::KnownRows>,
    /// It shows the same at all times and to everybody who may read it, until it is written.
    is_steady: bool,
}

impl TableEntry {
    fn unknown() -> TableEntry {
        TableEntry { reads: TableScope::Any, writes: TableScope::Any, rows: None, is_steady: false }
    }

    /// The one table that a read of it reads.
    fn table(&self) -> Option<TableKey> {
        match &self.reads {
            TableScope::Tables(keys) => <[TableKey; 1]>::try_from(&**keys).ok().map(|[key]| key),
            TableScope::Any => None,
        }
    }
}

/// A snapshot of the primary's tables and views.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableCatalog {
    /// Names differ in more than case (`lower_case_table_names` is 1 or 2).
    folds_case: bool,
    /// By [`TableCatalog::place`].
    entries: HashMap<Box<str>, TableEntry>,
}

impl TableCatalog {
    /// The tables that a statement with these names reads, without those that it writes only to itself. `schema` is the
    /// session's, in which unqualified names are.
    pub fn read_by(&self, named: &Result<Tables, Unread>, schema: Option<&str>) -> TableScope {
        match named {
            Ok(named) if named.functions.is_empty() => self.all_of(&named.read, schema, |entry| Some(&entry.reads)),
            _ => TableScope::Any,
        }
    }

    /// With what an answer to a statement with these names goes out of date: the tables that it reads, or any table if one of them may show something
    /// else by time or session. The functions of its own text are not looked at ([`sql::varies()`]).
    pub fn answered_by(&self, named: &Result<Tables, Unread>, schema: Option<&str>) -> TableScope {
        match named {
            Ok(named) if named.functions.is_empty() => {
                self.all_of(&named.read, schema, |entry| entry.is_steady.then_some(&entry.reads))
            }
            _ => TableScope::Any,
        }
    }

    /// The tables that a statement with these names may write. One that makes, changes or drops tables writes anything: it may
    /// be that a view or a foreign key means something else from then on.
    pub fn written_by(&self, named: &Result<Tables, Unread>, schema: Option<&str>) -> TableScope {
        match named {
            Ok(named) if named.functions.is_empty() && !named.defines => {
                self.all_of(&named.written, schema, |entry| Some(&entry.writes))
            }
            _ => TableScope::Any,
        }
    }

    /// Tables that a logged change of this table's rows may have changed: the log is silent on rows that foreign keys change.
    pub fn changed(&self, schema: &str, table: &str) -> TableScope {
        self.entry(schema, table).map_or(TableScope::Any, |entry| entry.writes.clone())
    }

    fn all_of(
        &self,
        names: &[TableName],
        schema: Option<&str>,
        part: fn(&TableEntry) -> Option<&TableScope>,
    ) -> TableScope {
        let mut all = TableScope::nothing();
        for name in names {
            let entry = name.schema.as_deref().or(schema).and_then(|schema| self.entry(schema, &name.name));
            all = match entry.and_then(part) {
                Some(part) => part.and(&all),
                None => TableScope::Any,
            };
            if all == TableScope::Any {
                break;
            }
        }
        all
    }

    /// Whether this is a table with rows of its own, and no view.
    pub fn is_table(&self, schema: &str, name: &str) -> bool {
        let own = key(&place(self.folds_case, schema, name));
        self.entry(schema, name)
            .is_some_and(|entry| matches!(&entry.reads, TableScope::Tables(keys) if **keys == [own]))
    }

    /// Whether this is a table or view.
    pub fn contains(&self, schema: &str, name: &str) -> bool {
        self.entry(schema, name).is_some()
    }

    fn entry(&self, schema: &str, name: &str) -> Option<&TableEntry> {
        self.entries.get(&*place(self.folds_case, schema, name))
    }

    /// How many tables and views are known.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Where a table stands: no name holds a NUL byte.
fn place(folds_case: bool, schema: &str, name: &str) -> Box<str> {
    // Each read whose answer is to be kept asks for it: `format!` takes several times as long.
    let mut place = String::with_capacity(schema.len() + 1 + name.len());
    place.push_str(schema);
    place.push('\0');
    place.push_str(name);
    if folds_case { place.to_lowercase().into() } else { place.into() }
}

/// The first bytes of a digest that is the same everywhere and for ever.
fn key(place: &str) -> TableKey {
    TableKey(wire::auth::fingerprint(place.as_bytes()).iter().take(8).fold(0, |key, byte| key << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests;
