//! Every metric by name; `docs/metrics.md` shows the same list, and a test compares them.

/// What Prometheus is told about a metric's behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values by size.
    Histogram,
}

impl Kind {
    /// Prometheus' word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name.
    pub name: &'static str,
    /// Kind.
    pub kind: Kind,
    /// Names of its labels, in order.
    pub labels: &'static [&'static str],
    /// Meaning.
    pub help: &'static str,
}

const fn metric(name: &'static str, kind: Kind, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind, labels, help }
}

pub(super) const INFO: Metric =
    metric("sqluice_info", Kind::Gauge, &["version"], "Always 1; the label tells the version.");
pub(super) const START_TIME: Metric =
    metric("sqluice_start_time_seconds", Kind::Gauge, &[], "When the process started, in seconds since 1970.");
pub(super) const DRAINING: Metric =
    metric("sqluice_draining", Kind::Gauge, &[], "1 while the process takes no new clients.");
pub(super) const WORKERS: Metric = metric("sqluice_workers", Kind::Gauge, &[], "Worker threads.");
pub(super) const SESSIONS: Metric = metric("sqluice_sessions", Kind::Gauge, &[], "Client sessions now.");
pub(super) const ACCEPTED: Metric = metric("sqluice_clients_accepted_total", Kind::Counter, &[], "Clients accepted.");
pub(super) const LOGINS: Metric = metric("sqluice_logins_total", Kind::Counter, &[], "Logins that succeeded.");
pub(super) const LOGIN_FAILURES: Metric =
    metric("sqluice_login_failures_total", Kind::Counter, &[], "Logins that were refused.");
pub(super) const REQUESTS: Metric =
    metric("sqluice_requests_total", Kind::Counter, &[], "Client requests of any kind.");
pub(super) const UNKNOWN: Metric = metric(
    "sqluice_unknown_statements_total",
    Kind::Counter,
    &[],
    "Statements whose form was not known; they go to the primary.",
);
pub(super) const LOCAL: Metric =
    metric("sqluice_local_answers_total", Kind::Counter, &[], "Requests answered without a server.");
pub(super) const PINS: Metric =
    metric("sqluice_pins", Kind::Gauge, &["reason"], "Sessions pinned to a backend connection now, by reason.");
pub(super) const PINNED: Metric =
    metric("sqluice_pinned_total", Kind::Counter, &["reason"], "Times that a session became pinned, by reason.");
pub(super) const ROUTES: Metric =
    metric("sqluice_routes_total", Kind::Counter, &["reason"], "Routes taken, by reason.");
pub(super) const HOLDING: Metric = metric(
    "sqluice_holding",
    Kind::Gauge,
    &[],
    "Statements that wait for a view with what they need, such as a primary.",
);
pub(super) const HELD: Metric =
    metric("sqluice_held_total", Kind::Counter, &[], "Statements that had to wait for a view.");
pub(super) const HOLD_TIMEOUTS: Metric =
    metric("sqluice_hold_timeouts_total", Kind::Counter, &[], "Statements that waited for a view in vain.");
pub(super) const REPLICA_WAITS: Metric = metric(
    "sqluice_replica_waits_total",
    Kind::Counter,
    &[],
    "Reads that waited for a replica with what their session has written.",
);
pub(super) const REPLICA_WAIT_TIMEOUTS: Metric = metric(
    "sqluice_replica_wait_timeouts_total",
    Kind::Counter,
    &[],
    "Reads that waited for such a replica in vain and went to the primary.",
);
pub(super) const REPLAYS: Metric = metric(
    "sqluice_replays_total",
    Kind::Counter,
    &["result"],
    "Transactions interrupted by the loss of their server, by what became of them: `replayed`, `refused` (could not be tried), `differs` (a reply was another one), `failed` (tried in vain).",
);
pub(super) const IN_DOUBT: Metric = metric(
    "sqluice_in_doubt_total",
    Kind::Counter,
    &[],
    "Statements whose server was lost before it answered, and that may or may not have been done.",
);
pub(super) const WAITING: Metric =
    metric("sqluice_waiting", Kind::Gauge, &[], "Statements that wait for a backend connection.");
pub(super) const WAITED: Metric =
    metric("sqluice_waited_total", Kind::Counter, &[], "Statements that had to wait for a backend connection.");
pub(super) const WAIT_TIMEOUTS: Metric = metric(
    "sqluice_wait_timeouts_total",
    Kind::Counter,
    &[],
    "Statements that waited for a backend connection in vain.",
);
pub(super) const FIX_UPS: Metric = metric(
    "sqluice_fix_ups_total",
    Kind::Counter,
    &[],
    "Times that session state was applied to a backend connection before a statement.",
);
pub(super) const REPREPARES: Metric = metric(
    "sqluice_reprepares_total",
    Kind::Counter,
    &[],
    "Prepared statements prepared again on another backend connection.",
);
pub(super) const MOVED: Metric = metric(
    "sqluice_connections_moved_total",
    Kind::Counter,
    &[],
    "Backend connections moved between workers, counted at both ends.",
);
pub(super) const OWN_ERRORS: Metric =
    metric("sqluice_own_errors_total", Kind::Counter, &[], "Errors that Sqluice itself sent to clients.");
pub(super) const DIGESTS: Metric =
    metric("sqluice_digests", Kind::Gauge, &[], "Entries of the workers' tables of digests.");
pub(super) const DIGESTS_LOST: Metric = metric(
    "sqluice_digests_lost_total",
    Kind::Counter,
    &[],
    "Statements whose digest has no entry, or whose entry was given to another one.",
);
pub(super) const RULE_HITS: Metric = metric(
    "sqluice_rule_hits_total",
    Kind::Counter,
    &["rule"],
    "Statements that the rule was the first to fit; rules that are switched off are left out.",
);
pub(super) const RULE_SEARCHES: Metric = metric(
    "sqluice_rule_searches_total",
    Kind::Counter,
    &[],
    "Statements for which all rules were gone through, because the outcome was not remembered.",
);
pub(super) const CACHE_ANSWERS: Metric =
    metric("sqluice_cache_answers", Kind::Gauge, &[], "Answers that the result cache keeps.");
pub(super) const CACHE_BYTES: Metric =
    metric("sqluice_cache_bytes", Kind::Gauge, &[], "Memory of these answers, with their keys.");
pub(super) const CACHE_EVICTED: Metric =
    metric("sqluice_cache_evicted_total", Kind::Counter, &[], "Answers that were given up for want of room.");
pub(super) const CACHE_HITS: Metric = metric(
    "sqluice_cache_hits_total",
    Kind::Counter,
    &["rule"],
    "Statements that the result cache answered; where a rule only advises, those that it would have answered.",
);
pub(super) const CACHE_STALE: Metric = metric(
    "sqluice_cache_stale_total",
    Kind::Counter,
    &["rule"],
    "Those of them whose answer was older than the rule's TTL, while another session asked a server anew.",
);
pub(super) const CACHE_MISSES: Metric = metric(
    "sqluice_cache_misses_total",
    Kind::Counter,
    &["rule"],
    "Statements whose answer was not known and was asked of a server to be kept.",
);
pub(super) const CACHE_WAITS: Metric = metric(
    "sqluice_cache_waits_total",
    Kind::Counter,
    &["rule"],
    "Statements that waited for the answer that another session was asking for.",
);
pub(super) const CACHE_KEPT: Metric =
    metric("sqluice_cache_kept_total", Kind::Counter, &["rule"], "Answers that were kept.");
pub(super) const CACHE_SENT: Metric =
    metric("sqluice_cache_sent_bytes_total", Kind::Counter, &["rule"], "Bytes that the result cache gave to clients.");
pub(super) const CACHE_SAVED: Metric = metric(
    "sqluice_cache_saved_seconds_total",
    Kind::Counter,
    &["rule"],
    "Time that servers took for the answers that the result cache gave instead of them.",
);
pub(super) const CACHE_REFUSED: Metric = metric(
    "sqluice_cache_refused_total",
    Kind::Counter,
    &["rule", "reason"],
    "Statements that the result cache did not answer or whose answer it did not keep, by reason.",
);
pub(super) const READS: Metric = metric(
    "sqluice_server_reads_total",
    Kind::Counter,
    &["cluster", "server"],
    "Statements sent to the server that only read.",
);
pub(super) const WRITES: Metric = metric(
    "sqluice_server_writes_total",
    Kind::Counter,
    &["cluster", "server"],
    "Statements sent to the server that only a primary may run.",
);
pub(super) const ERRORS: Metric = metric(
    "sqluice_server_errors_total",
    Kind::Counter,
    &["cluster", "server"],
    "Replies of the server that were errors.",
);
pub(super) const RETRIES: Metric = metric(
    "sqluice_server_retries_total",
    Kind::Counter,
    &["cluster", "server"],
    "Statements tried again elsewhere because this server was lost.",
);
pub(super) const OPENED: Metric = metric(
    "sqluice_server_connections_opened_total",
    Kind::Counter,
    &["cluster", "server"],
    "Backend connections opened.",
);
pub(super) const OPEN_FAILURES: Metric = metric(
    "sqluice_server_connection_failures_total",
    Kind::Counter,
    &["cluster", "server"],
    "Backend connections that could not be opened.",
);
pub(super) const CLOSED: Metric = metric(
    "sqluice_server_connections_closed_total",
    Kind::Counter,
    &["cluster", "server"],
    "Backend connections closed, for any reason.",
);
pub(super) const CONNECTIONS: Metric = metric(
    "sqluice_server_connections",
    Kind::Gauge,
    &["cluster", "server", "state"],
    "Backend connections now, by state: used by a session, or idle in the pool.",
);
pub(super) const LATENCY: Metric = metric(
    "sqluice_server_latency_seconds",
    Kind::Histogram,
    &["cluster", "server"],
    "From a statement sent to its reply's end.",
);
pub(super) const VIEW: Metric = metric(
    "sqluice_cluster_view_number",
    Kind::Gauge,
    &["cluster"],
    "Number of the view that routing uses; it grows with each change.",
);
pub(super) const HAS_PRIMARY: Metric = metric(
    "sqluice_cluster_has_primary",
    Kind::Gauge,
    &["cluster"],
    "1 while the cluster has a primary that takes writes.",
);
pub(super) const DIAGNOSIS: Metric = metric(
    "sqluice_cluster_diagnosis",
    Kind::Gauge,
    &["cluster", "diagnosis"],
    "1 while the diagnosis stands; all diagnoses are listed.",
);
pub(super) const UP: Metric =
    metric("sqluice_server_up", Kind::Gauge, &["cluster", "server"], "1 while the server's health is up.");
pub(super) const HEALTH: Metric = metric(
    "sqluice_server_health",
    Kind::Gauge,
    &["cluster", "server", "health"],
    "1 for the server's health: up, suspect, down or draining.",
);
pub(super) const ROLE: Metric = metric(
    "sqluice_server_role",
    Kind::Gauge,
    &["cluster", "server", "role"],
    "1 for the server's role: primary, replica or unknown.",
);
pub(super) const SERVES: Metric =
    metric("sqluice_server_serves_reads", Kind::Gauge, &["cluster", "server"], "1 while reads may go to the server.");
pub(super) const LAG: Metric = metric(
    "sqluice_server_lag_seconds",
    Kind::Gauge,
    &["cluster", "server"],
    "How far the replica is behind the primary; missing while that is not known.",
);
pub(super) const POSITION_AGE: Metric = metric(
    "sqluice_server_position_age_seconds",
    Kind::Gauge,
    &["cluster", "server"],
    "How long ago the server told what it has applied; missing while it tells nothing that can be compared.",
);
pub(super) const ACCOUNTS: Metric =
    metric("sqluice_cluster_accounts", Kind::Gauge, &["cluster"], "Accounts read from the servers.");
pub(super) const ACCOUNTS_READABLE: Metric = metric(
    "sqluice_cluster_accounts_readable",
    Kind::Gauge,
    &["cluster"],
    "1 if the monitor user may read the accounts.",
);
pub(super) const PROBES: Metric =
    metric("sqluice_monitor_probes_total", Kind::Counter, &["cluster", "server"], "Probes that ended, well or badly.");
pub(super) const PROBE_FAILURES: Metric = metric(
    "sqluice_monitor_probe_failures_total",
    Kind::Counter,
    &["cluster", "server", "reason"],
    "Probes that failed, by reason.",
);
pub(super) const PROBE_TIME: Metric = metric(
    "sqluice_monitor_probe_seconds",
    Kind::Gauge,
    &["cluster", "server"],
    "Duration of the last good probe; missing before the first.",
);
pub(super) const ACCOUNTS_FAILURES: Metric = metric(
    "sqluice_monitor_accounts_failures_total",
    Kind::Counter,
    &["cluster"],
    "Times that the accounts could not be read.",
);
pub(super) const CATALOG_FAILURES: Metric = metric(
    "sqluice_monitor_catalog_failures_total",
    Kind::Counter,
    &["cluster"],
    "Times that routines, collations and variables could not be read.",
);
pub(super) const HEARTBEATS: Metric =
    metric("sqluice_monitor_heartbeat_writes_total", Kind::Counter, &["cluster"], "Heartbeats written to the primary.");
pub(super) const HEARTBEAT_FAILURES: Metric = metric(
    "sqluice_monitor_heartbeat_failures_total",
    Kind::Counter,
    &["cluster"],
    "Heartbeats that could not be written.",
);

pub(super) const EPOCH: Metric = metric(
    "sqluice_cluster_epoch",
    Kind::Gauge,
    &["cluster"],
    "Grows by one with each change of primary while the process lives.",
);
pub(super) const HOLDS_WRITES: Metric =
    metric("sqluice_cluster_holds_writes", Kind::Gauge, &["cluster"], "1 while new writes are held for a switchover.");
pub(super) const FENCED: Metric = metric(
    "sqluice_server_fenced",
    Kind::Gauge,
    &["cluster", "server"],
    "1 while no session may use the server, since it takes itself for a primary and is none.",
);
pub(super) const PRIMARY_CHANGES: Metric = metric(
    "sqluice_primary_changes_total",
    Kind::Counter,
    &["cluster"],
    "Changes of the primary after the first one known, whoever made them.",
);
pub(super) const RUNS: Metric = metric(
    "sqluice_failover_runs_total",
    Kind::Counter,
    &["cluster", "kind", "result"],
    "Runs that ended, finished or aborted: failover, switchover, restore (the same primary takes writes again), rejoin.",
);
pub(super) const STEPS: Metric = metric(
    "sqluice_failover_steps_total",
    Kind::Counter,
    &["cluster", "step", "result"],
    "Steps of them that ended, done or failed.",
);
pub(super) const LEASE_HELD: Metric = metric(
    "sqluice_lease_held",
    Kind::Gauge,
    &["cluster"],
    "1 while this process holds the lease; 0 also when none is configured.",
);

pub(super) const LEASE_ASKED: Metric = metric(
    "sqluice_lease_asked_total",
    Kind::Counter,
    &["cluster", "result"],
    "Times the lease was asked for or renewed, by what came of it: held, elsewhere, failed. With locks on servers each lock \
     counts.",
);

pub(super) const CHANGES_AGE: Metric = metric(
    "sqluice_changes_age_seconds",
    Kind::Gauge,
    &["cluster"],
    "How long ago the moment is up to which all changes of the primary have been told to whoever listens; missing while the \
     stream is lost, and when nobody listens.",
);
pub(super) const CHANGES: Metric = metric(
    "sqluice_changes_total",
    Kind::Counter,
    &["cluster", "scope"],
    "Transactions of the primary that were told: of tables that are known, or of everything.",
);
pub(super) const CHANGES_LOSSES: Metric =
    metric("sqluice_changes_losses_total", Kind::Counter, &["cluster"], "Times that the stream of changes was lost.");

/// Every metric, in the order of the page.
pub const METRICS: &[Metric] = &[
    INFO,
    START_TIME,
    DRAINING,
    WORKERS,
    SESSIONS,
    ACCEPTED,
    LOGINS,
    LOGIN_FAILURES,
    REQUESTS,
    UNKNOWN,
    LOCAL,
    PINS,
    PINNED,
    ROUTES,
    HOLDING,
    HELD,
    HOLD_TIMEOUTS,
    REPLICA_WAITS,
    REPLICA_WAIT_TIMEOUTS,
    REPLAYS,
    IN_DOUBT,
    WAITING,
    WAITED,
    WAIT_TIMEOUTS,
    FIX_UPS,
    REPREPARES,
    MOVED,
    OWN_ERRORS,
    DIGESTS,
    DIGESTS_LOST,
    RULE_HITS,
    RULE_SEARCHES,
    CACHE_ANSWERS,
    CACHE_BYTES,
    CACHE_EVICTED,
    CACHE_HITS,
    CACHE_STALE,
    CACHE_MISSES,
    CACHE_WAITS,
    CACHE_KEPT,
    CACHE_SENT,
    CACHE_SAVED,
    CACHE_REFUSED,
    READS,
    WRITES,
    ERRORS,
    RETRIES,
    OPENED,
    OPEN_FAILURES,
    CLOSED,
    CONNECTIONS,
    LATENCY,
    VIEW,
    HAS_PRIMARY,
    DIAGNOSIS,
    UP,
    HEALTH,
    ROLE,
    SERVES,
    LAG,
    POSITION_AGE,
    ACCOUNTS,
    ACCOUNTS_READABLE,
    PROBES,
    PROBE_FAILURES,
    PROBE_TIME,
    ACCOUNTS_FAILURES,
    CATALOG_FAILURES,
    HEARTBEATS,
    HEARTBEAT_FAILURES,
    EPOCH,
    HOLDS_WRITES,
    FENCED,
    PRIMARY_CHANGES,
    RUNS,
    STEPS,
    LEASE_HELD,
    LEASE_ASKED,
    CHANGES_AGE,
    CHANGES,
    CHANGES_LOSSES,
];
