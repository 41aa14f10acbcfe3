//! What workers share: snapshots, limits, and the mail between them.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use cache::{Epochs, Follow, Store};
use cluster::published::Published;
use cluster::view::{ServerId, ServerView};
use net::client::{Announce, Target};
use net::stream::Keepalive;
use net::tls::{ClientTls, ServerTls};
use stats::Workers;
use stats::digests::{Deliver, DigestSource};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use wire::Capabilities;
use wire::auth::{Credential, RsaKey};
use wire::compress::Algorithm;
use wire::handshake::client::{COLLATION_FALLBACK, LoginRequest, RsaPolicy};
use wire::proxy_header::Version;

use crate::addresses::Addresses;
use crate::keyring::Keyring;
use crate::login_log::LoginLog;
use crate::login_memory::{LoginMemory, LoginShare};
use crate::mark::Marks;
use crate::pool::{Parcel, Quota};
use crate::prepared_memory::Prepared;
use crate::route::ClusterWrites;
use crate::route::rules::RuleSet;
use crate::session::Name;
use crate::sessions::Sessions;
use crate::start::FileShares;

/// The longest packet announced to servers.
const PACKET_BYTES_MAX: u32 = 1 << 30;

/// Everything that all workers see.
#[derive(Debug)]
pub struct Shared {
    /// Clusters by name.
    pub clusters: RwLock<HashMap<Arc<str>, Arc<ClusterShared>>>,
    /// What the operator wants, as it is now.
    pub config: ArcSwap<config::Config>,
    /// The rules of it that count.
    pub rules: ArcSwapOption<RuleSet>,
    /// All sessions, for KILL and the session list.
    pub sessions: Sessions,
    /// Counts, by worker.
    pub stats: Workers,
    /// Clients of each worker: a new one goes where the fewest are.
    pub worker_clients: Box<[Arc<AtomicU32>]>,
    /// The key with which clients without TLS encrypt passwords; made when first needed.
    pub rsa: OnceLock<Option<Arc<RsaKey>>>,
    /// Which failed logins are logged.
    pub login_log: LoginLog,
    /// When the process started.
    pub started: Instant,
    /// [`Shared::uptime_s`], told once a second. Workers have no timers of their own as long as nothing waits: their event
    /// loops would ask the clock for them around each statement.
    pub seconds: watch::Sender<u32>,
    /// Answers that are kept.
    pub cache: Arc<Store>,
    /// Where answers are shared with other processes.
    pub tier: Option<Arc<tier::Tier>>,
    /// Clients' sockets that are open, and most of them.
    pub clients: Arc<AtomicU32>,
    /// How the process's files are shared out.
    pub files: ArcSwap<FileShares>,
    /// What clients that have not logged in may take.
    pub login_memory: Arc<LoginMemory>,
    /// Prepared statements of all sessions.
    pub prepared: Arc<Prepared>,
    /// Where clients come from.
    pub addresses: Arc<Addresses>,
    /// Sessions of each user, over all listeners.
    pub user_sessions: Mutex<HashMap<Arc<str>, u32>>,
    /// Kinds of clients for whom the cache is filled.
    pub warming: crate::warm::Warming,
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

    /// Wakes sessions whose clients have been silent for too long; each looks again, and ends if that is still so.
    pub fn end_idle_sessions(&self) {
        let now = self.uptime_s();
        for session in self.sessions.all().iter().filter(|session| session.is_overdue(now)) {
            session.wake.call();
        }
    }

    /// The RSA key; `None` if none could be made. The first call takes up to a second of CPU time: not for a worker's thread.
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
    /// Grows when `tls`, `compression` or `announce` is configured anew: connections of before are not used again.
    pub tls_number: u64,
    /// Compression towards the servers.
    pub compression: Option<Algorithm>,
    /// The form in which servers are told the clients' addresses.
    pub announce: Option<Version>,
    /// How a vanished server is noticed.
    pub keepalive: Keepalive,
    /// How long a server that came back gets less than its share.
    pub slow_start: Duration,
    /// Replicas further behind take no reads.
    pub max_lag: Duration,
    /// The servers' logs tell what became of a commit that was never answered.
    pub logs_tell: bool,
    /// Writes are sent with a mark.
    pub mark_writes: bool,
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
    /// Most connections for which the process has files; 0 is no limit.
    files_max: AtomicU32,
    /// What clients have proved about their passwords.
    pub keyring: Keyring,
    /// Counts the clients that log in.
    pub logins: Logins,
    /// The last change of accounts that was made through here.
    pub account_change: ArcSwapOption<AccountChange>,
    quotas: RwLock<HashMap<ServerId, NamedQuota>>,
    /// When its tables were written, once an answer is to be kept.
    pub epochs: OnceLock<Epochs>,
    /// What its log tells of changes, if answers are to be followed.
    pub follow: ArcSwapOption<Follow>,
    /// What any session has written, once a read wants to see it.
    pub writes: ClusterWrites,
    /// Statements that wait for connections which servers have refused to open.
    pub short: crate::pool::Short,
    /// Connections in use by each user, for `max_connections_per_user`.
    pub user_leases: crate::pool::UserLeases,
    mailboxes: Mailboxes,
    workers: usize,
    /// Transactions that a session was found to have committed on a server that was lost.
    pub claimed: Mutex<HashSet<Name>>,
    /// What tells its backend connections from each other, and from those of other processes, in a log.
    pub marks: Marks,
    /// Backend connections that are open.
    pub backends: crate::pool::Backends,
}

/// Counts the clients that log in to a cluster, COM_CHANGE_USER included.
///
/// Servers read an account's rights, roles and lock when it logs in, and keep them for the connection. A session gets a
/// connection that has logged in after its client began to: its number is not above the connection's. So a session has
/// what a login of its own would have had, whoever changed the account, and wherever.
#[derive(Debug, Default)]
pub struct Logins(AtomicU64);

impl Logins {
    /// A client begins to log in; its number.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The number of a connection that logs in from now on.
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A change of accounts that was made through here.
#[derive(Clone, Copy, Debug)]
pub struct AccountChange {
    /// Where.
    pub server: ServerId,
    /// When its reply was over.
    pub at: Instant,
    /// The last client that had begun to log in by then.
    pub login: u64,
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
            files_max: AtomicU32::new(0),
            cluster_quota: Quota::new(settings.pool.max_connections, workers),
            settings: ArcSwap::from_pointee(settings),
            keyring: Keyring::default(),
            logins: Logins::default(),
            account_change: ArcSwapOption::empty(),
            quotas: RwLock::default(),
            epochs: OnceLock::new(),
            follow: ArcSwapOption::empty(),
            writes: ClusterWrites::default(),
            short: crate::pool::Short::default(),
            user_leases: crate::pool::UserLeases::default(),
            mailboxes,
            workers,
            claimed: Mutex::default(),
            marks: Marks::default(),
            backends: crate::pool::Backends::default(),
        }
    }

    /// The number of a connection that logs in from now on, for a session whose own is `login`. A session that was there before the
    /// last change of accounts goes to replicas that lack it, too: its connections are not for those that came later.
    pub fn connection_login(&self, login: u64) -> u64 {
        let now = self.logins.now();
        match &*self.account_change.load() {
            Some(change) if login <= change.login => change.login.min(now),
            _ => now,
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

    /// There are files for so many connections.
    pub fn set_files_max(&self, max: u32) {
        self.files_max.store(max, Ordering::Relaxed);
        self.set_limits();
    }

    /// Takes the limits of new settings: of the cluster and of all servers.
    pub fn set_limits(&self) {
        let settings = self.settings.load();
        let files_max = self.files_max.load(Ordering::Relaxed);
        self.cluster_quota.set_max(limit_of(settings.pool.max_connections, Some(files_max)));
        for (name, quota) in self.quotas.read().unwrap_or_else(PoisonError::into_inner).values() {
            quota.set_max(settings.limit(name));
        }
    }

    /// The address of a server.
    fn address_of(&self, server: &ServerView) -> net::Address {
        // The configuration has checked it; a name that does not parse would only fail to resolve.
        server.address.parse().unwrap_or(net::Address::Tcp { host: server.address.to_string(), port: 3306 })
    }

    /// How a server is reached, within this time, for the client at that address.
    pub fn target(&self, server: &ServerView, timeout: Duration, client: Option<SocketAddr>) -> Target {
        let settings = self.settings.load();
        Target {
            address: self.address_of(server),
            timeout,
            tls: settings.tls.clone(),
            keepalive: settings.keepalive,
            compression: settings.compression,
            announce: settings.announce.map(|version| Announce { version, client }),
        }
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

    /// Tells the other workers that a statement of this one waits for a connection which this server has refused to open.
    pub fn ask_short(&self, worker: usize, server: ServerId) {
        for (index, mailbox) in self.mailboxes.iter().enumerate() {
            if index != worker {
                // A worker that has ended has nothing to give.
                let _ = mailbox.send(Mail::Short(self.name.clone(), server));
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

    /// Asks the other workers which transactions their sessions were told to be theirs.
    pub fn ask_told(&self, worker: usize, since: Instant) -> Vec<tokio::sync::oneshot::Receiver<Option<Vec<Name>>>> {
        let others = self.mailboxes.iter().enumerate().filter(|(index, _)| *index != worker);
        let ask = |(_, mailbox): (usize, &UnboundedSender<Mail>)| {
            let (answer, answered) = tokio::sync::oneshot::channel();
            // A worker that has ended has told nobody anything that counts.
            let _ = mailbox.send(Mail::Told(self.name.clone(), AskTold { since, answer }));
            answered
        };
        others.map(ask).collect()
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

/// How Sqluice logs in to a server for a user.
pub fn login_as(user: &str, credential: &Credential, capabilities: Capabilities, collation: u16) -> LoginRequest {
    LoginRequest {
        user: user.as_bytes().to_vec(),
        credential: credential.clone(),
        schema: None,
        capabilities,
        // One byte is all that a login has for the collation; a wider one is set with the rest of the state.
        collation: if collation > 0xff { COLLATION_FALLBACK } else { collation },
        packet_bytes_max: PACKET_BYTES_MAX,
        attributes: [("program_name", "sqluice")].into_iter().collect(),
        rsa: RsaPolicy::AskServer,
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
    /// A cluster has a new view, new accounts, a new catalog or new settings.
    Published(Arc<str>),
    /// An idle backend connection, with its permit.
    Connection(Arc<str>, Box<Parcel>),
    /// The right to open a backend connection.
    Permit(Arc<str>, ServerId),
    /// Another worker waits for a connection to this server.
    Asked(Arc<str>, ServerId),
    /// There is room in the cluster's limit again.
    Room(Arc<str>),
    /// Another worker waits for a connection that this server has refused to open.
    Short(Arc<str>, ServerId),
    /// A server may open one now.
    Freed(Arc<str>),
    /// A client was refused, for the reason of this index in [`stats::REFUSED_CLIENTS`].
    Refused(usize),
    /// Sessions end when they are between transactions; then the worker ends.
    Drain,
    /// There are other rules.
    Rules,
    /// The file of this name is to be run, so that the result cache has its answers.
    Warm(Arc<str>),
    /// Somebody wants to know which transactions sessions were told to be theirs.
    Told(Arc<str>, AskTold),
    /// Somebody wants to know the digests.
    Digests(AskDigests),
}

/// A request for the transactions that a worker's sessions were told to be theirs.
#[derive(Debug)]
pub struct AskTold {
    /// All since then are needed.
    pub since: Instant,
    /// Takes them; `None` if not all are known any more.
    pub answer: tokio::sync::oneshot::Sender<Option<Vec<Name>>>,
}

/// A request for a worker's digests.
pub struct AskDigests {
    /// The worker begins to count anew.
    pub reset: bool,
    /// Takes them.
    pub deliver: Deliver,
}

impl std::fmt::Debug for AskDigests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AskDigests").field("reset", &self.reset).finish_non_exhaustive()
    }
}

/// Where all workers are asked for their digests.
#[derive(Debug)]
pub struct Digests(pub Mailboxes);

impl DigestSource for Digests {
    fn ask(&self, reset: bool, deliver: &mut dyn FnMut() -> Deliver) {
        for mailbox in self.0.iter() {
            // A worker that has ended has none.
            let _ = mailbox.send(Mail::Digests(AskDigests { reset, deliver: deliver() }));
        }
    }
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
    /// Counts as one of the process's clients.
    pub of_process: Counted,
    /// Counts as a client of its worker.
    pub of_worker: Option<Counted>,
    /// Its share of the memory for logins.
    pub memory: LoginShare,
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

impl cache::CountedWrites for Shared {
    fn writes(&self) -> Vec<(Arc<str>, cache::Writes)> {
        let clusters = self.clusters.read().unwrap_or_else(PoisonError::into_inner);
        let of = |cluster: &Arc<ClusterShared>| Some((cluster.name.clone(), cluster.epochs.get()?.writes()));
        clusters.values().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_limit_holds_and_zero_is_none() {
        assert_eq!((limit_of(100, None), limit_of(100, Some(0)), limit_of(100, Some(7))), (100, 100, 7));
        assert_eq!((limit_of(0, Some(7)), limit_of(0, None)), (7, 0));
    }
}
