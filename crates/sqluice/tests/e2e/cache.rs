//! The result cache in front of real servers: what it answers, what it must not, and that nobody reads older than its own write.

mod answers;
mod control;
mod galera;
mod memory;
mod pipelined;
mod questions;
mod replicas;
mod rights;
mod rows;
mod transactions;
mod ways;
mod writes;

use lab::Family;
use net::query::Client;

use crate::login::accounts;
use crate::support::cache::{KEY, caching, hits, is_hit, of_rule, page, until_hit};
use crate::support::{Front, all, calm, families, http_with, until, value};

fn rule(name: &str, lines: &str) -> String {
    format!("[[rule]]\nname = \"{name}\"\n{lines}\n")
}

/// Sqluice with these rules, in front of servers with a table of their own for the test, and nothing kept.
async fn start(family: Family, table: &str, rules: &str) -> Front {
    let front = caching(family, table, rules).await;
    assert_eq!(wipe(&front, "").await.0, 200);
    front
}

async fn wipe(front: &Front, query: &str) -> (u16, String) {
    http_with(&front.admin, "DELETE", &format!("/api/v1/cache{query}"), Some(KEY)).await
}

async fn refused(front: &Front, rule: &str, reason: &str) -> u64 {
    of_rule(front, rule).await["refused"][reason].as_u64().unwrap_or(0)
}
