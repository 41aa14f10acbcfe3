//! `/api/v1/digests/{digest}/explain`: a replica's plan for the sample of a digest, on demand.

use std::sync::Arc;
use std::time::SystemTime;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use stats::digests::{DigestRow, Order, merge_by_cluster};

use super::digests::{json_page, unix_ms};
use crate::digests::ask_digests;
use crate::explain::{Explain, KeptPlan};
use crate::shared::Shared;

const FORM: &str = "the body is an object with cluster, server, user and schema, each a text, and each if you like";

/// GET: the plans that were asked for since the start.
pub(super) async fn show(State(shared): State<Arc<Shared>>, Path(digest): Path<String>) -> Response {
    match hash(&digest) {
        Ok(hash) => json_page(&page(&shared.plans.of(hash))),
        Err(words) => refusal(StatusCode::BAD_REQUEST, words),
    }
}

/// POST: asks a replica now, and keeps the plan.
pub(super) async fn ask(State(shared): State<Arc<Shared>>, Path(digest): Path<String>, body: Bytes) -> Response {
    let read = hash(&digest).and_then(|hash| Ok((hash, Wanted::read(&body)?)));
    let (hash, wanted) = match read {
        Ok(read) => read,
        Err(words) => return refusal(StatusCode::BAD_REQUEST, words),
    };
    if let Err(words) = check_cluster(&shared, wanted.cluster.as_deref()) {
        return refusal(StatusCode::BAD_REQUEST, words);
    }
    let Some(explainer) = &shared.explainer else {
        return refusal(StatusCode::NOT_FOUND, "this process watches no servers");
    };
    let report = merge_by_cluster(ask_digests(&*shared.digests, false).await, Order::Time);
    let rows: Vec<&DigestRow> = report.rows.iter().filter(|row| row.name.hash == hash && wanted.means(row)).collect();
    let Some(first) = rows.first() else {
        return refusal(StatusCode::NOT_FOUND, "this digest is not counted");
    };
    let cluster = first.name.cluster.to_string();
    if let Some(other) = rows.iter().find(|row| *row.name.cluster != *cluster) {
        let words = format!("name the cluster: {cluster} and {} have run this digest", other.name.cluster);
        return refusal(StatusCode::BAD_REQUEST, words);
    }
    let Some((row, sample)) = rows.iter().find_map(|row| Some((row, row.sample.clone()?))) else {
        return refusal(StatusCode::CONFLICT, NO_SAMPLE);
    };
    let (user, schema) = (row.name.user.to_string(), row.name.schema.to_string());
    let order = Explain { cluster: cluster.clone(), server: wanted.server, schema: schema.clone(), sample };
    match explainer.explain(order).await {
        Ok(plan) => {
            let kept = KeptPlan { digest: (hash, user, schema), cluster, at: SystemTime::now(), plan };
            shared.keep_plan(kept.clone());
            json_page(&page(&[kept]))
        }
        Err(words) => refusal(StatusCode::BAD_GATEWAY, words),
    }
}

const NO_SAMPLE: &str = "no sample of this digest is kept: it must be one read, sent as text and not as a prepared statement, of up to \
                         8 KiB, in the usual sql_mode, and proxy.digest_samples must be on";

/// The words of a request.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    cluster: Option<String>,
    server: Option<String>,
    user: Option<String>,
    schema: Option<String>,
}

impl Wanted {
    fn read(body: &[u8]) -> Result<Wanted, String> {
        let mut wanted = Wanted::default();
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(wanted);
        }
        let object: Map<String, Value> = serde_json::from_slice(body).map_err(|error| format!("{FORM}: {error}"))?;
        for (key, value) in object {
            let Value::String(value) = value else { return Err(FORM.to_owned()) };
            let field = match &*key {
                "cluster" => &mut wanted.cluster,
                "server" => &mut wanted.server,
                "user" => &mut wanted.user,
                "schema" => &mut wanted.schema,
                _ => return Err(FORM.to_owned()),
            };
            *field = Some(value);
        }
        Ok(wanted)
    }

    fn means(&self, row: &DigestRow) -> bool {
        let is = |wanted: &Option<String>, own: &str| wanted.as_deref().is_none_or(|wanted| wanted == own);
        is(&self.user, &row.name.user) && is(&self.schema, &row.name.schema) && is(&self.cluster, &row.name.cluster)
    }
}

/// Refuses a cluster that is not there.
fn check_cluster(shared: &Shared, named: Option<&str>) -> Result<(), String> {
    let clusters = shared.clusters();
    match named.filter(|named| !clusters.contains_key(*named)) {
        Some(named) => {
            let known = clusters.keys().map(|name| name.to_string()).collect::<Vec<_>>().join(", ");
            Err(format!("there is no cluster '{named}'; there are {known}"))
        }
        None => Ok(()),
    }
}

fn hash(text: &str) -> Result<u64, String> {
    let is_hash = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hash = u64::from_str_radix(text, 16).ok().filter(|_| is_hash);
    hash.ok_or_else(|| "a digest is 16 hexadecimal digits".to_owned())
}

fn page(plans: &[KeptPlan]) -> Value {
    let plan = |kept: &KeptPlan| {
        json!({
            "user": kept.digest.1,
            "schema": kept.digest.2,
            "cluster": kept.cluster,
            "server": kept.plan.server,
            "at_ms": unix_ms(kept.at),
            "columns": kept.plan.columns,
            "rows": kept.plan.rows,
        })
    };
    json!({ "plans": plans.iter().map(plan).collect::<Vec<_>>() })
}

fn refusal(status: StatusCode, words: impl Into<String>) -> Response {
    (status, json_page(&json!({ "error": words.into() }))).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_or_refused() {
        assert_eq!(Wanted::read(b" \n"), Ok(Wanted::default()));
        let wanted = Wanted { server: Some("db2".into()), schema: Some("shop".into()), ..Wanted::default() };
        assert_eq!(Wanted::read(br#"{"server": "db2", "schema": "shop"}"#), Ok(wanted));
        for wrong in ["[]", "{\"server\": 7}", "{\"sql\": \"SELECT 1\"}", "{"] {
            assert!(Wanted::read(wrong.as_bytes()).unwrap_err().starts_with(FORM), "{wrong}");
        }
        assert_eq!(hash("00000000000000ff"), Ok(255));
        for wrong in ["ff", "+0000000000000ff", "zz000000000000ff"] {
            assert!(hash(wrong).is_err(), "{wrong}");
        }
    }
}
