//! `/api/v1/changes`: orders of operators, readings of the configuration, and changes of the clusters' state.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::SystemTime;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::digests::{json_page, unix_ms};
use super::query::pairs;
use crate::access::ChangeRecord;
use crate::shared::Shared;
use crate::status::StateChange;

/// Changes that are shown without `limit`.
const LIMIT_DEFAULT: usize = 100;

/// GET: the newest changes since the start, the newest first.
pub(super) async fn list(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    let mut limit = LIMIT_DEFAULT;
    for (key, value) in pairs(query.as_deref().unwrap_or_default()) {
        match value.parse() {
            Ok(number) if key == "limit" => limit = number,
            _ => return (StatusCode::BAD_REQUEST, "there is limit only, a whole number\n").into_response(),
        }
    }
    json_page(&page(&shared, limit))
}

fn page(shared: &Shared, limit: usize) -> Value {
    let ordered = shared.record.newest(limit);
    let mut changes: Vec<(SystemTime, Value)> = ordered.iter().map(|change| (change.at, shown(change))).collect();
    for (name, cluster) in &shared.clusters() {
        changes.extend(cluster.state_changes().iter().rev().map(|change| (change.at, of_cluster(name, change))));
    }
    // Those of one moment stay in the order of their origin.
    changes.sort_by_key(|(at, _)| Reverse(*at));
    let changes: Vec<Value> = changes.into_iter().take(limit).map(|(_, change)| change).collect();
    json!({ "changes": changes })
}

fn shown(change: &ChangeRecord) -> Value {
    json!({
        "at_ms": unix_ms(change.at),
        "kind": change.kind,
        "way": change.role.map(|_| change.way),
        "role": change.role,
        "client": change.client.map(|client| client.to_string()),
        "text": change.text,
        "order": change.order,
        "result": change.result,
        "cluster": null,
        "server": null,
        "severity": null,
    })
}

fn of_cluster(cluster: &str, change: &StateChange) -> Value {
    json!({
        "at_ms": unix_ms(change.at),
        "kind": "state",
        "role": null,
        "client": null,
        "text": change.text,
        "order": "",
        "result": "",
        "cluster": cluster,
        "server": change.server.as_deref(),
        "severity": change.severity.word(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::status::Severity;
    use crate::testing::{FixedStatus, OneCluster, config, sources};

    #[test]
    fn changes_of_state_stand_among_the_orders_by_their_time() {
        let hour = Duration::from_secs(3600);
        let change = |at, text: &str| StateChange {
            at,
            severity: Severity::Warn,
            server: Some("db2".into()),
            text: text.into(),
        };
        let mut cluster = OneCluster::new("main");
        cluster.changes = vec![change(SystemTime::now() - hour, "down"), change(SystemTime::now() + hour, "up")];
        let status = FixedStatus::one(Arc::new(cluster));
        let shared = Shared::new(&config(""), crate::shared::Sources { status, ..sources(Arc::new([])) });
        shared.record.event("start", "started".into());
        let texts = |limit| {
            let page = page(&shared, limit);
            let texts = page["changes"].as_array().unwrap().iter().map(|change| change["text"].clone());
            texts.collect::<Vec<_>>()
        };
        assert_eq!(texts(9), ["up", "started", "down"]);
        assert_eq!(texts(2), ["up", "started"]);
        let first = &page(&shared, 1)["changes"][0];
        assert_eq!(
            (&first["kind"], &first["cluster"], &first["server"]),
            (&json!("state"), &json!("main"), &json!("db2"))
        );
        assert_eq!(first["severity"], "warn");
    }
}
