//! History: figures and marks of the past, through the API and behind a kill.

use std::path::Path;
use std::time::Duration;

use lab::Family;
use net::query::{Client, Limits};
use serde_json::{Value, json};

use crate::support::{Front, all, calm, error, http_send, http_with, until, value};

const KEY: &str = "open sesame";

async fn start(path: &Path) -> Front {
    let servers = calm(Family::MariaDb).await;
    Front::start(servers, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        setup.more = format!("[history]\npath = \"{}\"\nsize_max = \"8MiB\"\n", path.display());
    })
    .await
}

async fn get(front: &Front, path: &str) -> (u16, Value) {
    let (status, body) = http_with(&front.admin, "GET", &format!("/api/v1{path}"), Some(KEY)).await;
    (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

/// The points of this series, oldest first.
async fn points(front: &Front, series: &str) -> Vec<(u64, f64)> {
    let (status, page) = get(front, &format!("/history?series={series}&from=-1h")).await;
    assert_eq!(status, 200, "{page}");
    let found = page["series"].as_array().unwrap().iter().find(|found| found["name"] == *series);
    found.map(|found| serde_json::from_value(found["points"].clone()).unwrap()).unwrap_or_default()
}

#[tokio::test]
async fn figures_digests_and_marks_outlive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.sqlite");
    let front = start(&path).await;
    let mut client = front.client().await;
    // A gauge has a point at once, a counter with the second look.
    let rates = until("the rate of requests", async || {
        all(&mut client, "SELECT 1").await;
        let rates = points(&front, "sqluice_requests_total").await;
        rates.iter().any(|(_, rate)| *rate > 0.0).then_some(rates)
    })
    .await;
    assert!(points(&front, "sqluice_sessions").await.iter().any(|(_, value)| *value >= 1.0), "{rates:?}");
    let (_, page) = get(&front, "/history").await;
    let names: Vec<&str> = page["series"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(names.iter().any(|name| name.starts_with("sqluice_server_up{cluster=\"main\"")), "{names:?}");

    let body = json!({ "text": "deploy 7", "author": "ann" }).to_string();
    let (status, page) = http_send(&front.admin, "POST", "/api/v1/marks", Some(KEY), &body).await;
    assert_eq!(status, 200, "{page}");
    let before = points(&front, "sqluice_sessions").await;
    // Front kills its process.
    drop(front);
    let front = start(&path).await;
    let after = points(&front, "sqluice_sessions").await;
    assert!(after.len() >= before.len() && after[0] == before[0], "{before:?} {after:?}");
    let (_, page) = get(&front, "/marks?from=-1h").await;
    let mark = &page["marks"][0];
    assert_eq!((&mark["text"], &mark["author"]), (&json!("deploy 7"), &json!("ann")), "{page}");
}

#[tokio::test]
async fn a_damaged_file_is_set_aside_and_mistakes_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.sqlite");
    std::fs::write(&path, vec![7; 9000]).unwrap();
    let front = start(&path).await;
    until("the new file", async || (!points(&front, "sqluice_sessions").await.is_empty()).then_some(())).await;
    assert!(folder.path().join("history.sqlite.damaged").exists());
    for (query, words) in [
        ("/history?series=x&from=yesterday", "from and to are seconds since 1970"),
        ("/history?step=7", "step is one of [10, 60, 600]"),
        ("/history/digests?limit=0", "limit is a whole number from 1 to 1000"),
        ("/marks?series=x", "there are from, to, limit only"),
    ] {
        let (status, page) = get(&front, query).await;
        assert!(status == 400 && page.as_str().unwrap().contains(words), "{query}: {status} {page}");
    }
    let (status, words) = http_send(&front.admin, "POST", "/api/v1/marks", Some(KEY), "{\"text\": \" \"}").await;
    assert!(status == 400 && words.contains("1 to 500 characters"), "{words}");
    for path in ["/api/v1/history", "/api/v1/history/digests", "/api/v1/marks"] {
        assert_eq!(http_with(&front.admin, "GET", path, None).await.0, 401);
    }
}

#[tokio::test]
async fn without_a_file_there_is_none() {
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |setup| setup.admin = format!("key = \"{KEY}\"")).await;
    let (status, words) = get(&front, "/history").await;
    assert!(status == 404 && words.as_str().unwrap().contains("set path in [history]"), "{words}");
}

/// Each listener has figures and series of its own, which add up to those of all.
#[tokio::test]
async fn listeners_have_figures_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.sqlite");
    let servers = calm(Family::MariaDb).await;
    let front = Front::start(servers, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        let history = format!("[history]\npath = \"{}\"\n", path.display());
        setup.more = format!("{history}[listener.report]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\n");
    })
    .await;
    let mut app = front.client().await;
    let address = front.listener("report").parse().unwrap();
    let target = net::client::Target::plain(address, Duration::from_secs(20));
    let login = || net::query::login(lab::APP_USER, wire::auth::Credential::password(lab::APP_PASSWORD));
    let mut report = Client::connect(&target, login(), Limits::default()).await.unwrap();
    let wrong = net::query::login(lab::APP_USER, wire::auth::Credential::password("wrong"));
    assert!(Client::connect(&target, wrong, Limits::default()).await.is_err());
    all(&mut app, "CREATE OR REPLACE TABLE app.e2e_listeners (a INT)").await;
    all(&mut app, "SET @a = 1").await;
    for _ in 0..3 {
        assert_eq!(value(&mut report, "SELECT LENGTH(REPEAT('x', 1000))").await, "1000");
    }
    value(&mut report, "SELECT REPEAT('x', 100000)").await;
    assert_eq!(error(&mut report, "SELECT a FROM app.e2e_no_such_table").await.0, 1146);
    let metrics = front.metrics().await;
    let of = |name: &str, labels: &[&str]| metrics.sum(&format!("sqluice_listener_{name}_total"), labels);
    let (of_app, of_report) = ("listener=\"app\"", "listener=\"report\"");
    assert_eq!((of("queries", &[of_app, "kind=\"write\""]), of("queries", &[of_app, "kind=\"read\""])), (1.0, 0.0));
    assert_eq!(
        (of("queries", &[of_report, "kind=\"write\""]), of("queries", &[of_report, "kind=\"read\""])),
        (0.0, 5.0)
    );
    assert_eq!((of("errors", &[of_app]), of("errors", &[of_report])), (0.0, 1.0));
    assert_eq!((of("logins", &[of_report]), of("login_failures", &[of_report])), (1.0, 1.0));
    assert!(of("sent_bytes", &[of_report]) > 100_000.0 && of("sent_bytes", &[of_app]) < 10_000.0);
    for direction in ["received", "sent"] {
        let all = metrics.sum(&format!("sqluice_client_{direction}_bytes_total"), &[]);
        assert_eq!(all, of(&format!("{direction}_bytes"), &["cluster=\"main\""]));
    }
    drop(app);
    until("the rate of a listener", async || {
        value(&mut report, "SELECT 1 FROM app.e2e_listeners RIGHT JOIN (SELECT 1) AS one ON TRUE").await;
        let series = "sqluice_listener_queries_total{cluster=\"main\",listener=\"report\",kind=\"read\"}";
        let quoted = "sqluice_listener_queries_total";
        let (_, page) = get(&front, &format!("/history?series={quoted}&from=-1h")).await;
        let found = page["series"].as_array().unwrap().iter().find(|found| found["name"] == series)?;
        let rates: Vec<(u64, f64)> = serde_json::from_value(found["points"].clone()).unwrap();
        rates.iter().any(|(_, rate)| *rate > 0.0).then_some(())
    })
    .await;
    let (_, page) = get(&front, "/history").await;
    assert!(page["series"].as_array().unwrap().contains(&json!("sqluice_listener_sessions{listener=\"report\"}")));
}
