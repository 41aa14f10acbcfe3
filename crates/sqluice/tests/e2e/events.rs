//! Events: each query and login in a file and in the API, none with a literal.

mod admin;
mod collector;
mod figures;
#[cfg(feature = "kafka")]
mod kafka;
mod order;
mod otelcol;
mod otlp;
mod parameters;
mod receiver;
mod redaction;
mod rules;
mod sinks;
mod spool;
mod tags;
mod waits;

use std::path::Path;

use lab::Family;
use net::query::Parameter;
use serde_json::Value;

use crate::failover::command;
use crate::statements;
use crate::support::{Front, all, calm, error, http_with, until};

const KEY: &str = "open sesame";
/// In every literal: it must be seen nowhere.
const SECRET: &str = "Zecret9";

/// The lines of a file of events; each is an object.
fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

/// Waits until an event of the file fits.
async fn event(path: &Path, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
    until(what, async || lines(path).into_iter().find(|line| fits(line))).await
}

/// Every number is that of a line, or within a gap.
fn assert_gapless(lines: &[Value]) {
    let mut next = lines[0]["seq"].as_u64().unwrap();
    for line in lines {
        assert_eq!(line["seq"], next, "{line}");
        next = line["to"].as_u64().unwrap_or(next) + 1;
    }
}

fn form_begins(line: &Value, begin: &str) -> bool {
    line["form"].as_str().is_some_and(|form| form.starts_with(begin))
}

/// In a database of its own for each test, with a file in this folder.
async fn start(family: Family, database: &str, settings: &str, file: &Path) -> Front {
    let more = format!("[events]\n{settings}\n[events.file]\npath = \"{}\"\n", file.display());
    start_with(family, database, &more).await
}

/// In a database of its own for each test, with these sections.
async fn start_with(family: Family, database: &str, more: &str) -> Front {
    let sql = "CREATE TABLE items (id INT PRIMARY KEY, v VARCHAR(40)); INSERT INTO items VALUES (1,'a'),(2,'b');
        CREATE PROCEDURE takes(x VARCHAR(40)) SELECT LENGTH(x)";
    let (front, servers) = statements::start(family, database, sql).await;
    drop(front);
    Front::start(servers, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        setup.listener = "consistency = \"none\"".into();
        setup.more = more.to_owned();
    })
    .await
}

/// A secret in every place where a literal may stand.
async fn speak(front: &Front, database: &str) {
    let mut client = statements::within(front, database).await;
    for text in [
        format!("SELECT v FROM items WHERE v = '{SECRET}'"),
        format!("SELECT v FROM items WHERE v = \"{SECRET}\" OR v LIKE '%{SECRET}%' OR v IN ('a', '{SECRET}')"),
        format!("/* {SECRET} */ SELECT 1 -- {SECRET}"),
        format!("SELECT '{SECRET}' AS a, N'{SECRET}', _utf8mb4'{SECRET}', x'5a656372657439', 'a' '{SECRET}'"),
        format!("INSERT INTO items VALUES (11, '{SECRET}'), (12, '{SECRET}')"),
        format!("UPDATE items SET v = CONCAT('{SECRET}', v) WHERE id = 11"),
        format!("DELETE FROM items WHERE v LIKE '{SECRET}%'"),
        format!("CALL takes('{SECRET}')"),
        format!("SET @v = '{SECRET}'"),
        format!("SELECT 1; SELECT '{SECRET}'"),
        format!("DO '{SECRET}' = @v"),
        format!("PREPARE p FROM 'SELECT ''{SECRET}'''"),
        "EXECUTE p".to_owned(),
        format!("CREATE USER e2e_events_user IDENTIFIED BY '{SECRET}'"),
        format!("ALTER USER e2e_events_user IDENTIFIED BY '{SECRET}'"),
        "DROP USER e2e_events_user".to_owned(),
    ] {
        all(&mut client, &text).await;
    }
    let prepared = client.prepare("SELECT id FROM items WHERE v = ? OR id = 1").await.unwrap();
    client.execute(&prepared, &[Parameter::Bytes(SECRET.into())]).await.unwrap();
    client.execute(&prepared, &[Parameter::Bytes(format!("behind {SECRET}").into())]).await.unwrap();
    assert_eq!(error(&mut client, &format!("SELECT '{SECRET}' FROM missing")).await.0, 1146);
    assert_eq!(error(&mut client, &format!("SELECT '{SECRET}")).await.0, 1064);
    assert_eq!(error(&mut client, &format!("INSERT INTO items VALUES (1, '{SECRET}')")).await.0, 1062);
    error(&mut client, &format!("SET PASSWORD = '{SECRET}' WHERE {SECRET}")).await;
    client.quit().await.unwrap();
    assert_eq!(front.refused(lab::APP_USER, SECRET).await.0, 1045);
}

/// Each query and login has its line, and none a literal.
async fn check(family: Family) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let front = start(family, "e2e_events", "queries = \"all\"\nnode = \"n1\"", &file).await;
    speak(&front, "e2e_events").await;
    let refused = event(&file, "the refused login", |line| line["ok"] == false).await;
    assert_eq!((&refused["kind"], &refused["user"]), (&"login".into(), &lab::APP_USER.into()), "{refused}");
    assert!(refused["reason"].as_str().unwrap().contains("denied"), "{refused}");

    let select = event(&file, "the SELECT", |line| form_begins(line, "SELECT v FROM items WHERE v = ?")).await;
    for (field, value) in [
        ("v", Value::from(1)),
        ("node", "n1".into()),
        ("kind", "query".into()),
        ("user", lab::APP_USER.into()),
        ("schema", "e2e_events".into()),
        ("cluster", "main".into()),
        ("command", "COM_QUERY".into()),
        ("answered_by", "server".into()),
        ("role", "replica".into()),
        ("rows_sent", 0.into()),
        ("tls", false.into()),
        ("program", "sqluice".into()),
    ] {
        assert_eq!(select[field], value, "{field} of {select}");
    }
    let times = &select["times"];
    assert!(times["total"].as_u64() >= times["first"].as_u64() && times["total"].as_u64() > Some(0), "{select}");
    let executed = event(&file, "the execution", |line| line["command"] == "COM_STMT_EXECUTE").await;
    assert_eq!(executed["rows_sent"], 1, "{executed}");
    let double = event(&file, "the duplicate", |line| line["error"]["code"] == 1062).await;
    assert_eq!((&double["error"]["sqlstate"], &double["role"]), (&"23000".into(), &"primary".into()), "{double}");
    assert!(double["error"]["text"].is_null(), "{double}");
    event(&file, "the end", |line| line["kind"] == "logout" && line["session"] == select["session"]).await;

    let text = std::fs::read_to_string(&file).unwrap();
    let leaked: Vec<&str> = text.lines().filter(|line| line.contains(SECRET) || line.contains("5a6563")).collect();
    assert!(leaked.is_empty(), "{leaked:#?}");
    assert_gapless(&lines(&file));
}

#[tokio::test]
async fn each_query_and_login_is_an_event_without_literals() {
    check(Family::MariaDb).await;
}

#[tokio::test]
async fn each_query_and_login_is_an_event_without_literals_mysql() {
    check(Family::MySql).await;
}

/// The choice of queries is live, and a killed process goes on with the next number.
#[tokio::test]
async fn queries_are_chosen_live_and_numbers_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let mut front = start(Family::MariaDb, "e2e_events_live", "queries = \"off\"", &file).await;
    let mut client = statements::within(&front, "e2e_events_live").await;
    all(&mut client, "SELECT 11 FROM items").await;
    let sections = |choice: &str| format!("[events]\n{choice}\n[events.file]\npath = \"{}\"\n", file.display());
    front.reload(|setup| setup.more = sections("queries = \"writes\"\nslow_ms = 200"));
    until("a write in the file", async || {
        all(&mut client, "UPDATE items SET v = 'x' WHERE id = 1").await;
        lines(&file).iter().any(|line| form_begins(line, "UPDATE")).then_some(())
    })
    .await;
    all(&mut client, "SELECT SLEEP(0.25) FROM items WHERE id = 1").await;
    all(&mut client, "SELECT v FROM items").await;
    assert_eq!(error(&mut client, "SELECT v FROM missing").await.0, 1146);
    event(&file, "the error", |line| line["error"]["code"] == 1146).await;
    let slow = event(&file, "the slow one", |line| form_begins(line, "SELECT SLEEP")).await;
    assert!(slow["times"]["total"].as_u64() >= Some(250_000), "{slow}");
    let reads = lines(&file).into_iter().filter(|line| form_begins(line, "SELECT v FROM items")).count();
    assert_eq!((reads, lines(&file).iter().any(|line| form_begins(line, "SELECT ? FROM items"))), (0, false));

    let before = lines(&file).last().unwrap()["seq"].as_u64().unwrap();
    drop(front);
    let front = start(Family::MariaDb, "e2e_events_live", "queries = \"all\"", &file).await;
    front.client().await.quit().await.unwrap();
    event(&file, "a logout behind the restart", |line| line["kind"] == "logout" && line["seq"].as_u64() > Some(before))
        .await;
    let all = lines(&file);
    assert_gapless(&all);
    assert_eq!(all.iter().filter(|line| line["kind"] == "start").count(), 2);
}

/// The tail shows events as they come, those that fit a condition.
#[tokio::test]
async fn the_tail_shows_events_that_fit() {
    let front = {
        let servers = calm(Family::MariaDb).await;
        Front::start(servers, |setup| {
            setup.admin = format!("key = \"{KEY}\"");
            setup.more = "[events]\nqueries = \"all\"".into();
        })
        .await
    };
    let mut client = front.client().await;
    all(&mut client, "SELECT 'Zecret9', 21").await;
    all(&mut client, "SELECT 22, 23, 24").await;
    let tail = async |query: &str| {
        let (status, body) = http_with(&front.admin, "GET", &format!("/api/v1/events/tail{query}"), Some(KEY)).await;
        assert_eq!(status, 200, "{body}");
        assert!(!body.contains(SECRET), "{body}");
        serde_json::from_str::<Value>(&body).unwrap()
    };
    let three = "?where=form=SELECT%20?,%20?,%20?";
    let page = until("the query", async || {
        let page = tail(three).await;
        (!page["events"].as_array().unwrap().is_empty()).then_some(page)
    })
    .await;
    assert_eq!(page["events"].as_array().unwrap().len(), 1, "{page}");
    let behind = tail(&format!("{three}&after={}", page["newest"])).await;
    assert_eq!(behind["events"].as_array().unwrap().len(), 0, "{behind}");
    let (status, body) = http_with(&front.admin, "GET", "/api/v1/events/tail?where=what", Some(KEY)).await;
    assert!(status == 400 && body.contains("'what' is no condition"), "{body}");
    assert_eq!(http_with(&front.admin, "GET", "/api/v1/events/tail", None).await.0, 401);

    let ran = command(&front, &["log", "tail", "--where", "kind=query and form~select"]).await;
    assert!(ran.good, "{}", ran.err);
    assert_eq!(ran.out.lines().count(), 2, "{}", ran.out);
    assert!(ran.out.contains("1 rows: SELECT ?, ?, ?"), "{}", ran.out);
    let ran = command(&front, &["log", "tail", "--where", "nothing"]).await;
    assert!(!ran.good && ran.err.contains("'nothing' is no condition"), "{}", ran.err);
}
