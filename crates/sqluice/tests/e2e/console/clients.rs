//! Clients and drivers that people use.

use std::process::Command;

use lab::Family;

use super::{KEY, command, port, start};
use crate::support::{client_program, families, run};

/// Texts that an operator types, and words that their answers must have.
const TYPED: [(&str, &str); 8] = [
    ("SHOW TABLES;", "stats_mysql_query_digest"),
    ("DESCRIBE digests;", "time_us_p95"),
    ("SELECT server, role FROM servers ORDER BY server;", "| db1    | primary |"),
    ("SHOW MYSQL STATUS;", "Questions"),
    ("USE stats; SELECT DATABASE();", "stats"),
    ("SHOW CREATE TABLE stats_mysql_global;", "CREATE TABLE"),
    ("SHOW VARIABLES LIKE 'max_allowed%';", "65536"),
    ("SHOW WARNINGS; SELECT 'ü' AS `umlaut`;", "| ü"),
];

#[tokio::test]
async fn the_ordinary_clients_find_tables_and_complete_names() {
    let front = start(Family::MariaDb, "").await;
    for family in families() {
        for (typed, expected) in TYPED {
            let mut command = command(&front, &client_program(family));
            command.args(["--default-character-set=utf8mb4", "--auto-rehash"]);
            let out = run(command, typed).await.output();
            assert!(out.contains(expected), "{family:?}: {typed}\n{out}");
        }
        let mut command = command(&front, &client_program(family));
        command.arg("stats");
        // MySQL's takes such commands of its own from a terminal only.
        let typed =
            if family == Family::MariaDb { "status\nSHOW PROCESSLIST;" } else { "select @@version_comment limit 1;" };
        let out = run(command, typed).await.output();
        assert!(out.contains("Sqluice SQL console"), "{family:?}: {out}");
        let ran = run(super::command(&front, &client_program(family)), "DELETE FROM digests;").await;
        assert!(!ran.good && ran.err.contains("1290"), "{family:?}: {}", ran.err);
    }
}

#[tokio::test]
async fn pymysql_reads_views_with_their_types() {
    // A Python that has PyMySQL; `./dev test` names one.
    let python = std::env::var("SQLUICE_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&python).args(["-c", "import pymysql"]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        lab::skip("python3 with PyMySQL is missing (pip install pymysql, or apt-get install python3-pymysql)");
        return;
    }
    let front = start(Family::MariaDb, "").await;
    let mut command = Command::new(&python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/console/pymysql_check.py"));
    command.args([&port(&front), KEY]);
    assert_eq!(run(command, "").await.output(), "all good\n");
}
