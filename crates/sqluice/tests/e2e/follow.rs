//! Answers that are followed: what is written around Sqluice, or through another one, ends them, and they are never older than the delay that is
//! shown.

use std::time::{Duration, Instant};

use lab::{Family, Replication};
use net::query::{Client, Limits};
use serde_json::Value;

use crate::login::accounts;
use crate::support::{Front, SOON, Setup, all, app, calm, has_mysql, http_with, until, value};

const KEY: &str = "open sesame";
const RULE: &str = "[[rule]]\nname = \"all\"\ncluster = \"main\"\ncache = \"on\"\ncache_freshness = \"follow\"\n";
/// `follow_delay_max_ms`
const DELAY_MAX: Duration = Duration::from_millis(2_000);

fn follows(setup: &mut Setup) {
    let (user, password) = (lab::REPL_USER, lab::REPL_PASSWORD);
    setup.admin = format!("key = \"{KEY}\"");
    setup.cluster.push_str(&format!("\nreplication = {{ user = \"{user}\", password = \"{password}\" }}"));
    setup.more = format!("[cache]\nfollow_delay_max_ms = {}\n{RULE}", DELAY_MAX.as_millis());
}

async fn page(front: &Front) -> Value {
    let (status, body) = http_with(&front.admin, "GET", "/api/v1/cache", Some(KEY)).await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

async fn hits(front: &Front) -> u64 {
    page(front).await["rules"][0]["hits"].as_u64().unwrap_or(0)
}

/// Asks until the cache has answered.
async fn until_hit(front: &Front, client: &mut Client, read: &str) {
    let deadline = Instant::now() + SOON;
    loop {
        let before = hits(front).await;
        all(client, read).await;
        let page = page(front).await;
        if page["rules"][0]["hits"].as_u64() > Some(before) {
            return;
        }
        assert!(Instant::now() < deadline, "{read} is never answered: {page}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Connects to the primary past all proxies.
async fn direct(servers: &Replication) -> Client {
    let target =
        net::client::Target::plain(servers.primary().address().to_string().parse().unwrap(), Duration::from_secs(15));
    Client::connect(&target, app(), Limits::default()).await.unwrap()
}

async fn start(family: Family, table: &str) -> Front {
    let servers = calm(family).await;
    accounts(
        servers,
        &format!(
            "DROP TABLE IF EXISTS app.{table}_child; DROP TABLE IF EXISTS app.{table}; \
             CREATE TABLE app.{table} (id INT PRIMARY KEY, n INT) ENGINE=InnoDB; INSERT INTO app.{table} VALUES (1, 10), (2, 20); \
             CREATE TABLE app.{table}_child (id INT, FOREIGN KEY (id) REFERENCES app.{table} (id) ON DELETE CASCADE) ENGINE=InnoDB; \
             INSERT INTO app.{table}_child VALUES (1), (2); \
             CREATE OR REPLACE VIEW app.{table}_view AS SELECT id, n FROM app.{table} WHERE id = 1"
        ),
    )
    .await;
    Front::start(servers, follows).await
}

/// What is written on the server itself ends what depends on it, and nothing else.
async fn check_around(family: Family) {
    let table = "follow_around";
    let front = start(family, table).await;
    let (mut client, mut around) = (front.client().await, direct(calm(family).await).await);
    let (read, child) = (format!("SELECT n FROM {table} WHERE id = 1"), format!("SELECT COUNT(*) FROM {table}_child"));
    let view = format!("SELECT n FROM {table}_view");
    let sees = async |client: &mut Client, read: &str, expected: &str| {
        let written = Instant::now();
        until(expected, async || (value(client, read).await == expected).then_some(())).await;
        assert!(written.elapsed() < DELAY_MAX, "{read}: {:?}", written.elapsed());
    };
    for text in [&read, &child, &view] {
        until_hit(&front, &mut client, text).await;
    }
    all(&mut around, &format!("UPDATE {table} SET n = 11 WHERE id = 1")).await;
    sees(&mut client, &read, "11").await;
    sees(&mut client, &view, "11").await;
    // A foreign key's rows are in no log.
    until_hit(&front, &mut client, &child).await;
    all(&mut around, &format!("DELETE FROM {table} WHERE id = 2")).await;
    sees(&mut client, &child, "1").await;
    // A definition.
    until_hit(&front, &mut client, &view).await;
    all(
        &mut around,
        &format!("CREATE OR REPLACE VIEW {table}_view AS SELECT id, n + 100 AS n FROM {table} WHERE id = 1"),
    )
    .await;
    sees(&mut client, &view, "111").await;
    until_hit(&front, &mut client, &view).await;
    all(&mut around, &format!("ALTER TABLE {table} ADD more INT DEFAULT 5")).await;
    sees(&mut client, &format!("SELECT more FROM {table} WHERE id = 1"), "5").await;
    // What nobody touches stays, for all the heartbeats.
    until_hit(&front, &mut client, &child).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = hits(&front).await;
    all(&mut client, &child).await;
    assert_eq!(hits(&front).await, before + 1, "{}", page(&front).await);
    let delay = page(&front).await["follow"]["main"]["delay_ms"].as_u64().unwrap();
    assert!(delay < 1_000, "{delay}");
}

#[tokio::test]
async fn what_is_written_around_it_ends_answers() {
    check_around(Family::MariaDb).await;
}

#[tokio::test]
async fn what_is_written_around_it_ends_answers_with_mysql() {
    if has_mysql() {
        check_around(Family::MySql).await;
    }
}
