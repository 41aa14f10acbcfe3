//! Metrics of sessions and their queries.

use super::{Metric, MetricKind, metric};

pub(in super::super) const SESSIONS: Metric =
    metric("sqluice_sessions", MetricKind::Gauge, &[], "Client sessions now.");
pub(in super::super) const ACCEPTED: Metric =
    metric("sqluice_clients_accepted_total", MetricKind::Counter, &[], "Clients accepted.");
pub(in super::super) const LOGINS: Metric =
    metric("sqluice_logins_total", MetricKind::Counter, &[], "Successful logins.");
pub(in super::super) const LOGIN_FAILURES: Metric =
    metric("sqluice_login_failures_total", MetricKind::Counter, &[], "Refused logins.");
pub(in super::super) const REFUSED_CLIENTS: Metric = metric(
    "sqluice_clients_refused_total",
    MetricKind::Counter,
    &["reason"],
    "Connections that were refused before the login, by the limit that was reached.",
);
pub(in super::super) const DELAYED_LOGINS: Metric = metric(
    "sqluice_logins_delayed_total",
    MetricKind::Counter,
    &[],
    "Logins that waited because of failed logins from their address.",
);
pub(in super::super) const LOGIN_MEMORY: Metric =
    metric("sqluice_login_memory_bytes", MetricKind::Gauge, &[], "Memory counted for clients that have not logged in.");
pub(in super::super) const LOGIN_MEMORY_WAITS: Metric =
    metric("sqluice_login_memory_waits_total", MetricKind::Counter, &[], "Logins that waited for memory.");
pub(in super::super) const CLIENT_ADDRESSES: Metric = metric(
    "sqluice_client_addresses",
    MetricKind::Gauge,
    &[],
    "Client addresses with a connection, or with a failed login within a minute.",
);
pub(in super::super) const PREPARED_BYTES: Metric = metric(
    "sqluice_prepared_bytes",
    MetricKind::Gauge,
    &[],
    "Bytes of the texts of all sessions' prepared statements.",
);
pub(in super::super) const COMMAND_BYTES: Metric = metric(
    "sqluice_command_bytes",
    MetricKind::Gauge,
    &[],
    "Bytes of all clients' long commands that are on their way or run.",
);
pub(in super::super) const REQUESTS: Metric =
    metric("sqluice_requests_total", MetricKind::Counter, &[], "Client requests of any kind.");
pub(in super::super) const UNKNOWN: Metric = metric(
    "sqluice_unknown_statements_total",
    MetricKind::Counter,
    &[],
    "Statements that Sqluice did not understand; they go to the primary.",
);
pub(in super::super) const LOCAL: Metric =
    metric("sqluice_local_answers_total", MetricKind::Counter, &[], "Requests answered without a server.");
pub(in super::super) const PINS: Metric = metric(
    "sqluice_pinned_sessions",
    MetricKind::Gauge,
    &["reason"],
    "Sessions pinned to a backend connection now, by reason.",
);
pub(in super::super) const PINNED: Metric =
    metric("sqluice_pins_total", MetricKind::Counter, &["reason"], "Times that a session became pinned, by reason.");
pub(in super::super) const UNPIPELINED: Metric = metric(
    "sqluice_unpipelined_reads_total",
    MetricKind::Counter,
    &["reason"],
    "Reads that may share a backend connection and found none to share, by reason. While they wait for one of their own they may come to share one.",
);
pub(in super::super) const ROUTES: Metric = metric(
    "sqluice_routes_total",
    MetricKind::Counter,
    &["reason"],
    "Statements that a server has answered, by the reason of their route.",
);
pub(in super::super) const HOLDING: Metric = metric(
    "sqluice_held_statements",
    MetricKind::Gauge,
    &[],
    "Statements that are held now: they wait for a primary or a replica.",
);
pub(in super::super) const HELD: Metric =
    metric("sqluice_holds_total", MetricKind::Counter, &[], "Statements that were held.");
pub(in super::super) const HOLD_TIMEOUTS: Metric =
    metric("sqluice_hold_timeouts_total", MetricKind::Counter, &[], "Held statements whose time ran out.");
pub(in super::super) const REPLICA_WAITS: Metric = metric(
    "sqluice_replica_waits_total",
    MetricKind::Counter,
    &[],
    "Reads that waited for a replica with their session's writes.",
);
pub(in super::super) const REPLICA_WAIT_TIMEOUTS: Metric = metric(
    "sqluice_replica_wait_timeouts_total",
    MetricKind::Counter,
    &[],
    "Such reads whose time ran out; they went to the primary.",
);
pub(in super::super) const REPLAYS: Metric = metric(
    "sqluice_replays_total",
    MetricKind::Counter,
    &["result"],
    "Transactions interrupted by the loss of their server, by result: `replayed`, `refused` (no replay possible), `differs` (a reply was different), `failed` (all attempts failed).",
);
pub(in super::super) const IN_DOUBT: Metric = metric(
    "sqluice_statements_in_doubt_total",
    MetricKind::Counter,
    &[],
    "Writes in doubt: the server was lost before its reply, and there was no proof of the outcome.",
);
pub(in super::super) const WAITING: Metric =
    metric("sqluice_pool_waiting_statements", MetricKind::Gauge, &[], "Statements that wait for a backend connection.");
pub(in super::super) const WAITED: Metric = metric(
    "sqluice_pool_waits_total",
    MetricKind::Counter,
    &[],
    "Statements that had to wait for a backend connection.",
);
pub(in super::super) const WAIT_TIMEOUTS: Metric = metric(
    "sqluice_pool_wait_timeouts_total",
    MetricKind::Counter,
    &[],
    "Statements that waited for a backend connection until their time ran out.",
);
pub(in super::super) const FIX_UPS: Metric = metric(
    "sqluice_session_state_applied_total",
    MetricKind::Counter,
    &[],
    "Times that session state was applied to a backend connection before a statement.",
);
pub(in super::super) const REPREPARES: Metric = metric(
    "sqluice_statements_reprepared_total",
    MetricKind::Counter,
    &[],
    "Prepared statements prepared again on another backend connection.",
);
pub(in super::super) const SESSIONS_MOVED: Metric = metric(
    "sqluice_sessions_moved_total",
    MetricKind::Counter,
    &["reason"],
    "Sessions moved to another worker: their worker was busy (busy), or an operator ordered it (order).",
);
pub(in super::super) const MOVED: Metric = metric(
    "sqluice_connections_moved_total",
    MetricKind::Counter,
    &[],
    "Backend connections moved between workers, counted at both ends.",
);
pub(in super::super) const OWN_ERRORS: Metric =
    metric("sqluice_own_errors_total", MetricKind::Counter, &[], "Errors that Sqluice itself sent to clients.");
pub(in super::super) const DIGESTS: Metric =
    metric("sqluice_digests", MetricKind::Gauge, &[], "Entries of the workers' tables of digests.");
pub(in super::super) const DIGESTS_LOST: Metric = metric(
    "sqluice_digests_dropped_total",
    MetricKind::Counter,
    &[],
    "Statements whose digest has no entry, or lost it to another digest.",
);
pub(in super::super) const RULE_HITS: Metric = metric(
    "sqluice_rule_hits_total",
    MetricKind::Counter,
    &["rule"],
    "Statements for which this rule decided; disabled rules have no value.",
);
pub(in super::super) const RULE_SEARCHES: Metric = metric(
    "sqluice_rule_searches_total",
    MetricKind::Counter,
    &[],
    "Statements for which Sqluice had to check all rules, because it did not remember the result.",
);
pub(in super::super) const SESSIONS_BY_STATE: Metric = metric(
    "sqluice_sessions_by_state",
    MetricKind::Gauge,
    &["state"],
    "Client sessions by the thing that they do now.",
);
pub(in super::super) const LISTENER_SESSIONS: Metric = metric(
    "sqluice_listener_sessions",
    MetricKind::Gauge,
    &["listener"],
    "Sessions of a listener that have logged in.",
);
pub(in super::super) const LISTENER_SESSIONS_MAX: Metric = metric(
    "sqluice_listener_sessions_max",
    MetricKind::Gauge,
    &["listener"],
    "Most sessions of a listener: its max_sessions.",
);
pub(in super::super) const LISTENER_LOGINS: Metric = metric(
    "sqluice_listener_logins_total",
    MetricKind::Counter,
    &["cluster", "listener"],
    "Logins of clients of a listener that succeeded.",
);
pub(in super::super) const LISTENER_LOGIN_FAILURES: Metric = metric(
    "sqluice_listener_login_failures_total",
    MetricKind::Counter,
    &["cluster", "listener"],
    "Logins of clients of a listener that were refused.",
);
pub(in super::super) const LISTENER_RECEIVED_BYTES: Metric = metric(
    "sqluice_listener_received_bytes_total",
    MetricKind::Counter,
    &["cluster", "listener"],
    "Bytes from clients of a listener that have logged in, before encryption and compression.",
);
pub(in super::super) const LISTENER_SENT_BYTES: Metric = metric(
    "sqluice_listener_sent_bytes_total",
    MetricKind::Counter,
    &["cluster", "listener"],
    "Bytes to clients of a listener that have logged in, before encryption and compression.",
);
pub(in super::super) const LISTENER_QUERIES: Metric = metric(
    "sqluice_listener_queries_total",
    MetricKind::Counter,
    &["cluster", "listener", "kind"],
    "Queries of a listener's clients: reads and writes that a server ran, and those that the result cache answered.",
);
pub(in super::super) const LISTENER_ERRORS: Metric = metric(
    "sqluice_listener_errors_total",
    MetricKind::Counter,
    &["cluster", "listener"],
    "Queries of a listener's clients that ended with an error, whoever made it.",
);
pub(in super::super) const OLDEST_QUERY: Metric = metric(
    "sqluice_oldest_query_seconds",
    MetricKind::Gauge,
    &[],
    "Age of the oldest query that is not over; 0 without one.",
);
pub(in super::super) const OLDEST_TRANSACTION: Metric = metric(
    "sqluice_oldest_transaction_seconds",
    MetricKind::Gauge,
    &[],
    "Age of the oldest open transaction; 0 without one.",
);
pub(in super::super) const CERTIFICATE_END: Metric = metric(
    "sqluice_listener_certificate_expiry_timestamp_seconds",
    MetricKind::Gauge,
    &["listener"],
    "End of the certificate that a listener shows to clients, in seconds since 1970; missing for a certificate that Sqluice has made.",
);
pub(in super::super) const USER_WAITING: Metric = metric(
    "sqluice_user_limit_waiting_statements",
    MetricKind::Gauge,
    &[],
    "Statements that wait now because their user has its most connections; part of sqluice_pool_waiting_statements.",
);
pub(in super::super) const USER_WAITED: Metric = metric(
    "sqluice_user_limit_waits_total",
    MetricKind::Counter,
    &[],
    "Statements that waited because their user had its most connections; part of sqluice_pool_waits_total.",
);
pub(in super::super) const USER_WAIT_TIMEOUTS: Metric = metric(
    "sqluice_user_limit_wait_timeouts_total",
    MetricKind::Counter,
    &[],
    "Statements that waited in vain for that; part of sqluice_pool_wait_timeouts_total.",
);
pub(in super::super) const ADMIN_CERTIFICATE_END: Metric = metric(
    "sqluice_admin_certificate_expiry_timestamp_seconds",
    MetricKind::Gauge,
    &[],
    "End of the certificate of the admin listener and of the SQL console, in seconds since 1970; missing for a certificate that Sqluice has made.",
);
pub(in super::super) const RECEIVED_BYTES: Metric = metric(
    "sqluice_client_received_bytes_total",
    MetricKind::Counter,
    &[],
    "Bytes from clients that have logged in, before encryption and compression.",
);
pub(in super::super) const SENT_BYTES: Metric = metric(
    "sqluice_client_sent_bytes_total",
    MetricKind::Counter,
    &[],
    "Bytes to clients that have logged in, before encryption and compression.",
);
pub(in super::super) const ERROR_CODES: Metric = metric(
    "sqluice_errors_total",
    MetricKind::Counter,
    &["code"],
    "Queries that ended with an error, by its code, from servers and from Sqluice. Code 0: the server was lost, or more than 128 codes came.",
);
