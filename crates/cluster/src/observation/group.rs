//! Reports of servers about the group that they belong to.

use std::sync::Arc;
use std::time::Duration;

use facts::group_logs::MemberLog;

/// The report of an SQL node about its NDB cluster (MySQL NDB Cluster).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ndb {
    /// `Ndb_cluster_node_id`; 0: it belongs to none.
    pub node_id: u32,
    /// `Ndb_number_of_data_nodes`: how many data nodes there should be.
    pub data_nodes: u32,
    /// `Ndb_number_of_ready_data_nodes`: how many of them it can work with now.
    pub ready: u32,
    /// `Ndb_system_name`: which cluster it is; empty where the server does not report it, as before NDB 7.5.7.
    pub system: Arc<str>,
    /// The data nodes that run, as `ndbinfo` tells; empty where it may not be read.
    pub nodes: Vec<DataNode>,
}

/// One data node, as `ndbinfo.membership` and `ndbinfo.nodes` tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataNode {
    /// `group_id`: the node group, all of whose data nodes have the same data.
    pub group: u32,
    /// Its status.
    pub status: DataNodeStatus,
}

/// `ndbinfo.nodes.status`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataNodeStatus {
    /// It serves.
    Started,
    /// The cluster is in single user mode: one SQL node or other client may use it.
    SingleUser,
    /// It starts or stops.
    Other,
}

/// The report of a server about its replication group (MySQL Group Replication).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReplication {
    /// `group_replication_group_name`.
    pub group: Arc<str>,
    /// `VIEW_ID`: changes with each change of members; `history:number`.
    pub view: Arc<str>,
    /// The members of that view as this one sees them, itself included.
    pub members: Vec<GroupMember>,
    /// It has applied all that it has received.
    pub applied: bool,
    /// Transactions that wait to be certified.
    pub certifying: u64,
    /// Transactions of other members that wait to be applied.
    pub applying: u64,
    /// How long ago the transaction was committed that it applies now; zero when it has none to apply.
    pub lag: Option<Duration>,
}

/// One row of `replication_group_members`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// `MEMBER_ID`, a `server_uuid`.
    pub id: Arc<str>,
    /// `MEMBER_STATE`.
    pub state: MemberState,
    /// `MEMBER_ROLE` is `PRIMARY`.
    pub primary: bool,
}

/// `MEMBER_STATE`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It has what the others have, perhaps not applied yet.
    Online,
    /// It joins and catches up.
    Recovering,
    /// The plugin does not run, or the member has left.
    Offline,
    /// It was thrown out, or could not go on.
    Error,
    /// It does not answer the other members.
    Unreachable,
}

/// The report of a server about its Galera group (MariaDB Galera, Percona XtraDB Cluster).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Galera {
    /// `wsrep_cluster_status` is `Primary`: it belongs to the part of the group that goes on.
    pub primary_component: bool,
    /// `wsrep_connected`.
    pub connected: bool,
    /// `wsrep_ready`: it takes statements.
    pub ready: bool,
    /// `wsrep_local_state`.
    pub state: LocalState,
    /// `wsrep_desync`: an operator let it fall behind.
    pub desync: bool,
    /// `wsrep_reject_queries` is not `NONE`.
    pub rejects: bool,
    /// `wsrep_sst_donor_rejects_queries`.
    pub donor_rejects: bool,
    /// `wsrep_cluster_state_uuid`: which group it is.
    pub cluster: Arc<str>,
    /// `wsrep_cluster_conf_id`: changes with each change of members.
    pub conf_id: u64,
    /// `gmcast.segment`: members of one segment stand near each other.
    pub segment: u8,
    /// Its binary log.
    pub log: MemberLog,
}

/// `wsrep_local_state`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalState {
    /// 1: it waits for, or takes, the state of another one.
    Joining,
    /// 2: it hands its state over, or is desynced.
    Donor,
    /// 3: it has a state and catches up.
    Joined,
    /// 4: it has what the others have.
    Synced,
    /// Anything else.
    Other,
}
