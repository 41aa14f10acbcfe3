//! Many sessions over few backend connections: no state of one is ever seen by another.

use net::query::Client;

use crate::support::{Front, value};

/// One session's own state, and how it is asked for.
struct Own {
    client: Client,
    settings: Vec<(String, &'static str, String)>,
}

impl Own {
    fn new(client: Client, number: usize) -> Own {
        let modes = ["", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "PIPES_AS_CONCAT", "STRICT_ALL_TABLES"];
        let charsets = ["latin1", "utf8mb4", "utf8mb3"];
        let set = |text: String, question, answer: String| (text, question, answer);
        let mode = modes[number % modes.len()];
        let charset = charsets[number % charsets.len()];
        let settings = vec![
            set(format!("SET sql_mode = '{mode}'"), "SELECT @@sql_mode", mode.into()),
            set(
                format!("SET time_zone = '+{:02}:00'", number % 13),
                "SELECT @@time_zone",
                format!("+{:02}:00", number % 13),
            ),
            set(format!("SET @mine = {number}"), "SELECT @mine", number.to_string()),
            set(format!("SET NAMES {charset}"), "SELECT @@character_set_client", charset.into()),
            set(format!("SET wait_timeout = {}", 1000 + number), "SELECT @@wait_timeout", (1000 + number).to_string()),
            set(
                format!("USE {}", ["app", "mysql", "information_schema"][number % 3]),
                "SELECT DATABASE()",
                ["app", "mysql", "information_schema"][number % 3].into(),
            ),
        ];
        Own { client, settings }
    }
}

#[tokio::test]
async fn no_state_of_one_session_is_seen_by_another() {
    // 40 sessions on 3 connections per server.
    let front = Front::start("max_connections_per_server = 3", "");
    let mut sessions = Vec::new();
    for number in 0..40 {
        sessions.push(Own::new(front.client().await, number));
    }
    let mut tasks = Vec::new();
    for mut own in sessions {
        tasks.push(tokio::spawn(async move {
            // The application's user may not enter the schema mysql: that error is its own, and changes nothing.
            let mut expected = Vec::new();
            for (text, question, answer) in &own.settings {
                let outcome = own.client.query(text).await;
                match outcome {
                    Ok(_) => expected.push((*question, answer.clone())),
                    Err(error) => {
                        assert_eq!(error.code(), Some(1044), "{text}");
                        expected.push((*question, "app".into()));
                    }
                }
            }
            for round in 0..20 {
                for (question, answer) in &expected {
                    let hint = if round % 2 == 0 { "" } else { "/* sqluice: primary */ " };
                    assert_eq!(value(&mut own.client, &format!("{hint}{question}")).await, *answer);
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert!(front.sum(|worker| worker.fix_ups.get()) > 100, "connections were shared");
    let mut client = front.client().await;
    assert_eq!(front.pins(&mut client).await, [""; 0]);
}

#[tokio::test]
async fn what_drivers_send_at_connect_pins_nothing() {
    let front = Front::start("", "");
    let mut client = front.client().await;
    for text in [
        "SET NAMES utf8mb4",
        "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_unicode_ci'",
        "SET CHARACTER SET utf8mb4",
        "SET character_set_results = NULL",
        "SET autocommit=1",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET SESSION TRANSACTION READ WRITE",
        "SET sql_mode=CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')",
        "SET @@SESSION.sql_mode = CONCAT(CONCAT(@@sql_mode, ',STRICT_ALL_TABLES'), ',NO_AUTO_VALUE_ON_ZERO'), \
         @@SESSION.sql_auto_is_null = 0, @@SESSION.wait_timeout = 2147483",
        "SET SESSION sql_mode='STRICT_TRANS_TABLES,NO_ZERO_DATE', time_zone = '+00:00', autocommit = 1",
        "SET net_write_timeout=600, tx_isolation='REPEATABLE-READ', session_track_schema=1",
        "SET session_track_system_variables = CONCAT(@@global.session_track_system_variables, ',tx_isolation')",
        "SET @a = 1, @b := 'two'",
        "SET sql_select_limit=DEFAULT",
        "SET SQL_SAFE_UPDATES=1, SQL_SELECT_LIMIT=500, MAX_JOIN_SIZE=1000000",
        "SET innodb_lock_wait_timeout = 7",
        "SET timestamp = 1700000000",
        "SET foreign_key_checks = OFF, unique_checks = 0",
    ] {
        client.query(text).await.unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(front.pins(&mut client).await, [""; 0], "{text}");
    }
    assert_eq!(value(&mut client, "SELECT @@innodb_lock_wait_timeout").await, "7");
    assert_eq!(value(&mut client, "SELECT UNIX_TIMESTAMP()").await, "1700000000");
    assert_eq!(value(&mut client, "SELECT @b").await, "two");
    client.query("SET timestamp = DEFAULT").await.unwrap();
    assert_ne!(value(&mut client, "SELECT UNIX_TIMESTAMP()").await, "1700000000");
}

#[tokio::test]
async fn computed_user_variables_are_read_back_and_pin_nothing() {
    let front = Front::start("max_connections_per_server = 2", "");
    let (mut client, mut other) = (front.client().await, front.client().await);
    for (set, question, answer) in [
        ("SET @n = 1 + 1", "SELECT @n * 2", "4"),
        ("SET @d = 1.50 * 3", "SELECT @d", "4.50"),
        ("SET @f = SQRT(2)", "SELECT @f = SQRT(2)", "1"),
        ("SET @s = CONCAT('it''s ', 'ün\\\\')", "SELECT @s", "it's ün\\"),
        ("SELECT NULL INTO @z", "SELECT @z IS NULL", "1"),
        ("SELECT SLEEP(0) INTO @dummy", "SELECT @dummy", "0"),
        ("SELECT @a := 7, @b := 'x'", "SELECT CONCAT(@a, @b)", "7x"),
        ("SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO'", "SELECT @OLD_SQL_MODE <> ''", "1"),
        ("SET @raw = UNHEX('00FF27')", "SELECT HEX(@raw)", "00FF27"),
    ] {
        client.query(set).await.unwrap_or_else(|error| panic!("{set}: {error}"));
        assert_eq!(front.pins(&mut client).await, [""; 0], "{set}");
        other.query("/* sqluice: primary */ SELECT 1").await.unwrap();
        for hint in ["", "/* sqluice: primary */ "] {
            assert_eq!(value(&mut client, &format!("{hint}{question}")).await, answer, "{set}");
        }
    }
    assert_eq!(value(&mut other, "SELECT @n").await, "NULL");
}

#[tokio::test]
async fn a_failed_statement_without_autocommit_may_have_opened_a_transaction() {
    let front = Front::start("max_connections_per_server = 1", "");
    let mut client = front.client().await;
    client.query("CREATE TABLE IF NOT EXISTS failed (id INT PRIMARY KEY)").await.unwrap();
    client.query("REPLACE INTO failed VALUES (1)").await.unwrap();
    client.query("SET autocommit = 0").await.unwrap();
    assert_eq!(front.pins(&mut client).await, [""; 0]);
    assert_eq!(client.query("INSERT INTO failed VALUES (1)").await.unwrap_err().code(), Some(1062));
    assert_eq!(front.pins(&mut client).await, ["transaction"]);
    client.query("ROLLBACK").await.unwrap();
    assert_eq!(front.pins(&mut client).await, [""; 0]);
}

#[tokio::test]
async fn a_pin_ends_with_its_cause() {
    let front = Front::start("", "");
    let mut client = front.client().await;
    client.query("CREATE TABLE IF NOT EXISTS pinned_by (id INT AUTO_INCREMENT PRIMARY KEY)").await.unwrap();
    for (begin, pin, end) in [
        ("BEGIN", "transaction", "COMMIT"),
        ("CREATE TEMPORARY TABLE pinned (a INT)", "temporary_table", "DROP TEMPORARY TABLE pinned"),
        ("SELECT GET_LOCK('pin', 1)", "user_lock", "SELECT RELEASE_LOCK('pin')"),
        ("PREPARE p FROM 'SELECT 1'", "prepared_text", "DEALLOCATE PREPARE p"),
        ("SELECT SQL_CALC_FOUND_ROWS seq FROM seq_1_to_10 LIMIT 2", "found_rows", "SELECT FOUND_ROWS()"),
        ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT 1", "next_statement", "SELECT * FROM pinned_by"),
        ("SET insert_id = 77; SELECT 1", "next_statement", "INSERT INTO pinned_by VALUES (NULL)"),
        ("SET autocommit = 0; SAVEPOINT x", "savepoint", "ROLLBACK; SET autocommit = 1"),
        ("XA START 'pin'", "xa", "XA END 'pin'; XA ROLLBACK 'pin'"),
    ] {
        client.query(begin).await.unwrap_or_else(|error| panic!("{begin}: {error}"));
        assert!(front.pins(&mut client).await.contains(&pin), "{begin}: {:?}", front.pins(&mut client).await);
        client.query(end).await.unwrap_or_else(|error| panic!("{end}: {error}"));
        assert_eq!(front.pins(&mut client).await, [""; 0], "{end}");
    }
}

#[tokio::test]
async fn what_the_last_statement_left_is_found_again() {
    let front = Front::start("max_connections_per_server = 2", "");
    let (mut client, mut other) = (front.client().await, front.client().await);
    client.query("CREATE TABLE IF NOT EXISTS past (id INT AUTO_INCREMENT PRIMARY KEY, v INT)").await.unwrap();
    client.query("INSERT INTO past (v) VALUES (1)").await.unwrap();
    let id = client.query_one("INSERT INTO past (v) VALUES (2)").await.unwrap().last_insert_id;
    for _ in 0..5 {
        other.query("INSERT INTO past (v) VALUES (3)").await.unwrap();
    }
    assert_eq!(value(&mut client, "SELECT LAST_INSERT_ID()").await, id.to_string());
    assert_eq!(value(&mut client, "/* sqluice: primary */ SELECT LAST_INSERT_ID()").await, id.to_string());
    let mut fresh = front.client().await;
    assert_eq!(value(&mut fresh, "SELECT LAST_INSERT_ID()").await, "0");
    client.query("SELECT CAST('x' AS SIGNED)").await.unwrap();
    other.query("SELECT 1").await.unwrap();
    let warnings = client.query_one("SHOW WARNINGS").await.unwrap();
    assert_eq!(warnings.rows.len(), 1, "{warnings:?}");
    assert_eq!(other.query_one("SHOW WARNINGS").await.unwrap().rows.len(), 0);
    client.query("UPDATE past SET v = v + 1 WHERE v = 3").await.unwrap();
    other.query("UPDATE past SET v = v + 1 WHERE v = 77").await.unwrap();
    assert_eq!(value(&mut client, "SELECT ROW_COUNT()").await, "5");
    assert!(client.query("SELECT * FROM nowhere_at_all").await.is_err());
    other.query("SELECT 1").await.unwrap();
    let errors = client.query_one("SHOW WARNINGS").await.unwrap();
    assert_eq!(errors.rows.len(), 1);
    assert_eq!(errors.rows[0][1].as_deref(), Some(&b"1146"[..]));
}

#[tokio::test]
async fn a_client_that_vanishes_leaves_nothing_behind() {
    let front = Front::start("max_connections_per_server = 1", "");
    let mut watcher = front.client().await;
    watcher.query("CREATE TABLE IF NOT EXISTS vanish (a INT)").await.unwrap();
    for _ in 0..3 {
        let mut client = front.client().await;
        client.query("BEGIN").await.unwrap();
        client.query("INSERT INTO vanish VALUES (1)").await.unwrap();
        client.query("CREATE TEMPORARY TABLE vanish_tmp (a INT)").await.unwrap();
        drop(client);
    }
    // The only connection must come back, clean.
    assert_eq!(value(&mut watcher, "/* sqluice: primary */ SELECT COUNT(*) FROM vanish").await, "0");
    watcher.query("CREATE TEMPORARY TABLE vanish_tmp (a INT)").await.unwrap();
}

#[tokio::test]
async fn resetting_and_changing_user_begin_anew() {
    let front = Front::start("", "");
    let mut client = front.client().await;
    client.query("SET @x = 5, sql_mode = 'ANSI_QUOTES'").await.unwrap();
    client.query("BEGIN").await.unwrap();
    client.query("CREATE TEMPORARY TABLE gone (a INT)").await.unwrap();
    client.reset_connection().await.unwrap();
    assert_eq!(front.pins(&mut client).await, [""; 0]);
    assert_eq!(value(&mut client, "SELECT @x").await, "NULL");
    assert_eq!(value(&mut client, "SELECT DATABASE()").await, "app");
    assert!(!value(&mut client, "SELECT @@sql_mode").await.contains("ANSI_QUOTES"));
    client.query("SET @x = 6").await.unwrap();
    let mut login = net::query::login("app", wire::auth::Credential::password("app-secret"));
    login.schema = Some("information_schema".into());
    client.change_user(login).await.unwrap();
    assert_eq!(value(&mut client, "SELECT @x").await, "NULL");
    assert_eq!(value(&mut client, "SELECT DATABASE()").await, "information_schema");
}
