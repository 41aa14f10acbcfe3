//! Answers that are kept are read on replicas that lack writes, as long as they lack none to the tables that are read.

use std::time::Duration;

use lab::Replication;
use net::query::Parameter;
use net::tls::ClientTls;
use wire::Capabilities;

use super::*;
use crate::consistency::{delay, replica_reads};
use crate::support::{app, blocking, failing, has_mysql};
use crate::table_consistency::tables;

/// A question that nobody has asked before.
fn anew(read: &str, number: &mut u32) -> String {
    *number += 1;
    format!("{read} WHERE {number} = {number}")
}

/// Writes a table without its caller's text saying so.
const BUMP: &str = "CREATE FUNCTION app.bump(x INT) RETURNS INT MODIFIES SQL DATA \
                    BEGIN UPDATE app.busy SET v = x; RETURN x; END";

async fn check(family: Family) {
    let servers = failing(family).await;
    let servers: &'static Replication = &servers;
    tables(servers, family).await;
    // So that who may not everything may make one.
    accounts(servers, "SET GLOBAL log_bin_trust_function_creators = ON; DROP FUNCTION IF EXISTS app.bump").await;
    let front = Front::start(servers, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        setup.more = rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000\ncache_shared = true");
    })
    .await;
    delay(servers, family, &[2, 2]).await;
    front.knows(2).await;
    let (mut writer, mut reader, mut number) = (front.client().await, front.client().await, 0);
    let kept = async || of_rule(&front, "all").await["kept"].as_u64().unwrap_or(0);
    until("fills on replicas that have all from before the first one, of tables that are known", async || {
        all(&mut writer, "UPDATE busy SET v = 0").await;
        let (kept_before, before) = (kept().await, replica_reads(&front.metrics_behind([&mut reader]).await));
        assert_eq!(value(&mut reader, &anew("SELECT v FROM quiet", &mut number)).await, "5");
        let after = replica_reads(&front.metrics_behind([&mut reader]).await);
        (after > before && kept().await > kept_before).then_some(())
    })
    .await;
    for v in 1..=10 {
        let write = if v % 2 == 0 { "UPDATE busy SET v = {}" } else { "BEGIN; UPDATE of_busy SET v = {}; COMMIT" };
        all(&mut writer, &write.replace("{}", &v.to_string())).await;
        let (kept_before, before) = (kept().await, replica_reads(&front.metrics_behind([&mut reader]).await));
        assert_eq!(value(&mut reader, &anew("SELECT v FROM quiet", &mut number)).await, "5");
        let after = replica_reads(&front.metrics_behind([&mut reader]).await);
        assert_eq!(after, before + 1.0, "replicas have all of that table, behind write {v}");
        assert_eq!(kept().await, kept_before + 1, "behind write {v}");
        for read in ["SELECT v FROM busy", "SELECT v FROM of_busy", "SELECT b.v FROM busy b JOIN quiet"] {
            let question = anew(read, &mut number);
            for client in [&mut reader, &mut writer] {
                for _ in 0..2 {
                    assert_eq!(value(client, &question).await, v.to_string(), "{read}");
                }
            }
        }
        assert_eq!(value(&mut reader, "SELECT v FROM busy").await, v.to_string(), "what was kept has ended");
        // A result that cannot be kept is not older.
        let volatile = anew("SELECT v + 0 * RAND() DIV 1 FROM busy", &mut number);
        assert_eq!(value(&mut reader, &volatile).await, v.to_string(), "{volatile}");
    }
    all(&mut writer, BUMP).await;
    // No text shows the writes of a function; and if they are in the log, no reply with the old framing shows the
    // position.
    let mut old = app();
    old.capabilities -= Capabilities::DEPRECATE_EOF;
    let mut old = front.connect(old, ClientTls::disabled()).await.unwrap();
    for (caller, first) in [(&mut writer, 100), (&mut old, 200)] {
        let called = caller.prepare("SELECT app.bump(?)").await.unwrap();
        for v in first..first + 3 {
            // Replicas lack this call, and nothing before it.
            blocking(move || servers.wait_in_sync(Duration::from_secs(30)).unwrap()).await;
            match v % 3 {
                0 => drop(all(caller, &format!("SELECT app.bump({v})")).await),
                1 => drop(caller.execute(&called, &[Parameter::Int(v)]).await.unwrap()),
                _ => drop(all(caller, &format!("DO app.bump({v})")).await),
            }
            for client in [&mut reader, caller] {
                assert_eq!(value(client, &anew("SELECT v FROM busy", &mut number)).await, v.to_string(), "call {v}");
                assert_eq!(value(client, "SELECT v FROM busy").await, v.to_string(), "call {v}");
            }
        }
    }
    all(&mut writer, "UPDATE quiet SET v = 6").await;
    assert_eq!(value(&mut reader, &anew("SELECT v FROM quiet", &mut number)).await, "6");
    delay(servers, family, &[0, 0]).await;
}

#[tokio::test]
async fn an_answer_is_read_where_its_tables_are_up_to_date_mariadb() {
    check(Family::MariaDb).await;
}

#[tokio::test]
async fn an_answer_is_read_where_its_tables_are_up_to_date_mysql() {
    if has_mysql() {
        check(Family::MySql).await;
    }
}
