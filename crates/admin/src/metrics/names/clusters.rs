//! Metrics of the control plane.

use super::{Metric, MetricKind, metric};

pub(in super::super) const VIEW: Metric = metric(
    "sqluice_cluster_view_number",
    MetricKind::Gauge,
    &["cluster"],
    "Number of the view that routing uses; it grows with each change.",
);
pub(in super::super) const HAS_PRIMARY: Metric = metric(
    "sqluice_cluster_has_primary",
    MetricKind::Gauge,
    &["cluster"],
    "1 while the cluster has a primary that takes writes.",
);
pub(in super::super) const DIAGNOSIS: Metric = metric(
    "sqluice_cluster_diagnosis",
    MetricKind::Gauge,
    &["cluster", "diagnosis"],
    "1 while the diagnosis stands; all diagnoses are listed.",
);
pub(in super::super) const UP: Metric =
    metric("sqluice_server_up", MetricKind::Gauge, &["cluster", "server"], "1 while the server's health is up.");
pub(in super::super) const HEALTH: Metric = metric(
    "sqluice_server_health",
    MetricKind::Gauge,
    &["cluster", "server", "health"],
    "1 for the server's health: up, suspect, down, draining or maintenance.",
);
pub(in super::super) const ROLE: Metric = metric(
    "sqluice_server_role",
    MetricKind::Gauge,
    &["cluster", "server", "role"],
    "1 for the server's role: primary, replica or unknown.",
);
pub(in super::super) const SERVES: Metric = metric(
    "sqluice_server_serves_reads",
    MetricKind::Gauge,
    &["cluster", "server"],
    "1 while reads may go to the server.",
);
pub(in super::super) const LAG: Metric = metric(
    "sqluice_server_lag_seconds",
    MetricKind::Gauge,
    &["cluster", "server"],
    "Lag of the replica behind the primary; missing while it is unknown.",
);
pub(in super::super) const POSITION_AGE: Metric = metric(
    "sqluice_server_position_age_seconds",
    MetricKind::Gauge,
    &["cluster", "server"],
    "Age of the server's last known position; missing while it has none that can be compared.",
);
pub(in super::super) const ACCOUNTS: Metric =
    metric("sqluice_cluster_accounts", MetricKind::Gauge, &["cluster"], "Accounts read from the servers.");
pub(in super::super) const ACCOUNTS_READABLE: Metric = metric(
    "sqluice_cluster_accounts_readable",
    MetricKind::Gauge,
    &["cluster"],
    "1 if the monitor user may read the accounts.",
);
pub(in super::super) const PROBES: Metric = metric(
    "sqluice_monitor_probes_total",
    MetricKind::Counter,
    &["cluster", "server"],
    "Finished probes, good and failed.",
);
pub(in super::super) const PROBE_FAILURES: Metric = metric(
    "sqluice_monitor_probe_failures_total",
    MetricKind::Counter,
    &["cluster", "server", "reason"],
    "Probes that failed, by reason.",
);
pub(in super::super) const PROBE_TIME: Metric = metric(
    "sqluice_monitor_probe_seconds",
    MetricKind::Gauge,
    &["cluster", "server"],
    "Duration of the last good probe; missing before the first.",
);
pub(in super::super) const ACCOUNTS_FAILURES: Metric = metric(
    "sqluice_monitor_accounts_failures_total",
    MetricKind::Counter,
    &["cluster"],
    "Failed readings of the accounts.",
);
pub(in super::super) const CATALOG_FAILURES: Metric = metric(
    "sqluice_monitor_catalog_failures_total",
    MetricKind::Counter,
    &["cluster"],
    "Failed readings of routines, collations and variables.",
);
pub(in super::super) const HEARTBEATS: Metric = metric(
    "sqluice_monitor_heartbeat_writes_total",
    MetricKind::Counter,
    &["cluster"],
    "Heartbeats written to the primary.",
);
pub(in super::super) const HEARTBEAT_FAILURES: Metric =
    metric("sqluice_monitor_heartbeat_failures_total", MetricKind::Counter, &["cluster"], "Failed heartbeats.");
pub(in super::super) const EPOCH: Metric = metric(
    "sqluice_cluster_epoch",
    MetricKind::Gauge,
    &["cluster"],
    "Grows by one with each change of primary while the process lives. Numbers may be left out at a restart.",
);
pub(in super::super) const HOLDS_WRITES: Metric = metric(
    "sqluice_cluster_holds_writes",
    MetricKind::Gauge,
    &["cluster"],
    "1 while new writes are held for a switchover.",
);
pub(in super::super) const FENCED: Metric = metric(
    "sqluice_server_fenced",
    MetricKind::Gauge,
    &["cluster", "server"],
    "1 while no session may use the server, because it takes writes and is not the primary.",
);
pub(in super::super) const PRIMARY_CHANGES: Metric = metric(
    "sqluice_primary_changes_total",
    MetricKind::Counter,
    &["cluster"],
    "Changes of the primary after the first known one, also by other tools.",
);
pub(in super::super) const FAILOVER_STATE: Metric = metric(
    "sqluice_failover_state",
    MetricKind::Gauge,
    &["cluster", "state"],
    "1 for the state of automatic failover, else 0: armed, cooling_down (after a promotion), stopped (after failed attempts), off (another mode).",
);
pub(in super::super) const COOLDOWN: Metric = metric(
    "sqluice_failover_cooldown_seconds",
    MetricKind::Gauge,
    &["cluster"],
    "Time until the cool-down after a promotion is over; 0 without one.",
);
pub(in super::super) const JOURNAL_FAILURES: Metric = metric(
    "sqluice_journal_failures_total",
    MetricKind::Counter,
    &["cluster"],
    "Lines that the file of the journal lacks, and openings of it that failed.",
);
pub(in super::super) const RUNS: Metric = metric(
    "sqluice_failover_runs_total",
    MetricKind::Counter,
    &["cluster", "kind", "result"],
    "Finished and aborted runs: failover, switchover, restore (the same primary takes writes again), rejoin.",
);
pub(in super::super) const STEPS: Metric = metric(
    "sqluice_failover_steps_total",
    MetricKind::Counter,
    &["cluster", "step", "result"],
    "Steps of runs, done or failed.",
);
pub(in super::super) const UNSETTLED: Metric = metric(
    "sqluice_failover_unsettled_total",
    MetricKind::Counter,
    &["cluster"],
    "Runs that did not settle within their limit of turns. A value above 0 is a bug; please report it.",
);
pub(in super::super) const LEASE_HELD: Metric = metric(
    "sqluice_lease_held",
    MetricKind::Gauge,
    &["cluster"],
    "1 while this process holds the lease; 0 also when none is configured.",
);
pub(in super::super) const LEASE_ASKED: Metric = metric(
    "sqluice_lease_requests_total",
    MetricKind::Counter,
    &["cluster", "result"],
    "Attempts to get or renew the lease, by result: held, elsewhere, failed. With locks on servers each lock counts.",
);
pub(in super::super) const CHANGES_AGE: Metric = metric(
    "sqluice_changes_age_seconds",
    MetricKind::Gauge,
    &["cluster"],
    "Age of the moment up to which Sqluice has read all changes of the primary; missing while it follows no log.",
);
pub(in super::super) const CHANGES: Metric = metric(
    "sqluice_changes_total",
    MetricKind::Counter,
    &["cluster", "scope"],
    "Transactions read from the primary's log: of known tables (tables), or of unknown ones (everything).",
);
pub(in super::super) const CHANGES_LOSSES: Metric = metric(
    "sqluice_changes_losses_total",
    MetricKind::Counter,
    &["cluster"],
    "Times that the stream of changes was lost.",
);
pub(in super::super) const FAILOVER_MODE: Metric = metric(
    "sqluice_failover_mode",
    MetricKind::Gauge,
    &["cluster", "mode"],
    "1 for the mode of failover, as configured.",
);
