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
pub use renumber::Renumber;

use super::ids::Columns;
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

/// A change of a reply on its way to the client.
#[derive(Debug)]
pub enum Tap {
    /// The rows of a list of processes.
    Processes(Box<Renumber>),
    /// How columns are described.
    Columns(Box<Columns>),
}

impl Tap {
    /// Takes columns and rows, perhaps cut; gives false when no more is to be taken, and all of them is got by [`Tap::give_up`].
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        match self {
            Tap::Processes(renumber) => renumber.take(bytes),
            Tap::Columns(columns) => !columns.take(bytes),
        }
    }

    /// Gives the bytes that were taken last.
    pub fn give_up(self) -> Vec<u8> {
        match self {
            Tap::Processes(renumber) => renumber.give_up(),
            Tap::Columns(mut columns) => columns.give(),
        }
    }

    /// Gives the packets that were taken, whole ones by now. `is_end`: the result is over, and its last packet follows.
    pub fn give(&mut self, is_end: bool) -> Vec<u8> {
        match self {
            Tap::Processes(renumber) => renumber.give(is_end),
            Tap::Columns(columns) => columns.give(),
        }
    }

    /// The sequence number of a packet behind those that were given.
    pub fn sequence_for(&mut self, came_with: u8) -> u8 {
        match self {
            Tap::Processes(renumber) => renumber.sequence_for(came_with),
            Tap::Columns(_) => came_with,
        }
    }
}
