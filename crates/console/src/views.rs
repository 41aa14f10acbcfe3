//! The views: tables of the console, each with its columns and the rows of a moment.

mod costs;
pub(crate) mod gather;
mod info;
mod listeners;
mod live;
mod proxysql;
mod proxysql_config;
mod proxysql_digests;
mod regressions;
mod state;

use self::gather::Gathered;
use crate::cells::Row;
use crate::columns::Column;

/// A table of the console.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) name: &'static str,
    pub(crate) schema: Schema,
    /// One sentence for `information_schema.tables`.
    pub(crate) about: &'static str,
    pub(crate) columns: &'static [Column],
    pub(crate) needs: &'static [Need],
    pub(crate) rows: Rows,
}

/// Where a view is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schema {
    /// `main`.
    Main,
    /// `stats`, and `main` as well: tools that were written for ProxySQL use both.
    Stats,
    /// `information_schema` only.
    Information,
}

/// State that is asked for before a statement runs; all other state is read where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The digests of all workers.
    Digests,
    /// The sessions.
    Sessions,
    /// The growth of digests since the history's last look at them.
    Growth,
}

/// Where rows come from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rows {
    /// The state of the moment.
    Of(fn(&Gathered) -> Vec<Row>),
    /// The state of the moment and the file of history; the error is for the client.
    Compared(fn(&Gathered) -> Result<Vec<Row>, String>),
    /// The file of history, which SQLite reads by itself.
    History,
}

/// The schemas that `SHOW DATABASES` lists, the first of which is the default.
pub(crate) const SCHEMAS: [&str; 3] = ["main", "stats", INFORMATION];
/// The schema of tools' questions about the tables themselves.
pub(crate) const INFORMATION: &str = "information_schema";

/// All views, those that begin with the field's words first.
pub(crate) fn all() -> impl Iterator<Item = &'static View> {
    [
        state::VIEWS,
        live::VIEWS,
        listeners::VIEWS,
        costs::VIEWS,
        regressions::VIEWS,
        proxysql::VIEWS,
        proxysql_digests::VIEWS,
        proxysql_config::VIEWS,
        info::VIEWS,
    ]
    .into_iter()
    .flatten()
}

/// The view of this name in a schema.
pub(crate) fn find(schema: &str, name: &str) -> Option<&'static View> {
    all().find(|view| view.is_in(schema) && view.name.eq_ignore_ascii_case(name))
}

impl View {
    /// Whether a schema has it.
    pub(crate) fn is_in(&self, schema: &str) -> bool {
        match self.schema {
            Schema::Main => schema.eq_ignore_ascii_case("main"),
            Schema::Stats => schema.eq_ignore_ascii_case("stats") || schema.eq_ignore_ascii_case("main"),
            Schema::Information => schema.eq_ignore_ascii_case(INFORMATION),
        }
    }

    /// The statement that would make it.
    pub(crate) fn definition(&self) -> String {
        let columns: Vec<String> =
            self.columns.iter().map(|column| format!("    \"{}\" {}", column.name, column.kind.word())).collect();
        format!("CREATE TABLE \"{}\" (\n{}\n)", self.name, columns.join(",\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_there_once_and_views_are_described() {
        let mut known = std::collections::BTreeSet::new();
        for view in all() {
            assert!(known.insert((view.is_in(INFORMATION), view.name.to_ascii_lowercase())), "{} twice", view.name);
            assert!(view.about.ends_with('.') && view.about.len() < 120, "{}: {}", view.name, view.about);
            let mut columns: Vec<_> = view.columns.iter().map(|column| column.name.to_ascii_lowercase()).collect();
            columns.sort();
            assert!(columns.windows(2).all(|pair| pair[0] != pair[1]), "{}: {columns:?}", view.name);
        }
        assert!(find("stats", "STATS_mysql_global").is_some() && find("stats", "digests").is_none());
        assert!(find(INFORMATION, "tables").is_some() && find("main", "tables").is_none());
    }
}
