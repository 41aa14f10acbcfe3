//! The traces that a statement may leave behind: ids that its OK packet does not tell, messages of the statement before.

use sqluice_sql::{Dialect, Encoding, Family, FoundRows, Modes, NoFunctions, classify};

const DIALECT: Dialect =
    Dialect { family: Family::MariaDb, version: 101119, modes: Modes::empty(), encoding: Encoding::Utf8 };

fn unsure(sql: &str) -> bool {
    classify(sql.as_bytes(), &DIALECT, &NoFunctions).insert_id_unsure
}

#[test]
fn plain_values_leave_the_id_that_is_reported() {
    for sql in [
        "INSERT INTO t VALUES (1, 'a', NULL, -2.5, DEFAULT)",
        "INSERT INTO t (a, b) VALUES (?, ?), (?, NOW())",
        "REPLACE INTO db.t SET a = 1, `b` = 'x'",
        "INSERT INTO t () VALUES ()",
        "UPDATE t SET a = 1",
        "SELECT LAST_INSERT_ID()",
    ] {
        assert!(!unsure(sql), "{sql}");
    }
}

#[test]
fn plain_reads_are_selects_of_rows_that_ask_and_change_nothing_else() {
    let plain = |sql: &str| classify(sql.as_bytes(), &DIALECT, &NoFunctions).is_plain_read();
    for sql in ["SELECT a FROM t WHERE id = 1", "SELECT a FROM t JOIN db.u USING (id) ORDER BY a", "SELECT a FROM t;"] {
        assert!(plain(sql), "{sql}");
    }
    for sql in [
        "SELECT 1",
        "SELECT a FROM t; SELECT b FROM t",
        "SELECT a FROM t FOR UPDATE",
        "SELECT a FROM t LIMIT 5 OFFSET 2",
        "SELECT a, @x FROM t",
        "SELECT a, @x := a FROM t",
        "SELECT a INTO @x FROM t",
        "SELECT a, ROW_COUNT() FROM t",
        "SELECT a, f(a) FROM t",
        "SELECT a, NEXTVAL(s) FROM t",
        "SELECT COUNT(*) FROM t",
        "SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1",
        "SELECT a FROM t UNION SELECT 1",
        "SHOW TABLES",
        "UPDATE t SET a = 1",
        "CALL p()",
    ] {
        assert!(!plain(sql), "{sql}");
    }
}

#[test]
fn what_nobody_sees_leaves_a_doubt() {
    for sql in [
        "INSERT IGNORE INTO t VALUES (1)",
        "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 2",
        "INSERT INTO t SELECT * FROM u",
        "INSERT INTO t VALUES (1 + 1)",
        "INSERT INTO t VALUES (f(1))",
        "INSERT INTO t SET id = @x",
        "INSERT INTO t VALUES (x'05')",
        "INSERT INTO t VALUES (1) RETURNING id",
        "SELECT LAST_INSERT_ID(5)",
        "CALL p()",
        "EXECUTE s",
        "LOAD DATA INFILE 'x' INTO TABLE t",
    ] {
        assert!(unsure(sql), "{sql}");
    }
}

#[test]
fn messages_go_with_what_names_a_table() {
    let uses = |sql: &str| classify(sql.as_bytes(), &DIALECT, &NoFunctions).uses_tables;
    for sql in [
        "SELECT 1 FROM t",
        "INSERT INTO t VALUES (1)",
        "SELECT 1; INSERT INTO t VALUES (1)",
        "SHOW TABLES",
        "SET @x = (SELECT a FROM t)",
        "SELECT f(1)",
    ] {
        assert!(uses(sql), "{sql}");
    }
    for sql in ["SELECT 1", "SELECT 1 FROM DUAL", "SET @x = 1", "DO 0", "BEGIN", "USE x", "PREPARE s FROM 'SELECT 1'"] {
        assert!(!uses(sql), "{sql}");
    }
}

#[test]
fn found_rows_are_those_of_the_reply_or_the_servers_secret() {
    use FoundRows::{Aggregate, Left, Matched, One, Rows, Uncut, Unsure};
    let found = |sql: &str, family| classify(sql.as_bytes(), &Dialect { family, ..DIALECT }, &NoFunctions).found_rows;
    for (sql, mariadb, mysql) in [
        ("SELECT a FROM t LIMIT 2", Rows { skipped: 0 }, Rows { skipped: 0 }),
        ("SELECT COUNT(*), max(a) FROM t WHERE a = 1", Aggregate, Rows { skipped: 0 }),
        ("SELECT COUNT(*)", Rows { skipped: 0 }, Rows { skipped: 0 }),
        ("SELECT a FROM t LIMIT 4, 2", Rows { skipped: 4 }, Rows { skipped: 4 }),
        ("SELECT a FROM t LIMIT 2 OFFSET 4 FOR UPDATE", Rows { skipped: 4 }, Rows { skipped: 4 }),
        ("SELECT * FROM (SELECT a FROM t LIMIT 4, 2) AS x", Rows { skipped: 0 }, Rows { skipped: 0 }),
        ("SELECT a FROM t ORDER BY a OFFSET 2 ROWS FETCH NEXT 2 ROWS ONLY", Unsure, Rows { skipped: 0 }),
        ("SELECT a FROM t FETCH FIRST ROW ONLY", Unsure, Rows { skipped: 0 }),
        ("((SELECT a FROM t LIMIT 1, 3)) LIMIT 1, 1", Unsure, Unsure),
        ("(SELECT a FROM t) LIMIT 1, 1", Rows { skipped: 1 }, Rows { skipped: 1 }),
        ("SELECT 1 UNION SELECT 2", Uncut, Rows { skipped: 0 }),
        ("SELECT 1 UNION SELECT 2 LIMIT 1", Unsure, Rows { skipped: 0 }),
        ("(SELECT 1 LIMIT 1) EXCEPT (SELECT 2 LIMIT 1)", Uncut, Rows { skipped: 0 }),
        ("SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1", Unsure, Unsure),
        ("INSERT INTO t VALUES (1)", Left, Left),
        ("INSERT INTO t VALUES (f(1))", Unsure, Unsure),
        ("INSERT INTO t SELECT 1", Unsure, Unsure),
        ("CREATE TABLE t AS SELECT 1", Unsure, Left),
        ("CREATE TABLE t (a INT)", Left, Left),
        ("UPDATE LOW_PRIORITY db.t AS x SET a = 1 LIMIT 2", Left, Matched),
        ("UPDATE t JOIN u USING (a) SET t.b = 1", Unsure, Unsure),
        ("UPDATE t, u SET t.b = 1", Unsure, Unsure),
        ("DELETE FROM t WHERE a = 1", Left, Left),
        ("DELETE FROM t USING t JOIN u", Unsure, Unsure),
        ("DELETE t FROM t JOIN u", Unsure, Unsure),
        ("SET @a = 1, sql_mode = ''", Left, Left),
        ("SET @a = (SELECT 1)", Left, Left),
        ("SET @a = (SELECT MAX(a) FROM t)", Unsure, Left),
        ("SET @a = f()", Unsure, Unsure),
        ("DO 1", Left, One),
        ("SHOW TABLES", Rows { skipped: 0 }, Rows { skipped: 0 }),
        ("SHOW CREATE TABLE t", Left, Left),
        ("SHOW WARNINGS", Left, Left),
        ("SHOW ENGINE INNODB STATUS", Left, Left),
        ("SHOW FUNCTION STATUS", Rows { skipped: 0 }, Rows { skipped: 0 }),
        ("SHOW CREATE FUNCTION f", Left, Left),
        ("EXPLAIN SELECT 1", Unsure, Left),
        ("EXPLAIN SELECT * FROM t", Left, Left),
        ("EXPLAIN SELECT * FROM (SELECT 7 AS g) d", Unsure, Left),
        ("EXPLAIN SELECT f()", Unsure, Left),
        ("INSERT INTO t (v) TABLE u", Unsure, Unsure),
        ("ANALYZE SELECT * FROM t", Unsure, Unsure),
        ("CALL p()", Unsure, Unsure),
        ("PREPARE s FROM 'SELECT 1'", Left, Left),
        ("EXECUTE s", Unsure, Unsure),
        ("BEGIN", Left, Left),
        ("SET @a = 1; SET @b = 2", Left, Left),
        ("SELECT 1; INSERT INTO t VALUES (1)", Unsure, Unsure),
        ("INSERT INTO t VALUES (1); SELECT 1", Unsure, Unsure),
        ("HANDLER h READ NEXT", Left, Left),
        ("", Left, Left),
    ] {
        assert_eq!(found(sql, Family::MariaDb), mariadb, "{sql}");
        assert_eq!(found(sql, Family::MySql), mysql, "{sql}");
    }
    for (sql, mariadb) in [
        ("VALUES (1), (2)", Left),
        ("VALUES (1) UNION SELECT 2", Uncut),
        ("VALUES (2), (1) ORDER BY 1", Uncut),
        ("VALUES (2), (1) ORDER BY 1 LIMIT 1", Unsure),
    ] {
        assert_eq!(found(sql, Family::MariaDb), mariadb, "{sql}");
    }
}
