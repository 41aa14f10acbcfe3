//! Orders of operators and refused clients as events.

use std::path::Path;

use lab::Family;
use net::client::Target;
use net::query::{self, Client, Limits};
use serde_json::Value;
use wire::auth::Credential;

use super::{KEY, assert_gapless, event, lines};
use crate::support::{Front, SOON, all, calm, error, http_send, http_with, until};

async fn start(file: &Path, listener: &str) -> Front {
    let servers = calm(Family::MariaDb).await;
    Front::start(servers, |setup| {
        setup.admin = format!("sql_address = \"127.0.0.1:0\"\nkey = \"{KEY}\"\nview_key = \"only looking\"");
        setup.listener = listener.into();
        setup.more = format!("[events.file]\npath = \"{}\"\n", file.display());
    })
    .await
}

async fn console(front: &Front, key: &str) -> Option<Client> {
    let target = Target::plain(front.address_of("console").parse().unwrap(), SOON);
    let login = query::login("admin", Credential::password(key));
    Client::connect(&target, login, Limits { timeout: SOON, ..Limits::default() }).await.ok()
}

/// Waits for the event of an order.
async fn order(file: &Path, way: &str, action: &str, ok: bool) -> Value {
    let what = format!("{action} by {way}");
    event(file, &what, |line| {
        line["kind"] == "admin" && line["way"] == way && line["action"] == action && line["ok"] == ok
    })
    .await
}

#[tokio::test]
async fn each_order_is_an_event_with_its_role_and_result() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let mut front = start(&file, "").await;
    let mut client = front.client().await;
    let id = async |client: &mut Client| crate::support::value(client, "SELECT CONNECTION_ID()").await;
    let session = id(&mut client).await;

    let path = format!("/api/v1/sessions/{session}/kill");
    let mark = r#"{"text":"deploy 7"}"#;
    assert_eq!(http_send(&front.admin, "PUT", &path, Some("only looking"), "{}").await.0, 403);
    assert_eq!(http_send(&front.admin, "PUT", &path, Some("a guess"), "{}").await.0, 401);
    assert_eq!(http_send(&front.admin, "PUT", &path, Some(KEY), "{}").await.0, 200);
    http_send(&front.admin, "POST", "/api/v1/marks", Some(KEY), mark).await;
    assert_eq!(http_send(&front.admin, "POST", "/api/v1/login", None, r#"{"key":"a guess"}"#).await.0, 401);
    http_send(&front.admin, "POST", "/api/v1/login", None, &format!("{{\"key\":\"{KEY}\"}}")).await;
    // To look is no order.
    assert_eq!(http_with(&front.admin, "GET", "/api/v1/sessions", Some(KEY)).await.0, 200);

    let action = format!("PUT {path}");
    let killed = order(&file, "api", &action, true).await;
    assert_eq!((&killed["user"], &killed["result"]), (&"admin".into(), &"200 OK".into()), "{killed}");
    assert_eq!((&killed["client"], &killed["order"]), (&"127.0.0.1".into(), &"{}".into()), "{killed}");
    let is_by = |user: &'static str| {
        let action = action.clone();
        move |line: &Value| line["action"] == *action && line["user"] == user && line["ok"] == false
    };
    event(&file, "the refused order", is_by("view")).await;
    event(&file, "the order with a wrong key", is_by("nobody")).await;
    event(&file, "the mark", |line| line["action"] == "POST /api/v1/marks" && line["order"] == mark).await;
    order(&file, "api", "login to the page", false).await;
    assert_eq!(order(&file, "api", "login to the page", true).await["user"], "admin");

    assert!(console(&front, "a guess").await.is_none());
    let mut sql = console(&front, KEY).await.unwrap();
    let mut other = front.client().await;
    let session = id(&mut other).await;
    all(&mut sql, &format!("KILL {session}")).await;
    assert_eq!(error(&mut sql, "KILL 4000000000").await.0, 1094);
    assert_eq!(order(&file, "console", "login", false).await["user"], "nobody");
    order(&file, "console", "login", true).await;
    order(&file, "console", &format!("KILL {session}"), true).await;
    order(&file, "console", "KILL 4000000000", false).await;

    front.reload(|setup| setup.proxy += "\nbusy_poll_us = 0");
    let reload = event(&file, "the reload", |line| line["way"] == "signal" && line["action"] == "reload").await;
    assert!(reload["result"].as_str().unwrap().contains("configuration"), "{reload}");
    let text = std::fs::read_to_string(&file).unwrap();
    for key in [KEY, "only looking", "a guess"] {
        assert!(!text.contains(key), "a key is in the events");
    }
    assert!(front.metrics().await.sum("sqluice_events_total", &["kind=\"admin\""]) >= 10.0);
    let tail = http_with(&front.admin, "GET", "/api/v1/events/tail?where=kind=admin", Some(KEY)).await;
    assert!(tail.1.contains("POST /api/v1/marks"), "{tail:?}");
}

/// A flood of clients that are turned away is counted exactly, in few events.
#[tokio::test]
async fn a_flood_of_refused_clients_is_counted_in_few_events() {
    const FLOOD: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let front = start(&file, "max_sessions = 1").await;
    let mut first = front.client().await;
    for _ in 0..FLOOD {
        let (code, message) = front.refused(lab::APP_USER, lab::APP_PASSWORD).await;
        assert_eq!(code, 1040, "{message}");
    }
    all(&mut first, "SELECT 1").await;
    let refused = || lines(&file).into_iter().filter(|line| line["kind"] == "login_refused").collect::<Vec<_>>();
    let sum = |events: &[Value]| events.iter().map(|event| event["count"].as_u64().unwrap()).sum::<u64>();
    let events = until("all that were refused", async || {
        let events = refused();
        (sum(&events) >= FLOOD as u64).then_some(events)
    })
    .await;
    assert_eq!(sum(&events), FLOOD as u64);
    assert!(events.len() < FLOOD / 2, "{} events", events.len());
    let one = &events[0];
    assert_eq!((&one["client"], &one["listener"]), (&"127.0.0.1".into(), &"app".into()), "{one}");
    assert_eq!((&one["error"]["code"], &one["ok"]), (&1040.into(), &false.into()), "{one}");
    assert!(one["reason"].as_str().unwrap().contains("max_sessions"), "{one}");
    let counted = front.metrics().await.sum("sqluice_clients_refused_total", &["reason=\"max_sessions\""]);
    assert_eq!(counted, FLOOD as f64);
    assert_gapless(&lines(&file));
}

/// Also of an address that has too many connections, which is found out by a worker.
#[tokio::test]
async fn an_address_with_too_many_sessions_is_refused_with_an_event() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let front = start(&file, "max_sessions_per_address = 1").await;
    let first = front.client().await;
    for _ in 0..5 {
        assert_eq!(front.refused(lab::APP_USER, lab::APP_PASSWORD).await.0, 1040);
    }
    let count = |line: &Value| if line["kind"] == "login_refused" { line["count"].as_u64().unwrap() } else { 0 };
    until("all that were refused", async || {
        let refused: u64 = lines(&file).iter().map(count).sum();
        (refused == 5).then_some(())
    })
    .await;
    assert!(lines(&file).iter().all(|line| line["kind"] != "login" || line["ok"] == true));
    drop(first);
}
