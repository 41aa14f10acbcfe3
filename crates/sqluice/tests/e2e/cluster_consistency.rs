//! With `consistency = "cluster"` a read finds what any session has written before it.

use std::time::Duration;

use lab::{Family, Replication};

use crate::consistency::{CLIENTS, FOR_LONG, WAYS, delay, procedure, replica_reads, routed, table, write};
use crate::support::{Front, all, blocking, failing, has_mysql, until, value};

/// Writes of each writer, each followed by a read of somebody else.
const CYCLES: usize = 60;

/// Many writers, and for each a reader that asks as soon as the writer has its answer.
pub async fn check_pairs(family: Family, consistency: &str) {
    let servers = failing(family).await;
    let servers: &'static Replication = &servers;
    delay(servers, family, &[0, 0]).await;
    table(servers, "pairs").await;
    procedure(servers, "pairs").await;
    blocking(|| servers.wait_in_sync(Duration::from_secs(30)).unwrap()).await;
    let front = Front::start(servers, |setup| setup.listener = format!("consistency = \"{consistency}\"")).await;
    delay(servers, family, &[1, 1]).await;
    front.knows(2).await;
    let mut running = tokio::task::JoinSet::new();
    for id in 0..CLIENTS {
        let (mut writer, mut reader) = (front.client().await, front.client().await);
        running.spawn(async move {
            let text = format!("SELECT v FROM pairs WHERE id = {id}");
            for v in 1..=CYCLES {
                let way = (id + v) % WAYS;
                write(&mut writer, way, "pairs", id, v).await;
                assert_eq!(value(&mut reader, &text).await, v.to_string(), "behind a write of kind {way}");
            }
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.unwrap();
    }
    let metrics = front.metrics().await;
    assert!(routed(&metrics, "cluster_write") > 0.0, "no read had to leave the replicas");
    delay(servers, family, &[0, 0]).await;
    let before = replica_reads(&metrics);
    let mut reader = front.client().await;
    until("a read on a replica that has everything", async || {
        assert_eq!(value(&mut reader, "SELECT v FROM pairs WHERE id = 1").await, CYCLES.to_string());
        (replica_reads(&front.metrics().await) > before).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_read_finds_what_another_session_has_written_mariadb() {
    check_pairs(Family::MariaDb, "cluster").await;
}

#[tokio::test]
async fn a_read_finds_what_another_session_has_written_mysql() {
    if has_mysql() {
        check_pairs(Family::MySql, "cluster").await;
    }
}

/// Only the statement that asks for it sees what others wrote; the first one that does sees what was written before it.
#[tokio::test]
async fn a_statement_may_ask_for_what_all_have_written() {
    let servers = failing(Family::MariaDb).await;
    let servers: &'static Replication = &servers;
    delay(servers, Family::MariaDb, &[0, 0]).await;
    table(servers, "asked").await;
    let front = Front::start(servers, |_| {}).await;
    delay(servers, Family::MariaDb, FOR_LONG).await;
    front.knows(2).await;
    let (mut writer, mut reader) = (front.client().await, front.client().await);
    for v in ["7", "8"] {
        all(&mut writer, &format!("UPDATE asked SET v = {v} WHERE id = 1")).await;
        let read = "SELECT v FROM asked WHERE id = 1";
        assert_eq!(value(&mut reader, &format!("/* sqluice: consistency=cluster */ {read}")).await, v);
        assert_eq!(value(&mut reader, &format!("/* sqluice: consistency=none */ {read}")).await, "0");
    }
    delay(servers, Family::MariaDb, &[0, 0]).await;
}
