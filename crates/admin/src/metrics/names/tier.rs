//! The result cache's shared tier.

use super::{Metric, MetricKind, metric};

pub(in super::super) const TIER_STATE: Metric = metric(
    "sqluice_cache_tier_state",
    MetricKind::Gauge,
    &["state"],
    "1 for the state of the shared tier: serves, slow (it has not answered in time) or away; 0 for the others.",
);
pub(in super::super) const TIER_MEMBERS: Metric =
    metric("sqluice_cache_tier_members", MetricKind::Gauge, &[], "Members of the shared cache: Sqluice processes.");
pub(in super::super) const TIER_QUESTIONS: Metric = metric(
    "sqluice_cache_tier_lookups_total",
    MetricKind::Counter,
    &["outcome"],
    "Requests to the shared cache, by result: found, good (the result in memory is valid), missed, closed (a member is missing), unasked, timeout, error.",
);
pub(in super::super) const TIER_PUTS: Metric = metric(
    "sqluice_cache_tier_puts_total",
    MetricKind::Counter,
    &["outcome"],
    "Results sent to the shared cache (kept), or dropped because too many waited (dropped).",
);
pub(in super::super) const TIER_REPORTS: Metric = metric(
    "sqluice_cache_tier_notices_total",
    MetricKind::Counter,
    &[],
    "Commands that reported writes to the shared cache; one reports all writes that came together.",
);
pub(in super::super) const TIER_UNREPORTED: Metric = metric(
    "sqluice_cache_tier_notices_dropped_total",
    MetricKind::Counter,
    &[],
    "Writes that did not reach the shared cache: their clients waited until no process could use older results.",
);
pub(in super::super) const TIER_CONNECTS: Metric =
    metric("sqluice_cache_tier_connects_total", MetricKind::Counter, &[], "Connections opened to the shared cache.");
pub(in super::super) const TIER_LATENCY: Metric = metric(
    "sqluice_cache_tier_latency_seconds",
    MetricKind::Histogram,
    &[],
    "Time from a request to the shared cache's reply.",
);
