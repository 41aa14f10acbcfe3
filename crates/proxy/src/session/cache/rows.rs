//! Which rows statements read and write, where it is certain: a read by primary key is ended by writes to its row, not to all of its table.
//!
//! A statement says so in its text, once for all texts of its shape ([`sql::point()`]); that the table is one, and what its key is, the catalogue of tables
//! says. Whatever is in doubt is a matter of whole tables.

use cache::{Reads, RowId, TableId, TableWrite};
use facts::tables::{KeyColumn, KeyValue, RowKey, Scope, TableCatalog, TableKey, Written, plain_number};
use sql::{Dialect, Given, Kind, Sought, Tables, Verb};
use wire::Capabilities;
use wire::command::{Command, Execute};
use wire::parameters::Value;

use super::super::Session;
use super::super::long_text::LONG_TEXT_BYTES;
use super::super::query::{Body, Query};

/// The facts of a write besides its text.
#[derive(Clone, Copy, Debug)]
pub(in crate::session) struct Told {
    /// Parameters were sent before the execution.
    pub(in crate::session) in_parts: bool,
    /// The id in its OK packet.
    pub(in crate::session) insert_id: u64,
}

/// A statement beside the catalogue.
struct Seen<'a> {
    catalog: &'a TableCatalog,
    schema: Option<&'a str>,
    text: &'a [u8],
    dialect: Dialect,
}

impl Session {
    /// The tables that a read reads: of a table one row, where that is certain. `None` if they are not known.
    pub(super) fn reads_of(&self, query: &Query<'_>) -> (Scope, Option<Reads>) {
        let catalog = self.here.cluster.shared.published.tables.current();
        let Some(seen) = catalog.as_ref().and_then(|catalog| self.seen(catalog, query)) else {
            return (Scope::Any, None);
        };
        let named = query.statement.tables(seen.text, &seen.dialect);
        let scope = seen.catalog.answered_by(named, seen.schema);
        let Scope::Tables(keys) = &scope else { return (scope, None) };
        let row = match (named, &**keys) {
            (Ok(named), [own]) if query.statement.kind == Kind::Select => {
                self.point_row(query, &seen, named).filter(|(table, _)| table == own)
            }
            _ => None,
        };
        let reads = match row {
            Some((table, row)) => Reads::Row(TableId::of(table.0), RowId::of(row.0)),
            None => Reads::Tables(keys.iter().map(|key| TableId::of(key.0)).collect()),
        };
        (scope, Some(reads))
    }

    /// The tables and rows that a statement has written.
    pub(super) fn written_by(&self, query: &Query<'_>, told: Told) -> Written {
        let catalog = self.here.cluster.shared.published.tables.current();
        let Some(seen) = catalog.as_ref().and_then(|catalog| self.seen(catalog, query)) else {
            return Written::all(Scope::Any);
        };
        let named = query.statement.tables(seen.text, &seen.dialect);
        let scope = seen.catalog.written_by(named, seen.schema);
        let Ok(named) = named else { return Written::all(scope) };
        let [table] = &*named.written else { return Written::all(scope) };
        let may_be_known = !told.in_parts
            && seen.text.len() <= LONG_TEXT_BYTES
            && scope != Scope::Any
            && matches!(query.command, Command::Query | Command::StmtExecute)
            && query.statement.parts == 1
            && seen.catalog.writes_alone(table, seen.schema);
        let rows = match query.statement.kind {
            Kind::Update | Kind::Delete if may_be_known => {
                self.point_row(query, &seen, named).map(|(table, row)| (table, vec![row]))
            }
            Kind::Insert if may_be_known => self.inserted(query, &seen, named, told),
            _ => None,
        };
        match rows {
            Some((table, rows)) => Written::only(scope, table, rows),
            None => Written::all(scope),
        }
    }

    fn seen<'a>(&'a self, catalog: &'a TableCatalog, query: &'a Query<'_>) -> Option<Seen<'a>> {
        let text = query.text()?;
        Some(Seen { catalog, schema: self.schema_of(query), text: text.bytes, dialect: text.dialect })
    }

    /// The one row that a SELECT, UPDATE or DELETE touches.
    fn point_row(&self, query: &Query<'_>, seen: &Seen<'_>, named: &Tables) -> Option<(TableKey, RowKey)> {
        let is_as_came = matches!(query.body, Body::AsCame | Body::Execute(_));
        if !is_as_came || !query.statement.is_point(seen.text, &seen.dialect) {
            return None;
        }
        let point = sql::point(seen.text, &seen.dialect)?;
        let names = if query.statement.kind == Kind::Select { &named.read } else { &named.written };
        if **names != *std::slice::from_ref(&point.table) {
            return None;
        }
        let (table, key) = seen.catalog.key_of(&point.table, seen.schema)?;
        if point.sets.iter().any(|column| key.has(column)) {
            return None;
        }
        let values = self.values(query)?;
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
    fn inserted(
        &self,
        query: &Query<'_>,
        seen: &Seen<'_>,
        named: &Tables,
        told: Told,
    ) -> Option<(TableKey, Vec<RowKey>)> {
        // The text in an executable comment runs on some servers only.
        let runs_comments = seen.text.windows(2).any(|pair| pair == b"/*");
        let change = (!runs_comments).then(|| sql::row_change(seen.text, &seen.dialect))??;
        let [name] = &*named.written else { return None };
        let is_named = *name.name == *change.table && name.schema.as_deref() == change.schema.as_deref();
        let (table, key) = seen.catalog.key_of(name, seen.schema).filter(|_| is_named)?;
        let makes_room = change.verb == Verb::Replace && !key.is_only_unique;
        if makes_room || change.updates_duplicates {
            return None;
        }
        let (columns, rows) = (change.columns?, change.rows?);
        let values = self.values(query)?;
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
                // The server has counted; of several rows only the first one's number is told.
                None | Some(0) if column.counts_up && rows.len() == 1 => Some(i128::from(told.insert_id)),
                number => number,
            }
        };
        let made: Option<Vec<RowKey>> =
            rows.iter().map(|row| key.new_row(table, |column| number(row, column))).collect();
        Some((table, made?))
    }

    /// The values of an execution's parameters; none of a text. `None` if they are not understood.
    fn values<'a>(&self, query: &Query<'a>) -> Option<Vec<Value<'a>>> {
        let Body::Execute(id) = query.body else { return Some(Vec::new()) };
        let known = self.belief.statements.find(id)?;
        let (arguments, capabilities) = (query.request.payload().get(1..)?, self.client.capabilities);
        let execute = Execute::parse(arguments, known.parameters, capabilities).ok()?;
        let count = execute.count.unwrap_or(u64::from(known.parameters));
        let types = match (execute.types, &known.types) {
            (Some(types), _) => types,
            (None, Some((of, types))) if *of == count => types,
            (None, _) if count == 0 => &[],
            (None, _) => return None,
        };
        let named = capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        execute.parameters(types, known.parameters, named).ok()
    }
}

/// The epochs' names of what was written; `None` is anything.
pub(crate) fn table_writes(written: &Written) -> Option<Vec<TableWrite>> {
    let Scope::Tables(tables) = &written.tables else { return None };
    let write = |table: &TableKey| {
        let rows = written.rows_of(*table);
        let rows = rows.map(|rows| rows.iter().map(|row| RowId::of(row.0)).collect());
        TableWrite { table: TableId::of(table.0), rows }
    };
    Some(tables.iter().map(write).collect())
}
