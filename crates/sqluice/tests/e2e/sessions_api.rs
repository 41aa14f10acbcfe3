//! Sessions as an operator sees them: what each does and where, and how it is ended.

use std::time::{Duration, Instant};

use lab::Family;
use net::client::Target;
use net::query::{self, Client, Limits};
use serde_json::{Value, json};
use wire::auth::Credential;

use crate::failover::command;
use crate::statements;
use crate::support::{Front, SOON, all, blocking, calm, error, http_send, http_with, until, value};

const KEY: &str = "open sesame";
/// No statement of these tests runs for so long by itself.
const LONG_S: u64 = 40;

async fn start(family: Family, database: &str) -> Front {
    let sql = "CREATE TABLE items (id INT PRIMARY KEY, v VARCHAR(40)); INSERT INTO items VALUES (1,'a')";
    let (front, servers) = statements::start(family, database, sql).await;
    drop(front);
    Front::start(servers, |setup| setup.admin = format!("key = \"{KEY}\"")).await
}

async fn list(front: &Front, query: &str) -> Vec<Value> {
    let (status, body) = http_with(&front.admin, "GET", &format!("/api/v1/sessions{query}"), Some(KEY)).await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str::<Value>(&body).unwrap()["sessions"].as_array().unwrap().clone()
}

async fn put(front: &Front, path: &str, body: &Value) -> (u16, Value) {
    let (status, text) = http_send(&front.admin, "PUT", path, Some(KEY), &body.to_string()).await;
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// A client that runs a statement for long. Gives its id, and the reply with the client once that is there.
async fn busy(front: &Front, database: &str, marker: &str) -> (u64, tokio::task::JoinHandle<(Duration, Client)>) {
    let mut client = statements::within(front, database).await;
    let id = value(&mut client, "SELECT CONNECTION_ID()").await.parse().unwrap();
    let text = format!("SELECT SLEEP({LONG_S}) AS {marker} FROM items WHERE v = 'a'");
    let running = tokio::spawn(async move {
        let begun = Instant::now();
        // A server of one family ends it with an error, one of the other with a row.
        let _ = client.query(text).await;
        (begun.elapsed(), client)
    });
    (id, running)
}

/// The session of this client, once its form is known.
async fn running(front: &Front, id: u64, marker: &str) -> Value {
    until("the session runs", async || {
        let sessions = list(front, &format!("?where=id={id}%20and%20state=running")).await;
        sessions.into_iter().find(|session| session["form"].as_str().is_some_and(|form| form.contains(marker)))
    })
    .await
}

async fn check(family: Family, database: &str) {
    let front = start(family, database).await;
    let (id, reply) = busy(&front, database, "marker_one").await;
    let session = running(&front, id, "marker_one").await;
    assert_eq!(session["form"], "SELECT SLEEP(?) AS marker_one FROM items WHERE v = ?", "{session}");
    for (field, expected) in [
        ("user", json!(lab::APP_USER)),
        ("schema", json!(database)),
        ("cluster", json!("main")),
        ("tls", json!(false)),
        ("pins", json!([])),
    ] {
        assert_eq!(session[field], expected, "{field} of {session}");
    }
    assert!(session["server"].as_str().is_some_and(|server| server.starts_with("db")), "{session}");
    assert!(session["server_thread"].as_u64() > Some(0) && session["transaction_ms"].is_null(), "{session}");

    // A transaction that nobody goes on with.
    let mut idle = statements::within(&front, database).await;
    all(&mut idle, "BEGIN").await;
    all(&mut idle, "UPDATE items SET v = v").await;
    let idle_id: u64 = value(&mut idle, "SELECT CONNECTION_ID()").await.parse().unwrap();
    let found = until("the idle transaction", async || {
        list(&front, "?order=transaction&where=state=idle_in_transaction").await.into_iter().next()
    })
    .await;
    assert_eq!((&found["id"], &found["pins"]), (&json!(idle_id), &json!(["transaction"])), "{found}");
    assert!(found["transaction_ms"].as_f64() > Some(0.0), "{found}");

    // The statement ends, and its session goes on.
    let (status, page) = put(&front, &format!("/api/v1/sessions/{id}/kill"), &json!({ "what": "query" })).await;
    assert_eq!((status, &page["killed"]), (200, &json!(true)), "{page}");
    let (took, mut client) = reply.await.unwrap();
    assert!(took < Duration::from_secs(LONG_S - 5), "{took:?}");
    assert_eq!(value(&mut client, "SELECT 7").await, "7");
    // The client may have its answer a moment before the session is idle.
    let at_rest = format!("?where=id={id}%20and%20state=idle");
    until("the session is idle", async || (!list(&front, &at_rest).await.is_empty()).then_some(())).await;
    let (_, page) = put(&front, &format!("/api/v1/sessions/{id}/kill"), &json!({ "what": "query" })).await;
    assert_eq!(page["killed"], json!(false), "it runs nothing now: {page}");

    // All that run one digest end; a neighbour that runs another one does not.
    let mut replies = Vec::new();
    let mut digest = Value::Null;
    for _ in 0..3 {
        let (id, reply) = busy(&front, database, "marker_two").await;
        digest = running(&front, id, "marker_two").await["digest"].clone();
        replies.push(reply);
    }
    let (other, neighbour) = busy(&front, database, "marker_three").await;
    running(&front, other, "marker_three").await;
    let condition = format!("digest={} and state=running", digest.as_str().unwrap());
    let order = json!({ "where": condition, "dry_run": true });
    let (_, page) = put(&front, "/api/v1/sessions/kill", &order).await;
    assert_eq!(page["sessions"].as_array().unwrap().len(), 3, "{page}");
    assert!(!replies.iter().any(|reply| reply.is_finished()), "a dry run kills nothing");
    let (_, page) = put(&front, "/api/v1/sessions/kill", &json!({ "where": condition })).await;
    assert_eq!((&page["killed"], &page["failed"]), (&json!(3), &json!([])), "{page}");
    for reply in replies {
        let (took, mut client) = reply.await.unwrap();
        assert!(took < Duration::from_secs(LONG_S - 5), "{took:?}");
        assert!(client.query("SELECT 1").await.is_err(), "its session is over");
    }
    assert_eq!(running(&front, other, "marker_three").await["id"], json!(other));

    // The same by the command line.
    let ran = command(&front, &["sessions", "--where", "form~marker_three"]).await;
    assert!(ran.good && ran.out.contains(&other.to_string()) && ran.out.contains("running"), "{}{}", ran.out, ran.err);
    let ran = command(&front, &["kill", &other.to_string()]).await;
    assert!(ran.good, "{}", ran.err);
    assert!(neighbour.await.unwrap().0 < Duration::from_secs(LONG_S - 5));
    let ran = command(&front, &["kill", &other.to_string()]).await;
    assert!(!ran.good && ran.err.contains("there is no session"), "{}", ran.err);
    // Nothing of them is left on any server.
    let servers = calm(family).await;
    until("the servers have ended the statements", async || {
        let left = blocking(move || {
            let text =
                "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP%AS marker\\_%'";
            servers.servers().iter().map(|server| server.sql(text).unwrap()).collect::<Vec<_>>()
        });
        left.await.iter().all(|count| count.trim() == "0").then_some(())
    })
    .await;
}

#[tokio::test]
async fn sessions_are_shown_and_killed() {
    check(Family::MariaDb, "e2e_sessions").await;
}

#[tokio::test]
async fn sessions_are_shown_and_killed_mysql() {
    check(Family::MySql, "e2e_sessions_mysql").await;
}

/// The API says what it does not understand, and asks for the key.
#[tokio::test]
async fn orders_that_are_not_understood_are_refused() {
    let front = start(Family::MariaDb, "e2e_sessions_orders").await;
    for (path, body, words) in [
        ("/api/v1/sessions/kill", json!({}), "where is missing"),
        ("/api/v1/sessions/kill", json!({ "where": "user" }), "where: 'user' is no condition"),
        ("/api/v1/sessions/7/kill", json!({ "what": "all" }), "what is \"session\" or \"query\""),
        ("/api/v1/sessions/7/kill", json!({ "dry_run": true }), "one session is killed by its id alone"),
    ] {
        let (status, page) = put(&front, path, &body).await;
        assert!(status == 400 && page.as_str().unwrap().contains(words), "{status} {page}");
    }
    let (status, page) = put(&front, "/api/v1/sessions/7/kill", &json!({})).await;
    assert!(status == 409 && page.to_string().contains("there is no session 7"), "{status} {page}");
    assert_eq!(http_with(&front.admin, "GET", "/api/v1/sessions", None).await.0, 401);
    assert_eq!(http_send(&front.admin, "PUT", "/api/v1/sessions/kill", None, "{}").await.0, 401);
}

/// Frames for those who look on: the load, each server, the digest that runs, and the session that is busy.
#[tokio::test]
async fn top_shows_what_runs() {
    let front = start(Family::MariaDb, "e2e_top").await;
    let (_, reply) = busy(&front, "e2e_top", "marker_top").await;
    let mut client = statements::within(&front, "e2e_top").await;
    let asking = tokio::spawn(async move {
        loop {
            all(&mut client, "SELECT v FROM items WHERE id = 1").await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let frame = until("a frame with all of it", async || {
        let ran = command(&front, &["top", "--frames", "1"]).await;
        assert!(ran.good, "{}", ran.err);
        let has = |part: &str| ran.out.contains(part);
        (has("SELECT v FROM items WHERE id = ?") && has("marker_top") && has("running")).then_some(ran.out)
    })
    .await;
    assert!(frame.starts_with("requests ") && frame.contains("primary"), "{frame}");
    asking.abort();
    reply.abort();
}

/// Bytes of a client, and the statements that waited for a connection: one at a time, as the pool has but one.
async fn bytes_and_waits(family: Family, database: &str) {
    let (front, servers) = statements::start(family, database, "CREATE TABLE items (id INT PRIMARY KEY)").await;
    drop(front);
    let front = Front::start(servers, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        setup.pool = "max_connections_per_server = 1\nwait_ms = 30000\npipelines = 0".into();
    })
    .await;
    let mut client = statements::within(&front, database).await;
    let id: u64 = value(&mut client, "SELECT CONNECTION_ID()").await.parse().unwrap();
    let of = async |query: &str| list(&front, &format!("?where=id={id}{query}")).await.into_iter().next();
    let before = of("").await.unwrap();
    // To open a connection is a wait, too.
    assert!(before["waits"].is_u64() && before["waits_ms"].is_null(), "{before}");
    assert_eq!(value(&mut client, "SELECT LENGTH(REPEAT('x', 3000))").await, "3000");
    assert_eq!(value(&mut client, "SELECT REPEAT('x', 500000)").await.len(), 500_000);
    let grown = |after: &Value, field: &str| after[field].as_u64().unwrap() - before[field].as_u64().unwrap();
    let after = of("").await.unwrap();
    assert!((500_000..510_000).contains(&grown(&after, "sent_bytes")), "{before} {after}");
    assert!((60..500).contains(&grown(&after, "received_bytes")), "{before} {after}");

    // Another session has the only connection to the primary, until its transaction ends.
    let mut holder = statements::within(&front, database).await;
    all(&mut holder, "BEGIN").await;
    all(&mut holder, "INSERT INTO items VALUES (1)").await;
    let waiting = tokio::spawn(async move {
        all(&mut client, "INSERT INTO items VALUES (2)").await;
        client
    });
    let now = until("the wait", async || of("%20and%20state=waits_for_connection").await).await;
    assert_eq!(now["waits"].as_u64(), after["waits"].as_u64().map(|waits| waits + 1), "{after} {now}");
    tokio::time::sleep(Duration::from_millis(20)).await;
    let later = of("").await.unwrap();
    assert!(later["waits_ms"].as_f64() >= now["waits_ms"].as_f64().map(|ms| ms + 20.0), "{now} {later}");
    assert!(later["waited_ms"].as_f64() >= later["waits_ms"].as_f64(), "{later}");
    all(&mut holder, "COMMIT").await;
    let mut client = waiting.await.unwrap();
    assert_eq!(value(&mut client, "SELECT COUNT(*) FROM items").await, "2");
    let over = of("").await.unwrap();
    assert!(over["waits"].as_u64() >= now["waits"].as_u64() && over["waits_ms"].is_null(), "{over}");
    assert!(over["waited_ms"].as_f64() >= later["waited_ms"].as_f64(), "{over}");
    let first = list(&front, "?order=waited&limit=1").await;
    assert_eq!(first[0]["id"], json!(id));
    let ran = command(&front, &["sessions", "--order", "bytes"]).await;
    assert!(ran.good && ran.out.contains("waited") && ran.out.contains(" KiB "), "{}{}", ran.out, ran.err);
}

#[tokio::test]
async fn bytes_and_waits_of_sessions_are_shown() {
    bytes_and_waits(Family::MariaDb, "e2e_sessions_bytes").await;
}

#[tokio::test]
async fn bytes_and_waits_of_sessions_are_shown_mysql() {
    bytes_and_waits(Family::MySql, "e2e_sessions_bytes_mysql").await;
}

/// A statement that its user's limit holds up shows that, and counts as one that has waited.
async fn user_limits(family: Family, database: &str) {
    let (front, servers) = statements::start(family, database, "CREATE TABLE items (id INT PRIMARY KEY)").await;
    drop(front);
    let front = Front::start(servers, |setup| {
        setup.admin = format!("sql_address = \"127.0.0.1:0\"\nkey = \"{KEY}\"");
        setup.pool = "max_connections_per_user = 1\nwait_ms = 30000".into();
    })
    .await;
    let (mut client, mut holder) =
        (statements::within(&front, database).await, statements::within(&front, database).await);
    let id: u64 = value(&mut client, "SELECT CONNECTION_ID()").await.parse().unwrap();
    let of = async |query: &str| list(&front, &format!("?where=id={id}{query}")).await.into_iter().next();
    all(&mut holder, "BEGIN").await;
    all(&mut holder, "INSERT INTO items VALUES (1)").await;
    let before = of("").await.unwrap();
    let waiting = tokio::spawn(async move {
        all(&mut client, "INSERT INTO items VALUES (2)").await;
        client
    });
    let now = until("the wait", async || of("%20and%20state=waits_for_user_limit").await).await;
    assert_eq!(now["waits"].as_u64(), before["waits"].as_u64().map(|waits| waits + 1), "{before} {now}");
    assert!(now["server"].is_null() && now["waits_ms"].is_f64(), "{now}");
    let metrics = http_with(&front.admin, "GET", "/metrics", None).await.1;
    assert!(metrics.contains("sqluice_sessions_by_state{state=\"waits_for_user_limit\"} 1"), "{metrics}");
    let target = Target::plain(front.address_of("console").parse().unwrap(), SOON);
    let login = query::login("admin", Credential::password(KEY));
    let mut sql = Client::connect(&target, login, Limits { timeout: SOON, ..Limits::default() }).await.unwrap();
    assert_eq!(value(&mut sql, "SELECT now FROM waits WHERE wait = 'user_limit'").await, "1");
    all(&mut holder, "COMMIT").await;
    let mut client = waiting.await.unwrap();
    let over = of("").await.unwrap();
    assert!(over["waits_ms"].is_null() && over["waited_ms"].as_f64() >= now["waits_ms"].as_f64(), "{over}");

    // An operator ends the wait of a statement.
    all(&mut holder, "BEGIN").await;
    all(&mut holder, "INSERT INTO items VALUES (3)").await;
    let waiting = tokio::spawn(async move { (error(&mut client, "INSERT INTO items VALUES (4)").await, client) });
    until("the wait", async || of("%20and%20state=waits_for_user_limit").await).await;
    let (status, page) = put(&front, &format!("/api/v1/sessions/{id}/kill"), &json!({ "what": "query" })).await;
    assert_eq!((status, &page["killed"]), (200, &json!(true)), "{page}");
    let (refused, mut client) = waiting.await.unwrap();
    assert_eq!(refused, (1317, "Query execution was interrupted".to_owned()));
    all(&mut holder, "COMMIT").await;
    // A replica may not have the holder's row yet.
    assert_eq!(value(&mut client, "/* sqluice: primary */ SELECT MAX(id) FROM items").await, "3");
}

#[tokio::test]
async fn waits_for_limits_of_users_are_shown() {
    user_limits(Family::MariaDb, "e2e_sessions_limit").await;
}

#[tokio::test]
async fn waits_for_limits_of_users_are_shown_mysql() {
    user_limits(Family::MySql, "e2e_sessions_limit_mysql").await;
}
