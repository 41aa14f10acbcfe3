//! The part of a session that belongs to one cluster: a second cluster would have another one.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use ::facts::view::ServerId;
use route::OwnWrites;

use super::cache::ContextHere;
use super::replica_wait::Awaits;
use crate::pool::{Lease, SessionHere, UserLease};
use crate::worker::ClusterHere;

/// A session's part in a cluster.
#[derive(Debug)]
pub(super) struct ClusterSession {
    /// The cluster.
    pub cluster: Rc<ClusterHere>,
    /// The backend connection that is kept while the session is pinned.
    pub held: Option<Held>,
    /// The session's writes; `None` while there are none.
    pub own_writes: Option<Box<OwnWrites>>,
    /// Where it has read last; `None` behind a write whose position is known, which covers what was read before it.
    pub read_last: Option<ServerId>,
    /// The server that a statement of this session is on its way to.
    load_on: Cell<Option<ServerId>>,
    /// The context of the result cache, as it was asked for last.
    pub cache_context: Option<Box<ContextHere>>,
    /// The writes that the result cache does not know of yet.
    pub written_for_cache: Option<::facts::tables::WrittenRows>,
    /// The statements that the session's first turn runs.
    pub init_connect: Option<Box<str>>,
    /// Counts as one of its user's sessions on this worker.
    user: SessionHere,
}

impl ClusterSession {
    /// The part of a session of this user that begins.
    pub(super) fn new(cluster: Rc<ClusterHere>, user: &Arc<str>) -> ClusterSession {
        ClusterSession {
            user: SessionHere::begin(&cluster.pools, user),
            cluster,
            held: None,
            own_writes: None,
            read_last: None,
            load_on: Cell::new(None),
            cache_context: None,
            written_for_cache: None,
            init_connect: None,
        }
    }

    /// The session is this user's from now on.
    pub(super) fn count_user(&mut self, user: &Arc<str>) {
        self.user = SessionHere::begin(&self.cluster.pools, user);
    }

    /// A statement is on its way to this server.
    #[inline]
    pub(super) fn begin_load(&self, server: ServerId) {
        self.cluster.loads.begin(server);
        self.load_on.set(Some(server));
    }

    /// Its reply is over, or will never come.
    #[inline]
    pub(super) fn end_load(&self) {
        if let Some(server) = self.load_on.take() {
            self.cluster.loads.end(server);
        }
    }
}

impl Drop for ClusterSession {
    /// A session that is killed has not come to the end of its statement.
    fn drop(&mut self) {
        self.end_load();
    }
}

/// A backend connection in the session's hands, and the user's right to it.
#[derive(Debug)]
pub(super) struct Held {
    /// The connection.
    pub lease: Lease,
    /// The server is asked ahead of the statement to wait until it has what that must find.
    pub awaits: Option<Awaits>,
    /// The user's right to it.
    pub _user: UserLease,
}
