//! Whatever becomes of replication, a read that asks for nothing in particular is no staler than `max_lag_ms` and what
//! measuring takes.

use std::time::{Duration, Instant};

use lab::{Family, Replication};

use crate::consistency::{delay, replica_reads, routed, table};
use crate::support::{Front, all, blocking, failing, has_mysql, until, value};

/// `max_lag_ms`.
const BOUND: Duration = Duration::from_secs(1);
/// A heartbeat, a probe, and a machine that is busy.
const MEASURING: Duration = Duration::from_millis(1500);

async fn appliers(servers: &'static Replication, family: Family, verb: &'static str) {
    let word = if family == Family::MariaDb { "SLAVE" } else { "REPLICA" };
    blocking(move || {
        servers.replicas().for_each(|replica| drop(replica.sql(&format!("{verb} {word} SQL_THREAD")).unwrap()))
    })
    .await;
}

/// Writes and reads for longer than replicas may be behind; gives how stale the stalest read was.
async fn stalest(front: &Front, last: &mut Vec<Instant>) -> Duration {
    let (mut writer, mut reader) = (front.client().await, front.client().await);
    let (began, mut stalest) = (Instant::now(), Duration::ZERO);
    while began.elapsed() < BOUND + MEASURING + Duration::from_secs(2) {
        all(&mut writer, &format!("UPDATE stale SET v = {} WHERE id = 1", last.len())).await;
        last.push(Instant::now());
        let asked = Instant::now();
        let seen: usize = value(&mut reader, "SELECT v FROM stale WHERE id = 1").await.parse().unwrap();
        // The first write that it lacks.
        if let Some(written) = last.get(seen + 1) {
            stalest = stalest.max(asked.duration_since(*written));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stalest
}

async fn check_bound(family: Family) {
    let servers = failing(family).await;
    let servers: &'static Replication = &servers;
    delay(servers, family, &[0, 0]).await;
    table(servers, "stale").await;
    let front = Front::start(servers, |setup| {
        setup.cluster = format!("slow_start_s = 0\nmax_lag_ms = {}", BOUND.as_millis());
        setup.listener = "consistency = \"none\"".into();
    })
    .await;
    front.knows(2).await;
    // The value 0 is there from the beginning.
    let mut last = vec![Instant::now()];
    appliers(servers, family, "STOP").await;
    let stopped = stalest(&front, &mut last).await;
    appliers(servers, family, "START").await;
    front.knows(2).await;
    delay(servers, family, &[5, 5]).await;
    let delayed = stalest(&front, &mut last).await;
    eprintln!("{family:?}: {stopped:?} stale with stopped appliers, {delayed:?} with delayed ones");
    assert!(stopped <= BOUND + MEASURING && delayed <= BOUND + MEASURING, "{stopped:?} {delayed:?}");
    let before = replica_reads(&front.metrics().await);
    delay(servers, family, &[0, 0]).await;
    let mut reader = front.client().await;
    until("replicas that serve again", async || {
        value(&mut reader, "SELECT v FROM stale WHERE id = 1").await;
        (replica_reads(&front.metrics().await) > before).then_some(())
    })
    .await;
}

#[tokio::test]
async fn no_read_is_staler_than_the_bound_mariadb() {
    check_bound(Family::MariaDb).await;
}

#[tokio::test]
async fn no_read_is_staler_than_the_bound_mysql() {
    if has_mysql() {
        check_bound(Family::MySql).await;
    }
}

async fn check_rule(family: Family) {
    let servers = failing(family).await;
    let servers: &'static Replication = &servers;
    delay(servers, family, &[0, 0]).await;
    table(servers, "far").await;
    table(servers, "near").await;
    let front = Front::start(servers, |setup| {
        setup.cluster = "slow_start_s = 0\nmax_lag_ms = 60000".into();
        setup.listener = "consistency = \"none\"".into();
        setup.more = "[[rule]]\nname = \"near\"\ndigest_regex = \"FROM near\"\nmax_lag_ms = 800\n".into();
    })
    .await;
    front.knows(2).await;
    let (mut writer, mut reader) = (front.client().await, front.client().await);
    delay(servers, family, &[4, 4]).await;
    // An applier that stands still while it is told of its delay has no lag: one that counts is far beyond the bound of the rule.
    // While Sqluice sees it stand, the replica takes no reads, however far behind it is.
    until("replicas that are behind and take reads", async || {
        let metrics = front.metrics().await;
        let lag = |server: &str| metrics.sum("sqluice_server_lag_seconds", &[&format!("server=\"{server}\"")]);
        let serving = metrics.sum("sqluice_server_serves_reads", &[]);
        (lag("db2") > 2.0 && lag("db3") > 2.0 && serving >= 2.0).then_some(())
    })
    .await;
    // A server that has just been told may be seen standing still once more: then no replica is too far, as none takes reads.
    until("a read that no replica is near enough for", async || {
        value(&mut reader, "SELECT v FROM near WHERE id = 1").await;
        (routed(&front.metrics().await, "replica_lag") > 0.0).then_some(())
    })
    .await;
    for v in 1..=50 {
        all(&mut writer, &format!("UPDATE near SET v = {v} WHERE id = 1")).await;
        assert_eq!(value(&mut reader, "SELECT v FROM near WHERE id = 1").await, v.to_string());
    }
    all(&mut writer, "UPDATE far SET v = 7 WHERE id = 1").await;
    assert_eq!(value(&mut reader, "SELECT v FROM far WHERE id = 1").await, "0", "the rule does not hold for it");
    delay(servers, family, &[0, 0]).await;
    let before = replica_reads(&front.metrics().await);
    until("replicas that are near again", async || {
        value(&mut reader, "SELECT v FROM near WHERE id = 1").await;
        (replica_reads(&front.metrics().await) > before).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_rule_bounds_lag_more_narrowly_mariadb() {
    check_rule(Family::MariaDb).await;
}

#[tokio::test]
async fn a_rule_bounds_lag_more_narrowly_mysql() {
    if has_mysql() {
        check_rule(Family::MySql).await;
    }
}
