//! Metrics of the history.

use super::{Metric, MetricKind, metric};

pub(in super::super) const HISTORY_BYTES: Metric =
    metric("sqluice_history_bytes", MetricKind::Gauge, &[], "Size of the file of history.");
pub(in super::super) const HISTORY_FAILURES: Metric = metric(
    "sqluice_history_failures_total",
    MetricKind::Counter,
    &[],
    "Failed writes to the file of history: the figures of 10 seconds are missing.",
);
pub(in super::super) const HISTORY_LEFT_OUT: Metric = metric(
    "sqluice_history_left_out_total",
    MetricKind::Counter,
    &[],
    "Figures that the history has no room for: it has 2,000 series.",
);
