//! With `consistency = "table"` a read finds what any session has written to the tables that it names, and no more is
//! asked of a replica.

use std::time::Duration;

use lab::{Family, Replication};
use net::query::Parameter;

use crate::cluster_consistency::check_pairs;
use crate::consistency::{FOR_LONG, delay, replica_reads};
use crate::support::{Front, all, blocking, error, failing, has_mysql, until, value};

#[tokio::test]
async fn a_read_finds_what_another_session_has_written_to_its_table_mariadb() {
    check_pairs(Family::MariaDb, "table").await;
}

#[tokio::test]
async fn a_read_finds_what_another_session_has_written_to_its_table_mysql() {
    if has_mysql() {
        check_pairs(Family::MySql, "table").await;
    }
}

/// Tables that are written in all the ways that a text does not show.
const TABLES: &str = "USE app; DROP VIEW IF EXISTS later, of_busy_twice, of_busy; \
    DROP TABLE IF EXISTS child, parent, watched, noted, quiet, busy; \
    CREATE TABLE quiet (id INT PRIMARY KEY, v INT); INSERT INTO quiet VALUES (1, 5); \
    CREATE TABLE busy (id INT PRIMARY KEY, v INT); INSERT INTO busy VALUES (1, 0); \
    CREATE VIEW of_busy AS SELECT v FROM busy; CREATE VIEW of_busy_twice AS SELECT a.v FROM of_busy a JOIN quiet; \
    CREATE TABLE watched (id INT PRIMARY KEY); CREATE TABLE noted (id INT PRIMARY KEY); \
    CREATE TRIGGER notes AFTER INSERT ON watched FOR EACH ROW INSERT INTO noted VALUES (NEW.id); \
    CREATE TABLE parent (id INT PRIMARY KEY); INSERT INTO parent VALUES (1), (2); \
    CREATE TABLE child (p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE); INSERT INTO child VALUES (1), (2)";

pub async fn tables(servers: &'static Replication, family: Family) {
    delay(servers, family, &[0, 0]).await;
    blocking(move || {
        servers.primary().sql(TABLES).unwrap();
        servers.wait_in_sync(Duration::from_secs(30)).unwrap();
    })
    .await;
}

async fn check_tables(family: Family) {
    let servers = failing(family).await;
    let servers: &'static Replication = &servers;
    tables(servers, family).await;
    let front = Front::start(servers, |setup| setup.listener = "consistency = \"table\"".into()).await;
    delay(servers, family, &[2, 2]).await;
    front.knows(2).await;
    let (mut writer, mut reader) = (front.client().await, front.client().await);
    let quiet = "SELECT v FROM quiet";
    until("reads on replicas that have all from before somebody asked, of tables that are known", async || {
        all(&mut writer, "UPDATE busy SET v = 0").await;
        let before = replica_reads(&front.metrics_behind([&mut writer, &mut reader]).await);
        assert_eq!(value(&mut reader, quiet).await, "5");
        assert_eq!(value(&mut writer, quiet).await, "5");
        let after = replica_reads(&front.metrics_behind([&mut writer, &mut reader]).await);
        (after == before + 2.0).then_some(())
    })
    .await;
    let put = writer.prepare("UPDATE busy SET v = ? WHERE id = 1").await.unwrap();
    for v in 1..=12_i64 {
        match v % 3 {
            0 => drop(all(&mut writer, &format!("BEGIN; UPDATE busy SET v = {v}; SELECT 1 FROM quiet; COMMIT")).await),
            1 => drop(writer.execute(&put, &[Parameter::Int(v)]).await.unwrap()),
            _ => drop(all(&mut writer, &format!("UPDATE of_busy SET v = {v}")).await),
        }
        let before = replica_reads(&front.metrics_behind([&mut writer, &mut reader]).await);
        assert_eq!(value(&mut reader, quiet).await, "5");
        assert_eq!(value(&mut writer, quiet).await, "5", "what it has written elsewhere is of no matter");
        let after = replica_reads(&front.metrics_behind([&mut writer, &mut reader]).await);
        assert_eq!(after, before + 2.0, "replicas have all of that table, behind write {v}");
        for text in ["SELECT v FROM busy", "SELECT v FROM of_busy", "SELECT (SELECT v FROM app.of_busy_twice)"] {
            assert_eq!(value(&mut reader, text).await, v.to_string(), "{text}");
        }
    }
    for id in 1..=2 {
        all(&mut writer, &format!("DELETE FROM parent WHERE id = {id}")).await;
        assert_eq!(
            value(&mut reader, "SELECT COUNT(*) FROM child").await,
            (2 - id).to_string(),
            "a foreign key deletes"
        );
    }
    for id in 1..=3 {
        all(&mut writer, &format!("INSERT INTO watched VALUES ({id})")).await;
        assert_eq!(value(&mut reader, "SELECT COUNT(*) FROM noted").await, id.to_string(), "a trigger writes");
    }
    all(&mut writer, "CREATE VIEW later AS SELECT v FROM busy").await;
    all(&mut writer, "UPDATE busy SET v = 99").await;
    assert_eq!(value(&mut reader, "SELECT v FROM later").await, "99", "a view that is new");
    all(&mut writer, "ALTER VIEW later AS SELECT v FROM quiet").await;
    all(&mut writer, "UPDATE quiet SET v = 6").await;
    assert_eq!(value(&mut reader, "SELECT v FROM later").await, "6", "a view that has become another one");
    delay(servers, family, &[0, 0]).await;
}

#[tokio::test]
async fn only_the_tables_of_a_read_count_mariadb() {
    check_tables(Family::MariaDb).await;
}

#[tokio::test]
async fn only_the_tables_of_a_read_count_mysql() {
    if has_mysql() {
        check_tables(Family::MySql).await;
    }
}

/// A comment, a rule and the session's own word ask for it, too.
#[tokio::test]
async fn a_statement_a_rule_and_a_session_may_ask_for_it() {
    let servers = failing(Family::MariaDb).await;
    let servers: &'static Replication = &servers;
    tables(servers, Family::MariaDb).await;
    let rule = "[[rule]]\nname = \"fresh\"\ndigest_regex = '^SELECT v ?, id FROM busy'\nconsistency = \"table\"";
    let front = Front::start(servers, |setup| setup.more = rule.into()).await;
    delay(servers, Family::MariaDb, FOR_LONG).await;
    front.knows(2).await;
    let (mut writer, mut reader) = (front.client().await, front.client().await);
    let read = "SELECT v FROM busy";
    let stale = format!("/* sqluice: consistency=none */ {read}");
    for v in ["7", "8"] {
        all(&mut writer, &format!("UPDATE busy SET v = {v}")).await;
        assert_eq!(value(&mut reader, &format!("/* sqluice: consistency=table */ {read}")).await, v);
        assert_eq!(value(&mut reader, &stale).await, "0");
        assert_eq!(value(&mut reader, "SELECT v, id FROM busy").await, v, "by the rule");
        all(&mut reader, "SET @sqluice_consistency = 'table'").await;
        assert_eq!(value(&mut reader, read).await, v, "by the session's word");
        all(&mut reader, "SET @SQLUICE_CONSISTENCY = 'None'").await;
        assert_eq!(value(&mut reader, read).await, "0");
        reader.reset_connection().await.unwrap();
    }
    for wrong in ["'tabel'", "7", "''", "CONCAT('ta', 'ble')"] {
        let (code, message) = error(&mut reader, &format!("SET @sqluice_consistency = {wrong}")).await;
        assert_eq!(code, 1231, "{wrong}: {message}");
        assert!(message.contains("'session', 'cluster', 'table', 'none'"), "{message}");
    }
    all(&mut reader, "SET @sqluice_consistency = NULL").await;
    delay(servers, Family::MariaDb, &[0, 0]).await;
}
