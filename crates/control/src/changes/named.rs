//! From a transaction of the log to the tables that it changed.

use std::collections::BTreeMap;

use facts::changes::{ChangeScope, TableChange};
use sql::{Dialect, Encoding, Family, Modes};
use wire::binlog::changes::{self as log, Statement};

/// Bits of `sql_mode` as both families log them.
const BITS: [(u64, Modes); 4] = [
    (1 << 1, Modes::PIPES_AS_CONCAT),
    (1 << 2, Modes::ANSI_QUOTES),
    (1 << 3, Modes::IGNORE_SPACE),
    (1 << 20, Modes::NO_BACKSLASH_ESCAPES),
];
/// MariaDB's mode for Oracle's syntax.
const ORACLE: u64 = 1 << 9;

/// The changes of a transaction, as far as its text and rows tell.
pub(super) fn what(family: Family, version: u32, transaction: log::LoggedChange) -> ChangeScope {
    let (tables, statements) = match transaction {
        log::LoggedChange::Everything(why) => return ChangeScope::Everything(why),
        log::LoggedChange::These { tables, statements } => (tables, statements),
    };
    let mut all: BTreeMap<(Box<str>, Box<str>), TableChange> = BTreeMap::new();
    for table in tables {
        let log::TableChange { schema, table, keys } = table;
        let change = TableChange { schema: schema.clone(), table: table.clone(), keys, defined: false };
        all.insert((schema, table), change);
    }
    for statement in statements {
        let Some(named) = named(family, version, &statement) else {
            return ChangeScope::Everything("a statement was logged whose tables are not known");
        };
        for name in named.written {
            let schema = name.schema.unwrap_or_else(|| statement.schema.clone());
            let place = (schema.clone(), name.name.clone());
            let new = || TableChange { schema, table: name.name, keys: None, defined: false };
            let change = all.entry(place).or_insert_with(new);
            change.keys = None;
            change.defined |= named.defines;
        }
    }
    ChangeScope::Tables(all.into_values().collect())
}

fn named(family: Family, version: u32, statement: &Statement) -> Option<sql::Tables> {
    let bits = statement.sql_mode?;
    // The text's character set is the session's; what is ASCII is the same in all that a session can have.
    if !statement.text.is_ascii() || (family == Family::MariaDb && bits & ORACLE != 0) {
        return None;
    }
    let modes = BITS.iter().filter(|(bit, _)| bits & bit != 0).fold(Modes::empty(), |all, (_, mode)| all | *mode);
    let dialect = Dialect { family, version, modes, encoding: Encoding::AsciiSafe };
    let named = sql::tables(&statement.text, &dialect).ok()?;
    // A function may write anything, and a name without a schema must be in one.
    let placed = !statement.schema.is_empty() || named.written.iter().all(|name| name.schema.is_some());
    (named.functions.is_empty() && placed).then_some(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(schema: &str, sql_mode: Option<u64>, text: &str) -> String {
        let statement = Statement { schema: schema.into(), sql_mode, text: text.as_bytes().into() };
        let transaction = log::LoggedChange::These { tables: Vec::new(), statements: vec![statement] };
        match what(Family::MySql, 80400, transaction) {
            ChangeScope::Everything(_) => "everything".into(),
            ChangeScope::Tables(tables) => {
                let one = |table: &TableChange| {
                    assert!(table.keys.is_none());
                    format!("{}.{}{}", table.schema, table.table, if table.defined { "!" } else { "" })
                };
                tables.iter().map(one).collect::<Vec<_>>().join(" ")
            }
        }
    }

    #[test]
    fn statements_change_what_they_name() {
        assert_eq!(of("app", Some(0), "INSERT INTO t VALUES (1)"), "app.t");
        assert_eq!(of("app", Some(0), "UPDATE other.t SET a = 1"), "other.t");
        assert_eq!(of("", Some(0), "UPDATE other.t SET a = 1"), "other.t");
        assert_eq!(of("app", Some(0), "ALTER TABLE t ADD b INT"), "app.t!");
        assert_eq!(of("app", Some(4), "INSERT INTO \"t\" VALUES (1)"), "app.t");
    }

    #[test]
    fn what_is_not_understood_changes_everything() {
        for text in ["XA COMMIT 'x'", "DROP DATABASE app", "CALL p()", "what", "INSERT INTO t VALUES (f())"] {
            assert_eq!(of("app", Some(0), text), "everything", "{text}");
        }
        assert_eq!(of("", Some(0), "INSERT INTO t VALUES (1)"), "everything");
        assert_eq!(of("app", None, "INSERT INTO t VALUES (1)"), "everything");
        assert_eq!(of("app", Some(0), "INSERT INTO t VALUES ('ä')"), "everything");
    }
}
