//! With `consistency_wait_ms` a read that no replica is known to be able to serve has a replica wait until it can, and goes to the
//! primary when that takes too long. Where it waits for the primary it goes to a replica that has caught up.

use std::time::{Duration, Instant};

use lab::{Family, Replication};
use net::query::Parameter;

use crate::consistency::{delay, replica_reads, table};
use crate::support::{Front, Metrics, all, blocking, failing, families, has_mysql, until, value};

/// Longest wait for something that comes soon.
const SOON: Duration = Duration::from_secs(30);
const READ: &str = "SELECT v FROM awaited WHERE id = 1";

fn timeouts(metrics: &Metrics) -> f64 {
    metrics.sum("sqluice_replica_wait_timeouts_total", &[])
}

async fn update(front: &Front, v: i64) -> net::query::Client {
    let mut client = front.client().await;
    all(&mut client, &format!("UPDATE awaited SET v = {v} WHERE id = 1")).await;
    client
}

/// Waits until a replica waits for positions.
async fn is_waiting(servers: &'static Replication) {
    blocking(move || {
        let until = Instant::now() + SOON;
        let waits = |server: &lab::Server| {
            let list = server.sql("SHOW FULL PROCESSLIST").unwrap();
            list.contains("SELECT 1 FROM DUAL WHERE ")
        };
        while !servers.replicas().any(waits) {
            assert!(Instant::now() < until, "no replica waits");
        }
    })
    .await;
}

async fn check_waiting(family: Family) {
    let servers = failing(family).await;
    let servers: &'static Replication = &servers;
    delay(servers, family, &[0, 0]).await;
    table(servers, "awaited").await;
    let patient = Front::start(servers, |setup| setup.listener = "consistency_wait_ms = 30000".into()).await;
    let hasty = Front::start(servers, |setup| setup.listener = "consistency_wait_ms = 100".into()).await;

    // While replicas follow closely.
    patient.knows(2).await;
    let mut client = patient.client().await;
    let (before, begun) = (patient.metrics().await, Instant::now());
    for v in 1..=50 {
        all(&mut client, &format!("UPDATE awaited SET v = {v} WHERE id = 1")).await;
        assert_eq!(value(&mut client, READ).await, v.to_string());
    }
    let (after, took) = (patient.metrics_behind([&mut client]).await, begun.elapsed());
    eprintln!("{family:?}: 50 writes, each with a read of a replica, took {took:?}");
    assert_eq!(replica_reads(&after) - replica_reads(&before), 50.0, "each waits on a replica");
    assert_eq!(timeouts(&after), 0.0);

    // While they are at least a second behind: servers count in whole seconds.
    delay(servers, family, &[2, 2]).await;
    patient.knows(2).await;
    let mut client = update(&patient, 101).await;
    let reading = tokio::spawn(async move { (value(&mut client, READ).await, client) });
    is_waiting(servers).await;
    let (read, mut client) = reading.await.unwrap();
    assert_eq!(read, "101");
    let waited = patient.metrics_behind([&mut client]).await;
    assert_eq!((replica_reads(&waited) - replica_reads(&after), timeouts(&waited)), (1.0, 0.0));
    let mut client = update(&patient, 102).await;
    all(&mut client, "START TRANSACTION READ ONLY").await;
    assert_eq!(value(&mut client, READ).await, "102");
    all(&mut client, "COMMIT").await;
    let other = patient.client().await;
    let mut writer = update(&patient, 103).await;
    let mut other = other;
    assert_eq!(value(&mut other, &READ.replacen("SELECT", "SELECT /* sqluice: consistency=none */", 1)).await.len(), 3);
    assert_eq!(value(&mut writer, READ).await, "103");

    // A read that does not want to wait that long runs on the primary, in any form.
    hasty.knows(2).await;
    let mut client = hasty.client().await;
    let prepared = client.prepare("SELECT v FROM awaited WHERE id = ?").await.unwrap();
    let before = hasty.metrics_behind([&mut client]).await;
    for v in 201..=206_i64 {
        all(&mut client, &format!("UPDATE awaited SET v = {v} WHERE id = 1")).await;
        let begun = Instant::now();
        match v % 3 {
            0 => assert_eq!(value(&mut client, READ).await, v.to_string()),
            1 => {
                let rows = client.execute(&prepared, &[Parameter::Int(1)]).await.unwrap();
                assert_eq!(rows[0].scalar().as_deref(), Some(&*v.to_string()));
            }
            _ => {
                all(&mut client, "START TRANSACTION READ ONLY").await;
                assert_eq!(value(&mut client, READ).await, v.to_string());
                all(&mut client, "COMMIT").await;
            }
        }
        assert!(begun.elapsed() >= Duration::from_millis(100), "{v}: {:?}", begun.elapsed());
    }
    let after = hasty.metrics_behind([&mut client]).await;
    assert_eq!(timeouts(&after) - timeouts(&before), 6.0);
    assert_eq!(replica_reads(&after), replica_reads(&before), "none was in time");
    delay(servers, family, &[0, 0]).await;
}

/// The primary has no connection to give, and replicas that lacked a session's write have it meanwhile.
async fn check_leaving_the_primary(family: Family) {
    let servers = failing(family).await;
    let servers: &'static Replication = &servers;
    delay(servers, family, &[0, 0]).await;
    table(servers, "awaited").await;
    let front = Front::start(servers, |setup| {
        setup.pool = "max_connections_per_server = 1\nwait_ms = 30000".into();
    })
    .await;
    front.knows(2).await;
    delay(servers, family, &[60, 60]).await;
    front.knows(2).await;
    let mut reader = update(&front, 7).await;
    let mut holder = front.client().await;
    all(&mut holder, "BEGIN").await;
    all(&mut holder, "SELECT v FROM awaited WHERE id = 2 FOR UPDATE").await;
    let before = front.metrics().await;
    let reading = tokio::spawn(async move { (value(&mut reader, READ).await, reader) });
    until("the read to wait for the primary", async || {
        (front.metrics().await.sum("sqluice_pool_waiting_statements", &[]) == 1.0).then_some(())
    })
    .await;
    delay(servers, family, &[0, 0]).await;
    let (read, mut reader) = tokio::time::timeout(SOON, reading).await.expect("it goes to a replica").unwrap();
    assert_eq!(read, "7");
    let after = front.metrics_behind([&mut reader]).await;
    assert_eq!(replica_reads(&after) - replica_reads(&before), 1.0);
    all(&mut holder, "COMMIT").await;
    let wait_timeouts = after.sum("sqluice_pool_wait_timeouts_total", &[]);
    assert_eq!(wait_timeouts, 0.0);
}

#[tokio::test]
async fn a_read_leaves_the_queue_of_the_primary_for_a_replica_that_has_caught_up() {
    for family in families() {
        check_leaving_the_primary(family).await;
    }
}

#[tokio::test]
async fn reads_wait_on_replicas() {
    check_waiting(Family::MariaDb).await;
}

#[tokio::test]
async fn mysql_reads_wait_on_replicas() {
    if has_mysql() {
        check_waiting(Family::MySql).await;
    }
}
