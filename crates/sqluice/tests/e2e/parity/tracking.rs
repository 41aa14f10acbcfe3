//! Servers' reports of the session, for clients that requested them.

use lab::Family;

use super::*;

const SETUP: &str =
    "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB; CREATE DATABASE IF NOT EXISTS par_other;";

async fn talk(wire: &mut Wire) {
    for sql in [
        "SET autocommit = 0",
        "SET autocommit = 1",
        "SET sql_mode = 'ANSI'",
        "USE par_other",
        "SELECT 1",
        "SET NAMES latin1",
        "SET NAMES utf8mb4",
        "SET @a = 1",
        "SET time_zone = '+01:00'",
        "BEGIN",
        "SELECT 1",
        "COMMIT",
        "SET session_track_schema = 0",
        "USE mysql",
        "SET session_track_system_variables = '*'",
        "SET sql_mode = '', wait_timeout = 1234",
        "SET session_track_state_change = 1",
        "SET @a = 2",
        "SET session_track_system_variables = 'sql_mode, wait_timeout'",
        "SET sql_mode = 'ANSI', autocommit = 1, wait_timeout = 4321",
        "SET session_track_schema = DEFAULT",
        "USE par_other",
    ] {
        // MySQL numbers its statements under `*`.
        wire.hide_gtids = ["wait_timeout", "state_change", "@a = 2", "NAMES"].iter().any(|text| sql.contains(text));
        wire.query(sql).await;
    }
    wire.hide_gtids = false;
    wire.command(Expect::Results, b"\x02par_other").await;
    wire.command(Expect::Results, b"\x1f").await;
    wire.query("USE par_other").await;
    wire.query("SET sql_mode = ''").await;
}

async fn variables_and_schema(family: Family) {
    Case { family, database: "par_track", setup: SETUP, capabilities: MODERN }.run(talk).await;
}

/// MariaDB sorts the list and names each variable once; MySQL shows it as it was set.
async fn lists(family: Family) {
    let case = Case { family, database: "par_track_list", setup: "", capabilities: MODERN };
    case.run(async |wire| {
        for list in ["wait_timeout,sql_mode,WAIT_TIMEOUT , autocommit", "", "sql_mode", " time_zone,, autocommit,"] {
            wire.query(&format!("SET session_track_system_variables = '{list}'")).await;
            wire.values("SELECT @@session_track_system_variables", wire.family == Family::MariaDb).await;
            wire.query("SET time_zone = '+01:00', wait_timeout = 77").await;
        }
    })
    .await;
}

async fn nobody_asked(family: Family) {
    Case { family, database: "par_untracked", setup: SETUP, capabilities: OLD }.run(talk).await;
}

async fn transactions(family: Family) {
    let case = Case { family, database: "par_track_trx", setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        wire.hide_gtids = true;
        for value in ["STATE", "CHARACTERISTICS", "OFF"] {
            wire.query(&format!("SET session_track_transaction_info = '{value}'")).await;
            for sql in [
                "START TRANSACTION READ ONLY",
                "SELECT * FROM par_track_trx.t",
                "COMMIT",
                "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
                "BEGIN",
                "INSERT INTO par_track_trx.t (v) VALUES (1)",
                "SELECT LAST_INSERT_ID() > 0",
                "COMMIT AND CHAIN",
                "ROLLBACK",
                "SET SESSION TRANSACTION READ ONLY",
                "BEGIN",
                "COMMIT",
                "SET SESSION TRANSACTION READ WRITE",
                "INSERT INTO par_track_trx.t (v) VALUES (1)",
                "SELECT COUNT(*) > 0 FROM par_track_trx.t",
            ] {
                wire.query(sql).await;
            }
        }
    })
    .await;
}

async fn gtids(family: Family) {
    let case = Case { family, database: "par_track_gtid", setup: SETUP, capabilities: MODERN };
    case.run(async |wire| {
        wire.hide_gtids = true;
        wire.query("INSERT INTO t (v) VALUES (1)").await;
        if wire.family == Family::MySql {
            wire.query("SET session_track_gtids = 'OWN_GTID'").await;
        } else {
            wire.query("SET session_track_system_variables = 'last_gtid'").await;
        }
        wire.query("INSERT INTO t (v) VALUES (2)").await;
        wire.query("SELECT 1").await;
        wire.query("BEGIN").await;
        wire.query("INSERT INTO t (v) VALUES (3)").await;
        wire.query("SET session_track_schema = 0").await;
        wire.query("INSERT INTO t (v) VALUES (3)").await;
        wire.query("COMMIT").await;
        wire.query("SELECT COUNT(*) FROM t").await;
    })
    .await;
}

/// The collations of columns and of comparisons with literals, after each way to choose them.
async fn collations(family: Family) {
    let case = Case { family, database: "par_collations", setup: SETUP, capabilities: OLD };
    case.run(async |wire| {
        let short = if family == Family::MariaDb { "uca1400_ai_ci" } else { "utf8mb4_0900_ai_ci" };
        let short = format!("SET NAMES utf8mb4 COLLATE {short}");
        for sql in [
            "SET @unchanged = 1",
            "SET NAMES utf8mb4",
            "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
            &short,
            "SET NAMES latin1",
            "SET CHARACTER SET utf8mb4",
            "SET NAMES DEFAULT",
            "SET character_set_results = utf8mb4",
        ] {
            wire.query(sql).await;
            wire.query("SELECT @@collation_connection, 'a' = 'A', 'ss' = 'ß', COLLATION('x')").await;
        }
    })
    .await;
}

both!(variables_and_schema lists nobody_asked transactions gtids collations);
