//! `/api/v1/rules`: the routing rules, and how often each has decided.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use stats::WorkerStats;

use crate::shared::Shared;

/// GET: the rules in their order.
pub(super) async fn list(State(shared): State<Arc<Shared>>) -> Response {
    let page = page(&shared);
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], format!("{page}\n"))
        .into_response()
}

fn page(shared: &Shared) -> Value {
    let hits = hits(&shared.workers);
    let rule = |rule: &config::Rule| {
        json!({
            "name": &*rule.name,
            "enabled": rule.enabled,
            "matchers": rule.matchers.in_words(),
            "action": rule.action_in_words(),
            "hits": hits.get(&*rule.name).copied().unwrap_or(0),
        })
    };
    let searches = shared.workers.iter().map(|worker| worker.rule_searches.get()).sum::<u64>();
    json!({ "rules": shared.rules().iter().map(rule).collect::<Vec<_>>(), "searches": searches })
}

/// How often each rule has decided, by all workers.
pub(crate) fn hits(workers: &[Arc<WorkerStats>]) -> HashMap<String, u64> {
    let mut sums: HashMap<String, u64> = HashMap::new();
    for counts in workers.iter().map(|worker| worker.rules.get()) {
        for (name, hits) in counts.iter() {
            match sums.get_mut(name) {
                Some(sum) => *sum += hits,
                None => drop(sums.insert(name.to_owned(), hits)),
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{config, sources};

    #[test]
    fn rules_are_reported_in_order_with_the_hits_of_all_workers() {
        let config = config(
            "[[rule]]\nname = \"z\"\nuser = \"bob\"\nrefuse = \"no \\\"way\\\"\"\n\
             [[rule]]\nname = \"a\"\nenabled = false\nschema = \"shop\"\nroute = \"server:a\"\n",
        );
        let workers: stats::Workers = (0..2).map(|_| Arc::new(WorkerStats::new(&[], &[]))).collect();
        for worker in workers.iter() {
            let names: Vec<Arc<str>> = config.rules.iter().map(|rule| rule.name.clone()).collect();
            worker.rules.renew(&names)[0].add(3);
        }
        let shared = Shared::new(&config, sources(workers));
        let expected = json!({
            "rules": [
                {"name": "z", "enabled": true, "matchers": ["the user is bob"], "action": "refuse: no \"way\"", "hits": 6},
                {"name": "a", "enabled": false, "matchers": ["the schema is shop"], "action": "route server:a", "hits": 0},
            ],
            "searches": 0,
        });
        assert_eq!(page(&shared), expected);
    }
}
