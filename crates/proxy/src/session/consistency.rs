//! Session consistency: a read never goes to a replica that lacks what its session has written. The session's writes are
//! learned from replies ([`writes`]); [`route::causal_reads`] judges which replicas have them.

mod tables;
mod writes;

use std::time::Duration;

use config::Consistency;
use facts::lags::Lags;
use facts::positions::Positions;
use facts::view::{Health, Role, ServerId, ServerView, View};

use super::Session;
use super::belief::Belief;
use super::cluster_session::ClusterSession;
use crate::shared::Moment;
use route::{Near, Needs, OwnWrites, Reason, Route, SharedWrites, Target};
pub(super) use writes::may_write;

/// A read that waits for the primary looks whether a replica has caught up after this pause, and after longer and longer ones.
const CATCH_UP_PAUSE_MIN: Duration = Duration::from_millis(5);
const CATCH_UP_PAUSE_MAX: Duration = Duration::from_millis(320);

impl Session {
    /// The writes of all sessions, as far as a read with this route must see them.
    pub(super) fn writes_of_all(&self, route: &Route, positions: &Positions) -> Vec<SharedWrites> {
        if !asks_for_all(route)
            || self.here.cluster.view().same_data
            || !matches!(route.target, Target::Reader | Target::Named(_))
        {
            return Vec::new();
        }
        let (view, writes) = (self.here.cluster.view(), &self.here.cluster.shared.writes);
        let moment = Moment { view: &view, positions, window: self.window() };
        match route.consistency {
            Consistency::Table => writes.last_of(&route.reads, moment),
            _ => vec![writes.last(moment)],
        }
    }

    /// A read that must find what any session has written does not go by a view that other workers are ahead of: they may have written
    /// on another primary already, and what was the primary has none of that.
    pub(super) fn take_newest_primary(&self, route: &Route) {
        if asks_for_all(route) && self.here.cluster.shared.published.view.load().primary != self.here.cluster.primary()
        {
            self.env.worker.take_published(&self.here.cluster);
        }
    }

    /// A server that a rule names must have what a read must find, too: else any replica that has it will do. A hint is the
    /// client's own choice, and is taken as it is.
    pub(super) fn judge_named(&mut self, route: &mut Route) {
        if route.reason != Reason::Rule || route.consistency == Consistency::None {
            return;
        }
        let Target::Named(name) = &route.target else { return };
        self.settle_writes();
        let view = self.here.cluster.view();
        if view.same_data {
            return;
        }
        let Some(server) = view.server_named(name).map(|server| server.id) else { return };
        let positions = self.here.cluster.shared.published.positions.load();
        let all = self.writes_of_all(route, &positions);
        let needs =
            Needs { own: self.here.own_for(route), all: &all, before: self.here.before(route), positions: &positions };
        let has_all = view.primary == Some(server) && view.group.is_none();
        if !has_all && needs.lacking(server).is_some() {
            route.target = Target::Reader;
            self.here.cluster.shared.published.want_positions();
        }
    }

    /// Finds out whether any replica has what a read must find; if there are replicas, and none has it, that is the
    /// route's reason, and newer positions are asked for.
    pub(super) fn judge_replicas(&mut self, route: &mut Route) {
        if route.target != Target::Reader || route.consistency == Consistency::None {
            return;
        }
        let view = self.here.cluster.view();
        let takes_reads = |server: &ServerView| takes_reads(&view, server);
        if !asks_for_all(route) && self.here.own_for(route).is_none() {
            // Where it has read last is all that it saw there.
            let before = self.here.before(route).map(|before| view.server(before));
            if before.is_none_or(|server| server.is_some_and(takes_reads)) {
                return;
            }
        }
        self.settle_writes();
        let positions = self.here.cluster.shared.published.positions.load();
        let all = self.writes_of_all(route, &positions);
        let Some(needs) = self.here.needs(route, &all, &positions) else { return };
        let mut lacking: Option<Reason> = None;
        for replica in view.servers.iter().filter(|server| takes_reads(server)) {
            match needs.lacking(replica.id) {
                None => return,
                Some(reason) if lacking != Some(Reason::OwnWrite) => lacking = Some(reason),
                Some(_) => {}
            }
        }
        if let Some(reason) = lacking {
            route.reason = reason;
            self.here.cluster.shared.published.want_positions();
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
        if route.consistency == Consistency::None {
            return None;
        }
        let (own, before) = (self.own_for(route), self.before(route));
        if own.is_none() && before.is_none() && all.is_empty() {
            return None;
        }
        let view = self.cluster.view();
        let counts = match route.target {
            Target::Reader => true,
            // A member that has just become the writer need not have all that another one wrote.
            Target::Primary => view.group.is_some(),
            Target::Pinned | Target::Named(_) => false,
        };
        if !counts || view.same_data {
            return None;
        }
        Some(Needs { own, all, before, positions })
    }

    /// The session's own writes, as far as a read with this route must find them: of tables that it does not name, only writes
    /// that no replica will ever have.
    fn own_for(&self, route: &Route) -> Option<&OwnWrites> {
        let all_counts = route.consistency != Consistency::Table || self.cluster.view().group.is_some();
        self.own_writes.as_deref().filter(|own| all_counts || own.is_unlogged())
    }

    /// Where the session has read last, if a read with this route must not go back behind that. One that finds the last writes
    /// of its tables does not, whatever was read of others.
    fn before(&self, route: &Route) -> Option<ServerId> {
        self.read_last.filter(|_| route.consistency != Consistency::Table)
    }

    /// The bound on lag of a route, as it is held against these lags.
    pub(super) fn near<'a>(&'a self, route: &Route, lags: Option<&'a Lags>) -> Option<Near<'a>> {
        Some(Near { max_lag: route.max_lag?, lags: lags?, bounds: &self.cluster.lag_bounds })
    }

    /// Finds out whether any replica is as near as a rule wants; if there are replicas, and none is, that is the route's
    /// reason. A server that the rule names is asked only while it is near.
    pub(super) fn judge_lag(&self, route: &mut Route) {
        let is_named = route.reason == Reason::Rule && matches!(route.target, Target::Named(_));
        if route.max_lag.is_none() || route.target != Target::Reader && !is_named {
            return;
        }
        let lags = self.cluster.shared.published.lags.load();
        let Some(near) = self.near(route, Some(&lags)) else { return };
        let view = self.cluster.view();
        if let Target::Named(name) = &route.target {
            let too_far = |server: &ServerView| server.role == Role::Replica && !near.has(server.id);
            if !view.server_named(name).is_some_and(too_far) {
                return;
            }
            route.target = Target::Reader;
        }
        let mut readers = view.servers.iter().filter(|server| server.health == Health::Up && view.takes_reads(server));
        let mut replicas = readers.by_ref().filter(|server| server.role == Role::Replica).peekable();
        if replicas.peek().is_some() && !replicas.any(|replica| near.has(replica.id)) {
            route.reason = Reason::ReplicaLag;
        }
    }
}

impl Belief {
    /// A read in a schema whose tables tell of one server is the primary's, although its text does not name the schema.
    pub(super) fn judge_schema(&self, route: &mut Route) {
        if route.reason == Reason::Read && self.is_in_system_schema() {
            (route.target, route.reason) = (Target::Primary, Reason::ServerState);
        }
    }

    /// Whether the session's schema is one whose tables tell of one server.
    pub(super) fn is_in_system_schema(&self) -> bool {
        const SCHEMAS: [&str; 4] = ["information_schema", "performance_schema", "mysql", "sys"];
        let is_system = |schema: &str| SCHEMAS.iter().any(|name| name.eq_ignore_ascii_case(schema));
        self.state.schema().is_some_and(is_system)
    }
}

/// Whether a read with this route must find what any session has written.
fn asks_for_all(route: &Route) -> bool {
    matches!(route.consistency, Consistency::Cluster | Consistency::Table)
}
