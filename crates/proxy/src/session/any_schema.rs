//! Statements of a session that has chosen no schema, and that do the same whatever schema their connection is in. A connection cannot go
//! back to no schema; with these, clients that log in without one and choose it later, as PHP's do, find connections that others have used.

use sql::{Access, Asks, Effect, Kind, Value, Why};
use wire::command::Command;

use super::Session;
use super::belief::Belief;
use super::query::{Body, Query};
use route::state::OF_SCHEMA;

/// Longer texts are not looked at.
const TEXT_BYTES_MAX: usize = 512;

/// Variables of a session that say nothing of schemas, and after which the session needs no connection of its own.
const PLAIN: [&str; 22] = [
    "character_set_client",
    "character_set_connection",
    "character_set_results",
    "collation_connection",
    "foreign_key_checks",
    "group_concat_max_len",
    "innodb_lock_wait_timeout",
    "interactive_timeout",
    "lock_wait_timeout",
    "max_execution_time",
    "max_statement_time",
    "net_read_timeout",
    "net_write_timeout",
    "optimizer_switch",
    "sql_mode",
    "sql_safe_updates",
    "sql_select_limit",
    "time_zone",
    "transaction_isolation",
    "tx_isolation",
    "unique_checks",
    "wait_timeout",
];

impl Session {
    /// Whether a statement does the same whatever schema its connection is in, and leaves nothing there that keeps the session on it:
    /// choosing a schema, setting a plain variable, asking for one. Only for a session without a schema; the others bring
    /// their connection into their own.
    #[inline]
    pub(super) fn does_same_in_any_schema(&self, query: &Query<'_>) -> bool {
        self.belief.state.schema().is_none() && self.here.held.is_none() && self.belief.is_without_schema(query)
    }
}

impl Belief {
    fn is_without_schema(&self, query: &Query<'_>) -> bool {
        if !self.facts().autocommit || OF_SCHEMA.iter().any(|name| self.state.variable(name).is_some()) {
            return false;
        }
        match query.command {
            Command::InitDb => true,
            Command::Query if matches!(query.body, Body::AsCame) => {
                query.text().is_some_and(|text| is_plain(&query.statement, text.bytes))
            }
            _ => false,
        }
    }
}

fn is_plain(statement: &sql::Statement, text: &[u8]) -> bool {
    if statement.parts != 1 || statement.transaction.is_some() || text.len() > TEXT_BYTES_MAX {
        return false;
    }
    match (statement.kind, statement.access) {
        (Kind::Use, _) => matches!(&statement.effects[..], [Effect::Schema(_)]),
        (Kind::Set, Access::Primary(Why::SessionChange)) => {
            statement.asks.is_empty() && !statement.effects.is_empty() && statement.effects.iter().all(is_plain_effect)
        }
        (Kind::Select, Access::Read | Access::Primary(Why::ServerState)) => {
            !statement.uses_tables
                && statement.effects.is_empty()
                && (statement.asks - Asks::SYSTEM_VARIABLES).is_empty()
                && !names_schemas(text)
        }
        _ => false,
    }
}

fn is_plain_effect(effect: &Effect) -> bool {
    match effect {
        Effect::Names { .. } => true,
        Effect::Variable { name, value: Value::Literal(_) } => PLAIN.contains(&&**name),
        Effect::TransactionCharacteristics { session, .. } => *session,
        _ => false,
    }
}

/// Whether a text has the words by which the schema and what follows from it is asked for: DATABASE(), SCHEMA(), `@@collation_database`.
/// MySQL 9.6 and later lack MD5(), SHA() and SHA1(), and look for stored functions of these names in the schema.
fn names_schemas(text: &[u8]) -> bool {
    let text = text.to_ascii_lowercase();
    [&b"database"[..], b"schema", b"md5", b"sha"].iter().any(|word| memchr::memmem::find(&text, word).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sql::{Dialect, Encoding, Family, Modes, NoFunctions};

    #[test]
    fn what_does_the_same_in_any_schema_is_known_by_its_text() {
        for (text, expected) in [
            ("USE shop", true),
            ("SET NAMES utf8mb4", true),
            ("SET NAMES 'utf8mb4' COLLATE 'utf8mb4_unicode_520_ci'", true),
            ("SET SESSION sql_mode='NO_ZERO_DATE', time_zone = '+00:00'", true),
            ("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", true),
            ("SELECT @@SESSION.sql_mode", true),
            ("SELECT 1", true),
            ("SELECT VERSION()", true),
            ("SET TRANSACTION ISOLATION LEVEL READ COMMITTED", false),
            ("SET CHARACTER SET latin1", false),
            ("SET autocommit = 0", false),
            ("SET @a = 1", false),
            ("SET sql_mode = (SELECT a FROM t)", false),
            ("SET sql_mode = f()", false),
            ("SET collation_connection = @@collation_database", false),
            ("SET profiling = 1", false),
            ("SELECT DATABASE()", false),
            ("SELECT schema()", false),
            ("SELECT MD5('x')", false),
            ("SELECT SHA('x'), 1", false),
            ("SELECT @@collation_database", false),
            ("SELECT f()", false),
            ("SELECT @a", false),
            ("SELECT GET_LOCK('a', 1)", false),
            ("SELECT a FROM t", false),
            ("SELECT a FROM shop.t", false),
            ("SHOW TABLES", false),
            ("SHOW WARNINGS", false),
            ("SELECT 1; SELECT 2", false),
            ("BEGIN", false),
            ("INSERT INTO shop.t VALUES (1)", false),
        ] {
            for family in [Family::MariaDb, Family::MySql] {
                let dialect = Dialect { family, version: 101_100, modes: Modes::empty(), encoding: Encoding::Utf8 };
                let statement = sql::classify(text.as_bytes(), &dialect, &NoFunctions);
                assert_eq!(is_plain(&statement, text.as_bytes()), expected, "{text}");
            }
        }
    }
}
