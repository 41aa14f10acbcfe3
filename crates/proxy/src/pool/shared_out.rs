//! The part of the connections to a server that pipelines may have.

use std::rc::Rc;

use facts::view::ServerView;

use super::{Origin, Pools};

impl Pools {
    /// How many of the connections to a server this worker's pipelines may have, of so many that they want. Where connections are
    /// limited half of them are left to statements that need one for themselves.
    pub fn share_for_pipelines(self: &Rc<Self>, server: &ServerView, wanted: usize) -> usize {
        let limits = self.limits(server);
        let share = limits.filter(|limit| *limit > 0).map(|limit| (limit / (2 * self.workers())).max(1)).min();
        share.map_or(wanted, |share| share.min(wanted))
    }

    /// Statements wait for a connection of their own to this server, and there are so few that each is needed.
    pub fn needs_all(self: &Rc<Self>, server: &ServerView) -> bool {
        let pool = self.server(server.id, &server.name);
        let is_scarce = |limit: &usize| *limit > 0 && *limit < 2 * self.workers();
        pool.has_waiters() && self.limits(server).filter(is_scarce).count() > 0
    }

    /// The limits of connections to a server: its own, and the cluster's; 0 is none.
    fn limits(self: &Rc<Self>, server: &ServerView) -> impl Iterator<Item = usize> {
        let pool = self.server(server.id, &server.name);
        [pool.quota.max(), self.shared.cluster_quota.max()].into_iter().map(|limit| limit as usize)
    }

    fn workers(&self) -> usize {
        self.shared.cluster_quota.workers()
    }

    /// The connection is as old as one may become.
    pub fn is_too_old(&self, origin: &Origin) -> bool {
        let end = origin.opened.checked_add(self.settings().pool.max_age);
        end.is_some_and(|end| self.now.get() >= end)
    }
}
