//! The cache before a Galera group: what one member was told to write, others show a moment later.

use lab::{Galera, GaleraOptions};

use super::*;
use crate::support::blocking;

#[tokio::test]
async fn nobody_reads_older_than_is_promised_in_a_group() {
    let options = GaleraOptions {
        init_sql: ["one", "all"]
            .map(|writers| format!("CREATE TABLE app.cache_{writers} (id INT PRIMARY KEY, n INT) ENGINE=InnoDB;\n"))
            .concat(),
        ..GaleraOptions::new(3)
    };
    let servers = blocking(move || Galera::start(&options).unwrap()).await;
    let addresses: Vec<String> = servers.servers().iter().map(|server| server.address().to_string()).collect();
    for (writers, consistency) in [("one", "cluster"), ("all", "cluster")] {
        let front = Front::start_on(&addresses, |setup| {
            setup.kind = "galera";
            setup.cluster += &format!("\ngalera = {{ writers = \"{writers}\" }}");
            setup.admin = format!("key = \"{KEY}\"");
            setup.listener = format!("consistency = \"{consistency}\"");
            setup.more =
                rule("all", "cluster = \"main\"\ncache = \"on\"\ncache_ttl_ms = 600000\ncache_stale_ms = 1000");
        })
        .await;
        front.knows(3).await;
        writes::play(&front, &format!("cache_{writers}"), consistency).await;
    }
    blocking(move || drop(servers)).await;
}
