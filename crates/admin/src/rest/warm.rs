//! `/api/v1/cache/warm`: filling the result cache from files of statements.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use cache::{WarmReport, WarmRun};
use serde_json::{Value, json};

use super::digests::json_page;
use super::query::pairs;
use crate::shared::Shared;

/// GET: the files, and what came of them.
pub(super) async fn show(State(shared): State<Arc<Shared>>) -> Response {
    json_page(&page(&shared, None))
}

/// PUT: runs them, or those of `cluster`.
pub(super) async fn start(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    let mut cluster = None;
    for (key, value) in pairs(query.as_deref().unwrap_or_default()) {
        if key != "cluster" {
            return (StatusCode::BAD_REQUEST, "there is cluster only\n").into_response();
        }
        cluster = Some(value);
    }
    if let Some(name) = cluster.as_ref().filter(|name| !shared.clusters().contains_key(name.as_str())) {
        let known: Vec<String> = shared.clusters().keys().map(|name| name.to_string()).collect();
        let error = json!({ "error": format!("there is no cluster '{name}'"), "known": known });
        return (StatusCode::NOT_FOUND, json_page(&error)).into_response();
    }
    let started = shared.cache.as_ref().map_or(0, |cache| cache.warmer.start(cluster.as_deref()));
    json_page(&page(&shared, Some(started)))
}

fn page(shared: &Shared, started: Option<usize>) -> Value {
    let reports = shared.cache.as_ref().map(|cache| cache.warmer.report()).unwrap_or_default();
    json!({ "started": started, "files": reports.iter().map(file).collect::<Vec<_>>() })
}

fn file(of: &WarmReport) -> Value {
    json!({
        "name": &*of.name,
        "cluster": &*of.cluster,
        "user": &*of.user,
        "schema": of.schema.as_deref(),
        "file": of.file.display().to_string(),
        "statements": of.statements,
        "kinds": of.kinds,
        "running": of.running,
        "runs": of.runs,
        "last": of.last.as_ref().map(run),
    })
}

fn run(of: &WarmRun) -> Value {
    let mistakes: Vec<Value> =
        of.mistakes.iter().map(|(line, error)| json!({ "line": line, "error": error })).collect();
    json!({
        "why": of.why,
        "kept": of.counts.kept,
        "there": of.counts.there,
        "without_rule": of.counts.without_rule,
        "failed": of.counts.failed,
        "refused": of.refused,
        "mistakes": mistakes,
        "took_ms": u64::try_from(of.took.as_millis()).unwrap_or(u64::MAX),
    })
}
