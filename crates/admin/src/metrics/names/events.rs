//! Metrics of events.

use super::{Metric, MetricKind, metric};

pub(in super::super) const EVENTS: Metric = metric(
    "sqluice_events_total",
    MetricKind::Counter,
    &["kind"],
    "Events of queries, of logins and their ends, and of operators' orders.",
);
pub(in super::super) const EVENTS_LOST: Metric = metric(
    "sqluice_events_lost_total",
    MetricKind::Counter,
    &[],
    "Events that were lost because more came than could be written; the log has a gap event for them.",
);
pub(in super::super) const EVENT_WAITS: Metric = metric(
    "sqluice_events_waits_total",
    MetricKind::Counter,
    &[],
    "Waits of sessions for room for events (events.when_full = \"wait\").",
);
pub(in super::super) const EVENT_SINK_WRITTEN: Metric =
    metric("sqluice_events_sink_written_total", MetricKind::Counter, &["sink"], "Events that a sink has written.");
pub(in super::super) const EVENT_SINK_BYTES: Metric =
    metric("sqluice_events_sink_bytes_total", MetricKind::Counter, &["sink"], "Bytes of these events.");
pub(in super::super) const EVENT_SINK_FAILURES: Metric = metric(
    "sqluice_events_sink_failures_total",
    MetricKind::Counter,
    &["sink"],
    "Writes of a sink that failed. Sqluice tries them again every second; the events wait.",
);
pub(in super::super) const EVENT_SINK_DROPPED: Metric = metric(
    "sqluice_events_sink_dropped_total",
    MetricKind::Counter,
    &["sink"],
    "Events that a sink lacks because they waited too long; it has a gap event for them.",
);
pub(in super::super) const EVENT_SINK_BEHIND: Metric = metric(
    "sqluice_events_sink_behind_seconds",
    MetricKind::Gauge,
    &["sink"],
    "Age of the oldest event that a sink has not written yet.",
);
pub(in super::super) const EVENT_SPOOL_BYTES: Metric =
    metric("sqluice_events_spool_bytes", MetricKind::Gauge, &[], "Size of the spool of events.");
pub(in super::super) const EVENT_SPOOL_FAILURES: Metric = metric(
    "sqluice_events_spool_failures_total",
    MetricKind::Counter,
    &[],
    "Failed writes to the spool of events. The events wait in memory, up to 8 MiB.",
);
pub(in super::super) const EVENT_SPOOL_LOST: Metric = metric(
    "sqluice_events_spool_lost_total",
    MetricKind::Counter,
    &[],
    "Events that are not in the spool because it could not be written for too long; sinks have a gap event for them.",
);
pub(in super::super) const EVENT_SPOOL_REMOVED: Metric = metric(
    "sqluice_events_spool_removed_unread_total",
    MetricKind::Counter,
    &[],
    "Events that left the spool, because it was full or they were too old, before every sink had them.",
);
pub(in super::super) const EVENT_SPOOL_DAMAGED: Metric = metric(
    "sqluice_events_spool_damaged_total",
    MetricKind::Counter,
    &[],
    "Damaged places that a sink found in the spool; it has a gap event for the events there.",
);
