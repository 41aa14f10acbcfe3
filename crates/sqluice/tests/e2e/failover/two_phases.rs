//! The server that should be promoted lacks what another one has.

use super::*;

/// More than the sockets between a primary and a replica keep.
const MUCH_MIB: usize = 32;
/// A failover, the fetch of what was written, and the switchover to the preferred server.
const MOVED_WITHIN: Duration = Duration::from_secs(50);

/// Writes what only db3 gets, since db2 is frozen, and kills db1. Returns when `primary` is the primary and nothing is lost. Gives
/// the journal.
async fn fail_over(family: Family, rules: [&str; 2], primary: usize) -> String {
    let cluster = Cluster::start(family).await;
    cluster.on(0, |server| server.sql("CREATE TABLE app.much (n INT PRIMARY KEY, b LONGBLOB)").unwrap()).await;
    let change = |setup: &mut Setup| {
        for (server, rule) in setup.servers[1..].iter_mut().zip(rules) {
            *server = server.replace(" }", &format!(", promotion = \"{rule}\" }}"));
        }
    };
    let front = cluster.front_changed("", change).await;
    front.knows(2).await;
    let writers = Writers::start(&front, 4).await;
    writers.more(50).await;
    // Four writers without a pause write more than a replica on a busy machine applies, and the role moves on to none that is behind.
    writers.pause(Duration::from_millis(20));
    cluster.on(1, |server| server.freeze().unwrap()).await;
    let mut client = front.client().await;
    for n in 0..MUCH_MIB {
        client.query(format!("INSERT INTO app.much VALUES ({n}, REPEAT('x', 1 << 20))")).await.unwrap();
    }
    cluster.on(0, Server::kill9).await;
    cluster.on(1, |server| server.thaw().unwrap()).await;

    let name = format!("db{}", primary + 1);
    let is_there =
        until("the role to be where it should", async || (status(&front).await["primary"] == *name).then_some(()));
    if tokio::time::timeout(MOVED_WITHIN, is_there).await.is_err() {
        panic!("the role is not with {name}: {}", journal_of(&front).await);
    }
    writers.more(100).await;
    let wrote = writers.end().await;
    nothing_is_lost(&cluster, primary, &wrote).await;
    let much = cluster.on(primary, |server| server.sql("SELECT COUNT(*) FROM app.much").unwrap()).await;
    assert_eq!(much.trim(), MUCH_MIB.to_string());
    assert!(wrote.errors.len() <= 4, "at most what was under way when db1 died: {:?}", wrote.errors);
    journal_of(&front).await
}

async fn journal_of(front: &Front) -> String {
    let journal = crate::support::http_with(&front.admin, "GET", "/api/v1/clusters/main/journal", Some(KEY)).await;
    assert_eq!(journal.0, 200, "{journal:?}");
    journal.1
}

async fn check_preferred(family: Family) {
    let journal = fail_over(family, ["prefer", "neutral"], 1).await;
    assert!(journal.contains("failover from db1 to db3 is done"), "the data comes first: {journal}");
    assert!(journal.contains("so the role moves on"), "{journal}");
}

async fn check_fetch(family: Family) {
    let journal = fail_over(family, ["neutral", "must_not"], 1).await;
    assert!(journal.contains("db2 gets what it lacks from db3"), "{journal}");
    assert!(journal.contains("failover from db1 to db2 is done"), "{journal}");
}

#[tokio::test]
async fn the_role_moves_on_to_the_preferred_server() {
    check_preferred(Family::MariaDb).await;
}

#[tokio::test]
async fn the_role_moves_on_to_the_preferred_server_mysql() {
    if has_mysql() {
        check_preferred(Family::MySql).await;
    }
}

#[tokio::test]
async fn what_only_a_server_has_that_must_not_be_promoted_is_fetched() {
    check_fetch(Family::MariaDb).await;
}

#[tokio::test]
async fn what_only_a_server_has_that_must_not_be_promoted_is_fetched_mysql() {
    if has_mysql() {
        check_fetch(Family::MySql).await;
    }
}
