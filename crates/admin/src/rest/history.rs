//! `/api/v1/history` and `/api/v1/marks`: figures of the past, the digests of a time, and what happened then.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use history::{DigestSum, History, HistoryError, Mark, RESOLUTIONS, Range, Series};
use serde_json::{Map, Value, json};

use super::digests::json_page;
use super::query::pairs;
use crate::shared::Shared;

/// The time that is shown without `from`, in seconds.
const SHOWN_S: u64 = 3600;
/// Series of one answer.
const SERIES_MAX: usize = 200;
/// Digests and marks of one answer without `limit`, and most of them.
const LIMIT_DEFAULT: usize = 20;
const LIMIT_MAX: usize = 1_000;
/// The longest name of an author, in characters.
const AUTHOR_CHARS_MAX: usize = 64;

/// GET `/history`: the series whose names begin as `series` says, or their names alone without it.
pub(super) async fn series(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    let parameters = match Parameters::parse(query.as_deref(), &["series", "from", "to", "step"], now_s()) {
        Ok(parameters) => parameters,
        Err(words) => return mistake(words),
    };
    read(&shared, move |history| {
        let Parameters { prefixes, range, step_s, now_s, .. } = parameters;
        if prefixes.is_empty() {
            return history.names().map(|names| json!({ "series": names }));
        }
        let wanted = RESOLUTIONS.into_iter().find(|resolution| Some(resolution.step_s) == step_s);
        let resolution = wanted.unwrap_or_else(|| range.resolution(now_s));
        let series = history.series(&prefixes, range, resolution, SERIES_MAX)?;
        let series: Vec<Value> = series.iter().map(shown_series).collect();
        Ok(json!({ "from": range.from_s, "to": range.until_s, "step_s": resolution.step_s, "series": series }))
    })
    .await
}

/// GET `/history/digests`: the digests that took the most time.
pub(super) async fn digests(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    let parameters = match Parameters::parse(query.as_deref(), &["from", "to", "limit"], now_s()) {
        Ok(parameters) => parameters,
        Err(words) => return mistake(words),
    };
    read(&shared, move |history| {
        let digests = history.digests(parameters.range, parameters.limit)?;
        let digests: Vec<Value> = digests.iter().map(shown_digest).collect();
        Ok(json!({ "from": parameters.range.from_s, "to": parameters.range.until_s, "digests": digests }))
    })
    .await
}

/// GET `/marks`: the marks of a time, the newest first.
pub(super) async fn marks(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    let parameters = match Parameters::parse(query.as_deref(), &["from", "to", "limit"], now_s()) {
        Ok(parameters) => parameters,
        Err(words) => return mistake(words),
    };
    read(&shared, move |history| {
        let marks = history.marks(parameters.range, parameters.limit)?;
        Ok(json!({ "marks": marks.iter().map(shown_mark).collect::<Vec<_>>() }))
    })
    .await
}

/// POST `/marks`: something happened now, as a deploy.
pub(super) async fn set_mark(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let (author, text) = match read_mark(&body) {
        Ok(mark) => mark,
        Err(words) => return mistake(words),
    };
    let Some(keeper) = shared.history.get() else { return no_history() };
    match keeper.mark(author, text).await {
        Ok(id) => json_page(&json!({ "id": id })),
        Err(words) => mistake(words),
    }
}

fn read_mark(body: &[u8]) -> Result<(String, String), String> {
    const FORM: &str = "the body is an object with text, and author if you like, as in {\"text\": \"deploy 7\"}";
    let object: Map<String, Value> = serde_json::from_slice(body).map_err(|error| format!("{FORM}: {error}"))?;
    let (mut author, mut text) = (String::new(), None);
    for (key, value) in object {
        match (&*key, value) {
            ("text", Value::String(value)) => text = Some(value),
            ("author", Value::String(value)) if value.chars().count() <= AUTHOR_CHARS_MAX => author = value,
            ("author", _) => return Err(format!("author is a text of up to {AUTHOR_CHARS_MAX} characters")),
            _ => return Err(FORM.to_owned()),
        }
    }
    text.map(|text| (author, text)).ok_or_else(|| FORM.to_owned())
}

/// Reads the file on a thread for that: the disk may be slow.
async fn read(
    shared: &Shared,
    look: impl FnOnce(&History) -> Result<Value, HistoryError> + Send + 'static,
) -> Response {
    let Some(keeper) = shared.history.get() else { return no_history() };
    let history = keeper.history();
    match tokio::task::spawn_blocking(move || look(&history)).await {
        Ok(Ok(page)) => json_page(&page),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

pub(super) fn mistake(words: String) -> Response {
    (StatusCode::BAD_REQUEST, words + "\n").into_response()
}

pub(super) fn no_history() -> Response {
    (StatusCode::NOT_FOUND, "there is no history: set path in [history]\n").into_response()
}

pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The parameters of a request.
#[derive(Debug, PartialEq)]
struct Parameters {
    prefixes: Vec<String>,
    range: Range,
    step_s: Option<u64>,
    limit: usize,
    now_s: u64,
}

impl Parameters {
    /// Reads the keys that a request may have. Times are seconds since 1970, or so many before now, as in `-3600` and `-2h`.
    fn parse(query: Option<&str>, keys: &[&str], now_s: u64) -> Result<Parameters, String> {
        let (mut from_s, mut until_s) = (now_s.saturating_sub(SHOWN_S), now_s + 1);
        let mut parameters = Parameters {
            prefixes: Vec::new(),
            range: Range { from_s, until_s },
            step_s: None,
            limit: LIMIT_DEFAULT,
            now_s,
        };
        for (key, value) in pairs(query.unwrap_or_default()) {
            match &*key {
                _ if !keys.contains(&&*key) => return Err(format!("there are {} only", keys.join(", "))),
                "series" => parameters.prefixes.extend(value.split(',').map(str::to_owned)),
                "from" => from_s = time(&value, now_s)?,
                "to" => until_s = time(&value, now_s)?,
                "step" => {
                    let steps = RESOLUTIONS.map(|resolution| resolution.step_s);
                    let step = value.parse().ok().filter(|step| steps.contains(step));
                    parameters.step_s = Some(step.ok_or_else(|| format!("step is one of {steps:?}"))?);
                }
                _ => {
                    let limit = value.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
                    parameters.limit = limit.ok_or_else(|| format!("limit is a whole number from 1 to {LIMIT_MAX}"))?;
                }
            }
        }
        if from_s >= until_s {
            return Err("from is before to".to_owned());
        }
        parameters.range = Range { from_s, until_s };
        Ok(parameters)
    }
}

pub(super) fn time(text: &str, now_s: u64) -> Result<u64, String> {
    let wrong = || "from and to are seconds since 1970, or a time before now, as in -90, -15m, -2h, -7d".to_owned();
    let Some(before) = text.strip_prefix('-') else { return text.parse().map_err(|_| wrong()) };
    let (digits, unit_s) = match before.as_bytes().last() {
        Some(b'm') => (&before[..before.len() - 1], 60),
        Some(b'h') => (&before[..before.len() - 1], 3600),
        Some(b'd') => (&before[..before.len() - 1], 24 * 3600),
        _ => (before, 1),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    Ok(now_s.saturating_sub(number.saturating_mul(unit_s)))
}

fn shown_series(series: &Series) -> Value {
    json!({ "name": series.name, "points": series.points })
}

fn shown_digest(digest: &DigestSum) -> Value {
    json!({
        "hash": digest.hash,
        "text": digest.text,
        "user": digest.user,
        "schema": digest.schema,
        "statements": digest.statements,
        "errors": digest.errors,
        "rows": digest.rows,
        "time_us": digest.time_us,
        "first_seen": digest.seen_s.0,
        "last_seen": digest.seen_s.1,
    })
}

fn shown_mark(mark: &Mark) -> Value {
    json!({ "id": mark.id, "at": mark.at_s, "author": mark.author, "text": mark.text })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;
    const ALL: [&str; 5] = ["series", "from", "to", "step", "limit"];

    #[test]
    fn times_are_absolute_or_before_now() {
        let range = |query: &str| Parameters::parse(Some(query), &ALL, NOW).map(|found| found.range);
        assert_eq!(range(""), Ok(Range { from_s: NOW - 3600, until_s: NOW + 1 }));
        assert_eq!(range("from=-2h&to=-15m"), Ok(Range { from_s: NOW - 7200, until_s: NOW - 900 }));
        assert_eq!(range("from=1700000000&to=-90"), Ok(Range { from_s: 1_700_000_000, until_s: NOW - 90 }));
        assert_eq!(range("from=-10&to=-20"), Err("from is before to".to_owned()));
        for wrong in ["from=yesterday", "to=-", "from=-2w", "from=-1.5h"] {
            assert!(range(wrong).unwrap_err().starts_with("from and to are seconds"), "{wrong}");
        }
    }

    #[test]
    fn mistakes_are_reported() {
        let wrong = |query: &str| Parameters::parse(Some(query), &ALL[1..], NOW).unwrap_err();
        assert_eq!(wrong("series=x"), "there are from, to, step, limit only");
        assert_eq!(wrong("step=7"), "step is one of [10, 60, 600]");
        assert_eq!(wrong("limit=0"), "limit is a whole number from 1 to 1000");
        let mark = |body: &str| read_mark(body.as_bytes());
        assert_eq!(mark("{\"text\": \"deploy 7\"}"), Ok((String::new(), "deploy 7".to_owned())));
        for body in ["", "[]", "{}", "{\"text\": 7}", "{\"text\": \"a\", \"at\": 7}"] {
            assert!(mark(body).unwrap_err().starts_with("the body is an object with text"), "{body}");
        }
    }
}
