//! The API, `/api/v1`: one file for each resource, and here their paths.

mod cache;
mod cache_digests;
mod changes;
mod clusters;
mod digests;
mod endpoint;
mod events;
mod explain;
mod history;
mod login;
mod now;
mod query;
mod regressions;
mod rules;
mod sessions;
mod tier;
mod warm;
mod workers;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler as _;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{delete, get, post, put};

pub(super) use self::cache::{counts as cache_counts, known_rights};
pub(super) use self::rules::hits as rule_hits;
use crate::access::{Guard, Role};
use crate::shared::Shared;
use endpoint::Type::{Flag, Number, Text};
use endpoint::{Endpoint, Key};

/// Largest body of a request; the API's are a handful of words.
const BODY_BYTES_MAX: usize = 64 << 10;

const NONE: &[Key] = &[];
const LIMIT: Key = Key("limit", Number, "Most entries of the reply.");
const MAX_AGE_MS: Key = Key("max_age_ms", Number, "The list may be so old; without it, it is made anew.");
const WHERE: Key = Key("where", Text, "A condition, as in `user=app and ms>100`.");
const CLUSTER: Key = Key("cluster", Text, "The name of a cluster.");
const FROM: Key = Key("from", Text, "Seconds since 1970, or a time before now, as in `-2h`.");
const STEP: Key = Key("step", Number, "Seconds between points: 10, 60 or 600.");
const TO: Key = Key("to", Text, "The same; without it, now.");
const WHAT: Key = Key("what", Text, "`session`, or `query` for the statement alone.");
const DRY_RUN: Key = Key("dry_run", Flag, "Only say what would be done.");
const WAIT_MS: Key = Key("wait_ms", Number, "Milliseconds to wait for the end, up to 60000.");

/// Every request of the API.
const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        method: "get",
        path: "/login",
        role: Role::View,
        summary: "The role of this login, and the token that changes by cookie need",
        query: NONE,
        body: NONE,
        answer: || get(login::show),
    },
    Endpoint {
        method: "post",
        path: "/login",
        role: Role::Nobody,
        summary: "Log in: the reply sets a cookie",
        query: NONE,
        body: &[Key("key", Text, "The key of a role.")],
        answer: || post(login::log_in),
    },
    Endpoint {
        method: "delete",
        path: "/login",
        role: Role::View,
        summary: "Log out",
        query: NONE,
        body: NONE,
        answer: || delete(login::log_out),
    },
    Endpoint {
        method: "get",
        path: "/now",
        role: Role::View,
        summary: "The counters and gauges of this moment",
        query: NONE,
        body: NONE,
        answer: || get(now::show),
    },
    Endpoint {
        method: "get",
        path: "/changes",
        role: Role::View,
        summary: "Orders of operators, readings of the configuration and changes of clusters' state, the newest first",
        query: &[LIMIT],
        body: NONE,
        answer: || get(changes::list),
    },
    Endpoint {
        method: "get",
        path: "/clusters",
        role: Role::View,
        summary: "All clusters",
        query: NONE,
        body: NONE,
        answer: || get(clusters::list),
    },
    Endpoint {
        method: "get",
        path: "/clusters/{cluster}",
        role: Role::View,
        summary: "One cluster",
        query: NONE,
        body: NONE,
        answer: || get(clusters::one),
    },
    Endpoint {
        method: "get",
        path: "/clusters/{cluster}/journal",
        role: Role::View,
        summary: "The newest lines of the journal",
        query: &[LIMIT, Key("run", Number, "Only lines of this run.")],
        body: NONE,
        answer: || get(clusters::journal),
    },
    Endpoint {
        method: "put",
        path: "/clusters/{cluster}/{action}",
        role: Role::Admin,
        summary: "switchover, failover, primary or acknowledge",
        query: NONE,
        body: &[
            Key("to", Text, "The server that is to be the primary."),
            DRY_RUN,
            Key("force", Flag, "Accept the loss of data that no other server has."),
            WAIT_MS,
        ],
        answer: || put(clusters::act),
    },
    Endpoint {
        method: "put",
        path: "/clusters/{cluster}/servers/{server}/{action}",
        role: Role::Operate,
        summary: "drain, maintenance or resume",
        query: NONE,
        body: &[DRY_RUN, WAIT_MS],
        answer: || put(clusters::act_on_server),
    },
    Endpoint {
        method: "put",
        path: "/clusters/{cluster}/servers/{server}/rejoin",
        role: Role::Admin,
        summary: "Attach the server as a replica",
        query: NONE,
        body: &[DRY_RUN, WAIT_MS],
        answer: || put(clusters::rejoin),
    },
    Endpoint {
        method: "get",
        path: "/sessions",
        role: Role::View,
        summary: "Sessions, and the state of each",
        query: &[
            WHERE,
            Key("order", Text, "`busy`, `id`, `transaction`, `connected`, `bytes` or `waited`."),
            LIMIT,
            MAX_AGE_MS,
        ],
        body: NONE,
        answer: || get(sessions::list),
    },
    Endpoint {
        method: "put",
        path: "/sessions/kill",
        role: Role::Operate,
        summary: "End all sessions that meet a condition, or their statements",
        query: NONE,
        body: &[WHERE, WHAT, DRY_RUN],
        answer: || put(sessions::kill_all),
    },
    Endpoint {
        method: "put",
        path: "/sessions/{id}/kill",
        role: Role::Operate,
        summary: "End one session, or its statement",
        query: NONE,
        body: &[WHAT],
        answer: || put(sessions::kill),
    },
    Endpoint {
        method: "put",
        path: "/workers/{worker}/relieve",
        role: Role::Operate,
        summary: "Move sessions of a worker to the least busy one",
        query: NONE,
        body: &[DRY_RUN],
        answer: || put(workers::relieve),
    },
    Endpoint {
        method: "get",
        path: "/events/tail",
        role: Role::View,
        summary: "The last events of the query log",
        query: &[LIMIT, Key("after", Number, "Only events behind this number."), WHERE],
        body: NONE,
        answer: || get(events::tail),
    },
    Endpoint {
        method: "get",
        path: "/history",
        role: Role::View,
        summary: "Figures of the past, or the names of all series",
        query: &[Key("series", Text, "Beginnings of names, with commas between them."), FROM, TO, STEP],
        body: NONE,
        answer: || get(history::series),
    },
    Endpoint {
        method: "get",
        path: "/history/digests",
        role: Role::View,
        summary: "The digests that took the most time in a time",
        query: &[FROM, TO, LIMIT],
        body: NONE,
        answer: || get(history::digests),
    },
    Endpoint {
        method: "get",
        path: "/marks",
        role: Role::View,
        summary: "Marks, the newest first",
        query: &[FROM, TO, LIMIT],
        body: NONE,
        answer: || get(history::marks),
    },
    Endpoint {
        method: "post",
        path: "/marks",
        role: Role::Operate,
        summary: "Set a mark now",
        query: NONE,
        body: &[Key("text", Text, "What happened."), Key("author", Text, "By whom.")],
        answer: || post(history::set_mark),
    },
    Endpoint {
        method: "get",
        path: "/regressions",
        role: Role::View,
        summary: "Digests that are new, slower or more frequent since a moment",
        query: &[
            Key(
                "since",
                Text,
                "Seconds since 1970, or a time before now, as in `-30m`; without it and `mark`, an hour.",
            ),
            Key("mark", Number, "The number of a mark, instead of `since`."),
            Key("factor", Number, "So many times as much as before: 1.1 to 1000, or 3."),
            Key("samples", Number, "Statements that a comparison needs: 1 to 1000000, or 20."),
            LIMIT,
        ],
        body: NONE,
        answer: || get(regressions::list),
    },
    Endpoint {
        method: "get",
        path: "/digests",
        role: Role::View,
        summary: "Digests: what statements of one form cost",
        query: &[
            Key("cluster", Text, "A cluster: count only what its servers ran."),
            Key("order", Text, "`time`, `statements`, `rows` or `errors`."),
            LIMIT,
        ],
        body: NONE,
        answer: || get(digests::list),
    },
    Endpoint {
        method: "delete",
        path: "/digests",
        role: Role::Admin,
        summary: "Count digests anew",
        query: NONE,
        body: NONE,
        answer: || delete(digests::reset),
    },
    Endpoint {
        method: "get",
        path: "/digests/{digest}/explain",
        role: Role::View,
        summary: "The plans of a digest that were asked for",
        query: NONE,
        body: NONE,
        answer: || get(explain::show),
    },
    Endpoint {
        method: "post",
        path: "/digests/{digest}/explain",
        role: Role::Operate,
        summary: "Have a replica explain the sample of a digest, and keep the plan",
        query: NONE,
        body: &[
            CLUSTER,
            Key("server", Text, "The server to ask, instead of a replica."),
            Key("user", Text, "Only the digest of this user."),
            Key("schema", Text, "Only the digest in this schema."),
        ],
        answer: || post(explain::ask),
    },
    Endpoint {
        method: "get",
        path: "/rules",
        role: Role::View,
        summary: "The rules in effect, with their hits",
        query: NONE,
        body: NONE,
        answer: || get(rules::list),
    },
    Endpoint {
        method: "get",
        path: "/cache",
        role: Role::View,
        summary: "The effect of the result cache",
        query: NONE,
        body: NONE,
        answer: || get(cache::show),
    },
    Endpoint {
        method: "delete",
        path: "/cache",
        role: Role::Admin,
        summary: "Wipe the result cache, or a part of it",
        query: &[
            CLUSTER,
            Key("rule", Text, "Only results that this rule cached."),
            Key("digest", Text, "Only results of this digest: 16 hexadecimal digits."),
            Key("table", Text, "Only results of this table: SCHEMA.NAME."),
        ],
        body: NONE,
        answer: || delete(cache::wipe),
    },
    Endpoint {
        method: "get",
        path: "/cache/digests",
        role: Role::View,
        summary: "The effect of the cache for each digest",
        query: &[LIMIT],
        body: NONE,
        answer: || get(cache_digests::digests),
    },
    Endpoint {
        method: "get",
        path: "/cache/candidates",
        role: Role::View,
        summary: "Reads that are worth a rule",
        query: &[Key("ttl_ms", Number, "1000, 10000 or 60000."), LIMIT],
        body: NONE,
        answer: || get(cache_digests::candidates),
    },
    Endpoint {
        method: "get",
        path: "/cache/warm",
        role: Role::View,
        summary: "The results of filling the cache",
        query: NONE,
        body: NONE,
        answer: || get(warm::show),
    },
    Endpoint {
        method: "put",
        path: "/cache/warm",
        role: Role::Admin,
        summary: "Fill the cache",
        query: &[CLUSTER],
        body: NONE,
        answer: || put(warm::start),
    },
    Endpoint {
        method: "get",
        path: "/openapi.json",
        role: Role::View,
        summary: "This document",
        query: NONE,
        body: NONE,
        answer: || get(|| async { digests::json_page(&endpoint::document(ENDPOINTS)) }),
    },
];

/// The paths of the API, below `/api/v1`. Each asks for its role.
pub(super) fn router(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    let guarded = |role| {
        let guard = Guard { shared: shared.clone(), role, body_max: BODY_BYTES_MAX };
        from_fn_with_state(guard, Guard::check)
    };
    let add = |router: Router<Arc<Shared>>, endpoint: &Endpoint| {
        router.route(endpoint.path, (endpoint.answer)().route_layer(guarded(endpoint.role)))
    };
    let unknown = async || StatusCode::NOT_FOUND;
    ENDPOINTS
        .iter()
        .fold(Router::new(), add)
        .fallback(unknown.layer(guarded(Role::View)))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
}

#[cfg(test)]
mod tests;
