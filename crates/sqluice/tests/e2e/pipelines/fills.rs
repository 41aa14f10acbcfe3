//! The result cache keeps results of reads that share connections, and none of them is older than what its client wrote.

use tokio::task::JoinSet;

use super::{always, pipelined};
use crate::login::accounts;
use crate::support::cache::{KEY, hits, until_hit, until_rights};
use crate::support::{Front, all, calm, families, value};

const RULES: &str = "[[rule]]\nname = \"all\"\ntable = \"fills\"\ncache = \"on\"\ncache_ttl_ms = 600000\n";
/// Clients, each with a row of its own.
const CLIENTS: u64 = 8;
const WRITES: u64 = 25;

async fn writes_and_reads(front: &Front, me: u64) -> JoinSet<()> {
    let (mut client, mut tasks) = (front.client().await, JoinSet::new());
    tasks.spawn(async move {
        for n in 1..=WRITES {
            all(&mut client, &format!("UPDATE fills SET n = {n} WHERE id = {me}")).await;
            for _ in 0..3 {
                let read = format!("SELECT n FROM fills WHERE id = {me}");
                assert_eq!(value(&mut client, &read).await, n.to_string(), "client {me}");
            }
        }
    });
    tasks
}

#[tokio::test]
async fn reads_that_share_connections_fill_the_cache() {
    for family in families() {
        let servers = calm(family).await;
        let rows: Vec<String> = (0..40).map(|id| format!("({id}, 0)")).collect();
        let sql = format!(
            "DROP TABLE IF EXISTS app.fills; CREATE TABLE app.fills (id INT PRIMARY KEY, n INT); INSERT INTO app.fills \
             VALUES {}",
            rows.join(",")
        );
        accounts(servers, &sql).await;
        let front = Front::start(servers, |setup| {
            always(setup);
            setup.admin = format!("key = \"{KEY}\"");
            setup.more = RULES.into();
        })
        .await;
        let mut client = front.client().await;
        all(&mut client, "SELECT COUNT(*) AS known FROM fills").await;
        until_rights(&front).await;
        until_hit(&front, &mut client, "SELECT COUNT(*) AS known FROM fills").await;

        let (shared, before) = (pipelined(&front).await, hits(&front, "all").await);
        for id in 20..40 {
            assert_eq!(value(&mut client, &format!("SELECT n FROM fills WHERE id = {id}")).await, "0");
        }
        client.ping().await.unwrap();
        assert_eq!(hits(&front, "all").await, before, "{family:?}: nothing was kept of these");
        let fills = pipelined(&front).await - shared;
        assert!(fills >= 15.0, "{family:?}: {fills} fills shared a connection");
        for id in 20..40 {
            assert_eq!(value(&mut client, &format!("SELECT n FROM fills WHERE id = {id}")).await, "0");
        }
        assert_eq!(hits(&front, "all").await - before, 20, "{family:?}: all of them were kept");

        let mut all_clients = Vec::new();
        for me in 0..CLIENTS {
            all_clients.push(writes_and_reads(&front, me).await);
        }
        for mut tasks in all_clients {
            while let Some(ended) = tasks.join_next().await {
                ended.unwrap();
            }
        }
        assert!(hits(&front, "all").await - before > 20, "{family:?}: results were kept between two writes");
    }
}
