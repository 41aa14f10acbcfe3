//! Rows by their primary keys: which one a statement reads or writes, where it says so and the table lets it be certain.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use sql::TableName;

use super::{TableCatalog, TableKey, TableScope};
use crate::changes::{Key, KeyPart};

/// More rows of one table than this are as good as any.
pub const ROWS_MAX: usize = 1_000;
/// Up to here a whole number and a string of its digits are equal for servers only if they are the same, however they compare them.
const EXACT_MAX: i128 = 1 << 53;

/// Stands for one row of one table, in every catalogue of this process. Rows may share one, if hardly ever: each then counts for the
/// other, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey(pub u64);

/// How values of a key's column are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Whole numbers, up to this one.
    Integer {
        /// The largest that it holds.
        max: i128,
    },
    /// Text whose bytes tell whether two are equal, but for spaces at the end.
    Text,
}

/// A column of a primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// As it is written; case does not count.
    pub name: Box<str>,
    /// How its values are distinguished.
    pub kind: KeyKind,
    /// It is AUTO_INCREMENT.
    pub counts_up: bool,
}

/// A primary key by which rows can be identified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrimaryKey {
    /// Its columns, in its order.
    pub columns: Box<[KeyColumn]>,
    /// No other key is unique: what takes a row's place by a key has the same primary key.
    pub is_only_unique: bool,
}

/// The key of a table's rows, and whether writing some of them may write others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownRows {
    pub(super) key: Arc<PrimaryKey>,
    /// No foreign key leads back to the table.
    pub(super) alone: bool,
}

/// A value that a statement gives a key's column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyValue<'a> {
    /// A whole number.
    Integer(i128),
    /// A string in the connection's character set.
    Text(&'a [u8]),
}

/// The written tables and rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenRows {
    /// In which tables.
    pub tables: TableScope,
    /// Of these tables no rows but these; of all others any.
    pub rows: Vec<(TableKey, Vec<RowKey>)>,
}

impl WrittenRows {
    /// Any row of these.
    pub fn all(tables: TableScope) -> WrittenRows {
        WrittenRows { tables, rows: Vec::new() }
    }

    /// Of one of these tables only these rows.
    pub fn only(tables: TableScope, table: TableKey, rows: Vec<RowKey>) -> WrittenRows {
        let is_known = rows.len() <= ROWS_MAX && tables != TableScope::Any;
        WrittenRows { tables, rows: if is_known { vec![(table, rows)] } else { Vec::new() } }
    }

    /// The rows of a table that were written; `None`: any.
    pub fn rows_of(&self, table: TableKey) -> Option<&[RowKey]> {
        self.rows.iter().find(|(of, _)| *of == table).map(|(_, rows)| &**rows)
    }

    /// Both together.
    #[must_use]
    pub fn and(&self, other: &WrittenRows) -> WrittenRows {
        let tables = self.tables.and(&other.tables);
        let TableScope::Tables(all) = &tables else { return WrittenRows::all(TableScope::Any) };
        let of = |one: &WrittenRows, table: TableKey| match &one.tables {
            TableScope::Tables(keys) if keys.contains(&table) => one.rows_of(table).map(<[RowKey]>::to_vec),
            TableScope::Tables(_) => Some(Vec::new()),
            TableScope::Any => None,
        };
        let both = |table: &TableKey| {
            let mut rows = of(self, *table)?;
            rows.append(&mut of(other, *table)?);
            rows.sort_unstable();
            rows.dedup();
            (rows.len() <= ROWS_MAX).then_some((*table, rows))
        };
        let rows = all.iter().filter_map(both).collect();
        WrittenRows { tables, rows }
    }
}

impl PrimaryKey {
    /// Whether this is one of its columns.
    pub fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|own| own.name.eq_ignore_ascii_case(column))
    }

    /// The row whose columns are what `value` gives; `None` where it is not certain that it can be no other one.
    pub fn row<'a>(&self, table: TableKey, value: impl Fn(&str) -> Option<KeyValue<'a>>) -> Option<RowKey> {
        let parts: Option<Vec<Part<'_>>> =
            self.columns.iter().map(|column| sought(column.kind, value(&column.name)?)).collect();
        Some(row_key(table, &parts?))
    }

    /// The row that an INSERT makes with what `value` gives; `None` where the server may make another number of one of these.
    pub fn new_row(&self, table: TableKey, value: impl Fn(&KeyColumn) -> Option<i128>) -> Option<RowKey> {
        let part = |column: &KeyColumn| match column.kind {
            // 0 may stand for the next number.
            KeyKind::Integer { max } => value(column).filter(|number| (1..=max).contains(number)).map(Part::Integer),
            KeyKind::Text => None,
        };
        let parts: Option<Vec<Part<'_>>> = self.columns.iter().map(part).collect();
        Some(row_key(table, &parts?))
    }

    fn logged(&self, table: TableKey, key: &Key) -> Option<RowKey> {
        let parts: Vec<Part<'_>> =
            self.columns.iter().zip(key).map(|(column, part)| logged(column.kind, part)).collect::<Option<_>>()?;
        (key.len() == self.columns.len()).then(|| row_key(table, &parts))
    }
}

impl TableCatalog {
    /// The table of this name and its primary key; `None` if it is no table whose rows are identified by that.
    pub fn key_of(&self, name: &TableName, schema: Option<&str>) -> Option<(TableKey, &PrimaryKey)> {
        let schema = name.schema.as_deref().or(schema)?;
        let entry = self.entry(schema, &name.name)?;
        Some((entry.table()?, &entry.rows.as_ref()?.key))
    }

    /// Whether a write to a row of this table leaves its other rows alone.
    pub fn writes_alone(&self, name: &TableName, schema: Option<&str>) -> bool {
        let entry = name.schema.as_deref().or(schema).and_then(|schema| self.entry(schema, &name.name));
        entry.is_some_and(|entry| entry.rows.as_ref().is_some_and(|rows| rows.alone))
    }

    /// The tables and rows that a logged change of this table's rows may have changed, as [`TableCatalog::changed`] gives
    /// them; of the table itself these rows only, where their keys are known.
    pub fn changed_rows(&self, schema: &str, table: &str, keys: Option<&BTreeSet<Key>>) -> WrittenRows {
        let tables = self.changed(schema, table);
        let entry = self.entry(schema, table);
        let known = entry.and_then(|entry| Some((entry.table()?, entry.rows.as_ref().filter(|rows| rows.alone)?)));
        let (Some(keys), Some((own, known))) = (keys, known) else { return WrittenRows::all(tables) };
        let rows: Option<Vec<RowKey>> = keys.iter().map(|key| known.key.logged(own, key)).collect();
        match rows {
            Some(rows) => WrittenRows::only(tables, own, rows),
            None => WrittenRows::all(tables),
        }
    }
}

/// A column's value, in a form that is the same for all that servers take for equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part<'a> {
    Integer(i128),
    Text(&'a [u8]),
}

/// The value that a column is compared with, if only one value of the column can be equal to it.
fn sought(kind: KeyKind, value: KeyValue<'_>) -> Option<Part<'_>> {
    match (kind, value) {
        (KeyKind::Integer { .. }, KeyValue::Integer(number)) => Some(Part::Integer(number)),
        (KeyKind::Integer { .. }, KeyValue::Text(text)) => plain_number(text).map(Part::Integer),
        (KeyKind::Text, KeyValue::Text(text)) => {
            // Bytes that are the same in each character set that a client can have.
            let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" _-.:,/+=".contains(byte);
            text.iter().all(is_plain).then(|| Part::Text(without_spaces(text)))
        }
        // As many rows may be equal as have text that begins with the number.
        (KeyKind::Text, KeyValue::Integer(_)) => None,
    }
}

/// A column's value in a log.
fn logged(kind: KeyKind, part: &KeyPart) -> Option<Part<'_>> {
    match (kind, part) {
        (KeyKind::Integer { .. }, KeyPart::Integer(number)) => Some(Part::Integer(*number)),
        (KeyKind::Text, KeyPart::Bytes(bytes)) => Some(Part::Text(without_spaces(bytes))),
        _ => None,
    }
}

/// The number that this says, written as numbers are, without a sign, zeros or spaces more: servers make the same of it.
pub fn plain_number(text: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(text).ok()?;
    let number: i128 = text.parse().ok()?;
    (number.abs() < EXACT_MAX && number.to_string() == text).then_some(number)
}

/// Where a collation pads with spaces, those at the end do not count.
fn without_spaces(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    text.get(..end).unwrap_or_default()
}

fn row_key(table: TableKey, parts: &[Part<'_>]) -> RowKey {
    let mut hasher = DefaultHasher::new();
    table.hash(&mut hasher);
    parts.hash(&mut hasher);
    RowKey(hasher.finish())
}
