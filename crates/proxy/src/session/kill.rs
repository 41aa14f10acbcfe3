//! KILL with the ids that clients know: those of Sqluice's own greetings, and below [`ID_FIRST`] those of a server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use facts::grants::is_admin_grant;
use facts::view::{ServerId, ServerView};
use net::query::{self, Limits, QueryError};
use sql::{Effect, Statement, Victim};
use wire::command::Execute;
use wire::parameters::Value;
use wire::{Capabilities, errno};

use super::Session;
use super::client::Request;
use super::local::Answered;
use super::query::{Body, Query};
use crate::error::Refusal;
use crate::sessions::{ID_FIRST, SessionHandle};
use crate::shared::login_as;

/// How long a connection waits for a KILL that was aimed at it, before it is given up.
pub const KILL_WAIT: Duration = Duration::from_secs(2);
/// Longer lists of an account's privileges are taken for none.
const GRANTS_BYTES_MAX: usize = 256 * 1024;
/// The manner of a KILL.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kill {
    /// The statement alone.
    pub query_only: bool,
    /// Nothing that would leave a table broken (MariaDB).
    pub soft: bool,
}

impl Kill {
    /// The statement that kills a server's own connection.
    fn statement(self, thread_id: u64) -> String {
        let soft = if self.soft { "SOFT " } else { "" };
        let what = if self.query_only { "QUERY" } else { "CONNECTION" };
        format!("KILL {soft}{what} {thread_id}")
    }
}

fn not_owner(id: u32) -> Refusal {
    Refusal::like_server(errno::ER_KILL_DENIED_ERROR, b"HY000", format!("You are not owner of thread {id}"))
}

impl Session {
    /// KILL [CONNECTION | QUERY] id, and COM_PROCESS_KILL.
    pub(super) async fn kill(&mut self, request: &Request, id: Option<u64>, how: Kill) -> Answered {
        let id = id.unwrap_or(0);
        let killed = match self.victim(id) {
            Some(victim) if victim.id == self.env.handle.id => return self.kill_itself(request, how),
            Some(victim) => self.kill_other(&victim, how).await,
            None => self.kill_stranger(id, how).await,
        };
        match killed {
            Ok(()) => {
                self.belief.past.answered(0);
                // MariaDB's KILL names no table, and leaves the messages.
                if !self.belief.is_mariadb() {
                    self.belief.past.has_no_messages();
                }
                self.answer_ok(request, 0)
            }
            Err(refusal) => self.answer_error(request, &refusal),
        }
    }

    /// KILL as a text. `None` where a server must answer: another statement stands beside it.
    pub(super) async fn kill_by_text(&mut self, request: &Request, statement: &Statement) -> Option<Answered> {
        let Some(Effect::Kill { query_only, soft, victim }) =
            statement.effects.first().filter(|_| statement.parts == 1)
        else {
            return None;
        };
        let how = Kill { query_only: *query_only, soft: *soft };
        Some(match victim {
            Victim::User { name, host } => self.kill_user(request, name.as_deref(), host.as_deref(), how).await,
            // A server refuses it.
            Victim::Query => return None,
            victim => match self.id_in_text(victim).await {
                Some(id) => self.kill(request, Some(id), how).await,
                // The number that an expression gives is one of ours, which a server would take for one of its own.
                None => {
                    let refusal = Refusal::not_supported("KILL with an expression that only a server can compute");
                    self.answer_error(request, &refusal)
                }
            },
        })
    }

    /// The same as [`Session::id_to_kill`]; a user variable may have a value that only the connection knows which the session keeps.
    async fn id_in_text(&mut self, victim: &Victim) -> Option<u64> {
        let is_unknown = match victim {
            Victim::UserVariable(name) => self.belief.pins.is_user_variable_unknown(name),
            _ => false,
        };
        if is_unknown && let Some(mut held) = self.here.held.take() {
            self.belief.past.is_here();
            if std::mem::take(&mut self.belief.past.found_rows_unsure) {
                Box::pin(self.read_found_rows(&mut held)).await;
            }
            // A connection that is lost now shows that to the next statement.
            Box::pin(self.read_back(&mut held)).await;
            self.here.held = Some(held);
        }
        self.id_to_kill(victim)
    }

    /// The id that a text says, if Sqluice can tell it without a server.
    fn id_to_kill(&self, victim: &Victim) -> Option<u64> {
        match victim {
            Victim::Connection(id) => Some(*id),
            Victim::Own => Some(u64::from(self.env.handle.id)),
            Victim::UserVariable(name) => {
                let Some(literal) = self.belief.state.user_variable(name) else {
                    // One that was never set is NULL, and the servers take NULL for 0.
                    return (!self.belief.pins.is_user_variable_unknown(name)).then_some(0);
                };
                if literal.ends_with("NULL") {
                    return Some(0);
                }
                let cast = literal.strip_prefix("CAST(").and_then(|cast| cast.strip_suffix(" AS UNSIGNED)"));
                cast.unwrap_or(literal).parse().ok()
            }
            _ => None,
        }
    }

    /// A prepared KILL that is executed. `None` where a server must answer: neither its text nor its only parameter tells the id.
    pub(super) async fn kill_by_execute(&mut self, query: &Query<'_>, arguments: &[u8]) -> Option<Answered> {
        if let Some(Effect::Kill { query_only, soft, victim: Victim::User { name, host } }) =
            query.statement.effects.first()
        {
            let how = Kill { query_only: *query_only, soft: *soft };
            return Some(self.kill_user(query.request, name.as_deref(), host.as_deref(), how).await);
        }
        let (id, how) = self.executed_kill(query, arguments)?;
        Some(self.kill(query.request, Some(id), how).await)
    }

    /// The id and the manner of a prepared KILL that is executed, if its text or its only parameter tells.
    fn executed_kill(&mut self, query: &Query<'_>, arguments: &[u8]) -> Option<(u64, Kill)> {
        let Some(Effect::Kill { query_only, soft, victim }) = query.statement.effects.first() else { return None };
        let Body::Execute(statement) = query.body else { return None };
        let how = Kill { query_only: *query_only, soft: *soft };
        let capabilities = self.client.capabilities;
        if let Some(id) = self.id_to_kill(victim) {
            return Some((id, how));
        }
        let known = self.belief.statements.find_mut(statement)?;
        if known.parameters != 1 || *victim != Victim::Parameter {
            return None;
        }
        let execute = Execute::parse(arguments, 1, capabilities).ok()?;
        let types = known.types_of(execute.count.unwrap_or(1), execute.types)?;
        let named = capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        let id = match execute.parameters(types, 1, named).ok()?.first()? {
            Value::Int(id) => u64::try_from(*id).unwrap_or(0),
            Value::Bytes(digits) | Value::Decimal(digits) => {
                std::str::from_utf8(digits).ok()?.trim().parse().unwrap_or(0)
            }
            _ => 0,
        };
        Some((id, how))
    }

    /// The session of this cluster that a client means by an id: the greeting's, or the primary's own id of the session's
    /// backend connection, which a client may have read in a server's log.
    fn victim(&self, id: u64) -> Option<Arc<SessionHandle>> {
        let (sessions, cluster) = (&self.env.worker.shared.sessions, &self.here.cluster.shared.name);
        if id >= u64::from(ID_FIRST) {
            return sessions.find(cluster, u32::try_from(id).ok()?);
        }
        let primary = self.here.cluster.view().primary?;
        sessions.of_cluster(cluster).into_iter().find(|session| session.runs_on(primary) == Some(id))
    }

    /// A server answers a suicide with an error and then hangs up.
    fn kill_itself(&mut self, request: &Request, how: Kill) -> Answered {
        let refusal = match how.query_only || !self.belief.is_mariadb() {
            true => Refusal::interrupted(),
            false => Refusal::like_server(errno::ER_CONNECTION_KILLED, b"70100", "Connection was killed"),
        };
        if !how.query_only {
            self.env.handle.kill();
        }
        self.answer_error(request, &refusal)
    }

    /// KILL … USER: all sessions of the user, and what the primary knows of his connections besides. The reply counts the sessions.
    async fn kill_user(&mut self, request: &Request, name: Option<&str>, host: Option<&str>, how: Kill) -> Answered {
        let own = self.who.identity.user.clone();
        let name = name.unwrap_or(&own);
        let is_local = |session: &SessionHandle| session.client_ip().is_none_or(|ip| ip.is_loopback());
        let comes_from = |session: &SessionHandle| match host.filter(|host| *host != "%") {
            None => true,
            Some(host) if host.eq_ignore_ascii_case("localhost") => is_local(session),
            Some(host) => session.client_ip().is_some_and(|ip| ip.to_string() == host),
        };
        let mut killed = 0;
        if *name == *own || self.is_connection_admin().await {
            let sessions = self.env.worker.shared.sessions.of_cluster(&self.here.cluster.shared.name);
            let of_user = |session: &SessionHandle| session.user().is_some_and(|user| *user == *name);
            for victim in sessions.iter().filter(|session| of_user(session) && comes_from(session)) {
                if victim.id != self.env.handle.id && self.kill_other(victim, how).await.is_ok() {
                    killed += 1;
                }
            }
        }
        let kills_itself = *name == *own && comes_from(&self.env.handle);
        if kills_itself {
            return self.kill_itself(request, how);
        }
        let status = self.belief.status - wire::Status::SESSION_STATE_CHANGED;
        let ok = wire::reply::Ok { status, affected_rows: killed, ..wire::reply::Ok::default() };
        self.client.put_ok(request.sequence.wrapping_add(1), &ok);
        self.belief.past.answered(i64::try_from(killed).unwrap_or(0));
        Answered::Ok
    }

    async fn kill_other(&self, victim: &SessionHandle, how: Kill) -> Result<(), Refusal> {
        let kill = victim.begin_kill();
        let result = match kill.held {
            // The server knows who may kill whom: it is asked as the killer's user.
            Some((server, thread_id)) => match self.kill_on_server(server, thread_id, how).await {
                // The statement ended just now: there is nothing left to kill.
                Err(refusal) if refusal.code == errno::ER_NO_SUCH_THREAD => Ok(()),
                Err(refusal) if refusal.code == errno::ER_KILL_DENIED_ERROR => Err(not_owner(victim.id)),
                result => result,
            },
            None if victim.user().is_none_or(|user| user != self.who.identity.user)
                // It has no backend connection that a server could judge by.
                && !self.is_connection_admin().await =>
            {
                Err(not_owner(victim.id))
            }
            None if how.query_only => match victim.note_kill() {
                Some((server, thread_id)) => self.kill_on_server(server, thread_id, how).await,
                None => Ok(()),
            },
            None => Ok(()),
        };
        if result.is_ok() && !how.query_only {
            // Before the kill is over: the victim asks then why its connection is gone.
            victim.killed.store(true, Ordering::SeqCst);
            victim.wake.call();
        }
        drop(kill);
        result
    }

    /// A connection of the primary that is no session's: a client that came another way, or one that waits in a pool.
    async fn kill_stranger(&self, id: u64, how: Kill) -> Result<(), Refusal> {
        let unknown = Refusal::like_server(errno::ER_NO_SUCH_THREAD, b"HY000", format!("Unknown thread id: {id}"));
        match self.here.cluster.view().primary {
            Some(primary) if id < u64::from(ID_FIRST) => self.kill_on_server(primary, id, how).await,
            _ => Err(unknown),
        }
    }

    pub(super) async fn kill_on_server(&self, server: ServerId, thread_id: u64, how: Kill) -> Result<(), Refusal> {
        let view = self.here.cluster.view();
        let Some(server) = view.server(server) else { return Ok(()) };
        self.ask_as_user(server, &how.statement(thread_id)).await.map(drop)
    }

    /// Whether the user administers connections: the servers let it kill those of others, and run no `init_connect` for it. They say
    /// so in its grants.
    pub(super) async fn is_connection_admin(&self) -> bool {
        let view = self.here.cluster.view();
        let Some(server) = view.primary.and_then(|primary| view.server(primary)) else { return false };
        let grants = self.ask_as_user(server, "SHOW GRANTS").await.unwrap_or_default();
        if grants.iter().any(|grant| is_admin_grant(grant)) {
            return true;
        }
        if self.belief.is_mariadb() {
            return false;
        }
        // MySQL lists what comes by roles for the roles that are asked for.
        let roles = self.ask_as_user(server, "SELECT CURRENT_ROLE()").await.unwrap_or_default();
        let Some(roles) = roles.first().filter(|roles| **roles != "NONE") else { return false };
        let by_roles = format!("SHOW GRANTS FOR CURRENT_USER() USING {roles}");
        self.ask_as_user(server, &by_roles).await.unwrap_or_default().iter().any(|grant| is_admin_grant(grant))
    }

    /// Asks a server over a connection of its own, as the session's user; gives the first column of the first result.
    async fn ask_as_user(&self, server: &ServerView, sql: &str) -> Result<Vec<String>, Refusal> {
        let target = self.here.cluster.shared.target(server, KILL_WAIT, self.who.identity.key.client);
        let capabilities = Capabilities::PROTOCOL_41 | Capabilities::TRANSACTIONS;
        let login = login_as(
            &self.who.identity.user,
            &self.who.identity.key.credential,
            capabilities,
            self.who.identity.collation,
        );
        let limits = Limits { reply_bytes_max: GRANTS_BYTES_MAX, timeout: KILL_WAIT };
        let failed = |why: String| {
            Refusal::own(errno::ER_NO_SUCH_THREAD, b"HY000", format_args!("the statement could not be killed: {why}"))
        };
        let connected = self.here.cluster.shared.connect_quietly(&target, login).await;
        let mut client = query::Client::new(connected.map_err(|error| failed(error.to_string()))?, limits);
        match client.query_one(sql).await {
            Ok(result) => {
                let first = |row: &query::Row| {
                    row.first()
                        .and_then(|value| value.as_deref().map(|text| String::from_utf8_lossy(text).into_owned()))
                };
                Ok(result.rows.iter().filter_map(first).collect())
            }
            Err(QueryError::Server(error)) => {
                Err(Refusal::of_server(error.code, error.sqlstate.as_deref(), &error.message))
            }
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_hear_how_to_kill() {
        assert_eq!(Kill::default().statement(5), "KILL CONNECTION 5");
        assert_eq!(Kill { query_only: true, soft: true }.statement(5), "KILL SOFT QUERY 5");
    }
}
