//! Functions whose value is another one each time, or on each server.

use crate::cursor::Cursor;
use crate::dialect::Dialect;
use crate::lexer::TokenKind;
use crate::text;

/// Functions that are called with parentheses.
const CALLED: &[&str] = &[
    "now",
    "current_timestamp",
    "localtime",
    "localtimestamp",
    "curdate",
    "current_date",
    "curtime",
    "current_time",
    "sysdate",
    "systimestamp",
    "utc_date",
    "utc_time",
    "utc_timestamp",
    "rand",
    "random_bytes",
    "uuid",
    "uuid_short",
    "uuid_v4",
    "uuid_v7",
    "sys_guid",
    "connection_id",
    "load_file",
    "sleep",
    "benchmark",
    "version",
    "nextval",
    "lastval",
    "setval",
    "get_lock",
    "release_lock",
    "release_all_locks",
    "is_free_lock",
    "is_used_lock",
    "master_pos_wait",
    "source_pos_wait",
    "master_gtid_wait",
    "wait_for_executed_gtid_set",
];

/// Functions that are called without any.
const BARE: &[&str] = &[
    "current_timestamp",
    "localtime",
    "localtimestamp",
    "current_date",
    "current_time",
    "sysdate",
    "utc_date",
    "utc_time",
    "utc_timestamp",
];

/// Variables of one server.
const VARIABLES: &[&str] =
    &["server_id", "server_uuid", "hostname", "port", "timestamp", "version", "pseudo_thread_id"];

/// The first function or variable of a text that would have another value if the text were run again, or elsewhere; `None`
/// if it names none. Strings, comments and qualified names are left alone; what stored functions, triggers and defaults of
/// columns do is not seen.
pub fn volatile(text: &[u8], dialect: &Dialect) -> Option<String> {
    let mut cursor = Cursor::new(text, dialect);
    while !matches!(cursor.kind(), TokenKind::End | TokenKind::Bad) {
        let found = match cursor.kind() {
            TokenKind::Word if cursor.before != TokenKind::Dot => function(&cursor),
            TokenKind::SystemVariable => variable(&cursor),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
        cursor.bump();
    }
    None
}

fn function(cursor: &Cursor<'_>) -> Option<String> {
    let name = text::identifier(cursor.token, cursor.text()).to_ascii_lowercase();
    let mut next = *cursor;
    next.bump();
    let is_called = next.kind() == TokenKind::Open;
    // With an argument it only converts.
    let tells_time = || {
        let mut inside = next;
        inside.bump();
        name == "unix_timestamp" && is_called && inside.kind() == TokenKind::Close
    };
    // NEXT VALUE FOR a sequence.
    let takes_next = || {
        let is = |cursor: &Cursor<'_>, word: &str| {
            cursor.kind() == TokenKind::Word && text::identifier(cursor.token, cursor.text()).eq_ignore_ascii_case(word)
        };
        name == "next" && is(&next, "value")
    };
    let known = |names: &[&str]| names.contains(&&*name);
    (is_called && known(CALLED) || !is_called && known(BARE) || tells_time() || takes_next())
        .then(|| name.to_ascii_uppercase())
}

fn variable(cursor: &Cursor<'_>) -> Option<String> {
    let mut name = text::system_variable(cursor.token, cursor.text()).to_ascii_lowercase();
    let mut next = *cursor;
    next.bump();
    if matches!(&*name, "session" | "local" | "global") && next.accept_kind(TokenKind::Dot) {
        name = text::identifier(next.token, next.text()).to_ascii_lowercase();
    }
    VARIABLES.contains(&&*name).then(|| format!("@@{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoding, Family, Modes};

    fn found(text: &str) -> Option<String> {
        let dialect =
            Dialect { family: Family::MariaDb, version: 101_100, modes: Modes::empty(), encoding: Encoding::Utf8 };
        volatile(text.as_bytes(), &dialect)
    }

    #[test]
    fn functions_that_give_something_else_each_time_are_found() {
        for (text, name) in [
            ("INSERT INTO t VALUES (1, now())", "NOW"),
            ("UPDATE t SET a = current_timestamp", "CURRENT_TIMESTAMP"),
            ("INSERT INTO t SELECT a, /*!50000 RAND() */ FROM u", "RAND"),
            ("INSERT INTO t VALUES (UUID())", "UUID"),
            ("INSERT INTO t VALUES (UNIX_TIMESTAMP( ))", "UNIX_TIMESTAMP"),
            ("INSERT INTO t VALUES (@@hostname)", "@@hostname"),
            ("INSERT INTO t VALUES (@@GLOBAL.server_id)", "@@server_id"),
            ("INSERT INTO t VALUES (NEXT VALUE FOR s)", "NEXT"),
        ] {
            assert_eq!(found(text).as_deref(), Some(name), "{text}");
        }
    }

    #[test]
    fn names_strings_and_comments_are_not() {
        for text in [
            "INSERT INTO t (now, uuid) VALUES (1, 'now()')",
            "UPDATE t SET t.current_timestamp = 1 /* rand() */",
            "INSERT INTO t VALUES (UNIX_TIMESTAMP('2020-01-01'), @now, 'UUID()')",
            "UPDATE t SET `current_date` = 1",
            "SELECT @@session.sql_mode",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
