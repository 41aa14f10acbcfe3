//! Reads of a tenth of a second and longer go on while the primary changes and servers are taken out.

use std::time::Duration;

use lab::{Family, Server};

use super::{Cluster, command, status};
use crate::support::long_reads::LongReads;
use crate::support::{Front, Setup, has_mysql, until};

/// Reads between two events: every client has read.
const READS: u64 = 100;

async fn without_errors(what: &str, reads: LongReads) {
    let (count, errors) = reads.end().await;
    eprintln!("{what}: {count} reads, {} errors", errors.len());
    assert_eq!(errors, [""; 0], "{what}");
}

/// Replicas of MySQL refuse the writes of most users only, as many operators have it.
async fn loosen(cluster: &Cluster, family: Family) {
    for index in [1, 2] {
        if family == Family::MySql {
            cluster
                .on(index, |server| server.sql("SET GLOBAL super_read_only = 0; SET GLOBAL read_only = 1").unwrap())
                .await;
        }
    }
}

async fn another_primary(front: &Front, old: &str) {
    until("another primary", async || {
        let page = status(front).await;
        (page["primary"].is_string() && page["primary"] != old).then_some(())
    })
    .await;
}

async fn check(family: Family, pipelines: &str) {
    let cluster = Cluster::start(family).await;
    loosen(&cluster, family).await;
    let change = |setup: &mut Setup| {
        setup.listener = format!("pipelines = \"{pipelines}\"");
        // A switchover is refused while a server does not answer in time, as on a busy machine. No server hangs here.
        setup.monitor += "\ntimeout_ms = 5000";
    };
    let front = cluster.front_changed("", change).await;

    let reads = LongReads::start(&front).await;
    reads.more(READS).await;
    for to in ["db2", "db1"] {
        let reported = command(&front, &["switchover", "--to", to]).await.output();
        assert!(reported.contains(&format!("primary is {to}")), "{reported}");
        reads.more(READS).await;
        front.knows(2).await;
    }
    without_errors("two switchovers", reads).await;

    let reads = LongReads::start(&front).await;
    for (what, server) in [("drain", "db2"), ("maintenance", "db3")] {
        let reported = command(&front, &["server", what, server, "--wait"]).await.output();
        assert!(reported.contains("no session uses it"), "{reported}");
        reads.more(READS).await;
        command(&front, &["server", "resume", server]).await.output();
        front.knows(2).await;
    }
    without_errors("drain and maintenance", reads).await;

    let reads = LongReads::start(&front).await;
    reads.more(READS).await;
    cluster.on(0, Server::kill9).await;
    another_primary(&front, "db1").await;
    reads.more(READS).await;
    without_errors("kill -9 of the primary", reads).await;
}

#[tokio::test]
async fn long_reads_live_through_changes_of_the_primary() {
    check(Family::MariaDb, "on").await;
}

#[tokio::test]
async fn long_reads_live_through_changes_of_the_primary_mysql() {
    if has_mysql() {
        check(Family::MySql, "always").await;
    }
}

/// A server that is stopped in good order refuses what comes to it last (1053). MySQL ends a SLEEP there with another result, so these
/// reads are short.
async fn stop_replicas(family: Family) {
    let cluster = Cluster::start(family).await;
    let front = cluster.front().await;
    let reads = LongReads::start_with(&front, &[("SELECT 'at once', COUNT(*) FROM app.t", &["at once", "0"])]).await;
    for index in [1, 2, 1, 2, 1, 2] {
        reads.more(10 * READS).await;
        cluster.on(index, |server| server.stop().unwrap()).await;
        cluster.on(index, |server| server.restart().unwrap()).await;
        front.knows(2).await;
    }
    without_errors("stops of replicas", reads).await;
}

#[tokio::test]
async fn reads_go_on_elsewhere_when_their_replica_is_stopped() {
    stop_replicas(Family::MariaDb).await;
}

#[tokio::test]
async fn reads_go_on_elsewhere_when_their_replica_is_stopped_mysql() {
    if has_mysql() {
        stop_replicas(Family::MySql).await;
    }
}

/// A server in offline mode ends all sessions but those of administrators, and lives.
#[tokio::test]
async fn long_reads_go_on_elsewhere_when_their_server_goes_offline() {
    if !has_mysql() {
        return;
    }
    let cluster = Cluster::start(Family::MySql).await;
    let front = cluster.front().await;
    let reads = LongReads::start(&front).await;
    reads.more(READS).await;
    for index in [1, 2, 1] {
        cluster.on(index, |server| server.sql("SET GLOBAL offline_mode = ON").unwrap()).await;
        reads.more(READS).await;
        cluster.on(index, |server| server.sql("SET GLOBAL offline_mode = OFF").unwrap()).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        reads.more(READS).await;
    }
    without_errors("offline mode", reads).await;
}

/// The replica answers the monitor all the while.
#[tokio::test]
async fn a_replica_in_offline_mode_is_named_and_gets_no_reads() {
    if !has_mysql() {
        return;
    }
    let cluster = Cluster::start(Family::MySql).await;
    let front = cluster.front().await;
    for (mode, named, serves) in [("ON", 1.0, 0.0), ("OFF", 0.0, 1.0)] {
        cluster.on(1, move |server| server.sql(&format!("SET GLOBAL offline_mode = {mode}")).unwrap()).await;
        until("the offline replica to be seen", async || {
            let metrics = front.metrics().await;
            let shown = metrics.sum("sqluice_cluster_diagnosis", &["diagnosis=\"offline\""]);
            let serving = metrics.sum("sqluice_server_serves_reads", &["server=\"db2\""]);
            (shown == named && serving == serves).then_some(())
        })
        .await;
    }
}
