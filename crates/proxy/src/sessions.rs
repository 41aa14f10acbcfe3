//! All sessions of the process: what others may know of one, and how they end it or what it runs.

mod activity;
mod kills;

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use facts::sessions::SessionState;
use facts::view::ServerId;
use tokio::sync::Notify;

pub use activity::{Activity, ReportedQuery, Waiting, Waits, WaitsFor};
pub use kills::KillUnderWay;

use crate::pool::Key;
use crate::wake::Wake;

/// The first id. Servers count their connections from 1: below a billion of them since a server's start, no session has the
/// id of a connection of its own, and KILL can tell the two apart.
pub const ID_FIRST: u32 = 1 << 30;
/// How many ids there are. The last one still is a positive number to clients that read it into 32 bits with a sign.
const IDS: u32 = 1 << 30;

/// All sessions of the process by the id that clients know: the greeting's, which KILL takes.
#[derive(Debug)]
pub struct Sessions {
    next: AtomicU32,
    all: Mutex<HashMap<u32, Arc<SessionHandle>>>,
}

/// A login, as others may know it.
#[derive(Clone, Debug)]
pub struct LoggedIn {
    /// The user, and how backend connections log in for it.
    pub key: Arc<Key>,
    /// The listener.
    pub listener: Arc<str>,
    /// The program, by the client's own word.
    pub program: Option<Arc<str>>,
    /// The client's connection is encrypted.
    pub tls: bool,
}

/// The part of a session that others may know, and their way to end it.
#[derive(Debug)]
pub struct SessionHandle {
    /// The id.
    pub id: u32,
    /// The login; COM_CHANGE_USER brings another.
    login: Mutex<Option<LoggedIn>>,
    /// The schema it is in.
    schema: Mutex<Option<Arc<str>>>,
    /// The cluster behind it, once logged in.
    pub cluster: OnceLock<Arc<str>>,
    /// Where the connection comes from; `None` for a local socket.
    pub connected_from: Option<SocketAddr>,
    /// Where the client is, by the word of a trusted proxy in front.
    pub proxied_from: OnceLock<SocketAddr>,
    /// The worker that runs it.
    pub worker: AtomicUsize,
    /// When it connected.
    pub since: Instant,
    /// The thing that it does now.
    pub activity: Activity,
    /// Has the session see `killed`, `abandoned` and a kill of its query, or whether it should leave.
    pub wake: Wake,
    /// It must end.
    pub killed: AtomicBool,
    /// The server whose reply it waits for was given up: the reply will not come.
    pub abandoned: AtomicBool,
    /// Its pins, as bits.
    pub pins: AtomicU32,
    /// Since when it waits for its client, in seconds of `Shared::uptime_s`; 0 while it has something to do.
    pub idle_since_s: AtomicU32,
    /// How long it may, in seconds.
    pub idle_s_max: AtomicU32,
    /// It waits for its client and holds no backend connection: it may end without harm.
    pub droppable: AtomicBool,
    /// The backend connection whose statement runs: server (upper 16 bits) and thread id (lower 48); 0 is none.
    running: AtomicU64,
    /// Kills of the running statement that are under way: the connection must not go to another session meanwhile.
    killers: AtomicU32,
    killer_done: Notify,
    /// A kill found no connection: it is for a query that waits for one, or for a read that shares one and is long.
    kill_noted: AtomicBool,
}

const THREAD_BITS: u32 = 48;

impl SessionHandle {
    /// Where the client is; `None` when it came by a local socket.
    pub fn client_addr(&self) -> Option<SocketAddr> {
        self.proxied_from.get().copied().or(self.connected_from)
    }

    /// The client's address as accounts know it; `None` when it came by a local socket.
    pub fn client_ip(&self) -> Option<IpAddr> {
        self.client_addr().map(|address| address.ip().to_canonical())
    }

    /// The user, once logged in.
    pub fn user(&self) -> Option<Arc<str>> {
        self.login.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|login| login.key.user.clone())
    }

    /// The login, once it is over.
    pub fn login(&self) -> Option<LoggedIn> {
        self.login.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The client has logged in.
    pub fn set_login(&self, login: LoggedIn) {
        *self.login.lock().unwrap_or_else(PoisonError::into_inner) = Some(login);
    }

    /// The thing that it does.
    pub fn state(&self) -> SessionState {
        match self.idle_since_s.load(Ordering::Relaxed) {
            _ if self.cluster.get().is_none() => SessionState::Login,
            0 => self.activity.busy_state(),
            _ if self.activity.transaction_since_us().is_some() => SessionState::IdleInTransaction,
            _ => SessionState::Idle,
        }
    }

    /// The schema it is in.
    pub fn schema(&self) -> Option<Arc<str>> {
        self.schema.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It is in this schema.
    pub fn set_schema(&self, schema: Option<&Arc<str>>) {
        let mut known = self.schema.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref() != schema {
            *known = schema.cloned();
        }
    }

    /// Whether it has logged in to this cluster. Ids of servers and of their connections mean nothing in another.
    pub fn is_in(&self, cluster: &str) -> bool {
        self.cluster.get().is_some_and(|name| **name == *cluster)
    }

    /// Where the client is, as servers show it.
    pub fn client(&self) -> String {
        self.client_addr().map_or_else(
            || "localhost".into(),
            |address| SocketAddr::new(address.ip().to_canonical(), address.port()).to_string(),
        )
    }

    /// A statement is sent on this backend connection.
    pub fn begin_statement(&self, server: ServerId, thread_id: u64) {
        let packed = (u64::from(server.0) + 1) << THREAD_BITS | (thread_id & ((1 << THREAD_BITS) - 1));
        self.abandoned.store(false, Ordering::Relaxed);
        self.running.store(packed, Ordering::SeqCst);
    }

    /// The server was given up: whoever waits for its reply waits no longer.
    fn abandon(&self, server: ServerId) {
        let running = self.running.load(Ordering::SeqCst) >> THREAD_BITS;
        if running == u64::from(server.0) + 1 {
            self.abandoned.store(true, Ordering::SeqCst);
            self.wake.call();
        }
    }

    /// The server of the backend connection that the session holds, with the server's id of it.
    pub fn held(&self) -> Option<(ServerId, u64)> {
        let packed = self.running.load(Ordering::SeqCst);
        let server = (packed >> THREAD_BITS).checked_sub(1)?;
        Some((ServerId(server as u16), packed & ((1 << THREAD_BITS) - 1)))
    }

    /// The id that this server has for the session's backend connection, if it has one there now.
    pub fn runs_on(&self, server: ServerId) -> Option<u64> {
        let packed = self.running.load(Ordering::SeqCst);
        (packed >> THREAD_BITS == u64::from(server.0) + 1).then_some(packed & ((1 << THREAD_BITS) - 1))
    }

    /// Whether its client has been silent for longer than it may, at this second of `Shared::uptime_s`.
    pub fn is_overdue(&self, now_s: u32) -> bool {
        let since = self.idle_since_s.load(Ordering::SeqCst);
        since != 0 && now_s.saturating_sub(since) > self.idle_s_max.load(Ordering::Relaxed)
    }
}

impl Default for Sessions {
    /// None yet. Each process begins at another id: a KILL that a load balancer leads to another process finds nothing there.
    fn default() -> Sessions {
        let anywhere = RandomState::new().build_hasher().finish() as u32;
        Sessions { next: AtomicU32::new(anywhere), all: Mutex::default() }
    }
}

impl Sessions {
    /// A new session of a connection from there, in the list until it is removed.
    pub fn register(&self, connected_from: Option<SocketAddr>) -> Arc<SessionHandle> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let id = loop {
            let id = ID_FIRST + self.next.fetch_add(1, Ordering::Relaxed) % IDS;
            if !all.contains_key(&id) {
                break id;
            }
        };
        let handle = Arc::new(SessionHandle {
            id,
            login: Mutex::default(),
            schema: Mutex::default(),
            cluster: OnceLock::new(),
            connected_from,
            proxied_from: OnceLock::new(),
            worker: AtomicUsize::new(0),
            since: Instant::now(),
            activity: Activity::default(),
            wake: Wake::default(),
            killed: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            pins: AtomicU32::new(0),
            idle_since_s: AtomicU32::new(0),
            idle_s_max: AtomicU32::new(u32::MAX),
            droppable: AtomicBool::new(false),
            running: AtomicU64::new(0),
            killers: AtomicU32::new(0),
            killer_done: Notify::new(),
            kill_noted: AtomicBool::new(false),
        });
        all.insert(id, handle.clone());
        handle
    }

    /// The session has ended.
    pub fn remove(&self, id: u32) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// The session of this id, if it is one of this cluster's.
    pub fn find(&self, cluster: &str, id: u32) -> Option<Arc<SessionHandle>> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&id).filter(|session| session.is_in(cluster)).cloned()
    }

    /// The session of this id.
    pub fn get(&self, id: u32) -> Option<Arc<SessionHandle>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// The ids of the sessions on a worker that have logged in.
    pub fn on_worker(&self, worker: usize) -> Vec<u32> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = |session: &&Arc<SessionHandle>| {
            session.worker.load(Ordering::Relaxed) == worker && session.cluster.get().is_some()
        };
        all.values().filter(is_there).map(|session| session.id).collect()
    }

    /// The sessions of this cluster.
    pub fn of_cluster(&self, cluster: &str) -> Vec<Arc<SessionHandle>> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().filter(|session| session.is_in(cluster)).cloned().collect()
    }

    /// A server of this cluster was given up: statements that wait for its reply fail now, and not when TCP notices.
    pub fn abandon(&self, cluster: &str, server: ServerId) {
        self.of_cluster(cluster).iter().for_each(|session| session.abandon(server));
    }

    /// All sessions.
    pub fn all(&self) -> Vec<Arc<SessionHandle>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_never_twice_and_never_those_of_servers() {
        let sessions = Sessions { next: AtomicU32::new(u32::MAX - 1), ..Sessions::default() };
        let ids: Vec<u32> = (0..3).map(|_| sessions.register(None).id).collect();
        assert_eq!(ids, [i32::MAX as u32 - 1, i32::MAX as u32, ID_FIRST]);
        sessions.next.store(IDS - 2, Ordering::Relaxed);
        assert_eq!(sessions.register(None).id, ID_FIRST + 1);
    }

    #[test]
    fn a_session_is_overdue_by_its_last_command() {
        let session = Sessions::default().register(None);
        session.idle_s_max.store(10, Ordering::Relaxed);
        assert!(!session.is_overdue(100), "its login is under way");
        session.idle_since_s.store(89, Ordering::Relaxed);
        assert!(session.is_overdue(100));
        // It was answered between the look at all sessions and its own.
        session.idle_since_s.store(100, Ordering::Relaxed);
        assert!(!session.is_overdue(100) && !session.is_overdue(110) && session.is_overdue(111));
    }

    #[test]
    fn sessions_are_found_in_their_own_cluster_only() {
        let sessions = Sessions::default();
        let (here, there, at_login) = (sessions.register(None), sessions.register(None), sessions.register(None));
        here.cluster.set("here".into()).unwrap();
        there.cluster.set("there".into()).unwrap();
        assert!(sessions.find("here", here.id).is_some() && sessions.find("there", here.id).is_none());
        assert!(sessions.find("here", at_login.id).is_none());
        let ids: Vec<u32> = sessions.of_cluster("there").iter().map(|session| session.id).collect();
        assert_eq!(ids, [there.id]);
        sessions.remove(here.id);
        assert!(sessions.find("here", here.id).is_none());
    }
}
