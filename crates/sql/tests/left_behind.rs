//! What a statement may leave behind: ids that its OK packet does not tell, messages of the statement before.

use sqluice_sql::{Dialect, Encoding, Family, Modes, NoFunctions, classify};

const DIALECT: Dialect =
    Dialect { family: Family::MariaDb, version: 101119, modes: Modes::empty(), encoding: Encoding::Utf8 };

fn unsure(sql: &str) -> bool {
    classify(sql.as_bytes(), &DIALECT, &NoFunctions).insert_id_unsure
}

#[test]
fn plain_values_leave_the_id_that_is_told() {
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
    let leaves = |sql: &str| classify(sql.as_bytes(), &DIALECT, &NoFunctions).leaves_found_rows;
    assert!(leaves("VALUES (1), (2)") && leaves("HANDLER h READ NEXT"));
    assert!(!leaves("VALUES (1) UNION SELECT 2") && !leaves("VALUES (2), (1) ORDER BY 1") && !leaves("SELECT 1"));
    let uses = |sql: &str| classify(sql.as_bytes(), &DIALECT, &NoFunctions).uses_tables;
    for sql in
        ["SELECT 1 FROM t", "INSERT INTO t VALUES (1)", "SHOW TABLES", "SET @x = (SELECT a FROM t)", "SELECT f(1)"]
    {
        assert!(uses(sql), "{sql}");
    }
    for sql in ["SELECT 1", "SELECT 1 FROM DUAL", "SET @x = 1", "DO 0", "BEGIN", "USE x", "PREPARE s FROM 'SELECT 1'"] {
        assert!(!uses(sql), "{sql}");
    }
}
