//! A primary that is killed while results of reads are kept and its log is followed.

use std::sync::atomic::AtomicBool;

use lab::{Valkey, ValkeyOptions};

use super::*;
use crate::follow::play::{Game, have_hits, play, shares, table_sql};
use crate::support::cache::hits;
use crate::support::families;

/// So many answers of the cache behind the failover show that it serves again.
const HITS_BEHIND: u64 = 20;

/// Two Sqluices follow, of which the first one replaces the primary that is killed.
async fn check(family: Family, tier: Option<&Valkey>) {
    let table = "follow_killed";
    let cluster = Cluster::start(family).await;
    let servers = cluster.servers();
    cluster.on(0, move |server| server.sql(&table_sql(table)).unwrap()).await;
    // Reads that the cache does not answer go to the primary: a replica may be further behind than the cache may.
    let follows = |setup: &mut Setup| {
        shares(setup, tier);
        setup.listener = "split = \"primary\"".into();
    };
    let fronts = vec![cluster.front_changed("", follows).await, Front::start(servers, follows).await];
    let game = Game {
        table,
        fronts,
        other: Front::start(servers, |_| {}).await,
        addresses: servers.servers().iter().map(|server| server.address().to_string()).collect(),
        shared: tier.is_some(),
        played: Duration::from_secs(12),
        over: AtomicBool::new(false),
    };
    let (mut killed, mut hits_before) = (false, Vec::new());
    let game = play(game, async |game, since, _| {
        if since >= Duration::from_secs(3) && !killed {
            killed = true;
            cluster.on(0, Server::kill9).await;
        }
        if since >= Duration::from_secs(9) && hits_before.is_empty() {
            for front in &game.fronts {
                hits_before.push(hits(front, "all").await);
            }
        }
        !hits_before.is_empty() && have_hits(game, &hits_before, HITS_BEHIND).await
    })
    .await;
    for (front, before) in game.fronts.iter().zip(hits_before) {
        let page = status(front).await;
        assert!(page["primary"].is_string() && page["primary"] != "db1", "{page}");
        assert!(
            hits(front, "all").await > before + HITS_BEHIND,
            "behind the other primary the cache answers again: {before}"
        );
    }
}

#[tokio::test]
async fn no_answer_is_too_old_when_the_primary_is_killed() {
    for family in families() {
        check(family, None).await;
    }
}

#[tokio::test]
async fn nor_is_one_that_is_shared_when_the_primary_is_killed() {
    for family in families() {
        let tier = blocking(|| Valkey::start(ValkeyOptions::default()).unwrap()).await;
        check(family, Some(&tier)).await;
    }
}
