//! Statements that somebody has killed: while they waited for a connection, or with the connection that they ran on.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use facts::view::{Role, ServerId};
use net::client::Cause;
use net::query::{Client, Limits};
use wire::handshake::ServerError;
use wire::{Capabilities, errno};

use super::Session;
use super::attempts::Attempts;
use super::cluster_session::{ClusterSession, Held};
use super::environment::Environment;
use super::query::Query;
use super::relay::Outcome;
use super::withhold::NOT_IN_GROUP;
use crate::error::{Refusal, SessionEnd};
use crate::pool::ConnectionEnd;
use crate::shared::login_as;

/// How long a statement has run, at least, that somebody has killed.
const KILLED_AFTER: Duration = Duration::from_millis(50);
/// How long a server that has ended a connection may take for a login and an answer, before it counts as gone.
const LOGIN_WAIT: Duration = Duration::from_secs(1);
/// An answer to the simplest query is shorter.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
/// How long the other connections to such a server are given to end as well.
const OTHERS_WAIT: Duration = Duration::from_millis(20);
/// How many of these waits a member of a group is given. One that is told to refuse statements ends all sessions, and may serve a new
/// one in that moment; the monitor hears of it with one of its next probes.
const MEMBER_WAITS: u32 = 15;

impl Environment {
    /// Waits for a connection, unless somebody kills the statement meanwhile: no server knows of it yet.
    ///
    /// # Errors
    /// As the wait; and when the statement is killed.
    pub(super) async fn unless_killed<T>(
        &self,
        mut wait: Pin<Box<impl Future<Output = Result<T, Refusal>>>>,
    ) -> Result<T, Refusal> {
        poll_fn(|cx| match self.handle.take_noted_kill() {
            true => Poll::Ready(Err(Refusal::interrupted())),
            false => wait.as_mut().poll(cx),
        })
        .await
    }
}

impl Session {
    /// The statement was killed before its connection had it: the connection stays as it is, and the client gets the error.
    pub(super) async fn leave_killed(
        &mut self,
        held: Held,
        query: &Query<'_>,
        attempts: &Attempts,
    ) -> Result<(), SessionEnd> {
        if self.belief.pins.is_empty() {
            self.release(held).await;
        } else {
            self.here.held = Some(held);
        }
        self.refuse_query(query, attempts, &Refusal::interrupted()).await
    }

    /// Whether somebody has killed the statement: its server lives, serves its user as ever, and has left the other connections alone.
    /// Such a statement is not run again. A server that is gone refuses the login at once.
    pub(super) async fn was_killed(&self, server: ServerId, opened: Instant, outcome: &Outcome, at: Instant) -> bool {
        // A connection that ended while it was idle may have taken the statement without a look at it.
        if outcome.end != ConnectionEnd::Closed || at.elapsed() < KILLED_AFTER || !self.here.serves_on(server, at) {
            return false;
        }
        if self.here.cluster.is_ended_by_demotion(server, opened) {
            return false;
        }
        self.serves_others(server).await && self.here.serves_on(server, at)
    }

    /// Whether the server lives, serves its user as ever, and has left the other connections alone.
    pub(super) async fn serves_others(&self, server: ServerId) -> bool {
        if !self.serves_user(server).await {
            return false;
        }
        // Failover tools, and servers that shut down, end all connections, one after the other.
        let waits = if self.here.cluster.view().group.is_some() { MEMBER_WAITS } else { 1 };
        for _ in 0..waits {
            tokio::time::sleep(OTHERS_WAIT).await;
            let view = self.here.cluster.view();
            let serves = view.server(server).is_some_and(|known| !known.is_lost() && known.role != Role::Unknown);
            if !serves || self.here.cluster.pools.has_lost_idle(server) {
                return false;
            }
        }
        true
    }

    /// Whether the server lives and lets this user work. Some servers end all sessions and live on: MySQL that goes offline, members
    /// that leave their Galera group or refuse its statements. No one has killed the statement then.
    async fn serves_user(&self, server: ServerId) -> bool {
        let view = self.here.cluster.view();
        let Some(known) = view.server(server) else { return false };
        let target = self.here.cluster.shared.target(known, LOGIN_WAIT, self.who.identity.key.client);
        let capabilities = Capabilities::PROTOCOL_41 | Capabilities::TRANSACTIONS;
        let login = login_as(
            &self.who.identity.user,
            &self.who.identity.key.credential,
            capabilities,
            self.who.identity.collation,
        );
        let limits = Limits { reply_bytes_max: ANSWER_BYTES_MAX, timeout: LOGIN_WAIT };
        let asked = async {
            match Client::connect(&target, login, limits).await {
                // A member of a group that refuses statements takes logins.
                Ok(mut client) => match client.query("SELECT 1").await {
                    Err(error) => error.server_error().is_some_and(lives),
                    Ok(_) => true,
                },
                // It refuses this login, and lives.
                Err(error) => matches!(error.cause, Cause::Server(said) if lives(&said)),
            }
        };
        tokio::time::timeout(LOGIN_WAIT, asked).await.unwrap_or(false)
    }
}

/// Whether a server that says so to a new session serves other sessions. One that ends all sessions ends this one, too.
fn lives(said: &ServerError) -> bool {
    !matches!(
        said.code,
        errno::ER_SERVER_SHUTDOWN
            | errno::ER_SERVER_OFFLINE_MODE
            | errno::ER_CONNECTION_KILLED
            | errno::ER_QUERY_INTERRUPTED
            | NOT_IN_GROUP
    )
}

impl ClusterSession {
    /// Whether the server does what it did: nothing moves away from it.
    fn serves_on(&self, server: ServerId, at: Instant) -> bool {
        let view = self.cluster.view();
        // The change of roles has ended a statement that was under way.
        self.cluster.roles_changed.get() <= at
            && !view.hold_writes
            && view.primary.is_some()
            && view.server(server).is_some_and(|known| !known.is_lost())
    }
}
