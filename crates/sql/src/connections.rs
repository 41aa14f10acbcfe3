//! Where a text asks for the ids of connections: tables that list them, and functions that give or take one.

use crate::cursor::Cursor;
use crate::dialect::Dialect;
use crate::lexer::TokenKind;
use crate::text;

/// A table that lists connections.
#[derive(Debug, PartialEq, Eq)]
pub struct IdTable {
    /// Its schema, lower case.
    pub schema: &'static str,
    /// Its name, lower case.
    pub name: &'static str,
    /// The columns that hold ids, lower case.
    pub ids: &'static [&'static str],
    /// It has a row for each connection, described as SHOW PROCESSLIST does.
    pub is_process_list: bool,
}

const fn table(schema: &'static str, name: &'static str, ids: &'static [&'static str]) -> IdTable {
    IdTable { schema, name, ids, is_process_list: false }
}

const PERFORMANCE: &str = "performance_schema";
const INFORMATION: &str = "information_schema";

static TABLES: [IdTable; 14] = [
    IdTable { is_process_list: true, ..table(INFORMATION, "processlist", &["id"]) },
    IdTable { is_process_list: true, ..table(PERFORMANCE, "processlist", &["id"]) },
    table(INFORMATION, "innodb_trx", &["trx_mysql_thread_id"]),
    table(INFORMATION, "metadata_lock_info", &["thread_id"]),
    table(INFORMATION, "thread_pool_queues", &["connection_id"]),
    table(PERFORMANCE, "threads", &["processlist_id"]),
    table(PERFORMANCE, "session_connect_attrs", &["processlist_id"]),
    table(PERFORMANCE, "session_account_connect_attrs", &["processlist_id"]),
    table("sys", "processlist", &["conn_id"]),
    table("sys", "x$processlist", &["conn_id"]),
    table("sys", "session", &["conn_id"]),
    table("sys", "x$session", &["conn_id"]),
    table("sys", "innodb_lock_waits", &["waiting_pid", "blocking_pid"]),
    table("sys", "schema_table_lock_waits", &["waiting_pid", "blocking_pid"]),
];

/// Whether names without a schema may be those of tables that list connections.
pub fn is_schema_of_ids(schema: &str) -> bool {
    TABLES.iter().any(|table| table.schema.eq_ignore_ascii_case(schema))
}

/// The table of this name, if it lists connections.
pub(crate) fn id_table(schema: &[u8], name: &[u8]) -> Option<&'static IdTable> {
    let is = |known: &str, word: &[u8]| word.eq_ignore_ascii_case(known.as_bytes());
    TABLES.iter().find(|table| is(table.schema, schema) && is(table.name, name))
}

/// A place in a text that is to be replaced.
#[derive(Debug, PartialEq, Eq)]
pub struct IdPlace {
    /// Where it begins.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// The kind of question that stands there.
    pub what: IdUse,
}

/// A kind of question for ids.
#[derive(Debug, PartialEq, Eq)]
pub enum IdUse {
    /// A table that is read; `named` if an alias follows.
    Table {
        /// The table.
        table: &'static IdTable,
        /// An alias follows.
        named: bool,
    },
    /// A function that gives the id of a connection.
    Gives,
    /// A function that takes one as its only argument, which begins and ends here.
    Takes {
        /// Where the argument begins.
        start: usize,
        /// Where it ends.
        end: usize,
    },
}

/// All places of a text that ask for ids.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// In order.
    pub places: Vec<IdPlace>,
    /// There are others, which cannot be replaced: tables that are written, and tables' names before a column's.
    pub others: bool,
}

/// Finds the places of a text that ask for ids of connections. `schema` is that of names that have none.
pub fn places(text: &[u8], dialect: &Dialect, schema: Option<&str>) -> Places {
    let mut cursor = Cursor::new(text, dialect);
    let mut found = Places::default();
    let mut word: &[u8] = b"";
    while !matches!(cursor.kind(), TokenKind::End | TokenKind::Bad) {
        let is_named_alone = cursor.at_name() && cursor.before != TokenKind::Dot;
        let before = (cursor.before, std::mem::replace(&mut word, cursor.bytes()));
        if !is_named_alone {
            cursor.bump();
            continue;
        }
        let start = cursor.token.start;
        let mut schema = schema.map(str::as_bytes);
        let mut name = cursor;
        cursor.bump();
        if cursor.kind() == TokenKind::Dot {
            schema = Some(text::unquoted(name.token, text));
            cursor.bump();
            if !cursor.at_name() {
                continue;
            }
            name = cursor;
            cursor.bump();
        }
        let bytes = text::unquoted(name.token, text);
        if cursor.kind() == TokenKind::Open {
            let (what, end) = match function(bytes, cursor) {
                Some(call) => call,
                None => continue,
            };
            found.places.push(IdPlace { start, end, what });
            continue;
        }
        let Some(table) = schema.and_then(|schema| id_table(schema, bytes)) else { continue };
        let is_read = match before {
            (TokenKind::Comma | TokenKind::Open, _) => true,
            (TokenKind::Word, word) => is_any(word, &[b"from", b"join", b"straight_join"]),
            _ => false,
        };
        if !is_read || cursor.kind() == TokenKind::Dot {
            found.others = true;
            continue;
        }
        let named = cursor.at_name() && !ends_reference(&cursor);
        found.places.push(IdPlace { start, end: name.token.end, what: IdUse::Table { table, named } });
    }
    found
}

/// The kind of a function's call, and where it ends; the opening parenthesis is in hand.
fn function(name: &[u8], open: Cursor<'_>) -> Option<(IdUse, usize)> {
    let gives = name.eq_ignore_ascii_case(b"is_used_lock");
    if !gives && !name.eq_ignore_ascii_case(b"ps_thread_id") {
        return None;
    }
    let mut cursor = open;
    let mut depth = 0_usize;
    while !cursor.at_end() {
        match cursor.kind() {
            TokenKind::Open => depth += 1,
            TokenKind::Close => depth -= 1,
            _ => {}
        }
        let (start, end) = (cursor.before_end, cursor.token.end);
        if depth == 0 {
            let argument = IdUse::Takes { start: open.token.end, end: start };
            return Some((if gives { IdUse::Gives } else { argument }, end));
        }
        cursor.step();
    }
    None
}

/// Whether the word in hand belongs to what follows a table's name in a FROM clause: it is no alias.
fn ends_reference(cursor: &Cursor<'_>) -> bool {
    const FOLLOWING: [&[u8]; 28] = [
        b"where",
        b"join",
        b"inner",
        b"cross",
        b"left",
        b"right",
        b"natural",
        b"straight_join",
        b"on",
        b"using",
        b"group",
        b"having",
        b"order",
        b"limit",
        b"union",
        b"except",
        b"intersect",
        b"for",
        b"into",
        b"lock",
        b"window",
        b"fetch",
        b"use",
        b"force",
        b"ignore",
        b"set",
        b"offset",
        b"procedure",
    ];
    cursor.kind() == TokenKind::Word && is_any(cursor.bytes(), &FOLLOWING)
}

fn is_any(word: &[u8], of: &[&[u8]]) -> bool {
    of.iter().any(|known| word.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Encoding, Family, Modes};

    fn found(text: &str, schema: Option<&str>) -> (Vec<String>, bool) {
        let dialect =
            Dialect { family: Family::MySql, version: 90_700, modes: Modes::empty(), encoding: Encoding::Utf8 };
        let places = places(text.as_bytes(), &dialect, schema);
        let say = |place: &IdPlace| match &place.what {
            IdUse::Table { table, named } => {
                format!(
                    "{}={}.{}{}",
                    &text[place.start..place.end],
                    table.schema,
                    table.name,
                    if *named { "+" } else { "" }
                )
            }
            IdUse::Gives => format!("gives {}", &text[place.start..place.end]),
            IdUse::Takes { start, end } => format!("{} takes {}", &text[place.start..place.end], &text[*start..*end]),
        };
        (places.places.iter().map(say).collect(), places.others)
    }

    #[test]
    fn tables_that_are_read_are_found() {
        let list = "information_schema.processlist";
        for (text, expected, others) in [
            ("SELECT * FROM information_schema.PROCESSLIST", format!("information_schema.PROCESSLIST={list}"), false),
            (
                "SELECT 1 FROM `Information_Schema` . processlist p WHERE 1",
                format!("`Information_Schema` . processlist={list}+"),
                false,
            ),
            (
                "SELECT 1 FROM t, information_schema.processlist AS p",
                format!("information_schema.processlist={list}+"),
                false,
            ),
            (
                "SELECT 1 FROM t JOIN performance_schema.threads USING (x)",
                "performance_schema.threads=performance_schema.threads".into(),
                false,
            ),
            ("SELECT 1 FROM sys.session LIMIT 1", "sys.session=sys.session".into(), false),
            ("UPDATE performance_schema.threads SET instrumented = 'NO'", String::new(), true),
            ("SELECT performance_schema.threads.name", String::new(), true),
            ("SELECT 1 FROM app.processlist", String::new(), false),
            ("SELECT 'FROM information_schema.processlist'", String::new(), false),
        ] {
            assert_eq!(
                found(text, None),
                (Vec::from_iter(Some(expected).filter(|text| !text.is_empty())), others),
                "{text}"
            );
        }
        assert_eq!(found("SELECT id FROM processlist", Some("INFORMATION_SCHEMA")).0.len(), 1);
        assert_eq!(found("SELECT processlist.id FROM t", Some("information_schema")).0.len(), 0);
        assert!(is_schema_of_ids("Sys") && !is_schema_of_ids("app"));
    }

    #[test]
    fn functions_of_ids_are_found() {
        let text = "SELECT IS_USED_LOCK(CONCAT('a', (1))) = CONNECTION_ID(), sys.ps_thread_id( 5 )";
        let expected = ["gives IS_USED_LOCK(CONCAT('a', (1)))", "sys.ps_thread_id( 5 ) takes  5"];
        assert_eq!(found(text, None).0, expected);
        assert_eq!(found("SELECT IS_USED_LOCK('a'", None).0.len(), 0);
    }
}
