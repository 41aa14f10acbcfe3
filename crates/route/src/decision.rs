//! The decision for one statement: the server that takes it, and why.

use std::rc::Rc;
use std::time::Duration;

use config::Consistency;
use facts::tables::TableScope;

use super::reason::Reason;

/// The kind of server that a statement needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The session's own connection.
    Pinned,
    /// The primary.
    Primary,
    /// A server that takes reads: a replica if there is one, else the primary.
    Reader,
    /// The server with this name.
    Named(Rc<str>),
}

/// The decision for one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The kind of server that it needs.
    pub target: Target,
    /// Why.
    pub reason: Reason,
    /// The consistency on a replica; unless it is none, the replica must not be behind what the session has read either.
    pub consistency: Consistency,
    /// How far a replica may be behind the primary, if that is narrower than what the cluster allows.
    pub max_lag: Option<Duration>,
    /// The tables to which a replica must have the last writes, with [`Consistency::Table`].
    pub reads: TableScope,
}

impl Route {
    /// To the primary, for a statement that is Sqluice's own or belongs to what runs there.
    pub fn to(target: Target, reason: Reason, consistency: Consistency) -> Route {
        Route { target, reason, consistency, max_lag: None, reads: TableScope::Any }
    }

    /// It reads, and no replica was known to have what it must find.
    pub fn lacks_replica(&self) -> bool {
        matches!(self.reason, Reason::OwnWrite | Reason::ClusterWrite | Reason::EarlierRead)
    }
}
