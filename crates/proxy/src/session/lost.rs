//! A server was lost, or has given its place away, while a statement was on its way or a transaction was open: what goes on
//! elsewhere, and the statements that may not run twice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::proof::mark::Mark;
use facts::gtid::WrittenGtids;
use facts::tables::TableScope;
use facts::view::ServerId;
use sql::{Access, Effect, Kind, TransactionStep, Why};
use wire::{Status, errno};

use super::attempts::Attempts;
use super::belief::Belief;
use super::client::Request;
use super::cluster_session::ClusterSession;
use super::proof::{Answer, Proof};
use super::query::Query;
use super::recover::Next;
use super::relay::{Outcome, RelayError};
use super::transaction_log::is_whole_with;
use super::{Held, Session};
use crate::error::{Refusal, SessionEnd};
use crate::pool::{ClosedBy, ConnectionEnd};
use crate::shared::Write;
use route::{Pin, Reason, Route, Target};

/// The time for finding out whether an abandoned connection has ended: a close that the system already knows comes at once.
const END_WAIT: Duration = Duration::from_millis(50);

/// A server's end, as one statement met it.
#[derive(Debug)]
pub struct Lost {
    /// The server.
    pub server: ServerId,
    /// Its name.
    pub name: Arc<str>,
    /// In what way, in words.
    pub why: String,
    /// All of the statement was on its way, and no reply came: it may have been done.
    pub sent: bool,
    /// The server has answered the statement with an error, or has ended the connection: it works on it no more. One that was given
    /// up here may still do so.
    pub ended: bool,
    /// The server says that the connection was killed: perhaps somebody did not want the transaction.
    pub was_killed: bool,
    /// A moment shortly before the statement was sent.
    pub at: Instant,
    /// The mark in front of writes on the connection.
    pub mark: Option<Mark>,
}

impl Session {
    /// A pinned connection may have ended while the client thought, or its server may have been fenced since.
    pub(super) fn look_at_pinned(&self, held: &mut Held) -> Result<(), RelayError> {
        let view = self.here.cluster.view();
        if view.server(held.lease.server()).is_none_or(|server| server.fenced) {
            return Err(RelayError::Server("the server takes no sessions any more".into()));
        }
        match held.lease.closed_by() {
            ClosedBy::None => Ok(()),
            ClosedBy::Closed => Err(RelayError::Server("the server closed the connection".into())),
            ClosedBy::Said(said)
                if matches!(said.code, errno::ER_SERVER_SHUTDOWN | errno::ER_CONNECTION_KILLED)
                    && self.transaction.log.is_some() =>
            {
                match self.belief.status.contains(Status::IN_READ_ONLY_TRANSACTION) {
                    true => Err(RelayError::Server(said.message)),
                    false => Err(RelayError::Withheld(said)),
                }
            }
            ClosedBy::Said(said) => Err(RelayError::Ended(said)),
        }
    }

    /// Decides what follows when a server was lost before the client had a byte of the reply.
    pub(super) async fn go_on_without(
        &mut self,
        query: &Query<'_>,
        route: &mut Route,
        lost: &Lost,
        attempts: &mut Attempts,
    ) -> Result<Next, SessionEnd> {
        let replays = self.env.listener.settings.load().replay.mode != config::ReplayMode::Off;
        let is_open = self.belief.pins.has(Pin::Transaction) || self.belief.pins.has(Pin::NextStatement);
        if replays && (is_open || !self.belief.facts().autocommit) && is_whole_with(&self.belief.pins) {
            return Box::pin(self.take_transaction_elsewhere(query, route, lost, attempts)).await;
        }
        let is_pinned = route.target == Target::Pinned;
        if lost.sent && query.may_leave_something(None) && !self.belief.executes_reads(query) {
            if is_pinned {
                let refusal = self.in_doubt(query, lost, "the session was pinned");
                return self.end_with(query.request, refusal);
            }
            match Box::pin(self.prove(query, lost, attempts)).await {
                Proof::NotDone if !attempts.failed_on(lost.server) => {}
                Proof::NotDone => return Ok(Next::TryAgain),
                Proof::Done { position, answer } => {
                    self.note_done(lost, position);
                    if let Some(answer) = answer {
                        self.answer_write(query, &answer);
                        self.client.flush().await.map_err(SessionEnd::ClientLost)?;
                        return Ok(Next::Answered);
                    }
                    let refusal = Refusal::done_unanswered(&lost.name, what(query));
                    return self.tell(query.request, refusal).await;
                }
                Proof::Unknown(why) => {
                    let refusal = self.in_doubt(query, lost, &why);
                    return self.tell(query.request, refusal).await;
                }
            }
        }
        if !is_pinned && attempts.failed_on(lost.server) {
            return Ok(Next::TryAgain);
        }
        let during = if is_pinned { "in a pinned session" } else { "during a statement" };
        self.end_with(query.request, Refusal::lost(&lost.name, &format!("{during}: {}", lost.why)))
    }

    /// A transaction was open: it is gone, and is replayed; what ends it may have been done.
    async fn take_transaction_elsewhere(
        &mut self,
        query: &Query<'_>,
        route: &mut Route,
        lost: &Lost,
        attempts: &mut Attempts,
    ) -> Result<Next, SessionEnd> {
        use TransactionStep::{Commit, Rollback};
        let wrote = self.transaction.log.as_ref().is_none_or(|log| log.wrote);
        if lost.sent && query.may_leave_something(Some(wrote)) {
            match Box::pin(self.prove(query, lost, attempts)).await {
                Proof::NotDone => {}
                Proof::Done { position, .. } => {
                    self.note_done(lost, position);
                    self.lose_pinned_state();
                    self.belief.status = self.belief.status_at_rest();
                    self.answer_ok(query.request, 0);
                    self.client.flush().await.map_err(SessionEnd::ClientLost)?;
                    return Ok(Next::Answered);
                }
                Proof::Unknown(why) => {
                    self.lose_pinned_state();
                    let refusal = self.in_doubt(query, lost, &why);
                    return self.tell(query.request, refusal).await;
                }
            }
        }
        let ends = match query.statement.transaction.filter(|_| query.runs_text()) {
            // The server has rolled it back with its end.
            Some(Rollback { chain: false, .. }) => true,
            Some(Commit { chain: false, .. }) => !wrote,
            _ => false,
        };
        let is_empty =
            self.transaction.log.as_ref().is_some_and(|log| log.obstacle().is_none() && log.entries().is_empty());
        if (ends || is_empty) && query.statement.parts == 1 {
            let target = self.transaction.log.as_ref().map_or(Target::Primary, |log| log.target.clone());
            let reason = if ends { Reason::Transaction } else { Reason::AutocommitOff };
            *route = route.again(target, reason);
            self.lose_pinned_state();
            self.begin_log(query, route);
            if attempts.failed_on(lost.server) {
                return Ok(Next::TryAgain);
            }
            return self.end_with(query.request, Refusal::lost(&lost.name, &lost.why));
        }
        if attempts.replays > 0 && !lost.was_killed {
            // It took the replay, and was lost all the same.
            attempts.failed_on(lost.server);
        }
        match Box::pin(self.replay(query.request, lost, attempts)).await {
            Ok(()) => {
                *route = route.again(Target::Pinned, Reason::Pinned);
                Ok(Next::TryAgain)
            }
            Err(not_replayed) => {
                let name = &lost.name;
                self.env.worker.stats.replays.at(not_replayed.result()).inspect(|count| count.add_one());
                tracing::warn!(server = %name, session = self.env.handle.id, why = %not_replayed, "a transaction was not replayed");
                let refusal = not_replayed.refusal(lost);
                // Variables with computed values are gone with the connection.
                let is_whole = !self.belief.pins.has(Pin::UserVariable) && !not_replayed.ends_session();
                self.lose_pinned_state();
                match is_whole {
                    true => self.tell(query.request, refusal).await,
                    false => self.end_with(query.request, refusal),
                }
            }
        }
    }

    /// There may be a write without a reported position.
    fn note_unanswered(&mut self, lost: &Lost) {
        self.note_done(lost, None);
    }

    /// Something was written, at this position if it is known.
    fn note_done(&mut self, lost: &Lost, position: Option<WrittenGtids>) {
        if self.watches_writes() {
            self.transaction.written = Some(TableScope::Any);
            self.note_write(position.map_or_else(|| Write::Unreported(lost.server, Instant::now()), Write::Reported));
        }
    }

    /// The client gets the OK that the lost server would have sent. Warnings are in no log: it hears of none.
    fn answer_write(&mut self, query: &Query<'_>, answer: &Answer) {
        self.belief.status = self.belief.status_at_rest();
        let ok = wire::reply::Ok {
            affected_rows: answer.affected,
            insert_id: answer.insert_id,
            status: self.belief.status,
            info: answer.info.as_bytes(),
            ..wire::reply::Ok::default()
        };
        self.client.put_ok(query.request.sequence.wrapping_add(1), &ok);
        let outcome = Outcome {
            status: Some(self.belief.status),
            affected_rows: answer.affected,
            matched: answer.matched.or(Some(answer.affected)),
            ..Outcome::default()
        };
        self.learn_answered(query, &outcome);
        if answer.made_id {
            (self.belief.past.insert_id, self.belief.past.doubt) = (answer.insert_id, None);
        }
    }

    /// The fate of the statement is unknown.
    fn in_doubt(&mut self, query: &Query<'_>, lost: &Lost, unproven: &str) -> Refusal {
        self.note_unanswered(lost);
        self.env.worker.stats.in_doubt.add_one();
        tracing::warn!(server = %lost.name, session = self.env.handle.id, what = what(query), unproven, "a statement is in doubt");
        Refusal::in_doubt(&lost.name, what(query), &lost.why, unproven)
    }

    /// The client gets an error of Sqluice's own, and the session goes on.
    async fn tell(&mut self, request: &Request, refusal: Refusal) -> Result<Next, SessionEnd> {
        self.answer_error(request, &refusal);
        self.client.flush().await.map_err(SessionEnd::ClientLost)?;
        Ok(Next::Answered)
    }
}

impl ClusterSession {
    /// Whether a server works on a statement no more because it has ended its connection, or has answered after all, in the moment in
    /// which no session waited for it any more.
    ///
    /// That a connection is reset is the end of the server's process. A network answers so, too, but only to what is sent, and behind a
    /// statement nothing is sent before TCP asks whether the server is still there.
    pub(super) async fn is_ended_by_server(&self, held: &mut Held, outcome: &Outcome, at: Instant) -> bool {
        if self.cluster.view().group.is_none() {
            return false;
        }
        let end = match outcome.end {
            ConnectionEnd::GivenUp => tokio::time::timeout(END_WAIT, held.lease.end()).await.unwrap_or_default(),
            end => end,
        };
        let silence = self.cluster.shared.settings.load().keepalive.idle;
        end == ConnectionEnd::Closed || end == ConnectionEnd::Reset && (silence.is_zero() || at.elapsed() < silence)
    }
}

impl Belief {
    /// Whether EXECUTE runs texts alone that are known to read only.
    fn executes_reads(&self, query: &Query<'_>) -> bool {
        let reads = |effect: &Effect| matches!(effect, Effect::ExecuteText { name } if self.pins.text_reads(name));
        query.statement.kind == Kind::PreparedText
            && query.statement.parts == 1
            && !query.statement.effects.is_empty()
            && query.statement.effects.iter().all(reads)
    }
}

impl Query<'_> {
    /// Whether running it may leave something behind for good: it writes, and nothing takes that back. `transaction` tells
    /// whether the open transaction may have written; `None` is no transaction.
    pub fn may_leave_something(&self, transaction: Option<bool>) -> bool {
        use TransactionStep::{Begin, Commit, ImplicitCommit, Rollback, Savepoint};
        let statement = &*self.statement;
        let commits = transaction == Some(true);
        let is_autocommit = |effect: &Effect| matches!(effect, Effect::Variable { name, .. } if name == "autocommit");
        if commits && statement.effects.iter().any(is_autocommit) {
            return true;
        }
        if self.may_run_twice() {
            return false;
        }
        if statement.parts > 1 && statement.transaction.is_some() {
            return true;
        }
        match statement.transaction {
            Some(Begin { .. } | Commit { .. }) => commits,
            Some(Rollback { .. } | Savepoint) => false,
            Some(ImplicitCommit) => true,
            None => match (statement.kind, statement.access) {
                (Kind::Select | Kind::Do, Access::Primary(Why::LockingRead | Why::Locks)) => false,
                (Kind::Insert | Kind::Update | Kind::Delete | Kind::Load | Kind::Select | Kind::Do, _) => {
                    transaction.is_none()
                }
                _ => true,
            },
        }
    }
}

/// The name of a statement, for a message.
fn what(query: &Query<'_>) -> &'static str {
    match (query.statement.transaction, query.statement.kind) {
        (Some(TransactionStep::Commit { .. }), _) => "a COMMIT",
        (Some(TransactionStep::Begin { .. }), _) => "the commit of a transaction",
        (Some(TransactionStep::ImplicitCommit), _) | (_, Kind::Definition) => "a statement that commits implicitly",
        (_, Kind::Insert | Kind::Update | Kind::Delete | Kind::Load) => "a write",
        _ => "a statement that may write",
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use sql::{Dialect, Encoding, Family, Modes, NoFunctions};
    use wire::command::Command;
    use wire::exchange::Expect;

    use super::super::query::Body;
    use super::*;

    fn leaves(text: &str, transaction: Option<bool>) -> bool {
        let dialect =
            Dialect { family: Family::MariaDb, version: 101_100, modes: Modes::empty(), encoding: Encoding::Utf8 };
        let statement = Rc::new(sql::classify(text.as_bytes(), &dialect, &NoFunctions));
        let request = Request::again(&[], 0);
        Query::new(&request, Command::Query, statement, Body::AsCame, Expect::Results).may_leave_something(transaction)
    }

    #[test]
    fn what_may_have_been_done_for_good_is_told_from_what_the_server_takes_back() {
        for (text, alone, in_reading, in_writing) in [
            ("SELECT 1", false, false, false),
            ("SELECT * FROM t FOR UPDATE", false, false, false),
            ("INSERT INTO t VALUES (1)", true, false, false),
            ("BEGIN", false, false, true),
            ("COMMIT", false, false, true),
            ("ROLLBACK", false, false, false),
            ("SAVEPOINT a", false, false, false),
            ("SET autocommit = 1", false, false, true),
            ("SET NAMES utf8mb4", false, false, false),
            ("CREATE TABLE t (a INT)", true, true, true),
            ("CALL p()", true, true, true),
            ("INSERT INTO t VALUES (1); COMMIT", true, true, true),
            ("gibberish", true, true, true),
        ] {
            let found = [None, Some(false), Some(true)].map(|transaction| leaves(text, transaction));
            assert_eq!(found, [alone, in_reading, in_writing], "{text}");
        }
    }
}
