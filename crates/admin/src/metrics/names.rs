//! Every metric by name; `docs/reference/metrics.md` shows the same list, and a test compares them.

mod cache;
mod clusters;
mod events;
mod servers;
mod sessions;
mod tier;

pub(super) use cache::*;
pub(super) use clusters::*;
pub(super) use events::*;
pub(super) use servers::*;
pub(super) use sessions::*;
pub(super) use tier::*;

/// The type of a metric for Prometheus.
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
    REFUSED_CLIENTS,
    DELAYED_LOGINS,
    LOGIN_MEMORY,
    LOGIN_MEMORY_WAITS,
    CLIENT_ADDRESSES,
    PREPARED_BYTES,
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
    TIER_TELLS,
    TIER_UNTOLD,
    TIER_CONNECTS,
    TIER_LATENCY,
    EVENTS,
    EVENTS_LOST,
    EVENT_FILE_BYTES,
    EVENT_FILE_LOST,
    EVENT_FILE_FAILURES,
    READS,
    WRITES,
    ERRORS,
    RETRIES,
    OPENED,
    OPEN_FAILURES,
    RELOGINS,
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
    UNSETTLED,
    LEASE_HELD,
    LEASE_ASKED,
    CHANGES_AGE,
    CHANGES,
    CHANGES_LOSSES,
];
