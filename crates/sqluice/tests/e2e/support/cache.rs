//! The result cache as an operator sees it.

use lab::Family;
use net::query::Client;
use serde_json::Value;

use super::{Front, all, calm, http_with, until};
use crate::login::accounts;

/// The key of the API.
pub const KEY: &str = "open sesame";

/// The API's page of the cache.
pub async fn page(front: &Front) -> Value {
    let (status, body) = http_with(&front.admin, "GET", "/api/v1/cache", Some(KEY)).await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// Waits until users' rights are known: until then each user has answers of its own, which are asked for anew then.
pub async fn until_rights(front: &Front) {
    until("users' rights to be known", async || (page(front).await["rights"]["main"] == true).then_some(())).await;
}

/// Its entry of a rule; null if there is none.
pub async fn of_rule(front: &Front, rule: &str) -> Value {
    let page = page(front).await;
    page["rules"].as_array().unwrap().iter().find(|one| one["rule"] == rule).cloned().unwrap_or_default()
}

/// How often the cache has answered for a rule.
pub async fn hits(front: &Front, rule: &str) -> u64 {
    of_rule(front, rule).await["hits"].as_u64().unwrap_or(0)
}

/// Whether the cache answers this, by the rule `all`.
pub async fn is_hit(front: &Front, client: &mut Client, sql: &str) -> bool {
    let before = hits(front, "all").await;
    all(client, sql).await;
    hits(front, "all").await > before
}

/// Asks until the cache has answered, by the rule `all`.
pub async fn until_hit(front: &Front, client: &mut Client, read: &str) {
    until("an answer from the cache", async || is_hit(front, client, read).await.then_some(())).await;
}

/// Sqluice with these rules, one of them `all`, in front of servers with a table of the test's own (rows 1 to 3 with n 10 to 30), once the cache
/// has answered a read of it.
pub async fn caching(family: Family, table: &str, rules: &str) -> Front {
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
    // The first reading that is for the cache has them read.
    all(&mut client, &format!("SELECT COUNT(*) AS known FROM {table}")).await;
    if !rules.contains("cache_shared = true") {
        until_rights(&front).await;
    }
    until_hit(&front, &mut client, &format!("SELECT COUNT(*) AS known FROM {table}")).await;
    front
}
