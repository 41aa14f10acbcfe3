//! The cost of statements by digest, as the API shows it.

use std::time::Duration;

use lab::Family;
use net::client::Target;
use net::query::{Client, Limits, Parameter};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::console;
use crate::kills::with_second_cluster;
use crate::statements;
use crate::support::{Front, SOON, all, app, calm, error, http, http_with, until, value};

const KEY: &str = "open sesame";
const LARGE: &str = "SELECT REPEAT('x', 1000000) AS large FROM information_schema.COLLATIONS LIMIT 24";
/// In every literal: it must be seen nowhere.
const SECRET: &str = "Zecret9";

/// The page, after a session's last statement has been counted.
async fn digests(front: &Front, query: &str) -> Value {
    let (status, body) = http_with(&front.admin, "GET", &format!("/api/v1/digests{query}"), Some(KEY)).await;
    assert_eq!(status, 200, "{body}");
    assert!(!body.contains(SECRET), "{body}");
    serde_json::from_str(&body).unwrap()
}

fn rows(page: &Value) -> &[Value] {
    page["digests"].as_array().unwrap()
}

/// Figures of the only entry with this text.
fn figures(page: &Value, text: &str) -> [u64; 6] {
    let found: Vec<&Value> = rows(page).iter().filter(|row| row["text"] == text).collect();
    let [row] = found[..] else { panic!("{} entries with {text} in {page:#}", found.len()) };
    let number = |name: &str| row[name].as_u64().unwrap();
    assert!(number("time_us_min") <= number("time_us_max") && number("time_us_max") <= number("time_us"), "{row}");
    assert!(number("first_seen_ms") <= number("last_seen_ms") && number("first_seen_ms") > 1_600_000_000_000, "{row}");
    assert_eq!(row["user"], lab::APP_USER);
    assert!(row["schema"].as_str().unwrap().starts_with("e2e_digests"), "{row}");
    ["statements", "errors", "rows_sent", "rows_affected", "on_primary", "on_replicas"].map(number)
}

/// In a database of its own for each test.
async fn start(family: Family, database: &str) -> Front {
    let sql =
        "CREATE TABLE items (id INT PRIMARY KEY, v VARCHAR(40)); INSERT INTO items VALUES (1,'a'),(2,'b'),(3,'c')";
    let (front, servers) = statements::start(family, database, sql).await;
    drop(front);
    // Reads behind writes would go to the primary until a replica has them.
    Front::start(servers, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        setup.listener = "consistency = \"none\"".into();
    })
    .await
}

/// Statements as text, prepared and several in one, with what went wrong: each is counted, and none tells its literals.
pub async fn check(family: Family) {
    let front = start(family, "e2e_digests").await;
    let mut client = statements::within(&front, "e2e_digests").await;
    for n in 1..=5 {
        all(&mut client, &format!("SELECT v FROM items WHERE id = {n} AND v <> '{SECRET}'")).await;
    }
    for n in 1..=3 {
        all(&mut client, &format!("/* {SECRET} */ UPDATE items SET v = '{SECRET}{n}' WHERE id <= {n}")).await;
    }
    let prepared = client.prepare("SELECT id FROM items WHERE id >= ? AND v <> 'Zecret9'").await.unwrap();
    for n in 1..=4 {
        client.execute(&prepared, &[Parameter::Int(n)]).await.unwrap();
    }
    for _ in 0..2 {
        all(&mut client, &format!("SELECT id FROM items; SELECT '{SECRET}'; DELETE FROM items WHERE id = 77")).await;
    }
    assert_eq!(error(&mut client, &format!("SELECT a FROM missing WHERE a = '{SECRET}'")).await.0, 1146);
    assert_eq!(error(&mut client, &format!("SELECT '{SECRET}")).await.0, 1064);
    // Whether servers take them makes no difference.
    all(&mut client, "DROP USER IF EXISTS e2e_nobody").await;
    for sql in [
        "CREATE USER e2e_nobody IDENTIFIED BY 'Zecret9'",
        "ALTER USER e2e_nobody IDENTIFIED BY 'Zecret9'",
        "SET PASSWORD FOR 'e2e_nobody'@'nowhere' = 'Zecret9'",
        "SET PASSWORD FOR 'e2e_nobody'@'nowhere' = Zecret9",
        "ALTER USER e2e_nobody IDENTIFIED BY `Zecret9`",
        "SET @@session.sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES'); SET PASSWORD FOR e2e_nobody = \"Zecret9\"",
        "GRANT SELECT ON nowhere.* TO e2e_nobody IDENTIFIED BY 'Zecret9'",
        "CHANGE MASTER TO MASTER_PASSWORD='Zecret9', MASTER_PORT=Zecret9",
    ] {
        let _ = client.query(sql).await;
    }
    all(&mut client, "DROP USER IF EXISTS e2e_nobody").await;
    // The last statement is certainly counted when the next request is answered.
    client.ping().await.unwrap();
    let page = digests(&front, "?limit=1000").await;
    let reported =
        rows(&page).iter().filter(|row| row["text"].as_str().is_some_and(|text| text.contains("e2e_nobody")));
    assert!(reported.count() >= 4, "{page:#}");
    // Statements, errors, rows sent, rows affected, run by the primary, run by replicas.
    assert_eq!(figures(&page, "SELECT v FROM items WHERE id = ? AND v <> ?"), [5, 0, 3, 0, 0, 5]);
    assert_eq!(figures(&page, "UPDATE items SET v = ? WHERE id <= ?"), [3, 0, 0, 6, 3, 0]);
    let several = "SELECT id FROM items; SELECT ?; DELETE FROM items WHERE id = ?";
    assert_eq!(figures(&page, several), [2, 0, 8, 0, 2, 0]);
    let [executions, errors, sent, ..] = figures(&page, "SELECT id FROM items WHERE id >= ? AND v <> ?");
    // How many rows have that value by then depends on replication: only those with ids do not.
    assert_eq!((executions, errors), (4, 0));
    assert!(sent <= 6, "{sent}");
    let [failures, errors, ..] = figures(&page, "SELECT a FROM missing WHERE a = ?");
    assert_eq!((failures, errors), (1, 1));
    assert_eq!(figures(&page, "?")[..3], [1, 1, 0]);
    assert_eq!(figures(&page, "CREATE USER e2e_nobody IDENTIFIED BY ?")[..2], [1, 0]);
    assert_eq!(page["others"]["statements"], 0);
    assert_eq!((&page["workers"], &page["workers_answered"]), (&2.into(), &2.into()));
    let log = front.log();
    assert!(!log.contains(SECRET), "{log}");
    // Most first, and no more than asked for.
    for (order, field) in
        [("time", "time_us"), ("statements", "statements"), ("rows", "rows_sent"), ("errors", "errors")]
    {
        let page = digests(&front, &format!("?order={order}&limit=3")).await;
        let values: Vec<u64> = rows(&page).iter().map(|row| row[field].as_u64().unwrap()).collect();
        assert!(values.len() == 3 && values.is_sorted_by(|a, b| a >= b), "{order}: {values:?}");
    }
    // Forgotten, all counts begin anew.
    let entries = front.metrics().await.sum("sqluice_digests", &[]);
    assert_eq!(entries, rows(&page).len() as f64);
    let (status, body) = http_with(&front.admin, "DELETE", "/api/v1/digests", Some(KEY)).await;
    let forgotten: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, forgotten["forgotten"].as_u64().unwrap() as f64), (200, entries));
    assert_eq!(rows(&digests(&front, "").await), [] as [Value; 0]);
    all(&mut client, "SELECT v FROM items WHERE id = 1 AND v <> 'x'").await;
    client.ping().await.unwrap();
    assert_eq!(figures(&digests(&front, "").await, "SELECT v FROM items WHERE id = ? AND v <> ?")[0], 1);
}

#[tokio::test]
async fn statements_of_every_kind_are_counted_without_their_literals() {
    check(Family::MariaDb).await;
}

#[tokio::test]
async fn users_and_schemas_are_told_apart_and_workers_added_up() {
    let front = start(Family::MariaDb, "e2e_digests_by_user").await;
    // As many sessions on each worker.
    let (mut one, mut other) = (front.client().await, front.client().await);
    for client in [&mut one, &mut other] {
        client.init_db("e2e_digests_by_user").await.unwrap();
        for n in 0..10 {
            all(client, &format!("SELECT id FROM items LIMIT {n}")).await;
        }
        client.init_db(lab::APP_DATABASE).await.unwrap();
        all(client, "SELECT id FROM e2e_digests_by_user.items LIMIT 1").await;
        all(client, "SELECT 1").await;
        client.init_db("e2e_digests_by_user").await.unwrap();
        all(client, "SELECT 2").await;
        client.ping().await.unwrap();
    }
    let page = digests(&front, "").await;
    assert_eq!(figures(&page, "SELECT id FROM items LIMIT ?")[..3], [20, 0, 48]);
    let schemas = |text: &str| {
        let found = rows(&page).iter().filter(|row| row["text"] == text);
        let mut found: Vec<_> = found.map(|row| (row["schema"].to_string(), row["statements"].as_u64())).collect();
        found.sort();
        found
    };
    let quoted = |name: &str| format!("\"{name}\"");
    let mut expected = vec![(quoted(lab::APP_DATABASE), Some(2)), (quoted("e2e_digests_by_user"), Some(2))];
    expected.sort();
    assert_eq!(schemas("SELECT ?"), expected);
}

/// Waiting for a connection, the server's work, and a client that reads slowly are told apart.
#[tokio::test]
async fn the_time_of_a_digest_is_split() {
    let servers = calm(Family::MariaDb).await;
    let mut front = Front::start(servers, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        setup.pool = "max_connections_per_server = 1\nwait_ms = 20000".into();
    })
    .await;
    let (mut one, mut other) = (front.client().await, front.client().await);
    all(&mut one, "BEGIN").await;
    let waiting = tokio::spawn(async move {
        all(&mut other, "/* sqluice: primary */ SELECT SLEEP(0.2) AS waited").await;
        other.ping().await.unwrap();
    });
    until("a statement to wait", async || {
        (front.metrics().await.sum("sqluice_pool_waiting_statements", &[]) > 0.0).then_some(())
    })
    .await;
    all(&mut one, "SELECT SLEEP(0.3) AS worked").await;
    all(&mut one, "COMMIT").await;
    waiting.await.unwrap();
    // Refused after its wait: that is waiting, too.
    front.reload(|setup| setup.pool = "max_connections_per_server = 1\nwait_ms = 150".into());
    until("the reload", async || front.log().contains("was read again").then_some(())).await;
    all(&mut one, "BEGIN").await;
    let mut third = front.client().await;
    assert_eq!(error(&mut third, "/* sqluice: primary */ SELECT 1 AS refused").await.0, 1203);
    all(&mut one, "COMMIT").await;
    slow_reader(&front).await;
    one.ping().await.unwrap();
    let page = digests(&front, "?limit=1000").await;
    let split = |text: &str| {
        let row = rows(&page).iter().find(|row| row["text"] == text).unwrap_or_else(|| panic!("{text}: {page:#}"));
        let [wait, time, server, send, bytes] =
            ["wait_us", "time_us", "server_us", "send_us", "reply_bytes"].map(|name| row[name].as_u64().unwrap());
        assert_eq!(server + send, time, "{row}");
        [wait, server, send, bytes]
    };
    let [wait, server, send, _] = split("SELECT SLEEP(?) AS waited");
    assert!(wait >= 250_000 && server >= 190_000 && send < 100_000, "{wait} {server} {send}");
    let [wait, server, send, bytes] = split("SELECT SLEEP(?) AS worked");
    assert!(wait < 100_000 && server >= 290_000 && send < 100_000, "{wait} {server} {send}");
    assert!((20..300).contains(&bytes), "{bytes}");
    let [wait, server, _, _] = split("SELECT ? AS refused");
    assert!(wait >= 140_000 && server == 0, "{wait} {server}");
    let [_, _, send, bytes] = split("SELECT REPEAT(...) AS large FROM information_schema.COLLATIONS LIMIT ?");
    assert!(send >= 300_000 && bytes >= 24_000_000, "{send} {bytes}");
}

/// Runs a statement with a reply that no buffer on the way holds, and reads it after a while.
async fn slow_reader(front: &Front) {
    let connected = net::client::connect(&front.target(), crate::support::app()).await;
    let mut stream = connected.unwrap_or_else(|error| panic!("{error}")).stream;
    let mut request = Vec::new();
    wire::packet::append(&mut request, 0, format!("\x03{LARGE}").as_bytes());
    // COM_QUIT: the connection ends behind the reply.
    wire::packet::append(&mut request, 0, b"\x01");
    stream.write_all(&request).await.unwrap();
    tokio::time::sleep(Duration::from_millis(400)).await;
    let (mut all, mut buffer) = (0, vec![0; 1 << 20]);
    loop {
        match stream.read(&mut buffer).await.unwrap() {
            0 => break,
            read => all += read,
        }
    }
    assert!(all > 24_000_000, "{all}");
}

#[tokio::test]
async fn a_flood_of_forms_takes_no_more_than_its_budget() {
    let servers = calm(Family::MariaDb).await;
    let mut front = Front::start(servers, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        setup.proxy = "workers = 1\ndrain_ms = 200\ndigests_max = 20".into();
    })
    .await;
    let mut client = front.client().await;
    for n in 0..200 {
        all(&mut client, &format!("SELECT 1 AS flood_{n}")).await;
        all(&mut client, "SELECT 1 AS heavy").await;
    }
    client.ping().await.unwrap();
    let page = digests(&front, "?order=statements").await;
    let counts: Vec<u64> = rows(&page).iter().map(|row| row["statements"].as_u64().unwrap()).collect();
    let others = page["others"]["statements"].as_u64().unwrap();
    assert_eq!((counts.len(), counts.iter().sum::<u64>() + others), (20, 400));
    assert_eq!((&rows(&page)[0]["text"], counts[0]), (&"SELECT ? AS heavy".into(), 200));
    let metrics = front.metrics().await;
    assert_eq!(metrics.sum("sqluice_digests", &[]), 20.0);
    assert_eq!(metrics.sum("sqluice_digests_dropped_total", &[]), others as f64);
    // Switched off without a restart.
    front.reload(|setup| setup.proxy = "workers = 1\ndrain_ms = 200\ndigests_max = 0".into());
    until("the table to be gone", async || rows(&digests(&front, "").await).is_empty().then_some(())).await;
    all(&mut client, "SELECT 1 AS heavy").await;
    client.ping().await.unwrap();
    assert_eq!(rows(&digests(&front, "").await), [] as [Value; 0]);
}

#[tokio::test]
async fn the_api_is_closed_without_the_key() {
    let servers = calm(Family::MariaDb).await;
    let mut front = Front::start(servers, |_| {}).await;
    for method in ["GET", "DELETE"] {
        for key in [None, Some(""), Some(KEY)] {
            assert_eq!(http_with(&front.admin, method, "/api/v1/digests", key).await.0, 403);
        }
    }
    front.reload(|setup| setup.admin = format!("key = \"{KEY}\""));
    until("the key to open", async || {
        (http_with(&front.admin, "GET", "/api/v1/digests", Some(KEY)).await.0 == 200).then_some(())
    })
    .await;
    for (path, key, status) in [
        ("/api/v1/digests", None, 401),
        ("/api/v1/digests", Some("open"), 401),
        ("/api/v1/nothing", None, 401),
        ("/api/v1/nothing", Some(KEY), 404),
        ("/api/v1/digests?order=size", Some(KEY), 400),
        ("/api/v1/digests?limit=-1", Some(KEY), 400),
    ] {
        assert_eq!(http_with(&front.admin, "GET", path, key).await.0, status, "{path}");
    }
    assert_eq!(http_with(&front.admin, "POST", "/api/v1/digests", Some(KEY)).await.0, 405);
    assert_eq!(http(&front.admin, "/metrics").await.0, 200);
    assert!(!front.log().contains(KEY));
    front.reload(|setup| setup.admin.clear());
    until("it to be closed again", async || {
        (http_with(&front.admin, "GET", "/api/v1/digests", Some(KEY)).await.0 == 403).then_some(())
    })
    .await;
}

/// The program with two clusters, `main` and `other`, in front of the same servers. Three statements of one digest ran on `main`, and
/// two on `other`, and one of another digest there.
pub async fn two_clusters(admin: &str) -> Front {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |setup| {
        setup.admin = admin.into();
        setup.more = with_second_cluster(&servers.primary().address().to_string());
    })
    .await;
    for (listener, times) in [("app", 3), ("other", 2)] {
        let target = Target::plain(front.address_of(listener).parse().unwrap(), SOON);
        let limits = Limits { timeout: SOON, ..Limits::default() };
        let mut client = Client::connect(&target, app(), limits).await.unwrap();
        for n in 0..times {
            all(&mut client, &format!("SELECT {n} AS on_both_clusters")).await;
        }
        if listener == "other" {
            all(&mut client, "SELECT 1 AS on_other_only").await;
        }
        client.ping().await.unwrap();
    }
    front
}

#[tokio::test]
async fn a_digest_says_on_which_clusters_it_ran() {
    let front = two_clusters(&format!("key = \"{KEY}\"\nsql_address = \"127.0.0.1:0\"")).await;
    let (both, one) = ("SELECT ? AS on_both_clusters", "SELECT ? AS on_other_only");
    let shown = |page: &Value| {
        let row = |text: &str| rows(page).iter().find(|row| row["text"] == text).cloned().unwrap_or_default();
        [both, one].map(|text| (row(text)["clusters"].to_string(), row(text)["statements"].to_string()))
    };
    let is = |clusters: &str, statements: &str| (clusters.to_owned(), statements.to_owned());
    let all_of_it = digests(&front, "?limit=1000").await;
    assert_eq!(shown(&all_of_it), [is("[\"main\",\"other\"]", "5"), is("[\"other\"]", "1")]);
    assert!(all_of_it["others"].is_object());
    let main = digests(&front, "?limit=1000&cluster=main").await;
    assert_eq!(shown(&main), [is("[\"main\"]", "3"), is("null", "null")]);
    let other = digests(&front, "?limit=1000&cluster=other&order=statements").await;
    assert_eq!(shown(&other), [is("[\"other\"]", "2"), is("[\"other\"]", "1")]);
    assert_eq!((&rows(&other)[0]["text"], other["entries"].as_u64()), (&both.into(), Some(2)));
    assert_eq!(other.get("others"), None, "they are of all clusters");
    let (status, body) = http_with(&front.admin, "GET", "/api/v1/digests?cluster=nowhere", Some(KEY)).await;
    assert!(status == 404 && body.contains("\"known\":[\"main\",\"other\"]"), "{status} {body}");

    let mut sql = console::admin(&front, KEY).await;
    for (text, expected) in [
        (
            format!("SELECT group_concat(cluster || statements ORDER BY cluster) FROM digests WHERE text = '{both}'"),
            "main3,other2",
        ),
        (format!("SELECT cluster FROM digests WHERE text = '{one}'"), "other"),
        // The servers of `main` are 0 and 1, those of `other` 2 and 3; the only server of `other` is its primary.
        (
            format!(
                "SELECT count(*) FROM stats_mysql_query_digest WHERE digest_text = '{both}' AND hostgroup IN (0, 1, 2)"
            ),
            "2",
        ),
        (format!("SELECT hostgroup FROM stats_mysql_query_digest WHERE digest_text = '{one}'"), "2"),
    ] {
        assert_eq!(value(&mut sql, &text).await, expected, "{text}");
    }
}
