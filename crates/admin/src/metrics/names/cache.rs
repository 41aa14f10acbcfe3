//! The result cache.

use super::{Metric, MetricKind, metric};

pub(in super::super) const CACHE_ANSWERS: Metric =
    metric("sqluice_cache_results", MetricKind::Gauge, &[], "Cached results.");
pub(in super::super) const CACHE_BYTES: Metric =
    metric("sqluice_cache_bytes", MetricKind::Gauge, &[], "Memory of the cached results, with their keys.");
pub(in super::super) const CACHE_EVICTED: Metric =
    metric("sqluice_cache_evicted_total", MetricKind::Counter, &[], "Cached results that were removed to make room.");
pub(in super::super) const CACHE_ENDS: Metric = metric(
    "sqluice_cache_invalidations_total",
    MetricKind::Counter,
    &["cluster", "by"],
    "Writes that invalidate results, also those from the binary log: of known rows (row), of known tables (table), or of unknown tables (all).",
);
pub(in super::super) const CACHE_RIGHTS: Metric = metric(
    "sqluice_cache_rights_known",
    MetricKind::Gauge,
    &["cluster"],
    "1 while it is known what users may read, so that those who may read the same share answers; 0 while each has answers of its own. Missing where nobody asks for that.",
);
pub(in super::super) const CACHE_HITS: Metric = metric(
    "sqluice_cache_hits_total",
    MetricKind::Counter,
    &["rule"],
    "Statements that the result cache answered; with `cache = \"advise\"`, those that it would have answered.",
);
pub(in super::super) const CACHE_STALE: Metric = metric(
    "sqluice_cache_stale_total",
    MetricKind::Counter,
    &["rule"],
    "Those whose result was older than the rule's TTL, while another session read it anew.",
);
pub(in super::super) const CACHE_MISSES: Metric = metric(
    "sqluice_cache_misses_total",
    MetricKind::Counter,
    &["rule"],
    "Misses: statements whose result was read from a server to be cached.",
);
pub(in super::super) const CACHE_WAITS: Metric = metric(
    "sqluice_cache_waits_total",
    MetricKind::Counter,
    &["rule"],
    "Statements that waited for another session to read the result.",
);
pub(in super::super) const CACHE_KEPT: Metric =
    metric("sqluice_cache_stored_total", MetricKind::Counter, &["rule"], "Results that were cached.");
pub(in super::super) const CACHE_SENT: Metric = metric(
    "sqluice_cache_sent_bytes_total",
    MetricKind::Counter,
    &["rule"],
    "Bytes that the result cache sent to clients.",
);
pub(in super::super) const CACHE_SAVED: Metric = metric(
    "sqluice_cache_saved_seconds_total",
    MetricKind::Counter,
    &["rule"],
    "Server time that the result cache saved.",
);
pub(in super::super) const CACHE_REFUSED: Metric = metric(
    "sqluice_cache_refused_total",
    MetricKind::Counter,
    &["rule", "reason"],
    "Statements that the result cache did not answer or did not cache, by reason.",
);
pub(in super::super) const WARM_KINDS: Metric = metric(
    "sqluice_cache_warm_client_kinds",
    MetricKind::Gauge,
    &["warm"],
    "Kinds of connected clients; the file runs for each kind.",
);
pub(in super::super) const WARM_RUNNING: Metric =
    metric("sqluice_cache_warm_running", MetricKind::Gauge, &["warm"], "Runs of the file now.");
pub(in super::super) const WARM_RUNS: Metric =
    metric("sqluice_cache_warm_runs_total", MetricKind::Counter, &["warm"], "Finished runs of the file.");
pub(in super::super) const WARM_STATEMENTS: Metric = metric(
    "sqluice_cache_warm_statements_total",
    MetricKind::Counter,
    &["warm", "outcome"],
    "Statements of the file by result: cached now (kept), cached before (there), without a rule (without_rule), not cacheable (refused), failed.",
);
