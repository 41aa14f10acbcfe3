//! Every metric by name; `docs/reference/metrics.md` shows the same list, and a test compares them.

mod cache;
mod clusters;
mod events;
mod history;
mod process;
mod servers;
mod sessions;
mod tier;

pub(super) use cache::*;
pub(super) use clusters::*;
pub(super) use events::*;
pub(super) use history::*;
pub(super) use process::*;
pub(super) use servers::*;
pub(super) use sessions::*;
pub(super) use tier::*;

/// The type of a metric for Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values by size.
    Histogram,
}

impl MetricKind {
    /// Prometheus' word.
    pub fn word(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name.
    pub name: &'static str,
    /// Kind.
    pub kind: MetricKind,
    /// Names of its labels, in order.
    pub labels: &'static [&'static str],
    /// Meaning.
    pub help: &'static str,
}

const fn metric(name: &'static str, kind: MetricKind, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind, labels, help }
}

/// Every metric, in the order of the page.
pub const METRICS: &[Metric] = &[
    INFO,
    START_TIME,
    CPU,
    RESIDENT,
    VIRTUAL,
    OPEN_FILES,
    OPEN_FILES_MAX,
    THREADS,
    RELOADS,
    RELOAD_GOOD,
    RELOAD_TIME,
    DRAINING,
    WORKERS,
    SESSIONS,
    ACCEPTED,
    LOGINS,
    LOGIN_FAILURES,
    REFUSED_CLIENTS,
    DELAYED_LOGINS,
    LOGIN_MEMORY,
    LOGIN_MEMORY_WAITS,
    CLIENT_ADDRESSES,
    PREPARED_BYTES,
    COMMAND_BYTES,
    REQUESTS,
    UNKNOWN,
    LOCAL,
    PINS,
    PINNED,
    ROUTES,
    UNPIPELINED,
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
    USER_WAITING,
    USER_WAITED,
    USER_WAIT_TIMEOUTS,
    FIX_UPS,
    REPREPARES,
    SESSIONS_MOVED,
    MOVED,
    RECEIVED_BYTES,
    SENT_BYTES,
    OWN_ERRORS,
    ERROR_CODES,
    DIGESTS,
    DIGESTS_LOST,
    SESSIONS_BY_STATE,
    LISTENER_SESSIONS,
    LISTENER_SESSIONS_MAX,
    LISTENER_LOGINS,
    LISTENER_LOGIN_FAILURES,
    LISTENER_RECEIVED_BYTES,
    LISTENER_SENT_BYTES,
    LISTENER_QUERIES,
    LISTENER_ERRORS,
    OLDEST_QUERY,
    OLDEST_TRANSACTION,
    CERTIFICATE_END,
    ADMIN_CERTIFICATE_END,
    RULE_HITS,
    RULE_SEARCHES,
    CACHE_ANSWERS,
    CACHE_BYTES,
    CACHE_EVICTED,
    CACHE_ENDS,
    CACHE_RIGHTS,
    CACHE_HITS,
    CACHE_STALE,
    CACHE_MISSES,
    CACHE_WAITS,
    CACHE_KEPT,
    CACHE_SENT,
    CACHE_SAVED,
    CACHE_REFUSED,
    WARM_KINDS,
    WARM_RUNNING,
    WARM_RUNS,
    WARM_STATEMENTS,
    TIER_STATE,
    TIER_MEMBERS,
    TIER_QUESTIONS,
    TIER_PUTS,
    TIER_REPORTS,
    TIER_UNREPORTED,
    TIER_CONNECTS,
    TIER_LATENCY,
    EVENTS,
    EVENTS_LOST,
    EVENT_WAITS,
    EVENT_SINK_WRITTEN,
    EVENT_SINK_BYTES,
    EVENT_SINK_FAILURES,
    EVENT_SINK_DROPPED,
    EVENT_SINK_BEHIND,
    EVENT_SPOOL_BYTES,
    EVENT_SPOOL_FAILURES,
    EVENT_SPOOL_LOST,
    EVENT_SPOOL_REMOVED,
    EVENT_SPOOL_DAMAGED,
    HISTORY_BYTES,
    HISTORY_FAILURES,
    HISTORY_LEFT_OUT,
    READS,
    WRITES,
    ERRORS,
    RETRIES,
    SERVER_SENT_BYTES,
    SERVER_RECEIVED_BYTES,
    PIPELINED,
    PIPELINED_NOW,
    OPENED,
    OPEN_FAILURES,
    RELOGINS,
    CLOSED,
    CONNECTIONS,
    CONNECTIONS_MAX,
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
    FAILOVER_MODE,
    FAILOVER_STATE,
    COOLDOWN,
    JOURNAL_FAILURES,
    RUNS,
    STEPS,
    UNSETTLED,
    LEASE_HELD,
    LEASE_ASKED,
    CHANGES_AGE,
    CHANGES,
    CHANGES_LOSSES,
];
