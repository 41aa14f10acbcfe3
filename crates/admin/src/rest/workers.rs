//! `/api/v1/workers`: sessions move from a busy worker to another one.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use facts::sessions::Relieved;
use serde_json::{Map, Value, json};

use super::digests::json_page;
use super::sessions::{mistake, no_sessions};
use crate::shared::Shared;

/// PUT: the worker gives sessions to another one. The reply comes when that is over.
pub(super) async fn relieve(State(shared): State<Arc<Shared>>, Path(worker): Path<usize>, body: Bytes) -> Response {
    let dry_run = match read(&body) {
        Ok(dry_run) => dry_run,
        Err(words) => return mistake(&words),
    };
    let Some(sessions) = &shared.sessions else { return no_sessions() };
    match sessions.relieve(worker, dry_run).await {
        Ok(relieved) => json_page(&shown(worker, dry_run, &relieved)),
        Err(why) if worker >= shared.workers.len() => (StatusCode::NOT_FOUND, format!("{why}\n")).into_response(),
        Err(why) => (StatusCode::CONFLICT, format!("{why}\n")).into_response(),
    }
}

/// Whether only the plan is wanted.
fn read(body: &[u8]) -> Result<bool, String> {
    let object: Map<String, Value> = match body.trim_ascii() {
        [] => return Ok(false),
        body => serde_json::from_slice(body).map_err(|error| format!("the body is no JSON object: {error}"))?,
    };
    let mut dry_run = false;
    for (key, value) in object {
        dry_run = match (&*key, value) {
            ("dry_run", Value::Bool(dry_run)) => dry_run,
            ("dry_run", _) => return Err("dry_run is true or false".to_owned()),
            _ => return Err(format!("the body has no key {key:?}; there is: dry_run")),
        };
    }
    Ok(dry_run)
}

fn shown(worker: usize, dry_run: bool, relieved: &Relieved) -> Value {
    let mut page = json!({
        "worker": worker,
        "to": relieved.to,
        "share": (relieved.share * 1000.0).round() / 1000.0,
        "of": if relieved.by_sessions { "sessions" } else { "load" },
        "dry_run": dry_run,
    });
    if !dry_run {
        (page["chosen"], page["moved"]) = (relieved.chosen.into(), relieved.moved.into());
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_reported() {
        for (body, expected) in [
            ("", Ok(false)),
            ("{\"dry_run\": true}", Ok(true)),
            ("{\"dry_run\": 1}", Err("dry_run is true or false")),
            ("{\"to\": 1}", Err("the body has no key \"to\"; there is: dry_run")),
        ] {
            assert_eq!(read(body.as_bytes()), expected.map_err(str::to_owned), "{body}");
        }
        assert!(read(b"7").unwrap_err().starts_with("the body is no JSON object"));
    }

    #[test]
    fn a_plan_has_no_result() {
        let relieved = Relieved { to: 1, share: 0.31249, by_sessions: false, chosen: 5, moved: 4 };
        let plan = json!({ "worker": 0, "to": 1, "share": 0.312, "of": "load", "dry_run": true });
        assert_eq!(shown(0, true, &relieved), plan);
        let page = shown(0, false, &Relieved { by_sessions: true, ..relieved });
        assert_eq!((&page["of"], &page["chosen"], &page["moved"]), (&json!("sessions"), &json!(5), &json!(4)));
    }
}
