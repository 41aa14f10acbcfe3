//! `/api/v1/events/tail`: the last events of queries and logins.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use events::{Condition, Tail};
use serde_json::{Value, json};

use super::digests::json_page;
use super::query::pairs;
use crate::shared::Shared;

/// Events that are shown without `limit`, and most of them.
const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 10_000;

/// GET: the newest events, or with `after` those behind a number.
pub(super) async fn tail(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    let parameters = match EventParameters::parse(query.as_deref().unwrap_or_default()) {
        Ok(parameters) => parameters,
        Err(words) => return (StatusCode::BAD_REQUEST, words).into_response(),
    };
    let EventParameters { after, limit, condition } = parameters;
    let tail = shared.events.as_ref().map(|events| events.recent().tail(after, limit, &condition));
    json_page(&page(&tail.unwrap_or_default()))
}

/// The parameters of a request.
#[derive(Debug, PartialEq)]
struct EventParameters {
    after: Option<u64>,
    limit: usize,
    condition: Condition,
}

impl EventParameters {
    fn parse(query: &str) -> Result<EventParameters, String> {
        let mut parameters = EventParameters { after: None, limit: LIMIT_DEFAULT, condition: Condition::default() };
        for (key, value) in pairs(query) {
            match &*key {
                "after" => parameters.after = Some(value.parse().map_err(|_| "after is the number of an event\n")?),
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
                    parameters.limit =
                        limit.ok_or_else(|| format!("limit is a whole number from 1 to {LIMIT_MAX}\n"))?;
                }
                "where" => {
                    parameters.condition = Condition::parse(&value).map_err(|error| format!("where: {error}\n"))?
                }
                _ => return Err("there are after, limit and where only\n".to_owned()),
            }
        }
        Ok(parameters)
    }
}

fn page(tail: &Tail) -> Value {
    let lines = tail.lines.iter().map(|line| &**line);
    let events: Vec<Value> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
    json!({ "events": events, "newest": tail.newest, "missed": tail.missed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_and_mistakes_are_reported() {
        let parameters = EventParameters::parse("limit=5&after=7&where=user%3Dapp%20and%20ms%3E10").unwrap();
        let condition = Condition::parse("user=app and ms>10").unwrap();
        assert_eq!(parameters, EventParameters { after: Some(7), limit: 5, condition });
        for (query, words) in [
            ("limit=0", "limit is a whole number from 1 to 10000\n"),
            ("limit=10001", "limit is a whole number from 1 to 10000\n"),
            ("after=x", "after is the number of an event\n"),
            (
                "where=user",
                "where: 'user' is no condition; write FIELD=VALUE, with one of = != < <= > >= ~, and `and` between several\n",
            ),
            ("before=7", "there are after, limit and where only\n"),
        ] {
            assert_eq!(EventParameters::parse(query), Err(words.to_owned()));
        }
    }

    #[test]
    fn lines_become_objects() {
        let tail = Tail { lines: vec!["{\"seq\":3}".into()], newest: 4, missed: 1 };
        assert_eq!(page(&tail), json!({ "events": [{ "seq": 3 }], "newest": 4, "missed": 1 }));
    }
}
