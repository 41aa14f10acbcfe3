//! SHOW PROCESSLIST, as a server of the sessions' own would show it.
//!
//! Servers list backend connections by ids of their own. A client takes an id that it reads there for one that KILL takes
//! and CONNECTION_ID() answers. So a connection that serves a session is shown as the session, one that waits in a pool is
//! not shown, and a session without a connection gets a row.

mod idle_row;
mod renumber;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use facts::view::ServerId;
pub use idle_row::IdleRow;
pub use renumber::{OwnVariables, Renumber};

use crate::sessions::SessionHandle;
use crate::shared::{ClusterShared, Shared};

/// The connections of one server as its cluster's clients know them.
#[derive(Debug, Default)]
pub struct Shown {
    /// Sessions by the server's id of their backend connection.
    pub in_use: HashMap<u64, Arc<SessionHandle>>,
    /// Backend connections from here that serve no session.
    pub hidden: HashSet<u64>,
    /// Sessions without a connection to the server.
    pub elsewhere: Vec<Arc<SessionHandle>>,
    /// Of [`Shared::uptime_s`].
    pub now_s: u32,
}

impl Shown {
    /// The connections of this server, now.
    pub fn on(shared: &Shared, cluster: &ClusterShared, server: ServerId) -> Shown {
        let mut shown = Shown { hidden: cluster.backends.on(server), now_s: shared.uptime_s(), ..Shown::default() };
        for session in shared.sessions.of_cluster(&cluster.name) {
            match session.runs_on(server) {
                Some(thread_id) => {
                    shown.hidden.remove(&thread_id);
                    shown.in_use.insert(thread_id, session);
                }
                None => shown.elsewhere.push(session),
            }
        }
        shown.elsewhere.sort_by_key(|session| session.id);
        shown
    }

    /// A session without a row of the server's own.
    pub fn idle_row(&self, session: &SessionHandle) -> IdleRow {
        let since = session.idle_since_s.load(Ordering::Relaxed);
        let (command, idle_s) = if since == 0 { ("Query", 0) } else { ("Sleep", self.now_s.saturating_sub(since)) };
        IdleRow {
            id: session.id,
            user: session.user().unwrap_or_default(),
            host: session.client(),
            schema: session.schema(),
            command,
            idle_s,
        }
    }
}
