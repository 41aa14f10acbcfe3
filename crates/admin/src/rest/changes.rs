//! `/api/v1/changes`: what operators ordered, and readings of the configuration.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::digests::{json_page, unix_ms};
use super::query::pairs;
use crate::access::ChangeRecord;
use crate::shared::Shared;

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
    let changes: Vec<Value> = shared.record.newest(limit).iter().map(shown).collect();
    json_page(&json!({ "changes": changes }))
}

fn shown(change: &ChangeRecord) -> Value {
    json!({
        "at_ms": unix_ms(change.at),
        "kind": change.kind,
        "role": change.role,
        "client": change.client.map(|client| client.to_string()),
        "text": change.text,
        "order": change.order,
        "result": change.result,
    })
}
