//! A try failed: another one may follow, the client gets an error, or the session ends.

use super::belief::Belief;
use super::cluster_session::ClusterSession;
use super::environment::Environment;
use std::sync::Arc;
use std::time::Duration;

use facts::evidence::{Evidence, EvidenceKind};
use facts::view::ServerId;

use wire::{Status, errno};

use super::attempts::Attempts;
use super::client::Request;
use super::lost::Lost;
use super::query::Query;
use super::relay::{Outcome, RelayError};
use super::reset::ask;
use super::withhold::{GROUP_LOST, NOT_IN_GROUP, Withhold};
use super::{Held, Session, kill};
use crate::error::{Refusal, SessionEnd};
use route::{Pin, Reason, Route, Target};

/// Tries again of a statement that lost against others in its Galera group.
const CONFLICTS_MAX: u32 = 16;
/// The first pause before that is twice as long, and each further one twice the one before, up to thirty-two milliseconds.
const CONFLICT_PAUSE: Duration = Duration::from_micros(500);
/// How often the pause is doubled.
const CONFLICT_DOUBLINGS_MAX: u32 = 6;

/// A try that failed, with what the client has heard of it.
pub struct Failed {
    /// The connection.
    pub held: Held,
    /// Why.
    pub error: RelayError,
    /// The outcome up to the failure.
    pub outcome: Outcome,
}

/// The next step after a failed try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another try.
    TryAgain,
    /// Nothing: the client has its answer.
    Answered,
}

impl Session {
    /// A statement lost against another one in its group and is as if it had never been: it is tried again, a bounded number
    /// of times.
    async fn after_conflict(
        &mut self,
        request: &Request,
        held: Held,
        refusal: Refusal,
        attempts: &mut Attempts,
    ) -> Result<Next, SessionEnd> {
        attempts.conflicts += 1;
        if attempts.conflicts > CONFLICTS_MAX {
            self.release(held).await;
            self.answer_error(request, &refusal);
            self.client.flush().await.map_err(SessionEnd::ClientLost)?;
            return Ok(Next::Answered);
        }
        held.lease.stats().retries.add_one();
        self.release(held).await;
        // The member where losers gather must have what the session wrote.
        self.here.cluster.shared.published.want_positions();
        tokio::time::sleep(CONFLICT_PAUSE * (1 << attempts.conflicts.min(CONFLICT_DOUBLINGS_MAX))).await;
        Ok(Next::TryAgain)
    }

    /// Decides what follows. A statement that a lost server did not run, or that may run twice, is tried again elsewhere.
    pub(super) async fn recover(
        &mut self,
        query: &Query<'_>,
        route: &mut Route,
        failed: Failed,
        attempts: &mut Attempts,
    ) -> Result<Next, SessionEnd> {
        let Failed { mut held, error, outcome } = failed;
        // A reply that no session gets may have left messages.
        held.lease.origin.messages = None;
        match error {
            RelayError::Client(error) => Err(SessionEnd::ClientLost(error)),
            RelayError::UnexpectedInfile { sequence, name } => {
                self.refuse_infile(held, route.target == Target::Pinned, sequence, &name).await
            }
            RelayError::Withheld(refusal) if self.leaves_server(query, route, held.lease.server(), &refusal) => {
                self.leave_server(query, route, held, refusal, attempts).await
            }
            RelayError::Withheld(refusal) if refusal.code == errno::ER_LOCK_DEADLOCK => {
                self.after_conflict(query.request, held, refusal, attempts).await
            }
            RelayError::Withheld(refusal) if refusal.code == NOT_IN_GROUP && route.target != Target::Pinned => {
                let server = held.lease.server();
                held.lease.stats().retries.add_one();
                self.env.close(held).await;
                self.here.avoid_member(server, refusal, attempts);
                Ok(Next::TryAgain)
            }
            RelayError::FixUp(refusal) if refusal.code == NOT_IN_GROUP && route.target != Target::Pinned => {
                let server = held.lease.server();
                self.env.close(held).await;
                self.here.avoid_member(server, refusal, attempts);
                Ok(Next::TryAgain)
            }
            RelayError::Withheld(refusal) if is_ending(&refusal) && route.target != Target::Primary => {
                self.read_elsewhere(query.request, held, refusal, attempts).await
            }
            RelayError::Withheld(_) if route.target == Target::Pinned || route.reason == Reason::ReadOnlySession => {
                self.refuse_write(query, held).await
            }
            RelayError::Withheld(refusal) => {
                self.go_elsewhere(query, route, held, refusal, attempts).await;
                Ok(Next::TryAgain)
            }
            RelayError::Unprepared(refusal) => self.not_prepared(query, route, held, refusal).await,
            RelayError::NotThere(_) => {
                self.waited_too_long(held, attempts).await;
                Ok(Next::TryAgain)
            }
            RelayError::FixUp(refusal) if route.target != Target::Pinned => {
                let server = held.lease.server();
                self.env.close(held).await;
                self.fix_up_refused(query.request, route, server, refusal).await
            }
            RelayError::FixUp(refusal) => {
                self.env.close(held).await;
                self.end_with(query.request, refusal)
            }
            RelayError::Ended(refusal) => {
                self.env.close(held).await;
                self.end_with(query.request, refusal)
            }
            RelayError::Server(error) => self.lose_connection(query, route, (held, outcome, error), attempts).await,
        }
    }

    /// A server asked for a client's file behind a statement that loads none.
    async fn refuse_infile(
        &mut self,
        held: Held,
        is_pinned: bool,
        sequence: u8,
        name: &str,
    ) -> Result<Next, SessionEnd> {
        let server = held.lease.server_name().clone();
        self.env.close(held).await;
        tracing::warn!(server = %server, file = name, "a server asked for a client's file behind another statement");
        let refusal = Refusal::file_refused(&server, name);
        self.env.worker.stats.own_errors.add_one();
        self.client.put_error(sequence, &refusal);
        if is_pinned {
            self.lose_pinned_state();
            return Err(SessionEnd::ServerLost(refusal.message));
        }
        self.client.flush().await.map_err(SessionEnd::ClientLost)?;
        Ok(Next::Answered)
    }

    /// Whether the server is left with all that the session has there.
    fn leaves_server(&self, query: &Query<'_>, route: &Route, server: ServerId, refusal: &Refusal) -> bool {
        refusal.code == GROUP_LOST
            || is_ending(refusal) && route.target == Target::Pinned
            || matches!(self.withheld(query, route, server), Withhold::Lost | Withhold::Cut)
    }

    /// A server refuses what it served before: it is read only now, has left its group, or closes the connection.
    async fn leave_server(
        &mut self,
        query: &Query<'_>,
        route: &mut Route,
        held: Held,
        refusal: Refusal,
        attempts: &mut Attempts,
    ) -> Result<Next, SessionEnd> {
        let (server, name) = (held.lease.server(), held.lease.server_name().clone());
        let mark = held.lease.origin.mark.clone();
        let at = attempts.at;
        self.env.close(held).await;
        let kind = match refusal.code {
            errno::ER_OPTION_PREVENTS_STATEMENT | errno::ER_READ_ONLY_MODE => EvidenceKind::ReadOnly,
            NOT_IN_GROUP | GROUP_LOST => EvidenceKind::NotInGroup,
            _ => EvidenceKind::ConnectionLost,
        };
        self.here.cluster.shared.published.evidence(Evidence { server, kind });
        // The refused statement was not done, but other members may have the transaction that this one could not commit.
        let (sent, was_killed) = (refusal.code == GROUP_LOST, refusal.code == errno::ER_CONNECTION_KILLED);
        let lost = Lost { server, name, why: refusal.message, sent, ended: true, was_killed, at, mark };
        self.go_on_without(query, route, &lost, attempts).await
    }

    /// A server that shuts down refuses a read: another one serves it. MySQL has the same error for a statement whose connection
    /// somebody has killed.
    async fn read_elsewhere(
        &mut self,
        request: &Request,
        held: Held,
        refusal: Refusal,
        attempts: &mut Attempts,
    ) -> Result<Next, SessionEnd> {
        let (server, stats) = (held.lease.server(), held.lease.stats().clone());
        let opened = held.lease.origin.opened;
        self.env.close(held).await;
        // One that begins to shut down may take a login yet.
        let lives = !self.here.cluster.is_ended_by_demotion(server, opened)
            && Box::pin(self.serves_others(server)).await
            && Box::pin(self.serves_others(server)).await;
        if lives || self.env.handle.is_killed() {
            return self.end_with(request, refusal);
        }
        stats.retries.add_one();
        self.here.cluster.shared.published.evidence(Evidence { server, kind: EvidenceKind::ConnectionLost });
        attempts.refused(server, refusal);
        Ok(Next::TryAgain)
    }

    /// A write in a transaction, or a session, that only reads: the client hears what a server would say.
    async fn refuse_write(&mut self, query: &Query<'_>, mut held: Held) -> Result<Next, SessionEnd> {
        // MariaDB ends the transaction before it refuses.
        let ends =
            query.statement.transaction == Some(sql::TransactionStep::ImplicitCommit) && self.belief.is_mariadb();
        if ends && matches!(ask(&mut held.lease, "COMMIT", &self.env.worker).await, Ok(Some(_))) {
            self.belief.pins.put(Pin::Transaction, false);
            self.belief.status -= Status::IN_TRANSACTION | Status::IN_READ_ONLY_TRANSACTION;
            self.env.show_pins(self.belief.pins.bits());
        }
        let refusal = read_only_transaction(self.belief.is_mariadb());
        self.refuse_here(query, held, &refusal).await
    }

    /// The client hears that its statement was refused, and the session goes on, with its connection if it keeps that.
    async fn refuse_here(&mut self, query: &Query<'_>, held: Held, refusal: &Refusal) -> Result<Next, SessionEnd> {
        match self.belief.pins.is_empty() {
            true => self.release(held).await,
            false => self.here.held = Some(held),
        }
        self.answer_error(query.request, refusal);
        self.client.flush().await.map_err(SessionEnd::ClientLost)?;
        Ok(Next::Answered)
    }

    /// A statement could not be prepared again where it was to be executed: its table is gone, or not locked, or the session may
    /// only read by now. An execution of the statement that the client prepared would have failed in the same way, but a replica may
    /// not have heard yet of what the statement needs.
    async fn not_prepared(
        &mut self,
        query: &Query<'_>,
        route: &mut Route,
        held: Held,
        refusal: Refusal,
    ) -> Result<Next, SessionEnd> {
        let server = held.lease.server();
        if route.target == Target::Reader && self.here.cluster.view().primary.is_some_and(|primary| primary != server) {
            *route = route.again(Target::Primary, Reason::NotOnReplica);
            self.release(held).await;
            return Ok(Next::TryAgain);
        }
        self.refuse_here(query, held, &refusal).await
    }

    /// A connection broke. Somebody may have killed it; else its server is suspected, and the statement goes on elsewhere if
    /// nothing of its reply has reached the client.
    async fn lose_connection(
        &mut self,
        query: &Query<'_>,
        route: &mut Route,
        (mut held, outcome, error): (Held, Outcome, String),
        attempts: &mut Attempts,
    ) -> Result<Next, SessionEnd> {
        let at = attempts.at;
        let (server, name) = (held.lease.server(), held.lease.server_name().clone());
        let (stats, mark, opened) =
            (held.lease.stats().clone(), held.lease.origin.mark.clone(), held.lease.origin.opened);
        self.here.cluster.shared.published.evidence(Evidence { server, kind: EvidenceKind::ConnectionLost });
        let ended = outcome.sent && self.here.is_ended_by_server(&mut held, &outcome, at).await;
        drop(held);
        let killed_here = self.env.handle.end_statement(kill::KILL_WAIT).await || self.env.handle.is_killed();
        if killed_here || outcome.sent && Box::pin(self.was_killed(server, opened, &outcome, at)).await {
            tracing::info!(server = %name, session = self.env.handle.id, "a statement's connection was killed");
            self.lose_pinned_state();
            return Err(SessionEnd::ServerLost(error));
        }
        tracing::info!(server = %name, error, "a backend connection was lost");
        if outcome.delivered {
            // Half a reply cannot be taken back: the client's connection breaks as the server's did.
            return Err(SessionEnd::ServerLost(error));
        }
        let lost = Lost { server, name, why: error, sent: outcome.sent, ended, was_killed: false, at, mark };
        let next = self.go_on_without(query, route, &lost, attempts).await;
        if matches!(next, Ok(Next::TryAgain)) {
            stats.retries.add_one();
        }
        next
    }

    pub(super) fn end_with(&mut self, request: &Request, refusal: Refusal) -> Result<Next, SessionEnd> {
        self.lose_pinned_state();
        self.answer_error(request, &refusal);
        Err(SessionEnd::ServerLost(refusal.message))
    }

    /// A connection could not take the session's state. A schema that a replica does not know yet is found on the
    /// primary; one that is gone leaves this statement without a schema.
    async fn fix_up_refused(
        &mut self,
        request: &Request,
        route: &mut Route,
        server: ServerId,
        refusal: Refusal,
    ) -> Result<Next, SessionEnd> {
        if !self.belief.is_of_schema(&refusal) {
            tracing::warn!(server = server.0, error = refusal.message, "a session's state was refused");
            if route.target == Target::Reader
                && self.here.cluster.view().primary.is_some_and(|primary| primary != server)
            {
                *route = route.again(Target::Primary, Reason::NotOnReplica);
                return Ok(Next::TryAgain);
            }
            if self.belief.leave_uneven(&refusal) {
                return Ok(Next::TryAgain);
            }
            self.refuse(request, &refusal).await?;
            return Ok(Next::Answered);
        }
        let primary = self.here.cluster.view().primary;
        if route.target == Target::Reader && primary.is_some_and(|primary| primary != server) {
            *route = route.again(Target::Primary, Reason::NotOnReplica);
        } else {
            self.belief.leave_schema();
        }
        Ok(Next::TryAgain)
    }

    /// The server refused what another one may do: a primary that has become read-only is waited for in its new place,
    /// what a replica has not heard of yet is asked of the primary, whose answer is final.
    async fn go_elsewhere(
        &mut self,
        query: &Query<'_>,
        route: &mut Route,
        held: Held,
        refusal: Refusal,
        attempts: &mut Attempts,
    ) {
        let server = held.lease.server();
        held.lease.stats().retries.add_one();
        let is_ending = is_ending(&refusal);
        if route.target == Target::Primary {
            let kind = if is_ending { EvidenceKind::ConnectionLost } else { EvidenceKind::ReadOnly };
            self.here.cluster.shared.published.evidence(Evidence { server, kind });
            attempts.refused(server, refusal);
        } else {
            let reason = match refusal.code {
                // A read that a replica refuses as a write hides one.
                errno::ER_READ_ONLY_MODE | errno::ER_OPTION_PREVENTS_STATEMENT => Reason::WritingFunction,
                _ => Reason::NotOnReplica,
            };
            *route = route.again(Target::Primary, reason);
        }
        if query.statement.kind == sql::Kind::Set || is_ending {
            // A part of it may have been done.
            return self.env.close(held).await;
        }
        self.release(held).await;
    }
}

impl Belief {
    /// Whether a server refused the session's schema, and nothing else of its state.
    pub(super) fn is_of_schema(&self, refusal: &Refusal) -> bool {
        matches!(refusal.code, errno::ER_DBACCESS_DENIED_ERROR | errno::ER_BAD_DB_ERROR)
            && self.state.schema().is_some()
    }

    /// The session's schema is gone until its next statement.
    fn leave_schema(&mut self) {
        self.gone_schema = self.state.schema().map(Arc::from);
        Arc::make_mut(&mut self.state).set_schema(None);
    }

    /// Where no connection could be had for the session's schema, the statement runs without one; gives whether that is so.
    pub(super) fn leaves_schema(&mut self, refusal: &Refusal) -> bool {
        let leaves = self.is_of_schema(refusal);
        if leaves {
            self.leave_schema();
        }
        leaves
    }
}

impl ClusterSession {
    /// A member of a Galera group serves no session: another one does.
    pub(super) fn avoid_member(&self, server: ServerId, refusal: Refusal, attempts: &mut Attempts) {
        self.cluster.shared.published.evidence(Evidence { server, kind: EvidenceKind::NotInGroup });
        attempts.refused(server, refusal);
    }
}

impl Environment {
    pub(super) async fn close(&mut self, held: Held) {
        drop(held);
        self.handle.end_statement(kill::KILL_WAIT).await;
    }
}

/// A server that shuts down says so, and is of no more use.
fn is_ending(refusal: &Refusal) -> bool {
    refusal.code == errno::ER_SERVER_SHUTDOWN
}

/// A write within a transaction that was begun to read only.
fn read_only_transaction(mariadb: bool) -> Refusal {
    let end = if mariadb { "" } else { "." };
    let message = format!("Cannot execute statement in a READ ONLY transaction{end}");
    Refusal::like_server(errno::ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, b"25006", message)
}
