use std::time::Instant;

use super::*;
use crate::plan::{Plan, plan};
use crate::testing::{run, run_until, shared};
use crate::views::all;

/// The only value of a result, as text.
fn value(text: &str) -> String {
    let shared = shared("");
    let result = run(&shared, text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let mut out = Vec::new();
    result.write(&mut out, false);
    // The last packet but the EOF.
    let mut packets = Vec::new();
    let mut rest = &out[..];
    while let Some(header) = wire::packet::Header::read(rest) {
        packets.push(&rest[4..4 + header.length]);
        rest = &rest[4 + header.length..];
    }
    let row = packets[packets.len() - 2];
    let mut reader = wire::codec::Reader::new(row);
    reader.text_value("value").unwrap().map_or("NULL".into(), |bytes| String::from_utf8_lossy(bytes).into_owned())
}

fn refused(text: &str) -> (u16, String) {
    let error = run(&shared(""), text).unwrap_err();
    (error.code, error.text)
}

#[test]
fn every_view_can_be_read_and_joined() {
    let shared = shared("");
    for view in all().filter(|view| matches!(view.rows, Rows::Of(_))) {
        let schema = if view.is_in(INFORMATION) { "information_schema." } else { "" };
        for text in [
            format!("SELECT * FROM {schema}{0} AS v WHERE 1 = 1", view.name),
            format!("SELECT count(*) FROM {schema}`{}`", view.name),
        ] {
            run(&shared, &text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        if schema.is_empty() {
            for text in [format!("SHOW CREATE TABLE {}", view.name), format!("DESCRIBE main.{}", view.name)] {
                run(&shared, &text).unwrap_or_else(|error| panic!("{text}: {error}"));
            }
        }
    }
    assert_eq!(value("SELECT sum(w.requests) + count(*) FROM workers w JOIN waits ON 1"), "4");
    assert_eq!(value("SELECT value FROM settings WHERE setting = 'cluster.main.monitor.password'"), "(hidden)");
}

#[test]
fn functions_and_words_of_clients_are_known() {
    for (text, expected) in [
        ("SELECT DATABASE()", "main"),
        ("SELECT CONCAT('a', 1, NULL)", "NULL"),
        ("SELECT CONCAT('a', 1)", "a1"),
        ("SELECT IF(1 > 2, 'x', 'y')", "y"),
        ("SELECT USER()", "admin@localhost"),
        ("SELECT CONNECTION_ID()", "7"),
        ("SELECT LEFT('abcdef', 2)", "ab"),
        ("SELECT 'max_x' LIKE 'MAX\\_%'", "1"),
        ("SELECT 'maxyx' LIKE 'MAX\\_%'", "0"),
        ("SELECT 1 FROM DUAL", "1"),
        ("SELECT length(NOW())", "19"),
        ("select @@version_comment limit 1", "Sqluice SQL console"),
        ("SHOW VARIABLES LIKE 'autocommit'", "autocommit"),
        ("SHOW TABLES LIKE 'digests'", "digests"),
        ("SHOW TABLES FROM stats LIKE 'stats\\_mysql\\_global'", "stats_mysql_global"),
        ("SHOW MYSQL STATUS LIKE 'Questions'", "Questions"),
        ("SHOW DATABASES LIKE 'st%'", "stats"),
        ("SELECT Variable_Value FROM stats.stats_mysql_global WHERE Variable_Name = 'MySQL_Thread_Workers'", "1"),
        ("SELECT count(*) FROM information_schema.TABLES WHERE table_name = 'sessions'", "1"),
        ("SHOW WARNINGS", "def"),
    ] {
        if expected != "def" {
            assert_eq!(value(text), expected, "{text}");
        } else {
            run(&shared(""), text).unwrap();
        }
    }
    assert!(value("SELECT VERSION()").contains("sqluice"));
}

#[test]
fn nothing_but_reading_is_let_through() {
    for text in [
        "WITH x AS (SELECT 1) DELETE FROM workers",
        "SELECT * FROM pragma_table_info('workers')",
        "SELECT load_extension('x')",
        "SELECT * FROM sqlite_dbpage",
    ] {
        let (code, words) = refused(text);
        let codes = [errno::ER_OPTION_PREVENTS_STATEMENT, errno::ER_NO_SUCH_TABLE, errno::ER_SP_DOES_NOT_EXIST];
        assert!(codes.contains(&code), "{text}: {code} {words}");
    }
    assert_eq!(refused("SELECT * FROM no_such").0, errno::ER_NO_SUCH_TABLE);
    assert_eq!(refused("SELECT no_such FROM workers").0, errno::ER_BAD_FIELD_ERROR);
    assert_eq!(refused("SELECT FROM").0, errno::ER_PARSE_ERROR);
    let (code, words) = refused("SELECT * FROM history");
    assert_eq!((code, &*words), (errno::ER_UNKNOWN_ERROR, "there is no history: set path in [history]"));
}

const ENDLESS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n";

#[test]
fn a_statement_that_takes_too_long_is_ended() {
    let begun = Instant::now();
    let (code, words) = refused(ENDLESS);
    assert_eq!(code, errno::ER_QUERY_TIMEOUT, "{words}");
    assert!(begun.elapsed() >= RUN_MAX && begun.elapsed() < RUN_MAX * 4);
}

#[test]
fn a_kill_ends_a_statement() {
    let begun = Instant::now();
    let is_cancelled = Arc::new(AtomicBool::new(true));
    let error = run_until(&shared(""), ENDLESS, is_cancelled).unwrap_err();
    assert_eq!(error.code, errno::ER_QUERY_INTERRUPTED);
    assert!(begun.elapsed() < RUN_MAX);
}

#[test]
fn results_and_memory_are_bounded() {
    let numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 200000)";
    assert_eq!(refused(&format!("{numbers} SELECT x FROM n")).0, errno::ER_TOO_BIG_SELECT);
    assert_eq!(refused(&format!("{numbers} SELECT hex(zeroblob(1000)) FROM n")).0, errno::ER_TOO_BIG_SELECT);
    let (code, words) =
        refused(&format!("{numbers} SELECT count(*) FROM (SELECT x, hex(randomblob(2000)) y FROM n ORDER BY y)"));
    assert_eq!(code, 1037, "{words}");
    assert_ne!(refused("SELECT length(zeroblob(100000000))").0, 0);
    assert_eq!(value("SELECT 1"), "1", "memory is there again");
}

#[test]
fn views_of_the_past_say_that_there_is_none() {
    for view in ["history", "marks", "regressions"] {
        let (code, words) = refused(&format!("SELECT * FROM {view}"));
        assert_eq!((code, &*words), (1105, "there is no history: set path in [history]"), "{view}");
    }
}

#[test]
fn the_statements_of_the_guide_run() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/sql-console.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let table = guide.split("## Find what you look for").nth(1).unwrap().split("\n## ").next().unwrap();
    let statements: Vec<&str> = table.split('`').skip(1).step_by(2).filter(|text| text.contains(' ')).collect();
    let (mut ran, shared) = (0, shared(""));
    for text in statements {
        match plan(text, "main").unwrap_or_else(|error| panic!("{text}: {error}")) {
            Plan::Rows(query) if query.views.iter().any(|view| !matches!(view.rows, Rows::Of(_))) => {}
            Plan::Rows(_) => {
                run(&shared, text).unwrap_or_else(|error| panic!("{text}: {error}"));
                ran += 1;
            }
            _ => {}
        }
    }
    assert!(ran >= 9, "{ran}");
    for view in all().filter(|view| !view.is_in(INFORMATION)) {
        assert!(guide.contains(&format!("`{}`", view.name)), "the guide does not name {}", view.name);
    }
}
