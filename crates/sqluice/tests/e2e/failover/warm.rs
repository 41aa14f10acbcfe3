//! The result cache is filled again when another server is the primary.

use lab::Family;
use serde_json::Value;

use super::{Cluster, command};
use crate::support::{all, until, value};

async fn check(family: Family) {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("warm.sql");
    let reads: Vec<String> = (1..=5).map(|n| format!("SELECT n FROM t WHERE client = {n}")).collect();
    std::fs::write(&path, reads.join(";\n")).unwrap();
    let cluster = Cluster::start(family).await;
    let front = cluster
        .front_changed("", |setup| {
            setup.more = format!(
                "[[rule]]\nname = \"all\"\ntable = \"t\"\ncache = \"on\"\ncache_ttl_ms = 600000\n\
                 [warm.all]\ncluster = \"main\"\nuser = \"{}\"\nschema = \"{}\"\nfile = \"{}\"\n",
                lab::APP_USER,
                lab::APP_DATABASE,
                path.display()
            );
        })
        .await;
    let file = async || {
        let ran = command(&front, &["cache", "warm", "--show", "--json"]).await.output();
        serde_json::from_str::<Value>(&ran).unwrap()["files"][0].clone()
    };
    let counts = async || {
        let ran = command(&front, &["cache", "--json"]).await.output();
        let rule = serde_json::from_str::<Value>(&ran).unwrap()["rules"][0].clone();
        (rule["hits"].as_u64().unwrap_or(0), rule["misses"].as_u64().unwrap_or(0))
    };
    let mut client = front.client().await;
    all(&mut client, "SELECT COUNT(*) FROM t").await;
    let first =
        until("the first run", async || Some(file().await).filter(|file| file["runs"] != 0 && file["running"] == 0))
            .await;
    // Once the user's rights are known it is run again, since they are part of the question.
    let done = |last: &Value| last["kept"].as_u64().unwrap() + last["there"].as_u64().unwrap();
    assert_eq!((done(&first["last"]), &first["last"]["why"]), (5, &"first client".into()), "{first}");

    command(&front, &["switchover", "--to", "db2"]).await.output();
    let again = until("another run", async || {
        Some(file().await).filter(|file| file["last"]["why"] == "another primary" && file["running"] == 0)
    })
    .await;
    let last = &again["last"];
    // Here, too, it is run again when the rights are known. That something was kept at all is told by the hits below.
    assert_eq!((&last["why"], done(last), &last["failed"]), (&"another primary".into(), 5, &0.into()), "{again}");
    let before = counts().await;
    for read in &reads {
        assert!(all(&mut client, read).await[0].rows.is_empty());
    }
    let after = counts().await;
    assert_eq!((after.0 - before.0, after.1 - before.1), (5, 0), "all are answered by the cache");

    // A write on the new primary is seen.
    all(&mut client, "INSERT INTO t VALUES (1, 7)").await;
    assert_eq!(value(&mut client, &reads[0]).await, "7");
}

#[tokio::test]
async fn another_primary_fills_the_cache_anew() {
    check(Family::MariaDb).await;
}
