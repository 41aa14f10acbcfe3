//! `/api/v1/sessions`: the sessions of clients, and their ends.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use events::Condition;
use facts::sessions::SessionFacts;
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::digests::json_page;
use super::query::pairs;
use crate::sessions::{Kill, Sessions};
use crate::shared::Shared;

/// Sessions that are shown without `limit`, and most of them.
const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 10_000;
/// The oldest list that a client may ask for, in milliseconds.
const AGE_MAX_MS: u64 = 60_000;
/// Kills that are under way at a time: each asks a server over a connection of its own.
const KILLS_MAX: usize = 8;

/// GET: sessions that meet a condition; those that are busy for longest come first.
pub(super) async fn list(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    let parameters = match ListParameters::parse(query.as_deref().unwrap_or_default()) {
        Ok(parameters) => parameters,
        Err(words) => return (StatusCode::BAD_REQUEST, words).into_response(),
    };
    let Some(sessions) = &shared.sessions else { return no_sessions() };
    json_page(&parameters.page(shared.listed.get(sessions, parameters.age_max).await))
}

/// PUT: one session ends, or its statement.
pub(super) async fn kill(State(shared): State<Arc<Shared>>, Path(id): Path<u32>, body: Bytes) -> Response {
    let order = match KillOrder::read(&body) {
        Ok(order) if order.condition.is_none() && !order.dry_run => order,
        Ok(_) => return mistake("one session is killed by its id alone: no where, no dry_run"),
        Err(words) => return mistake(&words),
    };
    let Some(sessions) = &shared.sessions else { return no_sessions() };
    match sessions.kill(Kill { id, query_only: order.query_only, seen: None }).await {
        Ok(killed) => json_page(&json!({ "id": id, "killed": killed })),
        Err(why) => (StatusCode::CONFLICT, format!("{why}\n")).into_response(),
    }
}

/// PUT: all sessions that meet a condition end, or their statements.
pub(super) async fn kill_all(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let order = match KillOrder::read(&body) {
        Ok(order) => order,
        Err(words) => return mistake(&words),
    };
    let condition = match Condition::parse(order.condition.as_deref().unwrap_or_default()) {
        Ok(condition) if !condition.is_empty() => condition,
        Ok(_) => return mistake("where is missing: say which sessions, as in {\"where\": \"user=app and ms>1000\"}"),
        Err(error) => return mistake(&format!("where: {error}")),
    };
    let Some(sessions) = &shared.sessions else { return no_sessions() };
    let met: Vec<(Value, SessionFacts)> = sessions
        .list()
        .await
        .into_iter()
        .map(|facts| (shown(&facts), facts))
        .filter(|(shown, facts)| condition.holds_for(shown) && (!order.query_only || facts.state.is_busy()))
        .collect();
    let page: Vec<&Value> = met.iter().map(|(shown, _)| shown).collect();
    if order.dry_run {
        return json_page(&json!({ "dry_run": true, "sessions": page }));
    }
    let kills = met.iter().map(|(_, facts)| Kill {
        id: facts.id,
        query_only: order.query_only,
        // A session that has gone on to something else meanwhile is spared.
        seen: Some((facts.state.is_busy(), facts.digest)),
    });
    let (killed, failed) = carry_out(sessions, kills.collect()).await;
    json_page(&json!({ "dry_run": false, "sessions": page, "killed": killed, "failed": failed }))
}

/// Gives how many were killed, and what went wrong.
async fn carry_out(sessions: &Arc<dyn Sessions>, kills: Vec<Kill>) -> (usize, Vec<Value>) {
    let (mut under_way, mut killed, mut failed) = (JoinSet::new(), 0, Vec::new());
    let mut kills = kills.into_iter();
    loop {
        while under_way.len() < KILLS_MAX
            && let Some(kill) = kills.next()
        {
            let ended = sessions.kill(kill);
            under_way.spawn(async move { (kill.id, ended.await) });
        }
        match under_way.join_next().await {
            None => return (killed, failed),
            Some(Ok((_, Ok(was_there)))) => killed += usize::from(was_there),
            Some(Ok((id, Err(why)))) => failed.push(json!({ "id": id, "error": why })),
            Some(Err(error)) => failed.push(json!({ "error": error.to_string() })),
        }
    }
}

pub(super) fn mistake(words: &str) -> Response {
    (StatusCode::BAD_REQUEST, format!("{words}\n")).into_response()
}

pub(super) fn no_sessions() -> Response {
    (StatusCode::NOT_FOUND, "this process has no data plane\n").into_response()
}

/// The body of a kill.
#[derive(Debug, Default, PartialEq)]
struct KillOrder {
    /// The statement alone, not the session.
    query_only: bool,
    condition: Option<String>,
    dry_run: bool,
}

impl KillOrder {
    /// Reads a body; an empty one asks for nothing special.
    fn read(body: &[u8]) -> Result<KillOrder, String> {
        let mut order = KillOrder::default();
        let object: Map<String, Value> = match body.trim_ascii() {
            [] => return Ok(order),
            body => serde_json::from_slice(body).map_err(|error| format!("the body is no JSON object: {error}"))?,
        };
        for (key, value) in object {
            match (&*key, value) {
                ("what", Value::String(what)) if what == "session" => order.query_only = false,
                ("what", Value::String(what)) if what == "query" => order.query_only = true,
                ("what", _) => return Err("what is \"session\" or \"query\"".to_owned()),
                ("where", Value::String(condition)) => order.condition = Some(condition),
                ("dry_run", Value::Bool(dry_run)) => order.dry_run = dry_run,
                ("where", _) => return Err("where is a text, as in \"user=app and ms>1000\"".to_owned()),
                ("dry_run", _) => return Err("dry_run is true or false".to_owned()),
                _ => return Err(format!("the body has no key {key:?}; there are: what, where, dry_run")),
            }
        }
        Ok(order)
    }
}

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Order {
    /// Busy sessions first, those that are so for longest before others.
    #[default]
    Busy,
    /// By id.
    Id,
    /// The oldest transaction first.
    Transaction,
    /// The longest connected first.
    Connected,
    /// Those with the most bytes to and from their clients first.
    Bytes,
    /// Those that have waited longest for connections and servers first.
    Waited,
}

const ORDERS: [(&str, Order); 6] = [
    ("busy", Order::Busy),
    ("id", Order::Id),
    ("transaction", Order::Transaction),
    ("connected", Order::Connected),
    ("bytes", Order::Bytes),
    ("waited", Order::Waited),
];

/// The parameters of a list.
#[derive(Debug, PartialEq)]
struct ListParameters {
    order: Order,
    limit: usize,
    condition: Condition,
    /// The list may be so old.
    age_max: Duration,
}

impl ListParameters {
    fn parse(query: &str) -> Result<ListParameters, String> {
        let mut parameters = ListParameters {
            order: Order::default(),
            limit: LIMIT_DEFAULT,
            condition: Condition::default(),
            age_max: Duration::ZERO,
        };
        for (key, value) in pairs(query) {
            match &*key {
                "order" => {
                    let found = ORDERS.iter().find(|(word, _)| *word == value);
                    let words = ORDERS.map(|(word, _)| word).join(", ");
                    parameters.order = found.ok_or_else(|| format!("order is one of {words}\n"))?.1;
                }
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
                    parameters.limit =
                        limit.ok_or_else(|| format!("limit is a whole number from 1 to {LIMIT_MAX}\n"))?;
                }
                "where" => {
                    parameters.condition = Condition::parse(&value).map_err(|error| format!("where: {error}\n"))?;
                }
                "max_age_ms" => {
                    let age_ms = value.parse().ok().filter(|age_ms| *age_ms <= AGE_MAX_MS);
                    let mistake = || format!("max_age_ms is a whole number up to {AGE_MAX_MS}\n");
                    parameters.age_max = Duration::from_millis(age_ms.ok_or_else(mistake)?);
                }
                _ => return Err("there are order, limit, max_age_ms and where only\n".to_owned()),
            }
        }
        Ok(parameters)
    }

    fn page(&self, mut sessions: Vec<SessionFacts>) -> Value {
        let all = sessions.len();
        match self.order {
            Order::Id => {}
            Order::Busy => sessions.sort_by_key(|facts| Reverse((facts.state.is_busy(), facts.state_for))),
            Order::Transaction => sessions.sort_by_key(|facts| Reverse(facts.transaction)),
            Order::Connected => sessions.sort_by_key(|facts| Reverse(facts.connected)),
            Order::Bytes => sessions.sort_by_key(|facts| Reverse(facts.received_bytes.wrapping_add(facts.sent_bytes))),
            Order::Waited => sessions.sort_by_key(|facts| Reverse(facts.waited)),
        }
        let met: Vec<Value> = sessions.iter().map(shown).filter(|shown| self.condition.holds_for(shown)).collect();
        let (total, page) = (met.len(), met.into_iter().take(self.limit).collect::<Vec<_>>());
        json!({ "sessions": page, "met": total, "all": all })
    }
}

/// A session, as the API shows it. Facts that are not there have no field.
fn shown(facts: &SessionFacts) -> Value {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| {
        if !value.is_null() {
            fields.insert(name.to_owned(), value);
        }
    };
    put("id", facts.id.into());
    for (name, text) in [
        ("listener", &facts.listener),
        ("cluster", &facts.cluster),
        ("user", &facts.user),
        ("program", &facts.program),
        ("schema", &facts.schema),
        ("server", &facts.server),
    ] {
        put(name, text.as_deref().into());
    }
    put("client", (&*facts.client).into());
    put("tls", facts.tls.into());
    put("connected_ms", ms(facts.connected).into());
    put("state", facts.state.word().into());
    put("ms", ms(facts.state_for).into());
    if facts.digest != 0 {
        put("digest", format!("{:016x}", facts.digest).into());
    }
    put("form", facts.form.as_deref().into());
    put("server_thread", facts.thread_id.into());
    put("transaction_ms", facts.transaction.map(ms).into());
    put("pins", facts.pins.clone().into());
    put("worker", facts.worker.into());
    put("received_bytes", facts.received_bytes.into());
    put("sent_bytes", facts.sent_bytes.into());
    put("waits", facts.waits.into());
    put("waited_ms", ms(facts.waited).into());
    put("waits_ms", facts.waits_for.map(ms).into());
    Value::Object(fields)
}

fn ms(time: Duration) -> f64 {
    stats::micros(time) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use facts::sessions::SessionState;

    use super::*;

    fn session(id: u32, state: SessionState, state_ms: u64) -> SessionFacts {
        SessionFacts {
            id,
            listener: Some("app".into()),
            cluster: Some("main".into()),
            user: Some("app".into()),
            client: "10.0.0.7:4711".into(),
            connected: Duration::from_secs(9),
            state,
            state_for: Duration::from_millis(state_ms),
            digest: 0xab,
            pins: vec!["transaction"],
            worker: 1,
            ..SessionFacts::default()
        }
    }

    #[test]
    fn busy_sessions_come_first_and_conditions_choose() {
        let sessions = || {
            vec![
                session(1, SessionState::Idle, 9_000),
                session(2, SessionState::Running, 100),
                session(3, SessionState::WaitsForServer, 700),
            ]
        };
        let ids = |query: &str| {
            let page = ListParameters::parse(query).unwrap().page(sessions());
            let ids: Vec<u64> =
                page["sessions"].as_array().unwrap().iter().filter_map(|session| session["id"].as_u64()).collect();
            (ids, page["met"].as_u64().unwrap(), page["all"].as_u64().unwrap())
        };
        assert_eq!(ids(""), (vec![3, 2, 1], 3, 3));
        assert_eq!(ids("order=id&limit=2"), (vec![1, 2], 3, 3));
        assert_eq!(ids("where=state%3Drunning"), (vec![2], 1, 3));
        assert_eq!(ids("where=ms%3E500 and digest%3D00000000000000ab"), (vec![3, 1], 2, 3));
        assert_eq!(ids("where=pins%7Etransaction and user%3Dother"), (vec![], 0, 3));
    }

    #[test]
    fn mistakes_are_reported() {
        for (query, words) in [
            ("order=age", "order is one of busy, id, transaction, connected, bytes, waited\n"),
            ("limit=0", "limit is a whole number from 1 to 10000\n"),
            ("max_age_ms=60001", "max_age_ms is a whole number up to 60000\n"),
            ("user=app", "there are order, limit, max_age_ms and where only\n"),
        ] {
            assert_eq!(ListParameters::parse(query), Err(words.to_owned()));
        }
        for (body, words) in [
            ("{\"what\": \"all\"}", "what is \"session\" or \"query\""),
            ("{\"where\": 7}", "where is a text, as in \"user=app and ms>1000\""),
            ("{\"user\": \"app\"}", "the body has no key \"user\"; there are: what, where, dry_run"),
        ] {
            assert_eq!(KillOrder::read(body.as_bytes()), Err(words.to_owned()));
        }
        assert!(KillOrder::read(b"[]").unwrap_err().starts_with("the body is no JSON object"));
        assert!(
            !KillOrder::read(b" ").unwrap().query_only && KillOrder::read(b"{\"what\":\"query\"}").unwrap().query_only
        );
    }

    #[test]
    fn facts_that_are_not_there_have_no_field() {
        let facts = SessionFacts { user: None, digest: 0, ..session(7, SessionState::Login, 5) };
        let expected = json!({
            "id": 7, "listener": "app", "cluster": "main", "client": "10.0.0.7:4711", "tls": false,
            "connected_ms": 9000.0, "state": "login", "ms": 5.0, "pins": ["transaction"], "worker": 1,
            "received_bytes": 0, "sent_bytes": 0, "waits": 0, "waited_ms": 0.0,
        });
        assert_eq!(shown(&facts), expected);
    }
}
