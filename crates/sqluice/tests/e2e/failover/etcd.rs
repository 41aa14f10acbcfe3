//! Two processes in front of the same servers agree by a key in etcd on which of them acts.

use lab::{Etcd, EtcdOptions};

use super::*;
use crate::support::signal;

/// How long the lease lasts, seconds.
const LEASE_S: u64 = 2;

impl Cluster {
    async fn front_with_etcd(&self, endpoints: &[String], lease_s: u64) -> Front {
        let endpoints: Vec<String> = endpoints.iter().map(|endpoint| format!("\"{endpoint}\"")).collect();
        let etcd =
            format!("etcd = {{ endpoints = [{}], tls = {{ mode = \"disabled\" }} }}\nfailover", endpoints.join(", "));
        let promotion = format!(", lease = \"etcd\", lease_s = {lease_s}");
        self.front_changed(&promotion, |setup| setup.cluster = setup.cluster.replacen("failover", &etcd, 1)).await
    }
}

async fn holds(front: &Front) -> bool {
    status(front).await["lease"]["held"] == json!(true)
}

#[tokio::test]
async fn with_etcd_one_process_acts_and_another_takes_over() {
    let mut etcd = blocking(|| Etcd::start(EtcdOptions { members: 1, tls: None }).unwrap()).await;
    let cluster = Cluster::start(Family::MariaDb).await;
    let mut one = cluster.front_with_etcd(&etcd.endpoints(), LEASE_S).await;
    until("the first one to hold the lease", async || holds(&one).await.then_some(())).await;
    let other = cluster.front_with_etcd(&etcd.endpoints(), LEASE_S).await;
    until("the other one to see it", async || {
        let page = status(&other).await;
        page["lease"]["text"].as_str()?.contains("held by another process").then_some(())
    })
    .await;
    let reported = command(&one, &["status"]).await.output();
    assert!(reported.contains("lease held (etcd key /sqluice/main/holder)"), "{reported}");

    // The holder is killed.
    let begun = Instant::now();
    signal(one.pid(), "KILL");
    one.ended().await;
    until("the other one to hold the lease", async || holds(&other).await.then_some(())).await;
    let taken = begun.elapsed();
    eprintln!("the holder was killed: another one has the lease after {taken:?}");
    // etcd looks twice in a second for leases that have ended.
    assert!(taken < Duration::from_secs(LEASE_S + 2), "{taken:?}");

    // Without etcd nothing is done.
    etcd.kill(0);
    until("the lease to be lost", async || {
        let page = status(&other).await;
        let text = page["lease"]["text"].as_str()?;
        (page["lease"]["held"] == json!(false) && text.contains("cannot be had")).then_some(())
    })
    .await;
    cluster.on(0, Server::kill9).await;
    until("no primary", async || status(&other).await["primary"].is_null().then_some(())).await;
    let probes = async || other.metrics().await.sum("sqluice_monitor_probes_total", &[]);
    let before = probes().await;
    until("many more probes", async || (probes().await > before + 30.0).then_some(())).await;
    let page = status(&other).await;
    assert!(page["primary"].is_null() && page["lease"]["held"] == json!(false), "{page}");
    let reported = command(&other, &["status"]).await.out;
    assert!(reported.contains("lease not held (etcd key /sqluice/main/holder cannot be had:"), "{reported}");

    etcd.restart(0).unwrap();
    let page = until("another primary", async || {
        let page = status(&other).await;
        page["primary"].is_string().then_some(page)
    })
    .await;
    assert!(page["lease"]["held"] == json!(true) && page["primary"] != "db1", "{page}");
    let mut client = other.client().await;
    all(&mut client, "INSERT INTO app.t VALUES (-1, 1)").await;
}

#[tokio::test]
async fn a_process_that_is_stopped_gives_the_lease_back() {
    const LONG_S: u64 = 30;
    let etcd = blocking(|| Etcd::start(EtcdOptions { members: 1, tls: None }).unwrap()).await;
    let cluster = Cluster::start(Family::MariaDb).await;
    let mut one = cluster.front_with_etcd(&etcd.endpoints(), LONG_S).await;
    until("the first one to hold the lease", async || holds(&one).await.then_some(())).await;
    let other = cluster.front_with_etcd(&etcd.endpoints(), LONG_S).await;
    let begun = Instant::now();
    signal(one.pid(), "TERM");
    one.ended().await;
    until("the other one to hold the lease", async || holds(&other).await.then_some(())).await;
    let taken = begun.elapsed();
    eprintln!("the holder was stopped: another one has the lease after {taken:?}");
    assert!(taken < Duration::from_secs(LONG_S / 2), "{taken:?}");
}
