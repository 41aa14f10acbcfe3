//! The result cache's shared tier.

use super::{Kind, Metric, metric};

pub(in super::super) const TIER_STATE: Metric = metric(
    "sqluice_cache_tier_state",
    Kind::Gauge,
    &["state"],
    "1 for the state of the shared tier: serves, slow (it has not answered in time) or away; 0 for the others.",
);
pub(in super::super) const TIER_MEMBERS: Metric =
    metric("sqluice_cache_tier_members", Kind::Gauge, &[], "Processes that are members of the shared tier.");
pub(in super::super) const TIER_QUESTIONS: Metric = metric(
    "sqluice_cache_tier_questions_total",
    Kind::Counter,
    &["outcome"],
    "Questions to the shared tier: found, good (the answer in memory is), missed, closed (a member is missing), unasked, timeout, error.",
);
pub(in super::super) const TIER_PUTS: Metric = metric(
    "sqluice_cache_tier_puts_total",
    Kind::Counter,
    &["outcome"],
    "Answers that were put into the shared tier (kept), or for which there was no room on the way (dropped).",
);
pub(in super::super) const TIER_TELLS: Metric = metric(
    "sqluice_cache_tier_tells_total",
    Kind::Counter,
    &[],
    "Commands that told the shared tier of writes; one tells of all that came together.",
);
pub(in super::super) const TIER_UNTOLD: Metric = metric(
    "sqluice_cache_tier_untold_total",
    Kind::Counter,
    &[],
    "Writes that the shared tier could not be told of: their clients waited until nobody could be given an older answer.",
);
pub(in super::super) const TIER_CONNECTS: Metric =
    metric("sqluice_cache_tier_connects_total", Kind::Counter, &[], "Connections to the shared tier that were made.");
pub(in super::super) const TIER_LATENCY: Metric = metric(
    "sqluice_cache_tier_latency_seconds",
    Kind::Histogram,
    &[],
    "Time from a question to the shared tier's answer.",
);
