//! Sessions in the hands of an operator: which there are, and how one ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::sessions::{Relieved, SessionFacts, SessionState};
use net::query::{Client, Limits, QueryError};
use route::Pin;
use route::relief::on_demand;
use stats::micros;
use tokio::sync::oneshot;
use wire::{Capabilities, errno};

use crate::relief::{loads, relieved};
use crate::sessions::SessionHandle;
use crate::shared::{Mail, Mailboxes, ReliefOrder, Shared, login_as};

/// Longest wait for a server that kills a statement.
const KILL_WAIT: Duration = Duration::from_secs(2);
/// Its reply is an OK or an error.
const REPLY_BYTES_MAX: usize = 64 * 1024;
/// How long sessions are given to tell the form of their query.
const FORM_WAIT: Duration = Duration::from_millis(20);

/// The sessions of the process, for an operator.
#[derive(Clone, Debug)]
pub struct Operator {
    shared: Arc<Shared>,
    mailboxes: Mailboxes,
}

/// The thing that a kill ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillWhat {
    /// The statement that runs, if one does.
    Query,
    /// The session.
    Session,
}

/// A session as an operator saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// It had a query.
    pub is_busy: bool,
    /// The digest of that, or of its last one.
    pub digest: u64,
}

/// Why a session was not killed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KillError {
    /// There is none of this id.
    #[error("there is no session {0}")]
    Unknown(u32),
    /// The server was asked to kill the statement, and did not.
    #[error("server {server} did not kill the statement: {why}")]
    Server {
        /// The server's name.
        server: Arc<str>,
        /// Its words, or those of the connection.
        why: String,
    },
}

/// Why a worker gives no sessions away.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RelieveError {
    /// There is no such worker.
    #[error("there is no worker {0}; there are {1}, counted from 0")]
    Unknown(usize, usize),
    /// It has nothing to give.
    #[error("worker {0} is no busier than the others, and has no more sessions")]
    Even(usize),
    /// Another relief is under way, or the process stops.
    #[error("worker {0} gives sessions away already, or is about to end")]
    UnderWay(usize),
}

impl Operator {
    /// The operator of these sessions.
    pub(crate) fn of(shared: &Arc<Shared>, mailboxes: &Mailboxes) -> Operator {
        Operator { shared: shared.clone(), mailboxes: mailboxes.clone() }
    }

    /// All sessions, in the order of their ids. Those that run a query are asked for its form first, which takes some milliseconds.
    pub async fn sessions(&self) -> Vec<SessionFacts> {
        let mut all = self.shared.sessions.all();
        all.sort_by_key(|session| session.id);
        let mut asked = false;
        for session in all.iter().filter(|session| session.state().is_busy()) {
            if session.activity.ask() {
                session.wake.call();
                asked = true;
            }
        }
        if asked {
            tokio::time::sleep(FORM_WAIT).await;
        }
        let now = Instant::now();
        all.iter().map(|session| self.facts(session, now)).collect()
    }

    /// All sessions in no order, without the form of what runs and with times to the second: no session is asked.
    pub fn glance(&self) -> Vec<SessionFacts> {
        let now = Instant::now();
        self.shared.sessions.all().iter().map(|session| self.facts(session, now)).collect()
    }

    fn facts(&self, session: &SessionHandle, now: Instant) -> SessionFacts {
        let started = self.shared.started;
        let now_us = micros(now.saturating_duration_since(started));
        let since = |us: u64| Duration::from_micros(now_us.saturating_sub(us));
        let (login, state) = (session.login(), session.state());
        let reported = session.activity.reported().filter(|_| state.is_busy());
        let connected = now.saturating_duration_since(session.since);
        let idle_since_s = session.idle_since_s.load(std::sync::atomic::Ordering::Relaxed);
        let state_for = match state {
            SessionState::Login => connected,
            // Seconds are counted from 1.
            SessionState::Idle | SessionState::IdleInTransaction => {
                since(u64::from(idle_since_s.saturating_sub(1)) * 1_000_000)
            }
            _ => match &reported {
                Some(reported) => now.saturating_duration_since(reported.since),
                None => since(u64::from(session.activity.query_since_s().saturating_sub(1)) * 1_000_000),
            },
        };
        let held = session.held();
        let server = held.and_then(|(server, _)| {
            let cluster = self.shared.cluster(session.cluster.get()?)?;
            Some(cluster.published.view.load().server(server)?.name.clone())
        });
        let pins = session.pins.load(std::sync::atomic::Ordering::Relaxed);
        let (received_bytes, sent_bytes) = session.activity.bytes();
        let waits = session.activity.waits();
        let waits_for = waits.since_us.map(since);
        SessionFacts {
            id: session.id,
            cluster: session.cluster.get().cloned(),
            user: login.as_ref().map(|login| login.key.user.clone()),
            client: session.client(),
            schema: session.schema(),
            connected,
            state,
            state_for,
            digest: session.activity.digest(),
            form: reported.map(|reported| reported.form),
            thread_id: held.map(|(_, thread_id)| thread_id),
            server,
            transaction: session.activity.transaction_since_us().map(since),
            pins: Pin::WORDS
                .iter()
                .enumerate()
                .filter(|(index, _)| pins >> index & 1 != 0)
                .map(|(_, word)| *word)
                .collect(),
            worker: session.worker.load(std::sync::atomic::Ordering::Relaxed),
            received_bytes,
            sent_bytes,
            waits: waits.queries,
            waited: waits.over + waits_for.unwrap_or_default(),
            waits_for,
            tls: login.as_ref().is_some_and(|login| login.tls),
            program: login.as_ref().and_then(|login| login.program.clone()),
            listener: login.map(|login| login.listener),
        }
    }

    /// Kills a session, or what it runs; if it was `seen`, only while it still is what it was then. Gives whether there was something to
    /// kill. The server is asked as the session's own user: every account may kill what is its own.
    ///
    /// # Errors
    /// See [`KillError`]. A session that is to end does so, whatever its server says.
    pub async fn kill(&self, id: u32, what: KillWhat, seen: Option<Seen>) -> Result<bool, KillError> {
        let session = self.shared.sessions.get(id).ok_or(KillError::Unknown(id))?;
        let kill = session.begin_kill();
        let state = session.state();
        let now = Seen { is_busy: state.is_busy(), digest: session.activity.digest() };
        if seen.is_some_and(|seen| seen != now) {
            return Ok(false);
        }
        let has_run = state.is_busy();
        let running = if has_run { kill.held.or_else(|| session.note_kill()) } else { None };
        let killed = match running {
            Some((server, thread_id)) => self.kill_on_server(&session, server, thread_id).await,
            None => Ok(()),
        };
        drop(kill);
        if what == KillWhat::Session {
            tracing::info!(session = id, user = session.user().as_deref(), "an operator has killed a session");
            session.kill();
            return Ok(true);
        }
        killed?;
        if has_run {
            tracing::info!(session = id, user = session.user().as_deref(), "an operator has killed a statement");
        }
        Ok(has_run)
    }

    /// Has a worker give sessions to another one, and waits until that is over: a second or so. With `dry_run` nothing moves.
    ///
    /// # Errors
    /// See [`RelieveError`].
    pub async fn relieve(&self, worker: usize, dry_run: bool) -> Result<Relieved, RelieveError> {
        let loads = loads(&self.shared);
        if worker >= loads.len() {
            return Err(RelieveError::Unknown(worker, loads.len()));
        }
        let relief = on_demand(worker, &loads).ok_or(RelieveError::Even(worker))?;
        if dry_run {
            return Ok(relieved(&relief, 0, 0));
        }
        let (answer, result) = oneshot::channel();
        let order = ReliefOrder { relief, by_operator: true, answer: Some(answer) };
        let under_way = RelieveError::UnderWay(worker);
        if self.mailboxes[worker].send(Mail::Relieve(Box::new(order))).is_err() {
            return Err(under_way);
        }
        result.await.ok().flatten().ok_or(under_way)
    }

    async fn kill_on_server(
        &self,
        session: &SessionHandle,
        server: facts::view::ServerId,
        thread_id: u64,
    ) -> Result<(), KillError> {
        let (Some(login), Some(cluster)) =
            (session.login(), session.cluster.get().and_then(|name| self.shared.cluster(name)))
        else {
            return Ok(());
        };
        let view = cluster.published.view.load();
        let Some(server) = view.server(server) else { return Ok(()) };
        let failed = |why: String| KillError::Server { server: server.name.clone(), why };
        let target = cluster.target(server, KILL_WAIT, login.key.client);
        let capabilities = Capabilities::PROTOCOL_41 | Capabilities::TRANSACTIONS;
        let as_user = login_as(&login.key.user, &login.key.credential, capabilities, 0);
        let limits = Limits { reply_bytes_max: REPLY_BYTES_MAX, timeout: KILL_WAIT };
        let mut client = Client::connect(&target, as_user, limits).await.map_err(|error| failed(error.to_string()))?;
        match client.query_one(format!("KILL QUERY {thread_id}")).await {
            // The statement has just ended.
            Err(QueryError::Server(error)) if error.code == errno::ER_NO_SUCH_THREAD => Ok(()),
            Err(error) => Err(failed(error.to_string())),
            Ok(_) => Ok(()),
        }
    }
}
