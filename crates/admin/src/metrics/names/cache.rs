//! The result cache.

use super::{Kind, Metric, metric};

pub(in super::super) const CACHE_ANSWERS: Metric =
    metric("sqluice_cache_answers", Kind::Gauge, &[], "Answers that the result cache keeps.");
pub(in super::super) const CACHE_BYTES: Metric =
    metric("sqluice_cache_bytes", Kind::Gauge, &[], "Memory of these answers, with their keys.");
pub(in super::super) const CACHE_EVICTED: Metric =
    metric("sqluice_cache_evicted_total", Kind::Counter, &[], "Answers that were given up for want of room.");
pub(in super::super) const CACHE_ENDS: Metric = metric(
    "sqluice_cache_ends_total",
    Kind::Counter,
    &["cluster", "by"],
    "Writes that end answers, those that the servers' log tells among them: of known rows (row), of known tables (table), or of nobody knows what (all).",
);
pub(in super::super) const CACHE_RIGHTS: Metric = metric(
    "sqluice_cache_rights_known",
    Kind::Gauge,
    &["cluster"],
    "1 while it is known what users may read, so that those who may read the same share answers; 0 while each has answers of its own. Missing where nobody asks for that.",
);
pub(in super::super) const CACHE_HITS: Metric = metric(
    "sqluice_cache_hits_total",
    Kind::Counter,
    &["rule"],
    "Statements that the result cache answered; where a rule only advises, those that it would have answered.",
);
pub(in super::super) const CACHE_STALE: Metric = metric(
    "sqluice_cache_stale_total",
    Kind::Counter,
    &["rule"],
    "Those of them whose answer was older than the rule's TTL, while another session asked a server anew.",
);
pub(in super::super) const CACHE_MISSES: Metric = metric(
    "sqluice_cache_misses_total",
    Kind::Counter,
    &["rule"],
    "Statements whose answer was not known and was asked of a server to be kept.",
);
pub(in super::super) const CACHE_WAITS: Metric = metric(
    "sqluice_cache_waits_total",
    Kind::Counter,
    &["rule"],
    "Statements that waited for the answer that another session was asking for.",
);
pub(in super::super) const CACHE_KEPT: Metric =
    metric("sqluice_cache_kept_total", Kind::Counter, &["rule"], "Answers that were kept.");
pub(in super::super) const CACHE_SENT: Metric =
    metric("sqluice_cache_sent_bytes_total", Kind::Counter, &["rule"], "Bytes that the result cache gave to clients.");
pub(in super::super) const CACHE_SAVED: Metric = metric(
    "sqluice_cache_saved_seconds_total",
    Kind::Counter,
    &["rule"],
    "Time that servers took for the answers that the result cache gave instead of them.",
);
pub(in super::super) const CACHE_REFUSED: Metric = metric(
    "sqluice_cache_refused_total",
    Kind::Counter,
    &["rule", "reason"],
    "Statements that the result cache did not answer or whose answer it did not keep, by reason.",
);
pub(in super::super) const WARM_KINDS: Metric = metric(
    "sqluice_cache_warm_kinds",
    Kind::Gauge,
    &["warm"],
    "Kinds of clients that are there; the file is run for each of them.",
);
pub(in super::super) const WARM_RUNNING: Metric =
    metric("sqluice_cache_warm_running", Kind::Gauge, &["warm"], "Runs of the file that are under way.");
pub(in super::super) const WARM_RUNS: Metric =
    metric("sqluice_cache_warm_runs_total", Kind::Counter, &["warm"], "Runs of the file that are over.");
pub(in super::super) const WARM_STATEMENTS: Metric = metric(
    "sqluice_cache_warm_statements_total",
    Kind::Counter,
    &["warm", "outcome"],
    "Statements of the file that are done: their answers were kept, were there already, had no rule (without_rule), were not for the cache (refused), or the statements failed.",
);
