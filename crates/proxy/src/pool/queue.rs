//! Waiting for a connection: first come, first served, and nothing granted is ever lost.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;

use super::{Connection, ConnectionNeeds, Key, Origin, Pools, ServerPool, StatementKey};

/// A statement's place in the queue, as its session says it.
#[derive(Debug)]
pub struct Waits {
    /// When it came to the queue, if it has left it since.
    pub since: Option<Instant>,
    /// The connection that it could share with others.
    pub shares: Shares,
}

/// The connection that a statement could share with others, if one with its state becomes a pipeline.
#[derive(Debug)]
pub enum Shares {
    /// None.
    Never,
    /// Any.
    Any,
    /// One on which this statement is prepared.
    Prepared(StatementKey),
}

/// A statement that waits for a connection.
#[derive(Debug)]
pub(super) struct Waiter {
    pub key: Arc<Key>,
    /// When it came.
    pub since: Instant,
    pub grant: oneshot::Sender<Grant>,
    shares: Shares,
    /// The state that it needs, and the login that its connection must not be older than.
    state: u64,
    login: u64,
}

impl Waiter {
    pub(super) fn new(wanted: &ConnectionNeeds, waits: Waits) -> (Waiter, oneshot::Receiver<Grant>) {
        let (grant, granted) = oneshot::channel();
        let since = waits.since.unwrap_or_else(Instant::now);
        let (key, state, login) = (wanted.key.clone(), wanted.state.fingerprint(), wanted.login);
        (Waiter { key, since, grant, shares: waits.shares, state, login }, granted)
    }

    /// It could share this connection.
    pub(super) fn may_share(&self, origin: &Origin) -> bool {
        let is_there = match &self.shares {
            Shares::Never => false,
            Shares::Any => true,
            Shares::Prepared(key) => origin.statements.has(key),
        };
        is_there
            && self.state == origin.state.fingerprint()
            && self.login <= origin.logged_in
            && *self.key == *origin.key
    }
}

/// A connection, or the permit to open one, for a waiter.
#[derive(Debug)]
pub(super) enum Grant {
    Connection(Box<Connection>),
    /// The right to open one.
    Permit,
    /// A connection has become a pipeline that the statement may share; it came to the queue at this moment.
    Pipeline {
        since: Instant,
    },
}

/// A place in the queue. A permit that was not taken, because the session ended or its time was over, goes to the
/// next in the queue.
pub(super) struct Ticket {
    pools: Rc<Pools>,
    pool: Rc<ServerPool>,
    pub granted: oneshot::Receiver<Grant>,
    /// It is the cluster's limit that has no room, not the server's.
    for_cluster: bool,
}

impl Ticket {
    pub(super) fn new(pools: Rc<Pools>, pool: Rc<ServerPool>, granted: oneshot::Receiver<Grant>) -> Ticket {
        pool.quota.begin_waiting(pools.worker);
        pools.worker_stats.waiting.add(1);
        pools.worker_stats.waited.add_one();
        let for_cluster = pools.shared.cluster_quota.is_full() && !pool.quota.is_full();
        if for_cluster {
            pools.shared.cluster_quota.begin_waiting(pools.worker);
        }
        Ticket { pools, pool, granted, for_cluster }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.pool.quota.end_waiting(self.pools.worker);
        if self.for_cluster {
            self.pools.shared.cluster_quota.end_waiting(self.pools.worker);
        }
        self.pools.worker_stats.waiting.add(-1);
        self.granted.close();
        // A waiter that is served or has left is not the one that waits longest.
        self.pool.has_waiters();
        match self.granted.try_recv() {
            Ok(Grant::Connection(connection)) => self.pools.put(&self.pool, connection),
            Ok(Grant::Permit) => self.pools.permit_free(&self.pool),
            Ok(Grant::Pipeline { .. }) | Err(_) => {}
        }
    }
}

/// The right to a connection that is being opened; given back unless it is kept.
pub(super) struct Permit {
    pools: Rc<Pools>,
    pool: Rc<ServerPool>,
    kept: bool,
}

impl Permit {
    pub(super) fn new(pools: Rc<Pools>, pool: Rc<ServerPool>) -> Permit {
        Permit { pools, pool, kept: false }
    }

    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.kept {
            self.pools.permit_free(&self.pool);
        }
    }
}
