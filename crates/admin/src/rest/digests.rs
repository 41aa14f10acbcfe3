//! `/api/v1/digests`: what statements of one form cost.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::{RawQuery, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use stats::digests::{DigestFigures, DigestReport, DigestRow, Order, merge};

use super::clusters::{Mistake, find};
use super::query::pairs;
use crate::digests::ask_digests;
use crate::shared::Shared;

/// Entries that are told without `limit`.
const LIMIT_DEFAULT: usize = 100;

/// GET: the sum of all workers, of one cluster or of all.
pub(super) async fn list(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Result<Response, Mistake> {
    let wanted = Wanted::parse(query.as_deref().unwrap_or_default()).map_err(Mistake::request)?;
    if let Some(cluster) = &wanted.cluster {
        find(&shared, cluster)?;
    }
    let mut answers = ask_digests(&*shared.digests, false).await;
    let answered = answers.len();
    if let Some(cluster) = &wanted.cluster {
        answers.iter_mut().for_each(|report| report.rows.retain(|row| *row.name.cluster == **cluster));
    }
    Ok(json_page(&page(&merge(answers, wanted.order), &wanted, answered, shared.workers.len())))
}

/// DELETE: all workers begin anew.
pub(super) async fn reset(State(shared): State<Arc<Shared>>) -> Response {
    let answers = ask_digests(&*shared.digests, true).await;
    let entries = answers.iter().map(|report| report.rows.len()).sum::<usize>();
    json_page(&json!({
        "forgotten": entries,
        "workers": shared.workers.len(),
        "workers_answered": answers.len(),
    }))
}

pub(super) fn json_page(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], format!("{value}\n"))
        .into_response()
}

/// The parameters of a request.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    order: Order,
    limit: usize,
    cluster: Option<String>,
}

impl Wanted {
    fn parse(query: &str) -> Result<Wanted, String> {
        let mut wanted = Wanted { order: Order::default(), limit: LIMIT_DEFAULT, cluster: None };
        for (key, value) in pairs(query) {
            match &*key {
                "order" => {
                    let words = Order::WORDS.map(|(word, _)| word).join(", ");
                    wanted.order = Order::from_word(&value).ok_or_else(|| format!("order is one of {words}"))?;
                }
                "limit" => wanted.limit = value.parse().map_err(|_| "limit is a whole number".to_owned())?,
                "cluster" => wanted.cluster = Some(value),
                _ => return Err("there are cluster, order and limit only".to_owned()),
            }
        }
        Ok(wanted)
    }
}

fn page(report: &DigestReport, wanted: &Wanted, answered: usize, workers: usize) -> Value {
    let mut page = json!({
        "digests": report.rows.iter().take(wanted.limit).map(row).collect::<Vec<_>>(),
        "entries": report.rows.len(),
        "workers": workers,
        "workers_answered": answered,
    });
    // They are counted for all clusters together.
    if wanted.cluster.is_none() {
        page["others"] = Value::Object(figures(&report.others));
    }
    page
}

fn row(row: &DigestRow) -> Value {
    let mut fields = Map::new();
    fields.insert("hash".into(), format!("{:016x}", row.name.hash).into());
    fields.insert("text".into(), (&*row.name.text).into());
    fields.insert("user".into(), (&*row.name.user).into());
    fields.insert("schema".into(), (&*row.name.schema).into());
    fields.insert("clusters".into(), row.clusters().into());
    fields.append(&mut figures(&row.figures));
    for (name, share) in [("time_us_p50", 0.5), ("time_us_p95", 0.95), ("time_us_p99", 0.99)] {
        fields.insert(name.into(), row.spread.quantile_us(share).unwrap_or(0).into());
    }
    let errors = row.spread.errors().into_iter().map(|(code, count)| (code.to_string(), Value::from(count)));
    fields.insert("errors_by_code".into(), Value::Object(errors.collect()));
    fields.insert("first_seen_ms".into(), unix_ms(row.first_seen).into());
    fields.insert("last_seen_ms".into(), unix_ms(row.last_seen).into());
    Value::Object(fields)
}

fn figures(of: &DigestFigures) -> Map<String, Value> {
    let DigestFigures { statements, errors, rows_sent, rows_affected, on_primary, on_replicas, pipelined, .. } = *of;
    let fields = [
        ("statements", statements),
        ("errors", errors),
        ("rows_sent", rows_sent),
        ("rows_affected", rows_affected),
        ("reply_bytes", of.reply_bytes),
        ("on_primary", on_primary),
        ("on_replicas", on_replicas),
        ("pipelined", pipelined),
        ("wait_us", of.wait_us),
        ("time_us", of.time_us),
        ("server_us", of.server_us),
        ("send_us", of.time_us.saturating_sub(of.server_us)),
        ("time_us_min", of.time_us_min.unwrap_or(0)),
        ("time_us_max", of.time_us_max),
    ];
    fields.into_iter().map(|(name, number)| (name.to_owned(), number.into())).collect()
}

/// Milliseconds since 1970.
pub(super) fn unix_ms(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_or_refused() {
        let wanted =
            |order, limit, cluster: Option<&str>| Ok(Wanted { order, limit, cluster: cluster.map(str::to_owned) });
        assert_eq!(Wanted::parse(""), wanted(Order::Time, 100, None));
        assert_eq!(Wanted::parse("limit=7&order=rows&cluster=shop%20eu"), wanted(Order::Rows, 7, Some("shop eu")));
        for wrong in ["order=size", "limit=-1", "limit=", "limit=1e3", "sort=rows", "order"] {
            assert!(Wanted::parse(wrong).is_err(), "{wrong}");
        }
    }
}
