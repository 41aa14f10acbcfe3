//! The result cache in front of real servers: what it answers, what it must not, and that nobody reads older than its own write.

mod answers;
mod control;
mod galera;
mod memory;
mod questions;
mod rights;
mod writes;

use lab::Family;
use net::query::Client;
use serde_json::Value;

use crate::login::accounts;
use crate::support::{Front, all, calm, has_mysql, http_with, until, value};

const KEY: &str = "open sesame";

fn rule(name: &str, lines: &str) -> String {
    format!("[[rule]]\nname = \"{name}\"\n{lines}\n")
}

/// The families of servers that are here.
fn families() -> impl Iterator<Item = Family> {
    [Family::MariaDb].into_iter().chain(has_mysql().then_some(Family::MySql))
}

/// Sqluice with these rules, in front of servers with a table of their own for the test.
async fn start(family: Family, table: &str, rules: &str) -> Front {
    let servers = calm(family).await;
    accounts(
        servers,
        &format!(
            "DROP TABLE IF EXISTS app.{table}; CREATE TABLE app.{table} (id INT PRIMARY KEY, n INT); \
             INSERT INTO app.{table} VALUES (1, 10), (2, 20), (3, 30)"
        ),
    )
    .await;
    let front = Front::start(servers, |setup| {
        setup.admin = format!("key = \"{KEY}\"");
        setup.more = rules.to_owned();
    })
    .await;
    let mut client = front.client().await;
    knows_tables(&front, &mut client, &format!("SELECT COUNT(*) AS known FROM {table}")).await;
    assert_eq!(wipe(&front, "").await.0, 200);
    front
}

/// Waits until the tables' catalogue was read: before, nothing is kept.
async fn knows_tables(front: &Front, client: &mut Client, read: &str) {
    until("an answer from the cache", async || is_hit(front, client, read).await.then_some(())).await;
}

async fn wipe(front: &Front, query: &str) -> (u16, String) {
    http_with(&front.admin, "DELETE", &format!("/api/v1/cache{query}"), Some(KEY)).await
}

async fn page(front: &Front) -> Value {
    let (status, body) = http_with(&front.admin, "GET", "/api/v1/cache", Some(KEY)).await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

async fn of_rule(front: &Front, rule: &str) -> Value {
    let page = page(front).await;
    page["rules"].as_array().unwrap().iter().find(|one| one["rule"] == rule).cloned().unwrap_or_default()
}

async fn hits(front: &Front, rule: &str) -> u64 {
    of_rule(front, rule).await["hits"].as_u64().unwrap_or(0)
}

async fn refused(front: &Front, rule: &str, reason: &str) -> u64 {
    of_rule(front, rule).await["refused"][reason].as_u64().unwrap_or(0)
}

/// Whether the cache answers this.
async fn is_hit(front: &Front, client: &mut Client, sql: &str) -> bool {
    let before = hits(front, "all").await;
    all(client, sql).await;
    hits(front, "all").await > before
}
