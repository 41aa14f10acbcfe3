//! The writes of a session, learned from replies: by the positions that servers report, or by the server that ran them.

use std::time::{Duration, Instant};

use facts::gtid::WrittenGtids;
use facts::tables::TableScope;
use facts::view::ServerId;
use sql::{Access, Asks, Effect, Kind, Why};
use wire::Status;

use super::super::learn::defines_what_stays;
use super::super::query::Query;
use super::super::relay::{Outcome, StateChange};
use super::super::{Held, Session};
use crate::shared::Write;
use route::{Pin, Reason, Route};

impl Session {
    /// How long a write counts for which no position will be reported.
    pub(in crate::session) fn window(&self) -> Duration {
        let window = self.env.listener.settings.load().consistency_window;
        window.unwrap_or_else(|| self.here.cluster.shared.settings.load().max_lag)
    }

    /// Looks whether positions without a report are known by now.
    pub(in crate::session) fn settle_writes(&mut self) {
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

    /// Whether it matters what the session has written, and where.
    pub(in crate::session) fn watches_writes(&self) -> bool {
        let asked_by_rule =
            || self.env.worker.chain.get().is_some_and(|chain| chain.needs().contains(policy::Needs::OWN_WRITES));
        let asked_by_others = || self.here.cluster.shared.writes.are_watched();
        self.who.identity.consistency != config::Consistency::None || asked_by_rule() || asked_by_others()
    }

    /// The positions that a reply reported, noted for proofs; none where no proof needs them.
    pub(in crate::session) fn learn_commits(&self, held: &Held, outcome: &Outcome, over: Instant) -> Vec<WrittenGtids> {
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
    pub(in crate::session) fn learn_writes(
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
    pub(in crate::session) fn note_write(&mut self, write: Write) {
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

    /// Whether the client must not hear the reply before what it says is noted: another session may ask at once, begin with a
    /// default that has changed, or run code that is new.
    pub(in crate::session) fn notes_first(&self, query: &Query<'_>) -> bool {
        let sets_default = |effect: &Effect| matches!(effect, Effect::GlobalVariable { .. });
        !query.statement.access.only_reads()
            && (query.statement.effects.iter().any(sets_default)
                || self.here.cluster.shared.writes.are_watched()
                || self.env.worker.shared.tier.is_some()
                || query.statement.accounts
                || defines_what_stays(query, &self.belief.catalog))
    }
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
pub(super) fn may_have_written(query: &Query<'_>, outcome: &Outcome) -> bool {
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
pub(in crate::session) fn may_write(query: &Query<'_>) -> bool {
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
