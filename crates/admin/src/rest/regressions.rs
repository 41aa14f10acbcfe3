//! `/api/v1/regressions`: digests that are new, slower, more frequent, larger or more often wrong since a moment.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use history::{Change, Compared, KeptPlan, Limits, PlanChange, RegressionKind, Regressions};
use serde_json::{Map, Value, json};

use super::digests::json_page;
use super::history::{mistake, no_history, now_s, time};
use super::query::pairs;
use crate::shared::Shared;

/// The time that is looked at without `since` and `mark`, in seconds.
const SINCE_S: u64 = 3600;
const FACTORS: std::ops::RangeInclusive<f64> = 1.1..=1000.0;
const SAMPLES: std::ops::RangeInclusive<u64> = 1..=1_000_000;
const LIMITS: std::ops::RangeInclusive<usize> = 1..=200;

/// The moment to compare at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Since {
    /// Seconds since 1970.
    Time(u64),
    /// A mark.
    Mark(i64),
}

/// GET `/regressions`.
pub(super) async fn list(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    let (since, limits) = match parse(query.as_deref().unwrap_or_default(), now_s()) {
        Ok(parsed) => parsed,
        Err(words) => return mistake(words),
    };
    let Some(keeper) = shared.history.get() else { return no_history() };
    let grown = match keeper.grown().await {
        Ok(grown) => grown,
        Err(words) => return mistake(words),
    };
    let history = keeper.history();
    let read = move || {
        let since_s = match since {
            Since::Time(since_s) => Some(since_s),
            Since::Mark(id) => history.mark_at(id)?,
        };
        since_s.map(|since_s| history.regressions(since_s, &grown, limits)).transpose()
    };
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(Some(regressions))) => json_page(&page(&regressions, limits)),
        Ok(Ok(None)) => mistake("there is no such mark; GET /marks lists them".to_owned()),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

fn parse(query: &str, now_s: u64) -> Result<(Since, Limits), String> {
    let mut since = None;
    let mut limits = Limits { factor: 3.0, samples: 20, limit: 20 };
    for (key, value) in pairs(query) {
        let given = match &*key {
            "since" => Since::Time(time(&value, now_s)?),
            "mark" => Since::Mark(value.parse().map_err(|_| "mark is the number of a mark".to_owned())?),
            "factor" => {
                let factor = value.parse().ok().filter(|factor| FACTORS.contains(factor));
                limits.factor = factor.ok_or("factor is a number from 1.1 to 1000")?;
                continue;
            }
            "samples" => {
                let samples = value.parse().ok().filter(|samples| SAMPLES.contains(samples));
                limits.samples = samples.ok_or("samples is a whole number from 1 to 1000000")?;
                continue;
            }
            "limit" => {
                let limit = value.parse().ok().filter(|limit| LIMITS.contains(limit));
                limits.limit = limit.ok_or("limit is a whole number from 1 to 200")?;
                continue;
            }
            _ => return Err("there are since, mark, factor, samples, limit only".to_owned()),
        };
        if since.replace(given).is_some() {
            return Err("since and mark exclude each other".to_owned());
        }
    }
    Ok((since.unwrap_or(Since::Time(now_s.saturating_sub(SINCE_S))), limits))
}

fn page(found: &Regressions, limits: Limits) -> Value {
    let time = |(from_s, until_s): &(u64, u64)| json!({ "from": from_s, "to": until_s });
    json!({
        "since": time(&found.after),
        "compared_with": found.before.iter().map(time).collect::<Vec<_>>(),
        "factor": limits.factor,
        "samples": limits.samples,
        "digests": found.digests.iter().map(digest).collect::<Vec<_>>(),
    })
}

fn digest(found: &Compared) -> Value {
    let (hash, user, schema) = &found.key;
    let kinds =
        |(kind, factor): &(RegressionKind, Option<f64>)| (kind.word().to_owned(), factor.map_or(Value::Null, rounded));
    json!({
        "hash": hash,
        "text": found.text,
        "user": user,
        "schema": schema,
        "changes": found.kinds.iter().map(kinds).collect::<Map<_, _>>(),
        "before": found.before.as_ref().map(change),
        "after": change(&found.after),
        "extra_us": found.extra_us,
        "plan": found.plan.as_ref().map(plan),
    })
}

fn plan(of: &PlanChange) -> Value {
    let one = |kept: &KeptPlan| {
        let plan: Value = serde_json::from_str(&kept.plan).unwrap_or_default();
        json!({
            "hash": kept.hash,
            "cluster": kept.cluster,
            "server": kept.server,
            "first": kept.first_s,
            "last": kept.last_s,
            "columns": plan["columns"],
            "rows": plan["rows"],
        })
    };
    json!({ "changed": of.changed, "before": of.before.as_ref().map(one), "after": one(&of.after) })
}

fn change(of: &Change) -> Value {
    json!({
        "statements": of.statements,
        "per_second": rounded(of.per_second),
        "time_us_p95": of.p95_us,
        "time_us_mean": of.mean_us.round() as u64,
        "rows_each": rounded(of.rows_each),
        "error_share": rounded(of.error_share),
    })
}

/// Three digits behind the point say enough.
fn rounded(number: f64) -> Value {
    Value::from((number * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    #[test]
    fn parameters_are_read_or_refused() {
        let read = |query: &str| parse(query, NOW);
        let usual = Limits { factor: 3.0, samples: 20, limit: 20 };
        assert_eq!(read(""), Ok((Since::Time(NOW - 3600), usual)));
        assert_eq!(read("since=-30m"), Ok((Since::Time(NOW - 1800), usual)));
        let limits = Limits { factor: 8.0, samples: 5, limit: 7 };
        assert_eq!(read("mark=12&factor=8&samples=5&limit=7"), Ok((Since::Mark(12), limits)));
        for (wrong, words) in [
            ("since=noon", "from and to are seconds"),
            ("mark=deploy", "mark is the number"),
            ("factor=1", "factor is a number"),
            ("factor=NaN", "factor is a number"),
            ("samples=0", "samples is a whole number"),
            ("limit=201", "limit is a whole number"),
            ("mark=1&since=-1h", "exclude each other"),
            ("until=7", "there are since, mark"),
        ] {
            assert!(read(wrong).unwrap_err().contains(words), "{wrong}");
        }
    }
}
