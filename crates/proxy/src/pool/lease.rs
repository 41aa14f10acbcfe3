//! A connection in a session's hands.

use std::rc::Rc;
use std::sync::Arc;

use facts::view::ServerId;
use stats::ServerStats;

use super::{Connection, Pools, ServerPool};

/// A backend connection in a session's hands. Dropped, it is closed: what state it is in is then not known.
#[derive(Debug)]
pub struct Lease {
    connection: Option<Box<Connection>>,
    pools: Rc<Pools>,
    pool: Rc<ServerPool>,
}

impl Lease {
    pub(super) fn new(connection: Box<Connection>, pools: Rc<Pools>, pool: Rc<ServerPool>) -> Lease {
        pool.stats.used.add(1);
        Lease { connection: Some(connection), pools, pool }
    }

    /// Puts the connection back. It must have no reply outstanding and its state must be known.
    pub fn give_back(mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.stats.used.add(-1);
            self.pools.put(&self.pool, connection);
        }
    }

    /// The server it leads to.
    pub fn server(&self) -> ServerId {
        self.pool.id
    }

    /// The server's name.
    pub fn server_name(&self) -> &Arc<str> {
        &self.pool.name
    }

    /// Sessions wait for it, or for another connection to its server.
    pub fn is_waited_for(&self) -> bool {
        self.pool.has_waiters()
    }

    /// It becomes a pipeline: those that may share it wait no longer.
    pub fn call_sharers(&self) {
        self.pool.call_sharers(&self.origin);
    }

    /// The server's counts.
    pub fn stats(&self) -> &Arc<ServerStats> {
        &self.pool.stats
    }
}

impl std::ops::Deref for Lease {
    type Target = Connection;

    #[allow(clippy::expect_used)] // Only `give_back` and `drop` take it, and both consume the lease.
    fn deref(&self) -> &Connection {
        self.connection.as_deref().expect("a lease holds its connection until its end")
    }
}

impl std::ops::DerefMut for Lease {
    #[allow(clippy::expect_used)] // As above.
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection.as_deref_mut().expect("a lease holds its connection until its end")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.stats.used.add(-1);
            self.pools.close(&self.pool, connection);
        }
    }
}
