//! Stopping: work is finished first, within a deadline.

use std::time::{Duration, Instant};

use lab::Family;
use net::tls::ClientTls;

use crate::login::accounts;
use crate::support::{Front, all, app, blocking, calm, http, signal, until};

#[tokio::test]
async fn a_transaction_may_finish_and_idle_clients_are_sent_away() {
    let servers = calm(Family::MariaDb).await;
    accounts(servers, "CREATE OR REPLACE TABLE app.drained (n INT)").await;
    let mut front = Front::start(servers, |setup| setup.proxy = "workers = 2\ndrain_ms = 30000".into()).await;
    let (mut busy, mut idle) = (front.client().await, front.client().await);
    all(&mut idle, "SELECT 1").await;
    all(&mut busy, "BEGIN").await;
    all(&mut busy, "INSERT INTO app.drained VALUES (1)").await;
    signal(front.pid(), "TERM");
    // An idle client finds its connection closed, as by a server that stops.
    until("the idle client to be sent away", async || idle.ping().await.err()).await;
    until("new clients to be refused", async || front.connect(app(), ClientTls::disabled()).await.err()).await;
    let (status, why) = http(&front.admin, "/readyz").await;
    assert_eq!(status, 503, "{why}");
    assert!(front.is_running());
    all(&mut busy, "INSERT INTO app.drained VALUES (2)").await;
    all(&mut busy, "COMMIT").await;
    let status = front.ended().await;
    assert_eq!(status.code(), Some(0), "{}", front.log());
    assert!(busy.ping().await.is_err());
    let rows = blocking(|| servers.primary().sql("SELECT COUNT(*) FROM app.drained").unwrap()).await;
    assert_eq!(rows, "2\n");
}

#[tokio::test]
async fn after_the_deadline_the_rest_is_cut() {
    let servers = calm(Family::MariaDb).await;
    accounts(servers, "CREATE OR REPLACE TABLE app.cut (n INT)").await;
    let mut front = Front::start(servers, |setup| setup.proxy = "workers = 2\ndrain_ms = 300".into()).await;
    let mut busy = front.client().await;
    all(&mut busy, "BEGIN").await;
    all(&mut busy, "INSERT INTO app.cut VALUES (1)").await;
    let mut sleeper = front.client().await;
    let sleeping = tokio::spawn(async move { sleeper.query("SELECT SLEEP(20)").await.is_err() });
    until("the sleeper to sleep", async || {
        (front.metrics().await.sum("sqluice_server_connections", &["state=\"used\""]) >= 2.0).then_some(())
    })
    .await;
    let begun = Instant::now();
    signal(front.pid(), "TERM");
    let status = front.ended().await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(290) && took < Duration::from_secs(5), "{took:?}");
    assert_eq!(status.code(), Some(0), "{}", front.log());
    assert!(front.log().contains("did not finish in time"), "{}", front.log());
    assert!(busy.query("COMMIT").await.is_err());
    assert!(sleeping.await.unwrap());
    until("the server to have rolled back", async || {
        let sql = "SELECT COUNT(*) FROM information_schema.INNODB_TRX; SELECT COUNT(*) FROM app.cut";
        let out = blocking(move || servers.primary().sql(sql).unwrap()).await;
        out.ends_with("\n0\n").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_second_interrupt_stops_at_once() {
    let servers = calm(Family::MariaDb).await;
    let mut front = Front::start(servers, |setup| setup.proxy = "workers = 2\ndrain_ms = 600000".into()).await;
    let mut busy = front.client().await;
    all(&mut busy, "BEGIN").await;
    all(&mut busy, "SELECT 1").await;
    signal(front.pid(), "INT");
    until("the drain to begin", async || front.log().contains("stopping").then_some(())).await;
    assert!(front.is_running());
    signal(front.pid(), "INT");
    let begun = Instant::now();
    front.ended().await;
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(busy.ping().await.is_err());
}
