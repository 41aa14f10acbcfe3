//! MariaDB's own query cache behind Sqluice: it does not answer on connections that report transactions, as Sqluice has them do
//! where SET TRANSACTION may hide.

use lab::{Family, Replication, ReplicationOptions};

use crate::support::{Front, all, blocking, value};

const READ: &str = "SELECT a FROM app.e2e_cached";

fn hits(servers: &Replication) -> u64 {
    let sql = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'QCACHE_HITS'";
    servers.primary().sql(sql).unwrap().split_whitespace().last().unwrap().parse().unwrap()
}

#[tokio::test]
async fn statements_that_may_hide_set_transaction_leave_the_query_cache_in_use() {
    let config = vec!["query_cache_type=ON".to_owned(), "query_cache_size=1M".to_owned()];
    let options = ReplicationOptions { config, ..ReplicationOptions::new(Family::MariaDb, 0) };
    let servers = blocking(|| Replication::start(options).unwrap()).await;
    let sql = "CREATE TABLE app.e2e_cached (a INT); INSERT INTO app.e2e_cached VALUES (7);
               CREATE PROCEDURE app.e2e_hides() SET @x = 1";
    servers.primary().sql(sql).unwrap();
    let front = Front::start(&servers, |setup| {
        setup.proxy = "workers = 1\ndrain_ms = 200".into();
        setup.pool = "max_connections_per_server = 1".into();
    })
    .await;
    let mut client = front.client().await;
    for ahead in [
        "SELECT 1",
        "SET TRANSACTION READ ONLY",
        "CALL app.e2e_hides()",
        "BEGIN NOT ATOMIC SET @y = 2; END",
        "PREPARE s FROM 'SELECT a FROM app.e2e_cached'",
    ] {
        all(&mut client, ahead).await;
        for read in [READ, READ] {
            // Whatever was announced is used up by the first one.
            assert_eq!(value(&mut client, read).await, "7", "{ahead}");
        }
        let before = hits(&servers);
        assert_eq!(value(&mut client, READ).await, "7", "{ahead}");
        assert_eq!(hits(&servers), before + 1, "{ahead}");
    }
    let before = hits(&servers);
    for _ in 0..2 {
        assert_eq!(value(&mut client, "EXECUTE s").await, "7");
    }
    assert!(hits(&servers) > before, "executions of a text that announces nothing");
    // An announcement that hides in a routine is found all the same.
    all(&mut client, "DEALLOCATE PREPARE s").await;
    servers.primary().sql("CREATE PROCEDURE app.e2e_announces() SET TRANSACTION READ ONLY").unwrap();
    all(&mut client, "CALL app.e2e_announces()").await;
    let refused = client.query("INSERT INTO app.e2e_cached VALUES (8)").await.err().and_then(|error| error.code());
    assert_eq!(refused, Some(1792));
    assert_eq!(value(&mut client, READ).await, "7");
}
