//! Rewriting, literals, identifiers, modes and encodings.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, outside #[test] functions")]

use sqluice_sql::lexer::{Lexer, TokenKind};
use sqluice_sql::{
    Asks, Dialect, Encoding, Family, Modes, NoFunctions, classify, digest, digest_hash, encoding_of_charset,
    modes_from_sql_mode, rewrite, text,
};

const DIALECT: Dialect =
    Dialect { family: Family::MariaDb, version: 101119, modes: Modes::empty(), encoding: Encoding::Utf8 };

const KNOWN: [rewrite::OwnValue<'_>; 5] = [
    rewrite::OwnValue::ConnectionId(42),
    rewrite::OwnValue::RowCount(-1),
    rewrite::OwnValue::FoundRows(7),
    rewrite::OwnValue::TrackedVariables("autocommit"),
    rewrite::OwnValue::LastGtid("0-1-7"),
];

#[test]
fn what_is_tracked_is_what_the_client_asked_for() {
    let sql = "SET session_track_system_variables=CONCAT(@@session_track_system_variables, ',x')";
    assert_eq!(
        rewritten(sql).unwrap(),
        "SET session_track_system_variables=CONCAT(IF(1,'autocommit',@@time_zone), ',x')"
    );
    assert_eq!(
        rewritten("SELECT @@session.session_track_system_variables").unwrap(),
        "SELECT IF(1,'autocommit',@@time_zone) AS `@@session.session_track_system_variables`"
    );
    assert_eq!(rewritten("SET x = @@global.session_track_system_variables"), None);
    assert_eq!(rewritten("SET @@session_track_system_variables = 'x'"), None);
}

#[test]
fn the_last_commit_is_the_sessions_own_until_a_statement_goes_before() {
    assert_eq!(rewritten("SELECT @@Last_GTID").unwrap(), "SELECT IF(1,'0-1-7',NULL) AS `@@Last_GTID`");
    assert_eq!(rewritten("SET @a = @@session.last_gtid").unwrap(), "SET @a = IF(1,'0-1-7',NULL)");
    for unchanged in ["INSERT INTO t VALUES (1); SELECT @@last_gtid", "SELECT last_gtid, '@@last_gtid' FROM t"] {
        assert_eq!(rewritten(unchanged), None);
    }
}

fn rewritten(sql: &str) -> Option<String> {
    let dialect = Dialect { family: Family::MySql, version: 90700, ..DIALECT };
    rewrite::functions(sql.as_bytes(), &dialect, &KNOWN).map(|rewritten| String::from_utf8(rewritten.text).unwrap())
}

#[track_caller]
fn assert_rewritten(sql: &str, expected: &str) {
    // The id, as it is written for MySQL, and that of the variable.
    let expected = expected
        .replace("42", "CAST(42 AS UNSIGNED)")
        .replace("THE_ID", "IF(1,CAST(000000000000000000042 AS UNSIGNED),NULL)");
    assert_eq!(rewritten(sql).as_deref(), Some(&*expected), "{sql}");
}

#[test]
fn what_the_last_statement_left_is_put_in() {
    assert_rewritten(
        "SELECT ROW_COUNT(), found_rows() AS n",
        "SELECT CAST(-1 AS SIGNED) AS `ROW_COUNT()`, IF(1,7,FOUND_ROWS()) AS n",
    );
    assert_eq!(rewritten("SELECT row_count, 'FOUND_ROWS()'"), None);
}

/// Clauses of an INSERT end the list of its query, and that of MariaDB's RETURNING begins behind it.
#[test]
fn names_of_columns_end_where_other_clauses_begin() {
    assert_rewritten(
        "INSERT INTO t (a) SELECT CONNECTION_ID() ON DUPLICATE KEY UPDATE n = CONNECTION_ID()",
        "INSERT INTO t (a) SELECT 42 AS `CONNECTION_ID()` ON DUPLICATE KEY UPDATE n = 42",
    );
    assert_rewritten("SELECT CONNECTION_ID() returning", "SELECT 42 returning");
    let returned = rewrite::functions(b"INSERT INTO t SELECT ROW_COUNT() RETURNING FOUND_ROWS(), 1", &DIALECT, &KNOWN);
    assert_eq!(
        String::from_utf8(returned.unwrap().text).unwrap(),
        "INSERT INTO t SELECT -00000000000000000001 AS `ROW_COUNT()` RETURNING 000000000000000000007 AS `FOUND_ROWS()`, 1"
    );
}

/// A server announces as many digits as a literal has, unless it is cast.
#[test]
fn only_what_the_last_text_left_is_put_in() {
    let (rows, found) = ("CAST(-1 AS SIGNED)", "IF(1,7,FOUND_ROWS())");
    for (sql, expected) in [
        ("SELECT ROW_COUNT(); SET NAMES utf8", format!("SELECT {rows} AS `ROW_COUNT()`; SET NAMES utf8")),
        (
            "SET @a = 1; SELECT FOUND_ROWS(), ROW_COUNT()",
            format!("SET @a = 1; SELECT {found} AS `FOUND_ROWS()`, ROW_COUNT()"),
        ),
        (
            "GET DIAGNOSTICS @n = NUMBER; SELECT ROW_COUNT()",
            format!("GET DIAGNOSTICS @n = NUMBER; SELECT {rows} AS `ROW_COUNT()`"),
        ),
        (
            "SHOW WARNINGS; SHOW ERRORS LIMIT 1; SELECT FOUND_ROWS()",
            format!("SHOW WARNINGS; SHOW ERRORS LIMIT 1; SELECT {found} AS `FOUND_ROWS()`"),
        ),
        ("SELECT FOUND_ROWS(); SELECT FOUND_ROWS()", format!("SELECT {found} AS `FOUND_ROWS()`; SELECT FOUND_ROWS()")),
    ] {
        assert_rewritten(sql, &expected);
    }
    for sql in [
        "CALL p(); SELECT FOUND_ROWS()",
        "CREATE PROCEDURE p() SELECT ROW_COUNT()",
        "WHILE 1 DO SELECT ROW_COUNT(); END WHILE",
    ] {
        assert_eq!(rewritten(sql), None, "{sql}");
    }
}

#[test]
fn values_have_the_type_of_the_function() {
    let sql = b"SELECT CONNECTION_ID(), ROW_COUNT(), FOUND_ROWS()";
    let text = String::from_utf8(rewrite::functions(sql, &DIALECT, &KNOWN).unwrap().text).unwrap();
    let expected = "SELECT CAST(0000000042 AS UNSIGNED) AS `CONNECTION_ID()`, -00000000000000000001 AS `ROW_COUNT()`, \
                    000000000000000000007 AS `FOUND_ROWS()`";
    assert_eq!(text, expected);
}

#[test]
fn the_count_of_the_oracle_mode_is_row_count() {
    let oracle = Dialect { modes: Modes::ORACLE, ..DIALECT };
    let known = [rewrite::OwnValue::RowCount(5)];
    let rewritten = |sql: &str, dialect: &Dialect| {
        let rewritten = rewrite::functions(sql.as_bytes(), dialect, &known)?;
        Some(String::from_utf8(rewritten.text).unwrap())
    };
    let five = "000000000000000000005";
    for (sql, expected) in [
        ("SELECT SQL%ROWCOUNT", format!("SELECT {five} AS `SQL%ROWCOUNT`")),
        ("SELECT sql % RowCount + 1 n", format!("SELECT {five} + 1 n")),
        ("SET @x = SQL%ROWCOUNT", format!("SET @x = {five}")),
    ] {
        assert_eq!(rewritten(sql, &oracle), Some(expected));
        assert_eq!(rewritten(sql, &DIALECT), None, "a name in other modes");
    }
    for sql in ["SELECT a.SQL%ROWCOUNT FROM t", "SELECT c%ROWCOUNT", "SELECT SQL%ROW", "SELECT 'SQL%ROWCOUNT'"] {
        assert_eq!(rewritten(sql, &oracle), None);
    }
    let asks = |sql: &str, dialect| classify(sql.as_bytes(), dialect, &NoFunctions).asks;
    assert!(asks("SELECT SQL%ROWCOUNT", &oracle).contains(Asks::ROW_COUNT));
    assert!(asks("SELECT SQL%ROWCOUNT", &DIALECT).is_empty());
}

#[test]
fn a_bare_item_keeps_its_column_name() {
    assert_rewritten("SELECT CONNECTION_ID()", "SELECT 42 AS `CONNECTION_ID()`");
    assert_rewritten("select connection_id ( ) from t", "select 42 AS `connection_id ( )` from t");
    assert_rewritten("SELECT 1, Connection_Id(), 2", "SELECT 1, 42 AS `Connection_Id()`, 2");
    assert_rewritten(
        "SELECT CONNECTION_ID(), CONNECTION_ID();",
        "SELECT 42 AS `CONNECTION_ID()`, 42 AS `CONNECTION_ID()`;",
    );
    assert_rewritten("SELECT DISTINCT CONNECTION_ID() LIMIT 1", "SELECT DISTINCT 42 AS `CONNECTION_ID()` LIMIT 1");
    assert_rewritten("SELECT 1; SELECT CONNECTION_ID()", "SELECT 1; SELECT 42 AS `CONNECTION_ID()`");
    assert_rewritten(
        "SELECT * FROM (SELECT CONNECTION_ID()) AS x",
        "SELECT * FROM (SELECT 42 AS `CONNECTION_ID()`) AS x",
    );
    assert_rewritten("SELECT `connection_id`()", "SELECT 42 AS ```connection_id``()`");
}

#[test]
fn an_alias_or_an_expression_needs_no_name() {
    assert_rewritten("SELECT CONNECTION_ID() AS id", "SELECT 42 AS id");
    assert_rewritten("SELECT CONNECTION_ID() id", "SELECT 42 id");
    assert_rewritten("SELECT CONNECTION_ID() 'id'", "SELECT 42 'id'");
    assert_rewritten("SELECT 1 + CONNECTION_ID() AS id", "SELECT 1 + 42 AS id");
    assert_rewritten("SELECT 1 + CONNECTION_ID() x", "SELECT 1 + 42 x");
    assert_rewritten("SELECT CONNECTION_ID() /* a */ + 1", "SELECT 42 /* a */ + 1");
    assert_rewritten("SELECT a FROM t WHERE id = CONNECTION_ID()", "SELECT a FROM t WHERE id = 42");
    assert_rewritten("SELECT a FROM t ORDER BY a, CONNECTION_ID()", "SELECT a FROM t ORDER BY a, 42");
    assert_rewritten("KILL CONNECTION_ID()", "KILL 42");
    assert_rewritten("INSERT INTO t VALUES (1, CONNECTION_ID())", "INSERT INTO t VALUES (1, 42)");
    assert_rewritten("SET @a = CONNECTION_ID()", "SET @a = 42");
}

/// The single statement of a text needs none of these, but the descriptions of its columns; a text of several has no other way.
#[test]
fn an_expression_keeps_its_column_name() {
    for (sql, expected) in [
        ("SELECT CONNECTION_ID() + 1", "SELECT 42 + 1 AS `CONNECTION_ID() + 1`"),
        ("SELECT 1 + CONNECTION_ID(), 2", "SELECT 1 + 42 AS `1 + CONNECTION_ID()`, 2"),
        ("SELECT f(a, CONNECTION_ID()) FROM t", "SELECT f(a, 42) AS `f(a, CONNECTION_ID())` FROM t"),
        ("SELECT 1, CONNECTION_ID() = t.a; SELECT 2", "SELECT 1, 42 = t.a AS `CONNECTION_ID() = t.a`; SELECT 2"),
        ("SELECT CONNECTION_ID() IS NOT NULL;", "SELECT 42 IS NOT NULL AS `CONNECTION_ID() IS NOT NULL`;"),
        ("SELECT (SELECT CONNECTION_ID())", "SELECT (SELECT 42 AS `CONNECTION_ID()`) AS `(SELECT CONNECTION_ID())`"),
        ("DO 1; SELECT CONNECTION_ID() = @id", "DO 1; SELECT 42 = @id AS `CONNECTION_ID() = @id`"),
        ("SELECT CONNECTION_ID() + a FROM t", "SELECT 42 + a AS `CONNECTION_ID() + a` FROM t"),
        ("SELECT CONNECTION_ID() || 'a'", "SELECT 42 || 'a' AS `CONNECTION_ID() || 'a'`"),
        // An alias stays.
        ("SELECT CONNECTION_ID() = @id mine", "SELECT 42 = @id mine"),
        ("SELECT CONNECTION_ID() + a mine FROM t", "SELECT 42 + a mine FROM t"),
        ("SELECT CONNECTION_ID() + 1 'mine'", "SELECT 42 + 1 'mine'"),
    ] {
        assert_rewritten(sql, expected);
    }
}

#[test]
fn the_variable_counts_as_the_function() {
    assert_rewritten("SELECT @@pseudo_thread_id", "SELECT THE_ID AS `@@pseudo_thread_id`");
    assert_rewritten("SELECT @@session.pseudo_thread_id AS x", "SELECT THE_ID AS x");
    assert_eq!(rewritten("SET @@pseudo_thread_id = 5, @@session.pseudo_thread_id = 6"), None);
    assert_rewritten("SET @x = (@@pseudo_thread_id = 5)", "SET @x = (THE_ID = 5)");
    assert_rewritten("SELECT @@pseudo_thread_id = CONNECTION_ID() AS x", "SELECT THE_ID = 42 AS x");
    assert_eq!(rewritten("SELECT @@global.pseudo_thread_id, @@other"), None);
}

#[test]
fn names_that_no_alias_keeps_are_reported() {
    for (sql, renames) in [
        ("SELECT CONNECTION_ID(), 1", false),
        ("SELECT CONNECTION_ID() AS id", false),
        ("SELECT CONNECTION_ID() + 1", true),
        ("SELECT 1 + CONNECTION_ID(), 2", true),
        ("SELECT COALESCE(CONNECTION_ID(), 0)", true),
        ("SELECT (SELECT CONNECTION_ID())", true),
        ("SELECT a FROM t WHERE id = CONNECTION_ID()", false),
        ("SELECT @@pseudo_thread_id = 5", true),
        ("INSERT INTO t VALUES (CONNECTION_ID())", false),
    ] {
        let rewritten = rewrite::functions(sql.as_bytes(), &DIALECT, &KNOWN).unwrap();
        assert_eq!(rewritten.renames, renames, "{sql}");
    }
}

#[test]
fn other_texts_are_left_alone() {
    for sql in [
        "SELECT 1",
        "SELECT 'CONNECTION_ID()'",
        "SELECT /* CONNECTION_ID() */ 1 -- CONNECTION_ID()",
        "SELECT db.connection_id()",
        "SELECT db . connection_id()",
        "SELECT connection_id FROM t",
        "SELECT connection_id(1)",
        "SELECT \"CONNECTION_ID()\"",
        "",
    ] {
        assert_eq!(rewritten(sql), None, "{sql}");
    }
    assert_rewritten("SELECT 'CONNECTION_ID()', CONNECTION_ID()", "SELECT 'CONNECTION_ID()', 42 AS `CONNECTION_ID()`");
}

#[test]
fn literals_are_the_same_in_every_mode() {
    let literal = |value: &str| text::literal(value.as_bytes(), Encoding::Utf8);
    assert_eq!(literal(""), Some("''".to_owned()));
    assert_eq!(literal("plain"), Some("'plain'".to_owned()));
    assert_eq!(literal("it's"), Some("'it''s'".to_owned()));
    assert_eq!(literal("say \"x\""), Some("'say \"x\"'".to_owned()));
    assert_eq!(literal("a\\b"), Some("_utf8mb4 X'615C62'".to_owned()));
    assert_eq!(literal("a\nb"), Some("_utf8mb4 X'610A62'".to_owned()));
    assert_eq!(literal("ü"), Some("_utf8mb4 X'C3BC'".to_owned()));
    assert_eq!(text::literal(&[0xff], Encoding::Utf8), None);
    assert_eq!(text::literal("ü".as_bytes(), Encoding::AsciiSafe), None);
    assert_eq!(text::literal(b"a\\b", Encoding::Gbk), Some("_utf8mb4 X'615C62'".to_owned()));
    assert_eq!(text::hexadecimal(&[0, 255]), "X'00FF'");
}

/// The literal that [`text::literal`] writes is read back as one token with the same value, whatever the modes.
#[test]
fn literals_read_back() {
    for value in ["", "plain", "it's", "''", "\"`", "x' OR '1'='1"] {
        let sql = text::literal(value.as_bytes(), Encoding::Utf8).unwrap();
        for modes in [Modes::empty(), Modes::NO_BACKSLASH_ESCAPES, Modes::ANSI_QUOTES, Modes::all()] {
            for encoding in [Encoding::Utf8, Encoding::Gbk, Encoding::Sjis, Encoding::Big5, Encoding::Gb18030] {
                let dialect = Dialect { modes, encoding, ..DIALECT };
                let tokens: Vec<_> = Lexer::new(sql.as_bytes(), &dialect).collect();
                assert_eq!(tokens.len(), 1, "{sql}");
                assert_eq!(tokens[0].kind, TokenKind::String);
                assert_eq!(text::string(tokens[0], sql.as_bytes(), &dialect), value.as_bytes());
            }
        }
    }
}

#[test]
fn strings_are_decoded() {
    let decoded = |sql: &[u8], dialect: &Dialect| {
        let token = Lexer::new(sql, dialect).next_token();
        assert_eq!(token.kind, TokenKind::String);
        text::string(token, sql, dialect)
    };
    assert_eq!(decoded(br"'a\n\t\0\Z\b\r\\\'\x\%\_'", &DIALECT), b"a\n\t\0\x1a\x08\r\\'x\\%\\_");
    assert_eq!(decoded(b"'it''s'", &DIALECT), b"it's");
    assert_eq!(decoded(b"\"a\"\"b''c\"", &DIALECT), b"a\"b''c");
    assert_eq!(decoded(b"N'x'", &DIALECT), b"x");
    let no_escapes = Dialect { modes: Modes::NO_BACKSLASH_ESCAPES, ..DIALECT };
    assert_eq!(decoded(br"'a\n'", &no_escapes), br"a\n");
    let gbk = Dialect { encoding: Encoding::Gbk, ..DIALECT };
    assert_eq!(decoded(b"'\xbf\x5c'", &gbk), b"\xbf\x5c");
}

#[test]
fn identifiers_are_quoted() {
    assert_eq!(text::quote_identifier("a"), "`a`");
    assert_eq!(text::quote_identifier("a`b"), "`a``b`");
    assert_eq!(text::quote_identifier("ü \"x\""), "`ü \"x\"`");
    let sql = b"`a``b`";
    assert_eq!(text::identifier(Lexer::new(sql, &DIALECT).next_token(), sql), "a`b");
}

#[test]
fn sql_modes_expand() {
    let combined = Modes::ANSI_QUOTES | Modes::PIPES_AS_CONCAT | Modes::IGNORE_SPACE;
    assert_eq!(modes_from_sql_mode(""), Modes::empty());
    assert_eq!(modes_from_sql_mode("STRICT_TRANS_TABLES,NO_ZERO_DATE"), Modes::empty());
    assert_eq!(
        modes_from_sql_mode("ansi_quotes, no_backslash_escapes"),
        Modes::ANSI_QUOTES | Modes::NO_BACKSLASH_ESCAPES
    );
    for name in ["ANSI", "DB2", "POSTGRESQL", "MAXDB"] {
        assert_eq!(modes_from_sql_mode(name), combined, "{name}");
    }
    assert_eq!(modes_from_sql_mode("ORACLE"), combined | Modes::ORACLE);
    assert_eq!(modes_from_sql_mode("MSSQL"), combined | Modes::MSSQL);
}

#[test]
fn character_sets_have_encodings() {
    for (charset, encoding) in [
        ("utf8mb4", Encoding::Utf8),
        ("UTF8", Encoding::Utf8),
        ("utf8mb3_general_ci", Encoding::Utf8),
        ("latin1", Encoding::AsciiSafe),
        ("euckr", Encoding::AsciiSafe),
        ("binary", Encoding::AsciiSafe),
        ("gbk_chinese_ci", Encoding::Gbk),
        ("big5", Encoding::Big5),
        ("sjis", Encoding::Sjis),
        ("cp932_bin", Encoding::Sjis),
        ("gb18030", Encoding::Gb18030),
    ] {
        assert_eq!(encoding_of_charset(charset), encoding, "{charset}");
    }
}

#[test]
fn digests_are_bounded_and_tell_statements_apart() {
    let hash = |sql: &str| digest_hash(sql.as_bytes(), &DIALECT);
    assert_eq!(hash("SELECT a FROM t WHERE b = 1"), hash("select  a from t where b='x' -- c"));
    assert_ne!(hash("SELECT a FROM t"), hash("SELECT b FROM t"));
    assert_ne!(hash("SELECT ab"), hash("SELECT a b"));
    let long = format!("SELECT {} FROM t", vec!["column_name"; 500].join(", "));
    let other = format!("{long} WHERE a");
    let cut = digest(long.as_bytes(), &DIALECT);
    assert!(cut.cut && cut.text.len() == sqluice_sql::DIGEST_TEXT_MAX);
    assert_eq!(cut.text, digest(other.as_bytes(), &DIALECT).text);
    assert_ne!(cut.hash, hash(&other));
    assert!(!digest(b"SELECT 1", &DIALECT).cut);
}

#[test]
fn the_query_of_a_new_table_is_found() {
    for (sql, query) in [
        ("CREATE TABLE t SELECT 1", Some("SELECT 1")),
        ("create or replace temporary table t (a INT DEFAULT (CONNECTION_ID())) AS SELECT 1", Some("SELECT 1")),
        ("CREATE TABLE IF NOT EXISTS d.`select` (a INT) ENGINE=InnoDB IGNORE SELECT 1", Some("SELECT 1")),
        ("CREATE TABLE t AS (SELECT 1)", Some("(SELECT 1)")),
        ("CREATE TABLE t AS WITH c AS (SELECT 1) SELECT * FROM c", Some("WITH c AS (SELECT 1) SELECT * FROM c")),
        ("CREATE TABLE t (a INT) WITH SYSTEM VERSIONING", None),
        ("CREATE TABLE d.select (a INT DEFAULT (CONNECTION_ID()))", None),
        ("CREATE TABLE t (a INT) PARTITION BY LIST (a) (PARTITION p VALUES IN (1))", None),
        ("CREATE VIEW v AS SELECT 1", None),
        ("CREATE TABLE t LIKE u", None),
        ("SELECT 1", None),
    ] {
        let at = rewrite::query_of_table(sql.as_bytes(), &DIALECT);
        assert_eq!(at.map(|at| &sql[at..]), query, "{sql}");
    }
}
