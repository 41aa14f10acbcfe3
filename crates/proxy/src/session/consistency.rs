//! Session consistency: a read never goes to a replica that lacks what its session has written. The session's writes are
//! learned from replies; [`route::causal_reads`] judges which replicas have them.

mod tables;

use super::belief::Belief;
use super::cluster_session::ClusterSession;
use std::time::{Duration, Instant};

use config::Consistency;
use facts::gtid::WrittenGtids;
use facts::lags::Lags;
use facts::positions::Positions;
use facts::tables::TableScope;
use facts::view::{Health, Role, ServerId, ServerView};
use sql::{Access, Asks, Kind, Why};
use wire::Status;

use super::query::Query;
use super::relay::{Outcome, StateChange};
use super::{Held, Session};
use crate::shared::{Moment, Write};
use route::{Near, Needs, OwnWrites, Pin, Reason, Route, SharedWrites, Target};

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

    /// How long a write counts for which no position will be reported.
    pub(super) fn window(&self) -> Duration {
        let window = self.env.listener.settings.load().consistency_window;
        window.unwrap_or_else(|| self.here.cluster.shared.settings.load().max_lag)
    }

    /// Looks whether positions without a report are known by now.
    pub(super) fn settle_writes(&mut self) {
        if !self.here.own_writes.as_ref().is_some_and(|own| own.awaits_position()) {
            return;
        }
        let window = self.window();
        let Some(own) = &mut self.here.own_writes else { return };
        own.settle(
            &self.here.cluster.view(),
            &self.here.cluster.shared.published.positions.load(),
            window,
            Instant::now(),
        );
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
        let takes_reads = |server: &ServerView| server.health == Health::Up && view.takes_reads(server);
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

    /// Whether it matters what the session has written, and where.
    pub(super) fn watches_writes(&self) -> bool {
        let asked_by_rule =
            || self.env.worker.chain.get().is_some_and(|chain| chain.needs().contains(policy::Needs::OWN_WRITES));
        let asked_by_others = || self.here.cluster.shared.writes.are_watched();
        self.who.identity.consistency != config::Consistency::None || asked_by_rule() || asked_by_others()
    }

    /// The positions that a reply reported, noted for proofs; none where no proof needs them.
    pub(super) fn learn_commits(&self, held: &Held, outcome: &Outcome, over: Instant) -> Vec<WrittenGtids> {
        let texts = outcome.changes.iter().filter_map(|change| match change {
            StateChange::Committed(text) => Some(text),
            _ => None,
        });
        let mut texts = texts.peekable();
        if texts.peek().is_none() {
            return Vec::new();
        }
        let proves = self.here.cluster.shared.settings.load().logs_tell;
        if !proves && !self.watches_writes() {
            return Vec::new();
        }
        let written: Vec<_> = texts.filter_map(|text| WrittenGtids::parse(held.lease.origin.mariadb, text)).collect();
        if proves {
            written.iter().for_each(|written| self.here.note_committed(written, over));
        }
        written
    }

    /// Notes the statement's writes, by the reported positions, and the server that ran it.
    pub(super) fn learn_writes(
        &mut self,
        held: &Held,
        query: &Query<'_>,
        route: &Route,
        outcome: &Outcome,
        written: Vec<WrittenGtids>,
        over: Instant,
    ) {
        let view = self.here.cluster.view();
        if view.same_data {
            // Wherever the session reads, it finds what it has written.
            return;
        }
        let (server, in_group) = (held.lease.server(), view.group.is_some());
        let statement = &*query.statement;
        let calls = statement.asks.contains(Asks::STORED_FUNCTIONS);
        match statement.access {
            // A position with the reply to a SET is of a commit by an earlier session on the connection, reported late; unless
            // the SET commits the session's open transaction, as SET autocommit = 1 does.
            Access::Primary(Why::SessionChange) if !calls && !self.transaction.writes_open && statement.parts == 1 => {
                return;
            }
            Access::Primary(Why::SessionChange) => {}
            Access::Primary(Why::Transaction) => {}
            _ if query.prepares() => return,
            _ => {
                self.here.read_last = Some(server);
                if reads_on_purpose(route.reason) && in_group {
                    self.here.own_writes.get_or_insert_default().was_in_group(server, over);
                } else if reads_on_purpose(route.reason) && view.primary == Some(server) {
                    self.here.own_writes.get_or_insert_default().saw(server, over);
                }
            }
        }
        let wrote = may_have_written(query, outcome);
        let mut reported = false;
        if in_group {
            return self.learn_write_in_group(server, wrote, over);
        }
        for written in written {
            self.note_write(Write::Reported(written));
            self.here.read_last = None;
            reported = true;
        }
        if self.belief.pins.has(Pin::Transaction) {
            self.transaction.writes_open |= wrote;
            return;
        }
        let wrote = std::mem::take(&mut self.transaction.writes_open) || wrote;
        if reported && outcome.error.is_none() || !wrote {
            return;
        }
        // The end of a result set has no room for trackers under the old framing, and an error has none at all. That there is something
        // to tell MySQL's status flags do not say there, either (seen with 9.7).
        let has_to_tell = |status: Status| status.contains(Status::SESSION_STATE_CHANGED);
        let silent = outcome.error.is_some()
            || outcome.ended_by_eof && (!self.belief.is_mariadb() || outcome.status.is_none_or(has_to_tell));
        let tells = || {
            let positions = self.here.cluster.shared.published.positions.load();
            positions.of(server).is_some_and(|position| position.tells_writes)
        };
        if !self.belief.state.logs_writes() {
            self.here.own_writes.get_or_insert_default().wrote_unlogged();
        } else if silent || !tells() {
            self.note_write(Write::Unreported(server, over));
        }
    }

    /// The same in a group, whose members do not tell positions.
    fn learn_write_in_group(&mut self, server: ServerId, wrote: bool, over: Instant) {
        self.here.read_last = None;
        if self.belief.pins.has(Pin::Transaction) {
            self.transaction.writes_open |= wrote;
        } else if std::mem::take(&mut self.transaction.writes_open) || wrote {
            self.note_write(Write::InGroup(server, over));
        }
    }

    /// Notes a write for this session, and for all if anybody wants to see what others write.
    pub(super) fn note_write(&mut self, write: Write) {
        let write = match write {
            Write::Unreported(server, at) if self.here.cluster.view().group.is_some() => Write::InGroup(server, at),
            write => write,
        };
        let writes = &self.here.cluster.shared.writes;
        if writes.are_watched() {
            writes.note(&write, self.transaction.written.as_ref().unwrap_or(&TableScope::Any));
        }
        let own = self.here.own_writes.get_or_insert_default();
        match write {
            Write::Reported(written) => own.tell(written, Instant::now),
            Write::Unreported(server, at) => own.wrote_unreported(server, at),
            Write::InGroup(server, at) => own.was_in_group(server, at),
            Write::AllOverGroup(server, at) => own.was_all_over_group(server, at),
        }
    }

    /// Whether the client must not hear the reply before what it says is noted: another session may ask at once.
    pub(super) fn notes_first(&self, query: &Query<'_>) -> bool {
        !query.statement.access.only_reads()
            && (self.here.cluster.shared.writes.are_watched()
                || self.env.worker.shared.tier.is_some()
                || query.statement.accounts)
    }
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

/// Whether a statement with this reason ran where it did for its own sake: what it saw there must not be gone when the
/// session reads elsewhere. Reads that only wait for replicas to catch up do not count, else no replica ever would have.
fn reads_on_purpose(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Pinned
            | Reason::Hint
            | Reason::Rule
            | Reason::AutocommitOff
            | Reason::LockingRead
            | Reason::Locks
            | Reason::Into
            | Reason::AssignsVariable
            | Reason::WillPin
            | Reason::Writes
            | Reason::WritingFunction
            | Reason::UnknownFunction
            | Reason::Procedure
            | Reason::Unknown
    )
}

/// Whether a statement may have left something in the database.
fn may_have_written(query: &Query<'_>, outcome: &Outcome) -> bool {
    let statement = &*query.statement;
    may_write(query)
        && match statement.access {
            _ if outcome.error.is_some() => true,
            // They say how many rows they have written.
            Access::Primary(Why::Writes)
                if matches!(statement.kind, Kind::Insert | Kind::Update | Kind::Delete | Kind::Load) =>
            {
                statement.parts > 1 || outcome.rows.is_some() || outcome.affected_rows > 0
            }
            _ => true,
        }
}

/// Whether a statement is one that may leave something in the database.
pub(super) fn may_write(query: &Query<'_>) -> bool {
    let Access::Primary(why) = query.statement.access else { return false };
    let statement = &*query.statement;
    let executes = |effect: &sql::Effect| matches!(effect, sql::Effect::ExecuteText { .. });
    match why {
        _ if query.prepares() => false,
        _ if statement.parts > 1 && !statement.access.only_reads() => true,
        // The text that EXECUTE runs may do anything.
        _ if statement.kind == Kind::PreparedText && statement.effects.iter().any(executes) => true,
        // These write only by a stored function.
        Why::SessionChange
        | Why::ServerState
        | Why::LockingRead
        | Why::SessionState
        | Why::AssignsVariable
        | Why::Locks
        | Why::Into => statement.asks.contains(Asks::STORED_FUNCTIONS),
        Why::Administration if matches!(statement.kind, Kind::Show | Kind::Select | Kind::Explain | Kind::Kill) => {
            statement.asks.contains(Asks::STORED_FUNCTIONS)
        }
        // The statements of the transaction tell its writes; XA may end another connection's.
        Why::Transaction => statement.kind == Kind::Xa,
        _ => true,
    }
}
