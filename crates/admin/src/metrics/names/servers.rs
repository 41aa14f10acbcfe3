//! Metrics of the workers' contact with servers.

use super::{Metric, MetricKind, metric};

pub(in super::super) const READS: Metric = metric(
    "sqluice_server_reads_total",
    MetricKind::Counter,
    &["cluster", "server"],
    "Statements sent to the server that only read.",
);
pub(in super::super) const WRITES: Metric = metric(
    "sqluice_server_writes_total",
    MetricKind::Counter,
    &["cluster", "server"],
    "Statements sent to the server that need a primary.",
);
pub(in super::super) const ERRORS: Metric = metric(
    "sqluice_server_errors_total",
    MetricKind::Counter,
    &["cluster", "server"],
    "Replies of the server that were errors.",
);
pub(in super::super) const RETRIES: Metric = metric(
    "sqluice_server_retries_total",
    MetricKind::Counter,
    &["cluster", "server"],
    "Statements tried again on another server because this one was lost.",
);
pub(in super::super) const SERVER_SENT_BYTES: Metric = metric(
    "sqluice_server_sent_bytes_total",
    MetricKind::Counter,
    &["cluster", "server"],
    "Bytes of statements that the server ran, before encryption and compression; session state does not count.",
);
pub(in super::super) const SERVER_RECEIVED_BYTES: Metric = metric(
    "sqluice_server_received_bytes_total",
    MetricKind::Counter,
    &["cluster", "server"],
    "Bytes of the server's replies to them, before encryption and compression.",
);
pub(in super::super) const PIPELINED: Metric = metric(
    "sqluice_pipelined_reads_total",
    MetricKind::Counter,
    &["cluster", "server"],
    "Reads that shared a backend connection with reads of other sessions.",
);
pub(in super::super) const PIPELINED_NOW: Metric = metric(
    "sqluice_pipelined_reads_outstanding",
    MetricKind::Gauge,
    &["cluster", "server"],
    "Reads on shared backend connections whose replies are outstanding.",
);
pub(in super::super) const OPENED: Metric = metric(
    "sqluice_server_connections_opened_total",
    MetricKind::Counter,
    &["cluster", "server"],
    "Backend connections opened.",
);
pub(in super::super) const OPEN_FAILURES: Metric = metric(
    "sqluice_server_connection_failures_total",
    MetricKind::Counter,
    &["cluster", "server"],
    "Backend connections that could not be opened.",
);
pub(in super::super) const RELOGINS: Metric = metric(
    "sqluice_server_connection_relogins_total",
    MetricKind::Counter,
    &["cluster", "server"],
    "Backend connections that logged in again, for clients with a later login.",
);
pub(in super::super) const CLOSED: Metric = metric(
    "sqluice_server_connections_closed_total",
    MetricKind::Counter,
    &["cluster", "server"],
    "Backend connections closed, for any reason.",
);
pub(in super::super) const CONNECTIONS: Metric = metric(
    "sqluice_server_connections",
    MetricKind::Gauge,
    &["cluster", "server", "state"],
    "Backend connections now, by state: used by a session, or idle in the pool.",
);
pub(in super::super) const LATENCY: Metric = metric(
    "sqluice_server_latency_seconds",
    MetricKind::Histogram,
    &["cluster", "server"],
    "Time from sending a statement to the end of its reply.",
);
pub(in super::super) const CONNECTIONS_MAX: Metric = metric(
    "sqluice_server_connections_max",
    MetricKind::Gauge,
    &["cluster", "server"],
    "Most backend connections of the process to the server; 0 is no limit.",
);
