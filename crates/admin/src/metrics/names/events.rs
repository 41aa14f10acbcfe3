//! Metrics of events.

use super::{Kind, Metric, metric};

pub(in super::super) const EVENTS: Metric =
    metric("sqluice_events_total", Kind::Counter, &["kind"], "Events of queries, and of logins and their ends.");
pub(in super::super) const EVENTS_LOST: Metric = metric(
    "sqluice_events_lost_total",
    Kind::Counter,
    &[],
    "Events that were lost because more came than could be written; the log has a gap event for them.",
);
pub(in super::super) const EVENT_FILE_BYTES: Metric =
    metric("sqluice_events_file_bytes_total", Kind::Counter, &[], "Bytes that were written to the file of events.");
pub(in super::super) const EVENT_FILE_LOST: Metric = metric(
    "sqluice_events_file_lost_total",
    Kind::Counter,
    &[],
    "Events that are not in the file because it could not be written for too long; it has a gap event for them.",
);
pub(in super::super) const EVENT_FILE_FAILURES: Metric = metric(
    "sqluice_events_file_failures_total",
    Kind::Counter,
    &[],
    "Failed writes to the file of events. The events wait in memory, up to 8 MiB.",
);
