//! State that a statement may leave on its connection without a word of the server.

use bitflags::bitflags;

use crate::cursor::Cursor;
use crate::dialect::{Dialect, Encoding, Family, Modes};
use crate::lexer::TokenKind;
use crate::words::W;

bitflags! {
    /// State that a statement, or a routine that it calls, may leave on its connection, and that no reply reports.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Leaves: u8 {
        /// Locks of GET_LOCK() whose names are not known.
        const USER_LOCKS = 1;
        /// LASTVAL() of a sequence.
        const SEQUENCES = 1 << 1;
        /// System variables, a role, handlers, temporary tables of a function, and the locks of tables and of the server: only
        /// the connection knows them.
        const UNREPORTED = 1 << 2;
        /// The replay of events by BINLOG. Further events follow on the same connection only; a number of SET insert_id goes
        /// with the next statement there; and no reset ends it (seen with MariaDB 10.11 and MySQL 9.7).
        const EVENTS = 1 << 3;
        /// Profiles of statements, or traces of the optimizer. No reset takes them away (seen with MariaDB 10.11 and MySQL 9.7).
        const TRACES = 1 << 4;
        /// The transaction that a procedure begins, if it does not end it. MySQL announces one that it has ended, too.
        const TRANSACTION = 1 << 5;
        /// Whatever code of an unknown text may leave. Events are not among it: to replay them takes a right that
        /// applications do not have. Nor are traces, which code has no use for: connections would be closed in vain.
        const OF_UNKNOWN_CODE = Self::USER_LOCKS.bits() | Self::SEQUENCES.bits() | Self::UNREPORTED.bits();
    }
}

/// A body may have been created in any of these: they change where a string ends.
const MODES_OF_BODIES: [Modes; 4] = [
    Modes::empty(),
    Modes::ANSI_QUOTES,
    Modes::NO_BACKSLASH_ESCAPES,
    Modes::ANSI_QUOTES.union(Modes::NO_BACKSLASH_ESCAPES),
];

impl Leaves {
    /// The state that a routine with this body may leave. Its words count, wherever they stand; a text that is made while the
    /// routine runs may leave anything.
    pub fn of_body(body: &str) -> Leaves {
        let dialect = |modes| Dialect { family: Family::MariaDb, version: u32::MAX, modes, encoding: Encoding::Utf8 };
        let sets = MODES_OF_BODIES.into_iter().any(|modes| sets_without_scope(body.as_bytes(), &dialect(modes)));
        of_text(body) | if sets { Leaves::UNREPORTED } else { Leaves::empty() }
    }

    /// The same of a compound statement.
    pub(crate) fn of_compound(text: &[u8], dialect: &Dialect) -> Leaves {
        let sets = sets_without_scope(text, dialect);
        of_text(&String::from_utf8_lossy(text)) | if sets { Leaves::UNREPORTED } else { Leaves::empty() }
    }
}

/// A comment may stand between two words that belong together, and a string may look like one.
fn of_text(text: &str) -> Leaves {
    let leaves = of_words(text);
    if text.contains("/*") || text.contains("--") || text.contains('#') {
        return leaves | of_words(&without_comments(text));
    }
    leaves
}

/// The text without its comments. Of those that servers run, only the signs before and the version are left out.
fn without_comments(text: &str) -> String {
    let (mut left, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(['/', '-', '#']) {
        let (before, comment) = rest.split_at(at);
        left.push_str(before);
        let executed = comment.strip_prefix("/*!").or_else(|| comment.strip_prefix("/*M!"));
        rest = match executed {
            Some(text) => text.trim_start_matches(|c: char| c.is_ascii_digit()),
            None if comment.starts_with("/*") => comment.split_once("*/").map_or("", |(_, rest)| rest),
            None if comment.starts_with("--") || comment.starts_with('#') => {
                comment.split_once('\n').map_or("", |(_, rest)| rest)
            }
            None => {
                left.push_str(&comment[..1]);
                &comment[1..]
            }
        };
        left.push(' ');
    }
    left.push_str(rest);
    left
}

fn of_words(body: &str) -> Leaves {
    let mut leaves = Leaves::empty();
    let (mut next, mut value, mut flush, mut lock) = (false, false, false, false);
    let mut before = "";
    for word in body.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').filter(|word| !word.is_empty()) {
        let is = |known: &str| word.eq_ignore_ascii_case(known);
        (next, value) = (next || is("next"), value || is("value"));
        // FLUSH TABLES … WITH READ LOCK or FOR EXPORT, LOCK INSTANCE FOR BACKUP.
        (flush, lock) = (flush || is("flush") || is("instance"), lock || is("lock") || is("export"));
        match () {
            () if is("get_lock") => leaves |= Leaves::USER_LOCKS,
            () if is("nextval") => leaves |= Leaves::SEQUENCES,
            () if is("execute") => leaves |= Leaves::OF_UNKNOWN_CODE,
            () if is("binlog") && !before.eq_ignore_ascii_case("show") => leaves |= Leaves::EVENTS,
            // A result in the old framing has no room for the report of a temporary table.
            () if is("temporary") && ["create", "replace"].iter().any(|verb| before.eq_ignore_ascii_case(verb)) => {
                leaves |= Leaves::UNREPORTED;
            }
            () if is("profiling") || is("optimizer_trace") => leaves |= Leaves::TRACES,
            // Behind an error no server tells of them, or the question for the report hides them.
            () if ["prepare", "insert_id", "default_week_format"].into_iter().any(is) => leaves |= Leaves::UNREPORTED,
            () if is("role") && before.eq_ignore_ascii_case("set") => leaves |= Leaves::UNREPORTED,
            () if is("transaction") && before.eq_ignore_ascii_case("start") => leaves |= Leaves::TRANSACTION,
            () => {}
        }
        before = word;
    }
    leaves.set(Leaves::SEQUENCES, leaves.contains(Leaves::SEQUENCES) || next && value);
    leaves.set(Leaves::UNREPORTED, leaves.contains(Leaves::UNREPORTED) || flush && lock);
    leaves
}

/// Whether a text assigns a system variable without a scope, as `SET @@x = 1` does: MariaDB's session tracker does not report
/// that (seen with 10.11 and 11.8).
fn sets_without_scope(text: &[u8], dialect: &Dialect) -> bool {
    if memchr::memmem::find(text, b"@@").is_none() {
        return false;
    }
    let mut cursor = Cursor::new(text, dialect);
    while !matches!(cursor.kind(), TokenKind::End | TokenKind::Bad) {
        let variable = cursor.kind() == TokenKind::SystemVariable;
        let assigned = cursor.before_word == W::Set || cursor.before == TokenKind::Comma;
        cursor.step();
        let equals = cursor.kind() == TokenKind::Operator && cursor.bytes() == b"=";
        if variable && (cursor.kind() == TokenKind::Assign || assigned && equals) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_that_set_a_variable_without_a_scope_are_found() {
        for body in [
            "SET @@sql_mode = ''",
            "BEGIN SELECT 1; set /* x */ @@`sql_mode`= 'ANSI'; END",
            "SET @x = 1, -- @@y\n @@sort_buffer_size := 5",
            "SET SESSION a = 1, @@b = 2",
            "SET @x = 'it\\'s', @@b = 2",
            "SET @x = '\\', @@b = 2",
            "SET @x = \"\\\", @@b = 2",
            "/*!50000 SET @@b = 2 */",
        ] {
            assert_eq!(Leaves::of_body(body), Leaves::UNREPORTED, "{body}");
        }
        for body in [
            "SET @x = @@sql_mode",
            "SET @@session.sql_mode = ''",
            "SET x = 1, @@local . y = 2",
            "IF @@error_count = 0 THEN SELECT 1; END IF",
            "SELECT a FROM t WHERE @@a = 1",
            "SELECT 'SET @@x = 1'",
            "SET x = 1 /* , @@y = 2 */",
        ] {
            assert_eq!(Leaves::of_body(body), Leaves::empty(), "{body}");
        }
    }

    #[test]
    fn comments_hide_no_temporary_table_and_no_role() {
        for body in [
            "CREATE /* c */ TEMPORARY TABLE t (i INT)",
            "CREATE OR REPLACE -- c\n TEMPORARY TABLE t (i INT)",
            "CREATE # c\n/**/TEMPORARY TABLE t (i INT)",
            "CREATE /*!50000 TEMPORARY */ TABLE t (i INT)",
            "CREATE/*M!100000 TEMPORARY*/TABLE t (i INT)",
            "SET /* c */ ROLE r",
            "SELECT '/*'; CREATE TEMPORARY TABLE t (i INT); SELECT '*/'",
        ] {
            assert_eq!(Leaves::of_body(body), Leaves::UNREPORTED, "{body}");
        }
        for body in ["SELECT 1 - 2 / 3 /* unclosed", "/* CREATE */ DROP TEMPORARY TABLE t", "SELECT role -- SET"] {
            assert_eq!(Leaves::of_body(body), Leaves::empty(), "{body}");
        }
    }

    #[test]
    fn bodies_that_begin_a_transaction_are_found() {
        let body = "BEGIN Start /* c */ TRANSACTION; INSERT INTO t VALUES (1); COMMIT; END";
        assert_eq!(Leaves::of_body(body), Leaves::TRANSACTION);
        assert_eq!(Leaves::of_body("BEGIN SET TRANSACTION READ ONLY; COMMIT; END"), Leaves::empty());
    }

    #[test]
    fn bodies_that_replay_events_are_found() {
        assert_eq!(Leaves::of_body("BEGIN BINLOG 'x'; END"), Leaves::EVENTS);
        assert_eq!(Leaves::of_body("SHOW BINLOG EVENTS LIMIT 1"), Leaves::empty());
    }

    #[test]
    fn bodies_that_trace_are_found() {
        for body in ["SET profiling = 1", "set session Profiling=ON", "SET optimizer_trace = 'enabled=on'"] {
            assert_eq!(Leaves::of_body(body), Leaves::TRACES, "{body}");
        }
        assert_eq!(Leaves::of_body("SHOW PROFILES"), Leaves::empty());
    }

    #[test]
    fn bodies_that_leave_what_an_error_hides_are_found() {
        for body in
            ["PREPARE q FROM 'SELECT 42'", "SET insert_id = 7", "BEGIN SET SESSION default_week_format = 3; END"]
        {
            assert_eq!(Leaves::of_body(body), Leaves::UNREPORTED, "{body}");
        }
        assert_eq!(Leaves::of_body("RETURN LAST_INSERT_ID()"), Leaves::empty());
    }

    #[test]
    fn bodies_that_create_temporary_tables_are_found() {
        for body in ["CREATE TEMPORARY TABLE t (a INT)", "create or replace\ntemporary table t (a INT)"] {
            assert_eq!(Leaves::of_body(body), Leaves::UNREPORTED, "{body}");
        }
        for body in ["DROP TEMPORARY TABLE t", "CREATE TABLE temporary (a INT)"] {
            assert_eq!(Leaves::of_body(body), Leaves::empty(), "{body}");
        }
    }

    #[test]
    fn bodies_that_lock_or_take_a_role_are_found() {
        for body in
            ["FLUSH TABLES WITH READ LOCK", "FLUSH TABLES t FOR EXPORT", "LOCK INSTANCE FOR BACKUP", "set\nrole r"]
        {
            assert_eq!(Leaves::of_body(body), Leaves::UNREPORTED, "{body}");
        }
        for body in ["FLUSH TABLES", "SELECT role FROM t", "SELECT a FROM t LOCK IN SHARE MODE"] {
            assert_eq!(Leaves::of_body(body), Leaves::empty(), "{body}");
        }
    }
}
