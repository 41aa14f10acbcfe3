//! The problems of a cluster, by name and in words.

use std::fmt;
use std::sync::Arc;

/// A named finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Diagnosis {
    /// No server answers.
    AllDown,
    /// The primary does not answer, and no other server took its place.
    PrimaryDown(Arc<str>),
    /// The primary became read-only, and no other server took its place.
    PrimaryReadOnly(Arc<str>),
    /// No server takes writes: the servers that do not serve the monitor, of which nobody knows.
    NoPrimary(Vec<Arc<str>>),
    /// Several servers take writes and nothing tells which one is meant.
    TwoPrimaries(Vec<Arc<str>>),
    /// A server takes writes beside the primary.
    StrayWritable(Arc<str>),
    /// A replica takes writes of ordinary users.
    WritableReplica(Arc<str>),
    /// The single server of the cluster is read-only.
    StandaloneReadOnly(Arc<str>),
    /// A replica's replication does not run.
    ReplicationBroken(Arc<str>),
    /// A server follows one that is not of this cluster.
    ForeignSource(Arc<str>),
    /// The monitor is not served, although the server lives: refused login, no connection left, missing rights.
    MonitorRefused(Arc<str>),
    /// A server takes statements of administrators only.
    Offline(Arc<str>),
    /// Several servers have the same `server_id`.
    DuplicateServerId(Vec<Arc<str>>),
    /// MariaDB and MySQL servers in one cluster.
    MixedFamilies,
    /// The primary does not answer and its replicas have lost it.
    PrimaryDead(Arc<str>),
    /// The primary's host takes connections, it says nothing, and its replicas hear nothing.
    PrimaryFrozen(Arc<str>),
    /// The primary does not answer here, but the second server still hears it.
    PrimaryUnreachable(Arc<str>, Arc<str>),
    /// A server that takes writes lacks what another one has, in words.
    PrimaryBehind(Arc<str>, Arc<str>),
    /// The primary says that its disk is full: its words.
    DiskFull(Arc<str>, Arc<str>),
    /// The primary answers and writes nothing: why, as far as is known.
    CannotWrite(Arc<str>, Arc<str>),
    /// A failover is due and not allowed or not possible, in words.
    FailoverBlocked(Arc<str>),
    /// A server has transactions that the primary lacks: which.
    ServerAhead(Arc<str>, Arc<str>),
    /// A replica hears from an idle source so seldom that a host which vanishes is noticed late: how often, in seconds; 0 is
    /// never.
    SlowHeartbeat(Arc<str>, u64),
    /// A server's binary log has rows without the statements that wrote them, by which writes in doubt are proven.
    StatementsUnlogged(Arc<str>),
    /// The primary's event scheduler is off, and another server's is on: the primary, the other one.
    EventsStopped(Arc<str>, Arc<str>),
    /// No server that answers belongs to the primary component of a Galera group and serves.
    NoPrimaryComponent,
    /// A member's binary log does not tell what became of writes in doubt: the settings that it lacks.
    OutcomesUnproven(Arc<str>, Arc<str>),
    /// A server does not belong to the Galera group, or not fully: why.
    OutOfGroup(Arc<str>, Arc<str>),
    /// Servers of one cluster belong to several Galera groups.
    TwoGroups(Vec<Arc<str>>),
    /// A member of a Galera group is a donor or desynced.
    Donor(Arc<str>),
    /// A member of a Galera group refuses statements on purpose.
    RejectsQueries(Arc<str>),
    /// No SQL node of an NDB cluster that answers is connected to data nodes.
    NoDataNodes,
    /// No data node of these node groups of an NDB cluster has started: their numbers.
    NodeGroupDown(Arc<str>),
}

impl Diagnosis {
    /// The names of all diagnoses.
    pub const NAMES: [&'static str; 33] = [
        "all_down",
        "primary_down",
        "primary_read_only",
        "no_primary",
        "two_primaries",
        "stray_writable",
        "writable_replica",
        "standalone_read_only",
        "replication_broken",
        "foreign_source",
        "monitor_refused",
        "offline",
        "duplicate_server_id",
        "mixed_families",
        "primary_dead",
        "primary_frozen",
        "primary_unreachable",
        "primary_behind",
        "disk_full",
        "cannot_write",
        "failover_blocked",
        "server_ahead",
        "slow_heartbeat",
        "statements_unlogged",
        "events_stopped",
        "outcomes_unproven",
        "no_primary_component",
        "out_of_group",
        "two_groups",
        "donor",
        "rejects_queries",
        "no_data_nodes",
        "node_group_down",
    ];

    /// The name that metrics and logs use.
    pub fn name(&self) -> &'static str {
        match self {
            Diagnosis::AllDown => "all_down",
            Diagnosis::PrimaryDown(_) => "primary_down",
            Diagnosis::PrimaryReadOnly(_) => "primary_read_only",
            Diagnosis::NoPrimary(_) => "no_primary",
            Diagnosis::TwoPrimaries(_) => "two_primaries",
            Diagnosis::StrayWritable(_) => "stray_writable",
            Diagnosis::WritableReplica(_) => "writable_replica",
            Diagnosis::StandaloneReadOnly(_) => "standalone_read_only",
            Diagnosis::ReplicationBroken(_) => "replication_broken",
            Diagnosis::ForeignSource(_) => "foreign_source",
            Diagnosis::MonitorRefused(_) => "monitor_refused",
            Diagnosis::Offline(_) => "offline",
            Diagnosis::DuplicateServerId(_) => "duplicate_server_id",
            Diagnosis::MixedFamilies => "mixed_families",
            Diagnosis::PrimaryDead(_) => "primary_dead",
            Diagnosis::PrimaryFrozen(_) => "primary_frozen",
            Diagnosis::PrimaryUnreachable(..) => "primary_unreachable",
            Diagnosis::PrimaryBehind(..) => "primary_behind",
            Diagnosis::DiskFull(..) => "disk_full",
            Diagnosis::CannotWrite(..) => "cannot_write",
            Diagnosis::FailoverBlocked(_) => "failover_blocked",
            Diagnosis::ServerAhead(..) => "server_ahead",
            Diagnosis::SlowHeartbeat(..) => "slow_heartbeat",
            Diagnosis::StatementsUnlogged(_) => "statements_unlogged",
            Diagnosis::EventsStopped(..) => "events_stopped",
            Diagnosis::NoPrimaryComponent => "no_primary_component",
            Diagnosis::OutcomesUnproven(..) => "outcomes_unproven",
            Diagnosis::OutOfGroup(..) => "out_of_group",
            Diagnosis::TwoGroups(_) => "two_groups",
            Diagnosis::Donor(_) => "donor",
            Diagnosis::RejectsQueries(_) => "rejects_queries",
            Diagnosis::NoDataNodes => "no_data_nodes",
            Diagnosis::NodeGroupDown(_) => "node_group_down",
        }
    }

    /// Traffic suffers from it now.
    pub fn is_severe(&self) -> bool {
        matches!(
            self,
            Diagnosis::AllDown
                | Diagnosis::PrimaryDown(_)
                | Diagnosis::PrimaryReadOnly(_)
                | Diagnosis::NoPrimary(_)
                | Diagnosis::TwoPrimaries(_)
                | Diagnosis::PrimaryDead(_)
                | Diagnosis::PrimaryFrozen(_)
                | Diagnosis::PrimaryUnreachable(..)
                | Diagnosis::PrimaryBehind(..)
                | Diagnosis::DiskFull(..)
                | Diagnosis::CannotWrite(..)
                | Diagnosis::FailoverBlocked(_)
                | Diagnosis::NoPrimaryComponent
                | Diagnosis::TwoGroups(_)
                | Diagnosis::NoDataNodes
                | Diagnosis::NodeGroupDown(_)
        )
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.finding(f)?;
        f.write_str(self.consequence())
    }
}

impl Diagnosis {
    /// Writes how things are.
    fn finding(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Diagnosis::AllDown => write!(f, "no server answers"),
            Diagnosis::PrimaryDown(name) => write!(f, "primary {name} is down"),
            Diagnosis::PrimaryReadOnly(name) => write!(f, "primary {name} became read-only"),
            Diagnosis::NoPrimary(unserved) => f.write_str(&no_primary(unserved)),
            Diagnosis::TwoPrimaries(names) => write!(
                f,
                "{} all take writes, none follows another, and their replicas don't tell which one is meant",
                names.join(", ")
            ),
            Diagnosis::StrayWritable(name) => write!(f, "{name} takes writes beside the primary; it gets no traffic"),
            Diagnosis::WritableReplica(name) => write!(f, "replica {name} has read_only off"),
            Diagnosis::StandaloneReadOnly(name) => write!(f, "{name} has read_only on"),
            Diagnosis::ReplicationBroken(name) => write!(f, "replication of {name} does not run"),
            Diagnosis::ForeignSource(name) => write!(f, "{name} replicates from a server that is not of this cluster"),
            Diagnosis::MonitorRefused(name) => write!(f, "{name} lives, but does not serve the monitor"),
            Diagnosis::Offline(name) => write!(f, "{name} has offline_mode on"),
            Diagnosis::DuplicateServerId(names) => write!(f, "{} have the same server_id", names.join(", ")),
            Diagnosis::MixedFamilies => write!(f, "MariaDB and MySQL servers in one cluster"),
            Diagnosis::PrimaryDead(name) => write!(f, "primary {name} does not answer, and its replicas have lost it"),
            Diagnosis::PrimaryFrozen(name) => write!(
                f,
                "the host of primary {name} takes connections, {name} says nothing, and its replicas hear nothing"
            ),
            Diagnosis::PrimaryUnreachable(name, by) => {
                write!(f, "primary {name} does not answer here, but {by} still hears it")
            }
            Diagnosis::PrimaryBehind(name, what) => write!(f, "{name} takes writes and lacks what others have: {what}"),
            Diagnosis::DiskFull(name, what) => write!(f, "the disk of primary {name} is full: {what}"),
            Diagnosis::CannotWrite(name, why) => write!(f, "primary {name} answers and writes nothing: {why}"),
            Diagnosis::FailoverBlocked(why) => write!(f, "the primary is not replaced: {why}"),
            Diagnosis::ServerAhead(name, extra) => {
                write!(f, "{name} has transactions that the primary lacks ({extra}); it is kept out")
            }
            Diagnosis::SlowHeartbeat(name, 0) => write!(f, "{name} hears nothing from an idle primary"),
            Diagnosis::SlowHeartbeat(name, seconds) => write!(
                f,
                "{name} hears from an idle primary only each {seconds} s, so one whose host vanishes is replaced late"
            ),
            Diagnosis::StatementsUnlogged(name) => write!(
                f,
                "{name} logs rows without their statements, so there is no proof for writes that a lost primary did not \
                 answer"
            ),
            Diagnosis::EventsStopped(primary, other) => write!(
                f,
                "the primary {primary} runs no events, since its event_scheduler is off, while that of {other} is on"
            ),
            Diagnosis::NoPrimaryComponent => f.write_str(
                "no server that answers belongs to a part of the group with a majority (Galera's primary component) and serves",
            ),
            Diagnosis::OutcomesUnproven(name, lacks) => write!(
                f,
                "there is no proof for writes that a lost member did not answer: {name} lacks {lacks}"
            ),
            Diagnosis::OutOfGroup(name, why) => write!(f, "{name} gets no traffic: {why}"),
            Diagnosis::TwoGroups(names) => write!(
                f,
                "{} belong to several groups (wsrep_cluster_state_uuid, group_replication_group_name, Ndb_system_name)",
                names.join(", ")
            ),
            Diagnosis::Donor(name) => write!(f, "{name} is a donor or desynced and may fall behind"),
            Diagnosis::RejectsQueries(name) => write!(f, "{name} refuses statements (wsrep_reject_queries)"),
            Diagnosis::NoDataNodes => write!(f, "no SQL node that answers can use the data nodes of its NDB cluster"),
            Diagnosis::NodeGroupDown(groups) => write!(f, "no data node of node group {groups} has started"),
        }
    }

    /// The consequence for clients, or the remedy, as the end of the sentence; empty where the finding says all.
    fn consequence(&self) -> &'static str {
        match self {
            Diagnosis::PrimaryDown(_) | Diagnosis::PrimaryReadOnly(_) => " and no other server takes writes",
            Diagnosis::TwoPrimaries(_) => "; make all but one read-only",
            Diagnosis::StrayWritable(_) => "; make it read-only",
            Diagnosis::WritableReplica(_) => ": a client that reaches it directly can make it diverge",
            Diagnosis::StandaloneReadOnly(_) => ": it serves reads, and writes get its own error",
            Diagnosis::Offline(_) => ": it refuses all users but administrators",
            Diagnosis::DuplicateServerId(_) => "; replication needs them to differ",
            Diagnosis::MixedFamilies => "; clients see the lowest version",
            Diagnosis::PrimaryUnreachable(..) => ", so it is not replaced",
            Diagnosis::PrimaryBehind(..) => "; it gets no traffic",
            Diagnosis::ServerAhead(..) => ", seed it anew",
            Diagnosis::SlowHeartbeat(..) => ": set its heartbeat period to one second",
            Diagnosis::StatementsUnlogged(_) => {
                ": set binlog_rows_query_log_events (MariaDB: binlog_annotate_row_events)"
            }
            Diagnosis::EventsStopped(..) => ": set it alike on all servers",
            Diagnosis::TwoGroups(_) => "; those of another group than the writer's get no traffic",
            Diagnosis::RejectsQueries(_) => " and gets no traffic",
            Diagnosis::NodeGroupDown(_) => ": the NDB cluster lacks data, and no server gets traffic",
            _ => "",
        }
    }
}

/// How things are where no server is known to take writes. Those that do not serve the monitor may take them.
fn no_primary(unserved: &[Arc<str>]) -> String {
    if unserved.is_empty() {
        return "no server takes writes: all that answer are read-only or replicas".into();
    }
    format!(
        "no server is known to take writes: the monitor is not served by {}; others that answer are read-only or replicas",
        unserved.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `docs/guides/monitoring.md` explains each diagnosis in an entry of its list.
    #[test]
    fn the_documentation_explains_every_diagnosis() {
        let page = include_str!("../../../docs/guides/monitoring.md");
        let entries = page.lines().filter_map(|line| line.strip_prefix("- **`")?.split_once("`**: "));
        let names = entries.map(|(name, _)| name);
        let explained: Vec<&str> = names.filter(|name| Diagnosis::NAMES.contains(name)).collect();
        assert_eq!(explained, Diagnosis::NAMES);
    }
}
