//! Orders in SQL: the console has the API carry them out.

use super::*;
use crate::support::{calm, error, http_with, value};
use net::client::Target;
use net::query;
use wire::auth::Credential;

const OPERATE_KEY: &str = "may operate";
const VIEW_KEY: &str = "only look";

fn setup(setup: &mut Setup) {
    let keys = format!("key = \"{KEY}\"\noperate_key = \"{OPERATE_KEY}\"\nview_key = \"{VIEW_KEY}\"");
    setup.admin = format!("sql_address = \"127.0.0.1:0\"\n{keys}");
}

async fn console(front: &Front, user: &str, key: &str) -> Client {
    let target = Target::plain(front.address_of("console").parse().unwrap(), SOON);
    let limits = Limits { timeout: SOON, ..Limits::default() };
    Client::connect(&target, query::login(user, Credential::password(key)), limits).await.unwrap()
}

/// The only row of an order's result, by column.
async fn row(client: &mut Client, sql: &str) -> Value {
    let result = all(client, sql).await.remove(0);
    let names = result.columns.iter().map(|column| column.name.clone());
    let values = result.rows[0].iter().map(|value| match value {
        Some(bytes) => Value::from(String::from_utf8_lossy(bytes).into_owned()),
        None => Value::Null,
    });
    names.zip(values).collect::<serde_json::Map<String, Value>>().into()
}

async fn check(family: Family, database: &str) {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history.sqlite");
    let servers = calm(family).await;
    let front = Front::start(servers, |it| {
        setup(it);
        it.more = format!("[history]\npath = \"{}\"\n", history.display());
    })
    .await;
    let mut sql = console(&front, "operate", OPERATE_KEY).await;
    let takes_reads = async |server: &str| {
        let page = http_with(&front.admin, "GET", "/api/v1/clusters/main", Some(KEY)).await.1;
        let page: Value = serde_json::from_str(&page).unwrap();
        let found = page["servers"].as_array().unwrap().iter().find(|known| known["name"] == *server).unwrap().clone();
        found["serves_reads"] == true
    };
    let dry = row(&mut sql, "DRAIN db2 DRY RUN").await;
    assert_eq!((&dry["cluster"], &dry["result"]), (&json!("main"), &json!("dry_run")), "{dry}");
    // A busy machine may keep a replica from its reads for a moment; a drain would for good.
    until("db2 serves reads", async || takes_reads("db2").await.then_some(())).await;
    let done = row(&mut sql, "DRAIN main.db2").await;
    assert_eq!(done["result"], "done", "{done}");
    until("db2 serves no reads", async || (!takes_reads("db2").await).then_some(())).await;
    row(&mut sql, "UNDRAIN db2").await;
    until("db2 serves reads again", async || takes_reads("db2").await.then_some(())).await;
    row(&mut sql, "MAINTENANCE `db3`").await;
    until("db3 serves no reads", async || (!takes_reads("db3").await).then_some(())).await;
    row(&mut sql, "UNDRAIN db3").await;

    let mark = row(&mut sql, "MARK 'deploy of orders'").await;
    let kept = format!("SELECT text FROM marks WHERE id = {}", mark["id"].as_str().unwrap());
    assert_eq!(value(&mut sql, &kept).await, "deploy of orders");

    // Errors are the API's, in the console's way.
    for (text, code, words) in [
        ("DRAIN db9", 1105, "there is no server 'db9'"),
        ("DRAIN main.db9", 1105, "has no server \"db9\" (db1, db2, db3)"),
        ("DRAIN shop.db2", 1105, "there is no cluster \"shop\" (main)"),
        ("DRAIN", 1064, "write DRAIN [CLUSTER.]SERVER [DRY RUN]"),
        ("SWITCHOVER main DRY RUN", 1227, "needs the role admin; your key has the role operate"),
        ("EXPLAIN DIGEST 'ff'", 1064, "a digest is 16 hexadecimal digits"),
        ("EXPLAIN DIGEST '00000000000000ff'", 1105, "this digest is not counted"),
    ] {
        let (reported, said) = error(&mut sql, text).await;
        assert!(reported == code && said.contains(words), "{text}: {reported} {said}");
    }
    let mut view = console(&front, "view", VIEW_KEY).await;
    assert_eq!(error(&mut view, "DRAIN db2").await.0, 1227);
    let help = all(&mut view, "HELP").await.remove(0).rows;
    assert!(help.len() > 5 && help.iter().any(|row| row[0].as_deref().unwrap().starts_with(b"SWITCHOVER")));

    // The plan of a digest; the monitor needs the right to read.
    let create =
        format!("CREATE DATABASE IF NOT EXISTS {database}; GRANT SELECT ON {database}.* TO {}", lab::MONITOR_USER);
    let grant = format!("{create}@'%'; CREATE OR REPLACE TABLE {database}.t (a INT, KEY (a))");
    let grant = if family == Family::MySql {
        grant.replace("CREATE OR REPLACE TABLE", "CREATE TABLE IF NOT EXISTS")
    } else {
        grant
    };
    blocking(move || {
        servers.primary().sql(&grant).unwrap();
        servers.wait_in_sync(SOON).unwrap();
    })
    .await;
    let mut client = front.client().await;
    client.init_db(database).await.unwrap();
    all(&mut client, "SELECT a FROM t WHERE a = 7 OR a = 9").await;
    // A reply may be out before its statement is counted; the session's next one is not.
    client.ping().await.unwrap();
    let hash = "SELECT digest FROM digests WHERE text = 'SELECT a FROM t WHERE a = ? OR a = ?'";
    let hash = value(&mut sql, hash).await;
    let plan = row(&mut sql, &format!("EXPLAIN DIGEST {hash}")).await;
    assert_eq!(plan["key"], "a", "{plan}");

    // All of it is recorded with its way and role, refusals included.
    let page = http_with(&front.admin, "GET", "/api/v1/changes?limit=50", Some(KEY)).await.1;
    let page: Value = serde_json::from_str(&page).unwrap();
    let of = |text: &str| {
        let found = page["changes"].as_array().unwrap().iter().find(|change| change["text"] == *text);
        found.unwrap_or_else(|| panic!("{text}: {page:#}")).clone()
    };
    let drained = of("DRAIN main.db2");
    assert_eq!((&drained["way"], &drained["role"]), (&json!("console"), &json!("operate")), "{drained}");
    assert!(drained["result"].as_str().unwrap().starts_with("200"), "{drained}");
    assert!(of("SWITCHOVER main DRY RUN")["result"].as_str().unwrap().starts_with("403"));
    assert!(of("MARK")["order"].as_str().unwrap().contains("deploy of orders"));
    let event = "SELECT count(*) FROM events WHERE kind = 'admin' AND user = 'operate' AND reason IS NULL";
    // A thread of its own numbers them.
    until("the events of the orders", async || {
        (value(&mut sql, event).await.parse::<u32>().unwrap() >= 6).then_some(())
    })
    .await;
}

#[tokio::test]
async fn operators_give_orders_in_sql() {
    check(Family::MariaDb, "e2e_console_orders").await;
}

#[tokio::test]
async fn operators_give_orders_in_sql_mysql() {
    if has_mysql() {
        check(Family::MySql, "e2e_console_orders_mysql").await;
    }
}

/// The primary moves, after a look at the steps.
#[tokio::test]
async fn the_primary_moves_by_an_order_in_sql() {
    let cluster = Cluster::start(Family::MariaDb).await;
    let front = cluster.front_changed("", setup).await;
    let mut sql = console(&front, "admin", KEY).await;
    let dry = row(&mut sql, "SWITCHOVER TO db2 DRY RUN").await;
    assert_eq!((&dry["result"], &dry["primary"]), (&json!("dry_run"), &json!("db1")), "{dry}");
    assert!(dry["steps"].as_str().unwrap().contains("; "), "{dry}");
    let done = row(&mut sql, "SWITCHOVER main TO db2").await;
    assert_eq!((&done["result"], &done["primary"]), (&json!("finished"), &json!("db2")), "{done}");
    let mut client = front.client().await;
    all(&mut client, "INSERT INTO t VALUES (1, 1)").await;
}
