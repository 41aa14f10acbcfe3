//! `/api/v1/digests`: what statements of one form cost.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use stats::digests::{DigestFigures, DigestReport, DigestRow, Order, merge};

use crate::digests::ask_digests;
use crate::shared::Shared;

/// Entries that are told without `limit`.
const LIMIT_DEFAULT: usize = 100;

/// GET: the sum of all workers.
pub(super) async fn list(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    let (order, limit) = match parameters(query.as_deref().unwrap_or_default()) {
        Ok(parameters) => parameters,
        Err(words) => return (StatusCode::BAD_REQUEST, words).into_response(),
    };
    let answers = ask_digests(&*shared.digests, false).await;
    let answered = answers.len();
    json_page(&page(&merge(answers, order), limit, answered, shared.workers.len()))
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

/// `order` and `limit` of a request.
fn parameters(query: &str) -> Result<(Order, usize), String> {
    let (mut order, mut limit) = (Order::default(), LIMIT_DEFAULT);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("order", word) => {
                let words = Order::WORDS.map(|(word, _)| word).join(", ");
                order = Order::from_word(word).ok_or_else(|| format!("order is one of {words}\n"))?;
            }
            ("limit", number) => limit = number.parse().map_err(|_| "limit is a whole number\n".to_owned())?,
            _ => return Err("there are order and limit only\n".to_owned()),
        }
    }
    Ok((order, limit))
}

fn page(report: &DigestReport, limit: usize, answered: usize, workers: usize) -> Value {
    json!({
        "digests": report.rows.iter().take(limit).map(row).collect::<Vec<_>>(),
        "others": Value::Object(figures(&report.others)),
        "entries": report.rows.len(),
        "workers": workers,
        "workers_answered": answered,
    })
}

fn row(row: &DigestRow) -> Value {
    let mut fields = Map::new();
    fields.insert("hash".into(), format!("{:016x}", row.name.hash).into());
    fields.insert("text".into(), (&*row.name.text).into());
    fields.insert("user".into(), (&*row.name.user).into());
    fields.insert("schema".into(), (&*row.name.schema).into());
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
        assert_eq!(parameters(""), Ok((Order::Time, 100)));
        assert_eq!(parameters("limit=7&order=rows"), Ok((Order::Rows, 7)));
        for wrong in ["order=size", "limit=-1", "limit=", "limit=1e3", "sort=rows", "order"] {
            assert!(parameters(wrong).is_err(), "{wrong}");
        }
    }
}
