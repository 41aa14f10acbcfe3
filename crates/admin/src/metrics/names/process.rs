//! Metrics of the process.

use super::{Metric, MetricKind, metric};

pub(in super::super) const INFO: Metric =
    metric("sqluice_build_info", MetricKind::Gauge, &["version"], "Always 1; the label has the version.");
pub(in super::super) const START_TIME: Metric =
    metric("process_start_time_seconds", MetricKind::Gauge, &[], "Start of the process, in seconds since 1970.");
pub(in super::super) const DRAINING: Metric =
    metric("sqluice_draining", MetricKind::Gauge, &[], "1 while the process takes no new clients.");
pub(in super::super) const WORKERS: Metric = metric("sqluice_workers", MetricKind::Gauge, &[], "Worker threads.");
pub(in super::super) const CPU: Metric =
    metric("process_cpu_seconds_total", MetricKind::Counter, &[], "CPU time of the process, user and system.");
pub(in super::super) const RESIDENT: Metric =
    metric("process_resident_memory_bytes", MetricKind::Gauge, &[], "Memory of the process that is in RAM.");
pub(in super::super) const VIRTUAL: Metric =
    metric("process_virtual_memory_bytes", MetricKind::Gauge, &[], "Address space of the process.");
pub(in super::super) const OPEN_FILES: Metric =
    metric("process_open_fds", MetricKind::Gauge, &[], "Open file descriptors.");
pub(in super::super) const OPEN_FILES_MAX: Metric = metric(
    "process_max_fds",
    MetricKind::Gauge,
    &[],
    "Most file descriptors that the process may open; -1 is no limit.",
);
pub(in super::super) const THREADS: Metric =
    metric("process_threads", MetricKind::Gauge, &[], "Threads of the process.");
pub(in super::super) const RELOADS: Metric = metric(
    "sqluice_config_reloads_total",
    MetricKind::Counter,
    &["result"],
    "Reloads of the configuration: good, or refused with the old one in effect.",
);
pub(in super::super) const RELOAD_GOOD: Metric = metric(
    "sqluice_config_last_reload_successful",
    MetricKind::Gauge,
    &[],
    "1 if the last reload took effect, or none was asked for; 0 if it was refused.",
);
pub(in super::super) const RELOAD_TIME: Metric = metric(
    "sqluice_config_last_reload_success_timestamp_seconds",
    MetricKind::Gauge,
    &[],
    "Time of the last configuration that took effect, at the start or a reload, in seconds since 1970.",
);
