//! Stopping: work is finished first, within a deadline.

use std::time::{Duration, Instant};

use lab::Family;
use net::tls::ClientTls;

use crate::failover::command;
use crate::login::accounts;
use crate::support::{Front, Ran, all, app, blocking, calm, http, http_with, signal, until};

/// The key of the API.
const KEY: &str = "hush hush";

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

/// `sqluice server`, and what it said.
async fn server(front: &Front, arguments: &[&str]) -> Ran {
    command(front, &[&["server"], arguments].concat()).await
}

async fn health(front: &Front, server: &str) -> String {
    let (_, page) = http_with(&front.admin, "GET", "/api/v1/clusters/main", Some(KEY)).await;
    let page: serde_json::Value = serde_json::from_str(&page).unwrap();
    let servers = page["servers"].as_array().unwrap();
    servers.iter().find(|of| of["name"] == server).unwrap()["health"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn servers_that_are_taken_out_stay_so_in_the_next_process() {
    let servers = calm(Family::MariaDb).await;
    let state = tempfile::TempDir::new().unwrap();
    let journal = state.path().join("journal");
    let start = async || {
        Front::start_on(
            &servers.servers().iter().map(|server| server.address().to_string()).collect::<Vec<_>>(),
            |setup| {
                setup.admin = format!("key = \"{KEY}\"");
                setup.cluster.push_str(&format!("\npromotion = {{ journal = \"{}\" }}", journal.display()));
            },
        )
        .await
    };
    let is = async |front: &Front, server: &str, wanted: &str| {
        until(&format!("{server} to be {wanted}"), async || (health(front, server).await == wanted).then_some(()))
            .await;
    };
    let front = start().await;
    for name in ["db1", "db2", "db3"] {
        is(&front, name, "up").await;
    }
    // A session that uses it is waited for, and one that does not leave is told of.
    let mut client = front.client().await;
    let mut busy = client.query("START TRANSACTION READ ONLY").await.map(drop);
    busy = busy.and(client.query("SELECT COUNT(*) FROM information_schema.SCHEMATA").await.map(drop));
    busy.unwrap();
    let metrics = front.metrics().await;
    let of = |name: &str| format!("server=\"{name}\"");
    let used = ["db2", "db3"]
        .into_iter()
        .find(|name| metrics.sum("sqluice_server_connections", &[&of(name), "state=\"used\""]) > 0.0);
    // It is the primary's where the transaction was routed there.
    if let Some(used) = used {
        let late = server(&front, &["drain", used, "--wait", "0"]).await;
        assert!(!late.good && late.out.contains("sessions still use 1 connections"), "{} {}", late.out, late.err);
        all(&mut client, "COMMIT").await;
        let done = server(&front, &["drain", used, "--wait"]).await;
        assert!(done.good && done.out.contains("no session uses it"), "{} {}", done.out, done.err);
        server(&front, &["resume", used]).await.output();
    }
    let drained = server(&front, &["drain", "db2"]).await;
    assert!(drained.good && drained.err.is_empty(), "{} {}", drained.out, drained.err);
    let last = server(&front, &["maintenance", "db3"]).await;
    assert!(last.good && last.err.contains("no replica is left that serves reads"), "{} {}", last.out, last.err);
    is(&front, "db3", "maintenance").await;
    drop(front);

    let front = start().await;
    is(&front, "db2", "draining").await;
    is(&front, "db3", "maintenance").await;
    server(&front, &["resume", "db2"]).await.output();
    is(&front, "db2", "up").await;
}
