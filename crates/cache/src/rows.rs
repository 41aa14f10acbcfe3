//! The rows that statements read and write, where that is certain: a read by primary key is ended by writes to its row, not by those to
//! all of its table.
//!
//! A statement says so in its text, once for all texts of its shape ([`sql::point()`]); that the table is one, and what its key is, the
//! catalogue of tables says. All that is in doubt is a matter of whole tables.

use facts::tables::{KeyColumn, KeyValue, RowKey, TableCatalog, TableKey, TableScope, WrittenRows, plain_number};
use sql::{Dialect, Given, Kind, Sought, Statement, Tables, Verb};
use wire::parameters::Value;

use crate::{Reads, RowId, TableId, TableWrite};

/// The facts of a write besides its text.
#[derive(Clone, Copy, Debug)]
pub struct WriteFacts {
    /// Parameters were sent before the execution.
    pub in_parts: bool,
    /// The id in its OK packet.
    pub insert_id: u64,
}

/// A statement beside the catalogue of tables.
#[derive(Clone, Copy, Debug)]
pub struct Catalogued<'a> {
    /// The tables.
    pub catalog: &'a TableCatalog,
    /// The meaning of the statement.
    pub statement: &'a Statement,
    /// Its text.
    pub text: &'a [u8],
    /// The dialect of the text.
    pub dialect: Dialect,
    /// The schema of names that have none.
    pub schema: Option<&'a str>,
    /// A text, or an execution of one: the server runs what is read here.
    pub is_as_came: bool,
}

/// The values of an execution's parameters; none of a text. `None` if they are not understood.
pub type Values<'a> = Option<Vec<Value<'a>>>;

impl Catalogued<'_> {
    /// The tables that a read reads: of a table one row, where that is certain. `None` if they are not known.
    pub fn reads<'v>(&self, values: impl FnOnce() -> Values<'v>) -> (TableScope, Option<Reads>) {
        let named = self.statement.tables(self.text, &self.dialect);
        let scope = self.catalog.answered_by(named, self.schema);
        let TableScope::Tables(keys) = &scope else { return (scope, None) };
        let row = match (named, &**keys) {
            (Ok(named), [own]) if self.statement.kind == Kind::Select => {
                self.point_row(named, values).filter(|(table, _)| table == own)
            }
            _ => None,
        };
        let reads = match row {
            Some((table, row)) => Reads::Row(TableId::of(table.0), RowId::of(row.0)),
            None => Reads::Tables(keys.iter().map(|key| TableId::of(key.0)).collect()),
        };
        (scope, Some(reads))
    }

    /// The tables and rows that a statement has written. `may_be_known`: its rows may be looked for in its text.
    pub fn written<'v>(
        &self,
        facts: WriteFacts,
        may_be_known: bool,
        values: impl FnOnce() -> Values<'v>,
    ) -> WrittenRows {
        let named = self.statement.tables(self.text, &self.dialect);
        let scope = self.catalog.written_by(named, self.schema);
        let Ok(named) = named else { return WrittenRows::all(scope) };
        let [table] = &*named.written else { return WrittenRows::all(scope) };
        let may_be_known = may_be_known
            && !facts.in_parts
            && scope != TableScope::Any
            && self.statement.parts == 1
            && self.catalog.writes_alone(table, self.schema);
        let rows = match self.statement.kind {
            Kind::Update | Kind::Delete if may_be_known => {
                self.point_row(named, values).map(|(table, row)| (table, vec![row]))
            }
            Kind::Insert if may_be_known => self.inserted(named, facts, values),
            _ => None,
        };
        match rows {
            Some((table, rows)) => WrittenRows::only(scope, table, rows),
            None => WrittenRows::all(scope),
        }
    }

    /// The one row that a SELECT, UPDATE or DELETE touches.
    fn point_row<'v>(&self, named: &Tables, values: impl FnOnce() -> Values<'v>) -> Option<(TableKey, RowKey)> {
        if !self.is_as_came || !self.statement.is_point(self.text, &self.dialect) {
            return None;
        }
        let point = sql::point(self.text, &self.dialect)?;
        let names = if self.statement.kind == Kind::Select { &named.read } else { &named.written };
        if **names != *std::slice::from_ref(&point.table) {
            return None;
        }
        let (table, key) = self.catalog.key_of(&point.table, self.schema)?;
        if point.sets.iter().any(|column| key.has(column)) {
            return None;
        }
        let values = values()?;
        let row = key.row(table, |column| {
            let (_, sought) = point.equals.iter().find(|(name, _)| name.eq_ignore_ascii_case(column))?;
            match sought {
                Sought::Number(number) => Some(KeyValue::Integer(*number)),
                Sought::Text(text) => Some(KeyValue::Text(text.as_bytes())),
                Sought::Parameter(at) => match values.get(*at)? {
                    Value::Int(number) => Some(KeyValue::Integer(*number)),
                    Value::Bytes(bytes) => Some(KeyValue::Text(bytes)),
                    _ => None,
                },
            }
        });
        Some((table, row?))
    }

    /// The rows that an INSERT or REPLACE makes, if it can change no others.
    fn inserted<'v>(
        &self,
        named: &Tables,
        facts: WriteFacts,
        values: impl FnOnce() -> Values<'v>,
    ) -> Option<(TableKey, Vec<RowKey>)> {
        // The text in an executable comment runs on some servers only.
        let runs_comments = self.text.windows(2).any(|pair| pair == b"/*");
        let change = (!runs_comments).then(|| sql::row_change(self.text, &self.dialect))??;
        let [name] = &*named.written else { return None };
        let is_named = *name.name == *change.table && name.schema.as_deref() == change.schema.as_deref();
        let (table, key) = self.catalog.key_of(name, self.schema).filter(|_| is_named)?;
        let makes_room = change.verb == Verb::Replace && !key.is_only_unique;
        if makes_room || change.updates_duplicates {
            return None;
        }
        let (columns, rows) = (change.columns?, change.rows?);
        let values = values()?;
        let number = |row: &[Given], column: &KeyColumn| {
            let place = columns.iter().position(|name| name.eq_ignore_ascii_case(&column.name));
            let given = place.map_or(Some(Given::Nothing), |place| row.get(place).copied())?;
            let number = match given {
                Given::Number(number) => Some(number),
                Given::Parameter(at) => match values.get(at)? {
                    Value::Int(number) => Some(*number),
                    Value::Bytes(bytes) => Some(plain_number(bytes)?),
                    Value::Null => None,
                    _ => return None,
                },
                Given::Nothing => None,
                Given::Other => return None,
            };
            match number {
                // The server has counted; of several rows it reports only the first one's number.
                None | Some(0) if column.counts_up && rows.len() == 1 => Some(i128::from(facts.insert_id)),
                number => number,
            }
        };
        let made: Option<Vec<RowKey>> =
            rows.iter().map(|row| key.new_row(table, |column| number(row, column))).collect();
        Some((table, made?))
    }
}

/// The write counters of written tables and rows; `None` is anything.
pub fn table_writes(written: &WrittenRows) -> Option<Vec<TableWrite>> {
    let TableScope::Tables(tables) = &written.tables else { return None };
    let write = |table: &TableKey| {
        let rows = written.rows_of(*table);
        let rows = rows.map(|rows| rows.iter().map(|row| RowId::of(row.0)).collect());
        TableWrite { table: TableId::of(table.0), rows }
    };
    Some(tables.iter().map(write).collect())
}
