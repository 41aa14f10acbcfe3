//! From what `information_schema` tells to what statements touch.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sql::Dialect;

use super::rows::{KnownRows, PrimaryKey};
use super::{SCOPE_TABLES_MAX, TableCatalog, TableEntry, TableKey, TableScope, key, place};

/// Engines whose tables hold their own rows. Those of others may show rows of other tables, or of other servers.
const OWN_ROWS: [&str; 8] = ["innodb", "myisam", "aria", "rocksdb", "tokudb", "memory", "archive", "csv"];

/// Views inside one another.
const VIEWS_DEEP_MAX: u8 = 16;

/// A schema's name and a table's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QualifiedName {
    /// The schema.
    pub schema: String,
    /// The table.
    pub name: String,
}

/// A foreign key by which a write to one table may write another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cascade {
    /// The table that is written.
    pub parent: QualifiedName,
    /// The table that is written with it.
    pub child: QualifiedName,
}

/// The kind of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// A table of this engine.
    Table {
        /// As the server writes it.
        engine: String,
    },
    /// A view.
    View {
        /// Its query as the server shows it; `None` if it may not be seen.
        definition: Option<String>,
    },
    /// Something else, such as a sequence.
    Other,
}

/// One table or view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRow {
    /// Its name.
    pub name: QualifiedName,
    /// Its kind.
    pub kind: TableKind,
}

/// A table's primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// The table.
    pub table: QualifiedName,
    /// The key.
    pub key: PrimaryKey,
}

/// The columns that are computed when they are read, as a server reported them.
#[derive(Clone, Debug, Default)]
pub struct ComputedColumns {
    /// Tables whose columns were reported. Others may have any.
    pub seen: HashSet<QualifiedName>,
    /// The expressions of such columns.
    pub expressions: Vec<(QualifiedName, String)>,
}

/// The tables that a server reported.
#[derive(Clone, Debug)]
pub struct TableRows {
    /// `lower_case_table_names` is 1 or 2.
    pub folds_case: bool,
    /// How views' definitions are written.
    pub dialect: Dialect,
    /// All tables and views that are not the server's own.
    pub tables: Vec<TableRow>,
    /// Tables with triggers; `None` if there may be triggers that are not seen.
    pub with_triggers: Option<Vec<QualifiedName>>,
    /// Foreign keys with CASCADE, SET NULL or SET DEFAULT.
    pub cascades: Vec<Cascade>,
    /// Primary keys by which rows can be identified, as far as they are known.
    pub keys: Vec<KeyRow>,
    /// Columns that are computed when they are read; `None` where none of them can differ by time or session.
    pub computed: Option<ComputedColumns>,
}

impl TableCatalog {
    /// The catalogue of these tables.
    pub fn new(rows: &TableRows) -> TableCatalog {
        let place_of = |name: &QualifiedName| place(rows.folds_case, &name.schema, &name.name);
        let mut children: HashMap<Box<str>, Vec<Box<str>>> = HashMap::new();
        for cascade in &rows.cascades {
            children.entry(place_of(&cascade.parent)).or_default().push(place_of(&cascade.child));
        }
        let mut builder = Builder {
            rows,
            found: rows.tables.iter().map(|row| (place_of(&row.name), row)).collect(),
            children,
            keys: rows.keys.iter().map(|row| (place_of(&row.table), &row.key)).collect(),
            steady: rows.computed.as_ref().map(|computed| steady(computed, &rows.dialect).map(place_of).collect()),
            triggers: rows.with_triggers.as_ref().map(|all| all.iter().map(place_of).collect()),
            entries: HashMap::with_capacity(rows.tables.len()),
        };
        for row in &rows.tables {
            builder.entry(&place_of(&row.name), 0);
        }
        TableCatalog { folds_case: rows.folds_case, entries: builder.entries }
    }
}

/// The tables whose columns are known, but for those that have one that differs by time or session.
fn steady<'a>(computed: &'a ComputedColumns, dialect: &Dialect) -> impl Iterator<Item = &'a QualifiedName> {
    let differs = |(_, expression): &&(QualifiedName, String)| sql::varies(expression.as_bytes(), dialect).is_some();
    let differ: HashSet<&QualifiedName> = computed.expressions.iter().filter(differs).map(|(table, _)| table).collect();
    computed.seen.iter().filter(move |table| !differ.contains(table))
}

struct Builder<'a> {
    rows: &'a TableRows,
    found: HashMap<Box<str>, &'a TableRow>,
    children: HashMap<Box<str>, Vec<Box<str>>>,
    keys: HashMap<Box<str>, &'a PrimaryKey>,
    /// Tables that show the same to everybody and at all times; `None`: all do.
    steady: Option<HashSet<Box<str>>>,
    triggers: Option<HashSet<Box<str>>>,
    entries: HashMap<Box<str>, TableEntry>,
}

impl Builder<'_> {
    fn entry(&mut self, place: &str, depth: u8) -> TableEntry {
        if let Some(entry) = self.entries.get(place) {
            return entry.clone();
        }
        let unknown = TableEntry::unknown();
        let entry = match self.found.get(place).map(|row| &row.kind) {
            Some(TableKind::Table { engine }) if OWN_ROWS.iter().any(|own| own.eq_ignore_ascii_case(engine)) => {
                let (writes, comes_back) = self.written_with(place);
                let rows =
                    self.keys.get(place).map(|key| KnownRows { key: Arc::new((*key).clone()), alone: !comes_back });
                let is_steady = self.steady.as_ref().is_none_or(|steady| steady.contains(place));
                TableEntry { reads: TableScope::of(vec![key(place)]), writes, rows, is_steady }
            }
            Some(TableKind::View { definition: Some(definition) }) if depth < VIEWS_DEEP_MAX => {
                self.view(place, definition, depth)
            }
            _ => unknown,
        };
        // A view that was left for its depth may be known on its own.
        if depth < VIEWS_DEEP_MAX {
            self.entries.insert(place.into(), entry.clone());
        }
        entry
    }

    /// A view is what its query reads; a write through it may go to any of these tables.
    fn view(&mut self, place: &str, definition: &str, depth: u8) -> TableEntry {
        let unknown = TableEntry::unknown();
        let Ok(named) = sql::tables(definition.as_bytes(), &self.rows.dialect) else { return unknown };
        if !named.functions.is_empty() || !named.written.is_empty() {
            return unknown;
        }
        // Servers write the schema of every table. A view that names itself in a circle is broken.
        let own_schema = place.split('\0').next().unwrap_or_default().to_owned();
        self.entries.insert(place.into(), unknown);
        let is_steady = sql::varies(definition.as_bytes(), &self.rows.dialect).is_none();
        let mut all = TableEntry { reads: TableScope::nothing(), writes: TableScope::nothing(), rows: None, is_steady };
        for table in &named.read {
            let schema = table.schema.as_deref().unwrap_or(&own_schema);
            let of = self.entry(&super::place(self.rows.folds_case, schema, &table.name), depth + 1);
            all = TableEntry {
                reads: all.reads.and(&of.reads),
                writes: all.writes.and(&of.writes),
                rows: None,
                is_steady: all.is_steady && of.is_steady,
            };
        }
        all
    }

    /// The table, and what foreign keys write with it; anything if one of these has triggers. And whether they may write other rows of the
    /// table itself.
    fn written_with(&self, place: &str) -> (TableScope, bool) {
        let Some(triggers) = &self.triggers else { return (TableScope::Any, true) };
        let (mut seen, mut next): (Vec<&str>, usize) = (vec![place], 0);
        let mut comes_back = false;
        while let Some(table) = seen.get(next).copied() {
            if triggers.contains(table) || seen.len() > SCOPE_TABLES_MAX {
                return (TableScope::Any, true);
            }
            for child in self.children.get(table).into_iter().flatten() {
                comes_back |= **child == *place;
                if !seen.contains(&&**child) {
                    seen.push(child);
                }
            }
            next += 1;
        }
        let keys: Vec<TableKey> = seen.into_iter().map(key).collect();
        (TableScope::of(keys), comes_back)
    }
}
