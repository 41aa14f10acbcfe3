//! The backend connections of one worker to one cluster.
//!
//! [`Pools::lease`] gives a session a connection: an idle one that needs no fix-up if there is one, else any idle one
//! that fits, else a new one while the limits allow, else the session waits, first come first served. A [`Lease`] that
//! is dropped closes its connection; [`Lease::give_back`] puts it back. Idle connections and free permits go to workers
//! that wait for them.

mod connection;
mod free;
mod lease;
mod listed;
mod open;
mod queue;
mod quota;
mod refused;
mod server_pool;
mod shared_out;
mod short;
mod spare;
mod statements;
mod upkeep;
mod users;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::view::{ServerId, ServerView};
use net::client::ConnectError;
use stats::WorkerStats;
use tokio::sync::Notify;

pub use connection::{ClosedBy, Connection, ConnectionEnd, Key, MEANINGFUL, NO_MESSAGES, Origin, Parcel};
pub use lease::Lease;
pub use listed::{Backends, Listed};
pub use open::ON_DEMAND;
pub use queue::{Shares, Waits};
pub use quota::Quota;
pub use spare::SessionHere;
pub use statements::{ForTypes, ServerStatements, StatementKey, TypesWanted};
pub use users::{UserLease, UserLeaseError, UserLeases};

use queue::{Grant, Permit, Ticket, Waiter};
use refused::Refused;
use server_pool::ServerPool;

use crate::shared::{ClusterSettings, ClusterShared, CountedHere};
use route::state::StateMap;

/// Why there is no connection.
#[derive(Debug)]
pub enum LeaseError {
    /// The longest wait is over.
    Timeout {
        /// How long it waited.
        waited: Duration,
    },
    /// Too many wait already.
    QueueFull {
        /// How many.
        waiting: usize,
    },
    /// A new connection could not be opened.
    Open(Box<ConnectError>),
    /// The statement may share a connection that has become a pipeline.
    PipelineBegan {
        /// When it came to the queue.
        since: Instant,
    },
    /// The statement has left the queue, as it wanted.
    Left {
        /// When it came to the queue.
        since: Instant,
    },
}

/// The backend connection that a session wants.
#[derive(Clone, Debug)]
pub struct ConnectionNeeds {
    /// The user and what else must be equal.
    pub key: Arc<Key>,
    /// The state that the connection should have.
    pub state: Arc<StateMap>,
    /// The number of the client's login ([`crate::shared::Logins`]).
    pub login: u64,
    /// The handshake collation for a new connection.
    pub collation: u16,
    /// The statement does the same whatever schema the connection is in.
    pub in_any_schema: bool,
}

/// The pools of one worker for one cluster.
#[derive(Debug)]
pub struct Pools {
    worker: usize,
    shared: Arc<ClusterShared>,
    worker_stats: Arc<WorkerStats>,
    servers: RefCell<Vec<Rc<ServerPool>>>,
    /// The settings, as of the last news.
    settings: RefCell<CountedHere<ClusterSettings>>,
    /// The time, as of the last [`Pools::tidy`]: good enough for what is measured in seconds.
    now: Cell<Instant>,
    /// How many sessions each user has on this worker.
    sessions: RefCell<HashMap<Arc<str>, usize>>,
    /// A connection has come free for somebody whom a server has refused one.
    freed: Notify,
    /// Users whom a server has just refused a further connection.
    refused: RefCell<Refused>,
}

impl Pools {
    /// Empty pools.
    pub fn new(worker: usize, shared: Arc<ClusterShared>, worker_stats: Arc<WorkerStats>) -> Pools {
        let settings = RefCell::new(Rc::new(shared.settings.load_full()));
        Pools {
            worker,
            shared,
            worker_stats,
            servers: RefCell::default(),
            settings,
            now: Cell::new(Instant::now()),
            sessions: RefCell::default(),
            freed: Notify::new(),
            refused: RefCell::default(),
        }
    }

    /// The cluster's settings.
    pub fn settings(&self) -> CountedHere<ClusterSettings> {
        self.settings.borrow().clone()
    }

    /// Takes the settings anew.
    pub fn renew_settings(&self) {
        *self.settings.borrow_mut() = Rc::new(self.shared.settings.load_full());
    }

    /// The pool of a server, made at the first call.
    pub fn server(&self, id: ServerId, name: &Arc<str>) -> Rc<ServerPool> {
        if let Some(pool) = self.servers.borrow().iter().find(|pool| pool.id == id) {
            return pool.clone();
        }
        let pool = Rc::new(ServerPool {
            id,
            name: name.clone(),
            worker: self.worker,
            quota: self.shared.quota(id, name),
            stats: self.worker_stats.server(&self.shared.name, name),
            idle: RefCell::default(),
            waiters: RefCell::default(),
            last_wanted: RefCell::default(),
            warming: Cell::new(false),
            closed: Cell::new(false),
        });
        self.servers.borrow_mut().push(pool.clone());
        pool
    }

    /// An idle connection to `server`, if there is one and no session waits for it. `in_any_schema` is as in [`ConnectionNeeds`]. One that
    /// has logged in before the session's `login` has to [log in again](Pools::log_in_again).
    pub fn take_idle(
        self: &Rc<Self>,
        server: &ServerView,
        key: &Key,
        login: u64,
        state: &StateMap,
        in_any_schema: bool,
    ) -> Option<Lease> {
        let pool = self.server(server.id, &server.name);
        while let Some(mut connection) = pool.take_idle(key, login, state, in_any_schema) {
            if connection.is_alive() {
                return Some(Lease::new(connection, self.clone(), pool));
            }
            self.close(&pool, connection);
        }
        None
    }

    /// A connection logs in again: it has the rights of now then, and no session's state.
    ///
    /// # Errors
    /// The server refuses the user, or the connection is lost. It is of no use then.
    pub async fn log_in_again(
        &self,
        lease: &mut Lease,
        server: &ServerView,
        wanted: &ConnectionNeeds,
    ) -> Result<(), ConnectError> {
        lease.stats().relogins.add_one();
        open::log_in_again(&self.shared, server, wanted, lease).await
    }

    /// As [`Pools::lease`], but `None` instead of a wait.
    pub async fn lease_now(
        self: &Rc<Self>,
        server: &ServerView,
        wanted: &ConnectionNeeds,
    ) -> Option<Result<Lease, LeaseError>> {
        let pool = self.server(server.id, &server.name);
        *pool.last_wanted.borrow_mut() = Some(wanted.clone());
        let refused = self.lately_refused(server.id, &wanted.key.user);
        if !self.take_permit(&pool, refused.is_none()) {
            return refused.map(Err);
        }
        Some(self.open(&pool, server, wanted).await)
    }

    /// Gives a connection to `server` that is not idle yet: a new one, or the next that is given back. Waits as long as
    /// `wait` if it must, in the place that `waits` says, unless `leaves` ends before; a login that has begun is not broken off.
    ///
    /// # Errors
    /// See [`LeaseError`].
    pub async fn lease(
        self: &Rc<Self>,
        server: &ServerView,
        wanted: &ConnectionNeeds,
        wait: Duration,
        waits: Waits,
        leaves: impl Future<Output = ()>,
    ) -> Result<Lease, LeaseError> {
        let pool = self.server(server.id, &server.name);
        *pool.last_wanted.borrow_mut() = Some(wanted.clone());
        let refused = self.lately_refused(server.id, &wanted.key.user);
        if !self.take_permit(&pool, refused.is_none()) {
            if let Some(error) = refused {
                return Err(error);
            }
            match self.wait(&pool, wanted, wait, (waits, leaves)).await? {
                // One that has to log in again is in no state that matters.
                Grant::Connection(connection)
                    if connection.origin.logged_in < wanted.login
                        || connection.origin.fits(&wanted.state, wanted.in_any_schema) =>
                {
                    return Ok(Lease::new(connection, self.clone(), pool));
                }
                Grant::Connection(connection) => {
                    drop(connection);
                    pool.stats.closed.add_one();
                }
                Grant::Pipeline { since } => return Err(LeaseError::PipelineBegan { since }),
                Grant::Permit => {}
            }
        }
        self.open(&pool, server, wanted).await
    }

    /// Opens a connection on a permit that was taken.
    async fn open(
        self: &Rc<Self>,
        pool: &Rc<ServerPool>,
        server: &ServerView,
        wanted: &ConnectionNeeds,
    ) -> Result<Lease, LeaseError> {
        let permit = Permit::new(self.clone(), pool.clone());
        // Opening is rare and its future is large: sessions do not carry it along.
        let connection = Box::pin(open::open(&self.shared, server, wanted, &pool.stats)).await.map_err(|error| {
            pool.stats.open_failures.add_one();
            self.refused.borrow_mut().note(server.id, &wanted.key.user, &error, Instant::now());
            LeaseError::Open(Box::new(error))
        })?;
        pool.stats.opened.add_one();
        permit.keep();
        Ok(Lease::new(Box::new(connection), self.clone(), pool.clone()))
    }

    /// The right to open a connection: a free one, or, if it `may_close` one, that of an idle connection that fits no session here.
    fn take_permit(&self, pool: &ServerPool, may_close: bool) -> bool {
        if pool.has_waiters() {
            return false;
        }
        if self.take_free_permit(pool) {
            return true;
        }
        if !may_close {
            return false;
        }
        if pool.quota.try_take(self.worker) {
            pool.quota.release(self.worker);
            // The cluster is full: an idle connection to another server may go.
            let other =
                self.servers.borrow().iter().find(|other| other.id != pool.id && other.drop_oldest_idle()).cloned();
            if let Some(other) = other {
                other.quota.release(self.worker);
                if pool.quota.try_take(self.worker) {
                    return true;
                }
                self.shared.cluster_quota.release(self.worker);
            }
        }
        // The permit of the connection that goes stays with us.
        pool.drop_oldest_idle()
    }

    /// The right to open a connection, if one is free.
    fn take_free_permit(&self, pool: &ServerPool) -> bool {
        if !pool.quota.try_take(self.worker) {
            return false;
        }
        if self.shared.cluster_quota.try_take(self.worker) {
            return true;
        }
        pool.quota.release(self.worker);
        false
    }

    async fn wait(
        self: &Rc<Self>,
        pool: &Rc<ServerPool>,
        wanted: &ConnectionNeeds,
        wait: Duration,
        (waits, leaves): (Waits, impl Future<Output = ()>),
    ) -> Result<Grant, LeaseError> {
        let settings = self.settings();
        let waiting = pool.quota.waiting();
        // One that has left the queue for a pipeline finds its place again.
        if waits.since.is_none() && waiting >= settings.pool.wait_max as usize {
            return Err(LeaseError::QueueFull { waiting });
        }
        let (waiter, granted) = Waiter::new(wanted, waits);
        let since = waiter.since;
        pool.push_waiter(waiter);
        let mut ticket = Ticket::new(self.clone(), pool.clone(), granted);
        self.shared.ask_others(self.worker, pool.id);
        let granted = tokio::time::timeout(wait.saturating_sub(since.elapsed()), &mut ticket.granted);
        let granted = tokio::select! {
            biased;
            granted = granted => granted,
            () = leaves => return Err(LeaseError::Left { since }),
        };
        match granted {
            Ok(Ok(grant)) => Ok(grant),
            Ok(Err(_)) | Err(_) => {
                self.worker_stats.wait_timeouts.add_one();
                Err(LeaseError::Timeout { waited: since.elapsed() })
            }
        }
    }
}
