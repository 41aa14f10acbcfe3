//! What workers share: snapshots, limits, and the mail between them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use cluster::published::Published;
use cluster::view::{ServerId, ServerView};
use net::tls::{ClientTls, ServerTls};
use stats::Workers;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use wire::auth::RsaKey;

use crate::keyring::Keyring;
use crate::pool::{Parcel, Quota};

/// Everything that all workers see.
#[derive(Debug)]
pub struct Shared {
    /// Clusters by name.
    pub clusters: RwLock<HashMap<Arc<str>, Arc<ClusterShared>>>,
    /// What the operator wants, as it is now.
    pub config: ArcSwap<config::Config>,
    /// All sessions, for KILL and the session list.
    pub sessions: Sessions,
    /// Counts, by worker.
    pub stats: Workers,
    /// Clients of each worker: a new one goes where the fewest are.
    pub worker_clients: Box<[Arc<AtomicU32>]>,
    /// The key with which clients without TLS encrypt passwords; made when first needed.
    pub rsa: OnceLock<Option<Arc<RsaKey>>>,
    /// When the process started.
    pub started: Instant,
    /// Nothing new is taken: the process is about to stop.
    pub draining: AtomicBool,
    /// Sessions of each user, over all listeners.
    pub user_sessions: Mutex<HashMap<Arc<str>, u32>>,
}

impl Shared {
    /// The cluster of this name.
    pub fn cluster(&self, name: &str) -> Option<Arc<ClusterShared>> {
        self.clusters.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Whole seconds since the start, never 0.
    pub fn uptime_s(&self) -> u32 {
        u32::try_from(self.started.elapsed().as_secs()).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Ends sessions whose clients have been silent for too long.
    pub fn end_idle_sessions(&self) {
        let now = self.uptime_s();
        for session in self.sessions.all() {
            let since = session.idle_since_s.load(Ordering::Relaxed);
            if since != 0 && now.saturating_sub(since) > session.idle_s_max.load(Ordering::Relaxed) {
                session.kill();
            }
        }
    }

    /// The RSA key; `None` if none could be made. The first call takes up to a second of CPU time.
    pub fn rsa_key(&self) -> Option<Arc<RsaKey>> {
        self.rsa.get_or_init(|| RsaKey::generate().ok().map(Arc::new)).clone()
    }
}

/// What changes with the configuration of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Limits of the pools.
    pub pool: config::Pool,
    /// TLS towards the servers.
    pub tls: ClientTls,
    /// Grows when `tls` is configured anew: connections of before are not used again.
    pub tls_number: u64,
    /// How long a server that came back gets less than its share.
    pub slow_start: Duration,
    /// Where this proxy stands.
    pub zone: Arc<str>,
    /// Limits of servers that have one of their own, by name.
    pub own_limits: HashMap<Arc<str>, u32>,
}

impl ClusterSettings {
    fn limit(&self, server: &str) -> u32 {
        limit_of(self.pool.max_connections_per_server, self.own_limits.get(server).copied())
    }
}

/// The limit of a server, with the server's name.
type NamedQuota = (Arc<str>, Arc<Quota>);

/// One cluster as all workers see it.
#[derive(Debug)]
pub struct ClusterShared {
    /// Its name.
    pub name: Arc<str>,
    /// View, accounts and catalog, as the control plane publishes them.
    pub published: Arc<Published>,
    /// Settings.
    pub settings: ArcSwap<ClusterSettings>,
    /// Limit over all servers.
    pub cluster_quota: Quota,
    /// What clients have proved about their passwords.
    pub keyring: Keyring,
    quotas: RwLock<HashMap<ServerId, NamedQuota>>,
    /// Connections in use by each user, for `max_connections_per_user`.
    pub user_leases: crate::pool::UserLeases,
    mailboxes: Mailboxes,
    workers: usize,
}

/// Where mail to each worker goes in.
pub type Mailboxes = Arc<[UnboundedSender<Mail>]>;

impl ClusterShared {
    /// A cluster with nothing in use yet.
    pub fn new(
        name: Arc<str>,
        published: Arc<Published>,
        settings: ClusterSettings,
        mailboxes: Mailboxes,
    ) -> ClusterShared {
        let workers = mailboxes.len();
        ClusterShared {
            name,
            published,
            cluster_quota: Quota::new(settings.pool.max_connections, workers),
            settings: ArcSwap::from_pointee(settings),
            keyring: Keyring::default(),
            quotas: RwLock::default(),
            user_leases: crate::pool::UserLeases::default(),
            mailboxes,
            workers,
        }
    }

    /// The limit of a server, made at the first call.
    pub fn quota(&self, server: ServerId, name: &Arc<str>) -> Arc<Quota> {
        if let Some((_, quota)) = self.quotas.read().unwrap_or_else(PoisonError::into_inner).get(&server) {
            return quota.clone();
        }
        let mut quotas = self.quotas.write().unwrap_or_else(PoisonError::into_inner);
        let make = || (name.clone(), Arc::new(Quota::new(self.settings.load().limit(name), self.workers)));
        quotas.entry(server).or_insert_with(make).1.clone()
    }

    /// Takes the limits of new settings: of the cluster and of all servers.
    pub fn set_limits(&self) {
        let settings = self.settings.load();
        self.cluster_quota.set_max(settings.pool.max_connections);
        for (name, quota) in self.quotas.read().unwrap_or_else(PoisonError::into_inner).values() {
            quota.set_max(settings.limit(name));
        }
    }

    /// The address of a server.
    pub fn address_of(&self, server: &ServerView) -> net::Address {
        // The configuration has checked it; a name that does not parse would only fail to resolve.
        server.address.parse().unwrap_or(net::Address::Tcp { host: server.address.to_string(), port: 3306 })
    }

    /// Tells the other workers that this one waits for a connection.
    pub fn ask_others(&self, worker: usize, server: ServerId) {
        for (index, mailbox) in self.mailboxes.iter().enumerate() {
            if index != worker {
                // A worker that has ended has nothing to give.
                let _ = mailbox.send(Mail::Asked(self.name.clone(), server));
            }
        }
    }

    /// Tells the other workers that there is room in the cluster's limit again, if anybody waits for that.
    pub fn tell_room(&self, worker: usize) {
        if self.cluster_quota.waiting() == 0 {
            return;
        }
        for (index, mailbox) in self.mailboxes.iter().enumerate() {
            if index != worker {
                // A worker that has ended waits for nothing.
                let _ = mailbox.send(Mail::Room(self.name.clone()));
            }
        }
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Sends mail to a worker.
    pub fn send(&self, to: usize, mail: Mail) {
        if let Some(mailbox) = self.mailboxes.get(to) {
            let _ = mailbox.send(mail);
        }
    }
}

/// The smaller of the pool's and the server's own limit, where 0 is none.
pub fn limit_of(pool: u32, own: Option<u32>) -> u32 {
    match (pool, own.unwrap_or(0)) {
        (pool, 0) => pool,
        (0, own) => own,
        (pool, own) => pool.min(own),
    }
}

/// What is sent to a worker.
#[derive(Debug)]
pub enum Mail {
    /// A client has connected.
    Client(Box<NewClient>),
    /// A cluster has a new view, accounts or catalog.
    Published(Arc<str>),
    /// An idle backend connection, with its permit.
    Connection(Arc<str>, Box<Parcel>),
    /// The right to open a backend connection.
    Permit(Arc<str>, ServerId),
    /// Another worker waits for a connection to this server.
    Asked(Arc<str>, ServerId),
    /// There is room in the cluster's limit again.
    Room(Arc<str>),
    /// Sessions end when they are between transactions; then the worker ends.
    Drain,
}

/// A client's connection that no worker has taken yet.
#[derive(Debug)]
pub struct NewClient {
    /// The socket.
    pub socket: net::stream::Detached,
    /// Where it came in.
    pub listener: Arc<ListenerShared>,
    /// Counts as a session of its listener until it is dropped.
    pub counted: Counted,
    /// Counts as a client of its worker.
    pub of_worker: Option<Counted>,
}

/// One listener as all workers see it.
#[derive(Debug)]
pub struct ListenerShared {
    /// Its name.
    pub name: Arc<str>,
    /// Settings.
    pub settings: ArcSwap<config::Listener>,
    /// TLS towards clients, if offered.
    pub tls: ArcSwap<Option<ServerTls>>,
    /// The cluster behind it.
    pub cluster: Arc<ClusterShared>,
    /// Sessions now.
    pub sessions: Arc<AtomicU32>,
}

/// Counts one session for as long as it lives.
#[derive(Debug)]
pub struct Counted(Arc<AtomicU32>);

impl Counted {
    /// Counts one more, unless `max` are there already.
    pub fn begin(counter: &Arc<AtomicU32>, max: u32) -> Option<Counted> {
        let before = counter.fetch_add(1, Ordering::AcqRel);
        let counted = Counted(counter.clone());
        (before < max).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// All sessions of the process by the id that clients know: the greeting's, which KILL takes.
#[derive(Debug, Default)]
pub struct Sessions {
    next: AtomicU32,
    all: Mutex<HashMap<u32, Arc<SessionHandle>>>,
}

/// What others may know of a session, and how they end it.
#[derive(Debug)]
pub struct SessionHandle {
    /// The id.
    pub id: u32,
    /// The user, once logged in.
    pub user: OnceLock<Arc<str>>,
    /// The cluster behind it, once logged in.
    pub cluster: OnceLock<Arc<str>>,
    /// Where the client is.
    pub client: String,
    /// When it connected.
    pub since: Instant,
    /// Wakes the session so that it sees `killed`.
    pub wake: Notify,
    /// It must end.
    pub killed: AtomicBool,
    /// The server whose reply it waits for was given up: the reply will not come.
    pub abandoned: AtomicBool,
    /// What it is pinned by, as bits.
    pub pins: AtomicU32,
    /// Since when it waits for its client, in seconds of [`Shared::uptime_s`]; 0 while it has something to do.
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
}

const THREAD_BITS: u32 = 48;

impl SessionHandle {
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
            self.wake.notify_one();
        }
    }

    /// No backend connection belongs to the session any more. When somebody is about to kill what runs there, waits
    /// until that is done (at most `wait`) and gives true: the connection must not be used again.
    pub async fn end_statement(&self, wait: Duration) -> bool {
        self.running.store(0, Ordering::SeqCst);
        if self.killers.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let done = async {
            while self.killers.load(Ordering::SeqCst) > 0 {
                self.killer_done.notified().await;
            }
        };
        // A killer that takes longer kills a connection that is closed by then.
        let _ = tokio::time::timeout(wait, done).await;
        true
    }

    /// Begins to kill what runs: where it runs, if anything does. [`SessionHandle::killed_statement`] must follow.
    pub fn kill_statement(&self) -> Option<(ServerId, u64)> {
        self.killers.fetch_add(1, Ordering::SeqCst);
        let packed = self.running.load(Ordering::SeqCst);
        let server = (packed >> THREAD_BITS).checked_sub(1)?;
        Some((ServerId(server as u16), packed & ((1 << THREAD_BITS) - 1)))
    }

    /// The kill is done.
    pub fn killed_statement(&self) {
        self.killers.fetch_sub(1, Ordering::SeqCst);
        self.killer_done.notify_one();
    }

    /// Ends the session.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::SeqCst);
        self.wake.notify_one();
    }
}

impl Sessions {
    /// A new session of the client at `client`, in the list until the guard is dropped.
    pub fn register(self: &Sessions, client: String) -> Arc<SessionHandle> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let id = loop {
            let id = self.next.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            if id != 0 && !all.contains_key(&id) {
                break id;
            }
        };
        let handle = Arc::new(SessionHandle {
            id,
            user: OnceLock::new(),
            cluster: OnceLock::new(),
            client,
            since: Instant::now(),
            wake: Notify::new(),
            killed: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            pins: AtomicU32::new(0),
            idle_since_s: AtomicU32::new(0),
            idle_s_max: AtomicU32::new(u32::MAX),
            droppable: AtomicBool::new(false),
            running: AtomicU64::new(0),
            killers: AtomicU32::new(0),
            killer_done: Notify::new(),
        });
        all.insert(id, handle.clone());
        handle
    }

    /// The session has ended.
    pub fn remove(&self, id: u32) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// The session of this id.
    pub fn find(&self, id: u32) -> Option<Arc<SessionHandle>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// A server of this cluster was given up: statements that wait for its reply fail now, and not when TCP notices.
    pub fn abandon(&self, cluster: &str, server: ServerId) {
        for session in self.all().iter().filter(|session| session.cluster.get().is_some_and(|name| **name == *cluster))
        {
            session.abandon(server);
        }
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
    fn ids_are_never_zero_and_never_twice() {
        let sessions = Sessions { next: AtomicU32::new(u32::MAX - 1), ..Sessions::default() };
        let ids: Vec<u32> = (0..3).map(|_| sessions.register(String::new()).id).collect();
        assert_eq!(ids, [u32::MAX, 1, 2]);
        sessions.remove(1);
        assert!(sessions.find(1).is_none() && sessions.find(2).is_some());
    }

    #[tokio::test]
    async fn a_connection_waits_for_the_kill_that_is_meant_for_it() {
        let handle = Sessions::default().register(String::new());
        assert_eq!(handle.kill_statement(), None);
        handle.killed_statement();
        handle.begin_statement(ServerId(0), 77);
        assert_eq!(handle.kill_statement(), Some((ServerId(0), 77)));
        let waits = handle.end_statement(Duration::from_secs(60));
        tokio::pin!(waits);
        assert!(futures_poll(&mut waits).is_none());
        handle.killed_statement();
        assert!(waits.await);
        assert!(!handle.end_statement(Duration::ZERO).await);
    }

    fn futures_poll<F: Future>(future: &mut std::pin::Pin<&mut F>) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn the_smaller_limit_holds_and_zero_is_none() {
        assert_eq!((limit_of(100, None), limit_of(100, Some(0)), limit_of(100, Some(7))), (100, 100, 7));
        assert_eq!((limit_of(0, Some(7)), limit_of(0, None)), (7, 0));
    }
}
