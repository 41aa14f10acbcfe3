//! Session consistency: a read never goes to a replica that lacks what its session has written. The session's writes are
//! learned from replies ([`writes`]); [`route::causal_reads`] judges which replicas have them.

mod tables;
mod writes;

use std::time::Duration;

use config::Consistency;
use facts::lags::Lags;
use facts::positions::Positions;
use facts::view::{Health, ServerId, ServerView, View};

use super::Session;
use super::cluster_session::ClusterSession;
use crate::shared::Moment;
use route::{Demand, Near, Needs, OwnWrites, Route, SharedWrites, Target};
pub(super) use writes::may_write;

/// A read that waits for the primary looks whether a replica has caught up after this pause, and after longer and longer ones.
const CATCH_UP_PAUSE_MIN: Duration = Duration::from_millis(5);
const CATCH_UP_PAUSE_MAX: Duration = Duration::from_millis(320);

impl Session {
    /// The writes of all sessions, as far as a read must see them.
    pub(super) fn writes_of_all(&self, demand: &Demand, positions: &Positions) -> Vec<SharedWrites> {
        if !demand.asks_for_all() || self.here.cluster.view().same_data || !demand.may_leave_primary() {
            return Vec::new();
        }
        let (view, writes) = (self.here.cluster.view(), &self.here.cluster.shared.writes);
        let moment = Moment { view: &view, positions, window: self.window() };
        match demand.consistency {
            Consistency::Table => writes.last_of(&demand.reads, moment),
            _ => vec![writes.last(moment)],
        }
    }

    /// A read that must find what any session has written does not go by a view that other workers are ahead of: they may have written
    /// on another primary already, and what was the primary has none of that.
    pub(super) fn take_newest_primary(&self) {
        if self.here.cluster.shared.published.view.load().primary != self.here.cluster.primary() {
            self.env.worker.take_published(&self.here.cluster);
        }
    }

    /// A read waits for a connection to `server`. Ends when it need not: that is the primary, which it came to because no replica
    /// had what it must find, and one has it now. It leaves once.
    pub(super) async fn replica_catches_up(&self, route: &Route, server: ServerId, has_left: bool) {
        let is_for_replica = route.target == Target::Reader && route.lacks_replica();
        if has_left || !is_for_replica || self.here.cluster.primary() != Some(server) {
            return std::future::pending().await;
        }
        let mut pause = CATCH_UP_PAUSE_MIN;
        loop {
            self.here.cluster.shared.published.want_positions();
            tokio::time::sleep(pause).await;
            if self.has_replica(route) {
                return;
            }
            pause = (pause * 2).min(CATCH_UP_PAUSE_MAX);
        }
    }

    /// Whether a replica has what a read with this route must find, as far as positions tell.
    fn has_replica(&self, route: &Route) -> bool {
        let view = self.here.cluster.view();
        let positions = self.here.cluster.shared.published.positions.load();
        let all = self.writes_of_all(route, &positions);
        let needs = self.here.needs(route, &all, &positions);
        let has_all = |server: &ServerView| needs.is_none_or(|needs| needs.lacking(server.id).is_none());
        view.servers
            .iter()
            .any(|server| takes_reads(&view, server) && view.primary != Some(server.id) && has_all(server))
    }
}

fn takes_reads(view: &View, server: &ServerView) -> bool {
    server.health == Health::Up && view.takes_reads(server)
}

impl ClusterSession {
    /// The data that a replica must have to take a statement with this route; `all` is the result of
    /// [`Session::writes_of_all`].
    pub(super) fn needs<'a>(
        &'a self,
        route: &Route,
        all: &'a [SharedWrites],
        positions: &'a Positions,
    ) -> Option<Needs<'a>> {
        let needs = self.needs_of(route, all, positions)?;
        let counts = match route.target {
            Target::Reader => true,
            // A member that has just become the writer need not have all that another one wrote.
            Target::Primary => self.cluster.view().group.is_some(),
            Target::Pinned | Target::Named(_) => false,
        };
        counts.then_some(needs)
    }

    /// The data that a read must find, wherever it goes. Servers that share their data have all of it.
    #[inline]
    pub(super) fn needs_of<'a>(
        &'a self,
        demand: &Demand,
        all: &'a [SharedWrites],
        positions: &'a Positions,
    ) -> Option<Needs<'a>> {
        if demand.consistency == Consistency::None || self.cluster.view().same_data {
            return None;
        }
        let (own, before) = (self.own_for(demand), self.before(demand));
        let any = own.is_some() || before.is_some() || !all.is_empty();
        any.then_some(Needs { own, all, before, positions })
    }

    /// Whether the session has written nothing that a read must find, and may read again where it has read last: all that it
    /// saw is there.
    pub(super) fn may_read_where_it_has_read(&self, demand: &Demand) -> bool {
        self.own_for(demand).is_none()
            && self.before(demand).is_none_or(|before| {
                let view = self.cluster.view();
                view.server(before).is_some_and(|server| takes_reads(&view, server))
            })
    }

    /// The session's own writes, as far as a read must find them: of tables that it does not name, only writes
    /// that no replica will ever have.
    fn own_for(&self, demand: &Demand) -> Option<&OwnWrites> {
        let all_counts = demand.consistency != Consistency::Table || self.cluster.view().group.is_some();
        self.own_writes.as_deref().filter(|own| all_counts || own.is_unlogged())
    }

    /// Where the session has read last, if a read must not go back behind that. One that finds the last writes
    /// of its tables does not, whatever was read of others.
    fn before(&self, demand: &Demand) -> Option<ServerId> {
        self.read_last.filter(|_| demand.consistency != Consistency::Table)
    }

    /// The bound on lag, as it is held against these lags.
    pub(super) fn near<'a>(&'a self, demand: &Demand, lags: Option<&'a Lags>) -> Option<Near<'a>> {
        Some(Near { max_lag: demand.max_lag?, lags: lags?, bounds: &self.cluster.lag_bounds })
    }
}
