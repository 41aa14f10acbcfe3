//! The decision for one statement: the kind of server that takes it, and why.

use std::ops::Deref;
use std::rc::Rc;
use std::time::Duration;

use config::Consistency;
use facts::tables::TableScope;
use facts::view::{Health, Role, ServerView, View};

use super::causal_reads::Needs;
use super::near::Near;
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

/// The server that a statement asks for, as long as nobody has looked at what replicas have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
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

impl Demand {
    /// A replica may take it.
    pub fn may_leave_primary(&self) -> bool {
        matches!(self.target, Target::Reader | Target::Named(_))
    }

    /// It must find what any session has written.
    pub fn asks_for_all(&self) -> bool {
        matches!(self.consistency, Consistency::Cluster | Consistency::Table)
    }

    /// It reads, and no replica was known to have what it must find.
    pub fn lacks_replica(&self) -> bool {
        matches!(self.reason, Reason::OwnWrite | Reason::ClusterWrite | Reason::EarlierRead)
    }
}

/// The decision for one statement, made by [`decide`]. Nothing changes it: after a fault another route takes its place
/// ([`Route::again`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route(Demand);

impl Route {
    /// The route of a statement that is Sqluice's own, or belongs to what runs there.
    pub fn to(target: Target, reason: Reason, consistency: Consistency) -> Route {
        Route(Demand { target, reason, consistency, max_lag: None, reads: TableScope::Any })
    }

    /// The route of the next try, after a fault: elsewhere, for another reason.
    #[must_use]
    pub fn again(&self, target: Target, reason: Reason) -> Route {
        Route(Demand { target, reason, ..self.0.clone() })
    }
}

impl Deref for Route {
    type Target = Demand;

    #[inline]
    fn deref(&self) -> &Demand {
        &self.0
    }
}

/// The servers of a cluster, as far as they matter to a read.
#[derive(Clone, Copy, Debug)]
pub struct Servers<'a> {
    /// Their roles and health.
    pub view: &'a View,
    /// The data that the read must find; `None` if any will do.
    pub needs: Option<Needs<'a>>,
    /// How near a replica must be; `None` if a rule says nothing of it.
    pub near: Option<Near<'a>>,
}

impl Servers<'_> {
    /// A server that a rule names may take a read: it has what the read must find, and is near enough.
    fn fits(&self, name: &str) -> bool {
        // A name that the cluster does not have is an error of its own.
        let Some(server) = self.view.server_named(name) else { return true };
        let is_primary = self.view.primary == Some(server.id) && self.view.group.is_none();
        let has_all = is_primary || self.needs.is_none_or(|needs| needs.lacking(server.id).is_none());
        has_all && (server.role != Role::Replica || self.is_near(server))
    }

    fn is_near(&self, replica: &ServerView) -> bool {
        self.near.is_none_or(|near| near.has(replica.id))
    }

    fn readers(&self) -> impl Iterator<Item = &ServerView> {
        self.view.servers.iter().filter(|server| server.health == Health::Up && self.view.takes_reads(server))
    }

    /// There are replicas, and all of them are too far behind.
    fn are_all_too_far(&self) -> bool {
        let mut replicas = self.readers().filter(|server| server.role == Role::Replica).peekable();
        replicas.peek().is_some() && !replicas.any(|replica| self.is_near(replica))
    }

    /// There are servers that take reads, and all of them lack something: that. The session's own writes come first.
    fn lacking(&self) -> Option<Reason> {
        let needs = self.needs?;
        let mut lacking = None;
        for server in self.readers() {
            let reason = needs.lacking(server.id)?;
            if lacking != Some(Reason::OwnWrite) {
                lacking = Some(reason);
            }
        }
        lacking
    }
}

/// Decides the route of a statement that asks for this; `servers` are `None` if it does not depend on them.
///
/// A server that a rule names must have what a read must find: else any that has it will do. (A hint is the client's own
/// choice, and is taken as it is.) A read for which no replica will do goes by its target to the primary; the reason says so.
pub fn decide(mut demand: Demand, servers: Option<&Servers<'_>>) -> Route {
    let Some(servers) = servers else { return Route(demand) };
    if let Target::Named(name) = &demand.target
        && demand.reason == Reason::Rule
        && !servers.fits(name)
    {
        demand.target = Target::Reader;
    }
    if demand.target == Target::Reader {
        if demand.max_lag.is_some() && servers.are_all_too_far() {
            demand.reason = Reason::ReplicaLag;
        }
        demand.reason = servers.lacking().unwrap_or(demand.reason);
    }
    Route(demand)
}

#[cfg(test)]
mod tests;
