//! Metrics of the process and its sessions.

use super::{Kind, Metric, metric};

pub(in super::super) const INFO: Metric =
    metric("sqluice_info", Kind::Gauge, &["version"], "Always 1; the label has the version.");
pub(in super::super) const START_TIME: Metric =
    metric("sqluice_start_time_seconds", Kind::Gauge, &[], "Start of the process, in seconds since 1970.");
pub(in super::super) const DRAINING: Metric =
    metric("sqluice_draining", Kind::Gauge, &[], "1 while the process takes no new clients.");
pub(in super::super) const WORKERS: Metric = metric("sqluice_workers", Kind::Gauge, &[], "Worker threads.");
pub(in super::super) const SESSIONS: Metric = metric("sqluice_sessions", Kind::Gauge, &[], "Client sessions now.");
pub(in super::super) const ACCEPTED: Metric =
    metric("sqluice_clients_accepted_total", Kind::Counter, &[], "Clients accepted.");
pub(in super::super) const LOGINS: Metric = metric("sqluice_logins_total", Kind::Counter, &[], "Successful logins.");
pub(in super::super) const LOGIN_FAILURES: Metric =
    metric("sqluice_login_failures_total", Kind::Counter, &[], "Refused logins.");
pub(in super::super) const REFUSED_CLIENTS: Metric = metric(
    "sqluice_clients_refused_total",
    Kind::Counter,
    &["reason"],
    "Connections that were refused before the login, by the limit that was reached.",
);
pub(in super::super) const DELAYED_LOGINS: Metric = metric(
    "sqluice_logins_delayed_total",
    Kind::Counter,
    &[],
    "Logins that waited because of failed logins from their address.",
);
pub(in super::super) const LOGIN_MEMORY: Metric =
    metric("sqluice_login_memory_bytes", Kind::Gauge, &[], "Memory counted for clients that have not logged in.");
pub(in super::super) const LOGIN_MEMORY_WAITS: Metric =
    metric("sqluice_login_memory_waits_total", Kind::Counter, &[], "Logins that waited for memory.");
pub(in super::super) const CLIENT_ADDRESSES: Metric = metric(
    "sqluice_client_addresses",
    Kind::Gauge,
    &[],
    "Client addresses with a connection, or with a failed login within a minute.",
);
pub(in super::super) const PREPARED_BYTES: Metric =
    metric("sqluice_prepared_bytes", Kind::Gauge, &[], "Bytes of the texts of all sessions' prepared statements.");
pub(in super::super) const REQUESTS: Metric =
    metric("sqluice_requests_total", Kind::Counter, &[], "Client requests of any kind.");
pub(in super::super) const UNKNOWN: Metric = metric(
    "sqluice_unknown_statements_total",
    Kind::Counter,
    &[],
    "Statements that Sqluice did not understand; they go to the primary.",
);
pub(in super::super) const LOCAL: Metric =
    metric("sqluice_local_answers_total", Kind::Counter, &[], "Requests answered without a server.");
pub(in super::super) const PINS: Metric =
    metric("sqluice_pins", Kind::Gauge, &["reason"], "Sessions pinned to a backend connection now, by reason.");
pub(in super::super) const PINNED: Metric =
    metric("sqluice_pinned_total", Kind::Counter, &["reason"], "Times that a session became pinned, by reason.");
pub(in super::super) const ROUTES: Metric =
    metric("sqluice_routes_total", Kind::Counter, &["reason"], "Routes taken, by reason.");
pub(in super::super) const HOLDING: Metric =
    metric("sqluice_holding", Kind::Gauge, &[], "Statements that are held now: they wait for a primary or a replica.");
pub(in super::super) const HELD: Metric =
    metric("sqluice_held_total", Kind::Counter, &[], "Statements that were held.");
pub(in super::super) const HOLD_TIMEOUTS: Metric =
    metric("sqluice_hold_timeouts_total", Kind::Counter, &[], "Held statements whose time ran out.");
pub(in super::super) const REPLICA_WAITS: Metric = metric(
    "sqluice_replica_waits_total",
    Kind::Counter,
    &[],
    "Reads that waited for a replica with their session's writes.",
);
pub(in super::super) const REPLICA_WAIT_TIMEOUTS: Metric = metric(
    "sqluice_replica_wait_timeouts_total",
    Kind::Counter,
    &[],
    "Such reads whose time ran out; they went to the primary.",
);
pub(in super::super) const REPLAYS: Metric = metric(
    "sqluice_replays_total",
    Kind::Counter,
    &["result"],
    "Transactions interrupted by the loss of their server, by result: `replayed`, `refused` (no replay possible), `differs` (a reply was different), `failed` (all attempts failed).",
);
pub(in super::super) const IN_DOUBT: Metric = metric(
    "sqluice_in_doubt_total",
    Kind::Counter,
    &[],
    "Writes in doubt: the server was lost before its reply, and there was no proof of the outcome.",
);
pub(in super::super) const WAITING: Metric =
    metric("sqluice_waiting", Kind::Gauge, &[], "Statements that wait for a backend connection.");
pub(in super::super) const WAITED: Metric =
    metric("sqluice_waited_total", Kind::Counter, &[], "Statements that had to wait for a backend connection.");
pub(in super::super) const WAIT_TIMEOUTS: Metric = metric(
    "sqluice_wait_timeouts_total",
    Kind::Counter,
    &[],
    "Statements that waited for a backend connection until their time ran out.",
);
pub(in super::super) const FIX_UPS: Metric = metric(
    "sqluice_fix_ups_total",
    Kind::Counter,
    &[],
    "Times that session state was applied to a backend connection before a statement.",
);
pub(in super::super) const REPREPARES: Metric = metric(
    "sqluice_reprepares_total",
    Kind::Counter,
    &[],
    "Prepared statements prepared again on another backend connection.",
);
pub(in super::super) const MOVED: Metric = metric(
    "sqluice_connections_moved_total",
    Kind::Counter,
    &[],
    "Backend connections moved between workers, counted at both ends.",
);
pub(in super::super) const OWN_ERRORS: Metric =
    metric("sqluice_own_errors_total", Kind::Counter, &[], "Errors that Sqluice itself sent to clients.");
pub(in super::super) const DIGESTS: Metric =
    metric("sqluice_digests", Kind::Gauge, &[], "Entries of the workers' tables of digests.");
pub(in super::super) const DIGESTS_LOST: Metric = metric(
    "sqluice_digests_lost_total",
    Kind::Counter,
    &[],
    "Statements whose digest has no entry, or lost it to another digest.",
);
pub(in super::super) const RULE_HITS: Metric = metric(
    "sqluice_rule_hits_total",
    Kind::Counter,
    &["rule"],
    "Statements for which this rule decided; disabled rules have no value.",
);
pub(in super::super) const RULE_SEARCHES: Metric = metric(
    "sqluice_rule_searches_total",
    Kind::Counter,
    &[],
    "Statements for which Sqluice had to check all rules, because it did not remember the result.",
);
