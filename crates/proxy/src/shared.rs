//! The snapshots and limits that all workers share.

mod cluster;
mod cluster_writes;
mod file_shares;
mod logins;
mod mail;
mod quiet_login;
mod short;
mod warming;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Instant;

use arc_swap::{ArcSwap, ArcSwapOption};
use cache::Store;
use net::tls::ServerTls;
use stats::Workers;
use tokio::sync::watch;
use wire::auth::RsaKey;

pub use self::cluster::{ClusterSettings, ClusterShared, limit_of, login_as};
pub use cluster_writes::{ClusterWrites, Moment, Write};
pub use file_shares::FileShares;
pub use logins::{AccountChange, Logins};
pub use mail::{AskConfirmed, AskDigests, Digests, Mail, Mailboxes, ReliefOrder};
pub use short::{Short, ShortOf, is_of_an_hour};
pub use warming::{ClientKind, Warming};

use crate::addresses::Addresses;
use crate::bytes_in_use::BytesInUse;
use crate::login_log::LoginLog;
use crate::login_memory::{LoginMemory, LoginShare};
use crate::sessions::Sessions;
use policy::rules::RuleSet;

/// Everything that all workers see.
#[derive(Debug)]
pub struct Shared {
    /// Clusters by name.
    pub clusters: RwLock<HashMap<Arc<str>, Arc<ClusterShared>>>,
    /// The operator's configuration, as it is now.
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
    /// [`Shared::uptime_s`], published once a second. Workers have no timers of their own as long as nothing waits: their event
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
    /// The memory of clients that have not logged in.
    pub login_memory: Arc<LoginMemory>,
    /// The texts of all sessions' prepared statements.
    pub prepared_bytes: Arc<BytesInUse>,
    /// The long commands of all sessions, on their way or running.
    pub command_bytes: Arc<BytesInUse>,
    /// Where clients come from.
    pub addresses: Arc<Addresses>,
    /// Sessions of each user, over all listeners.
    pub user_sessions: Mutex<HashMap<Arc<str>, u32>>,
    /// Kinds of clients for whom the cache is filled.
    pub warming: Warming,
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

/// A snapshot that all workers have, counted per worker: statements must not write to a count that workers share.
#[allow(clippy::redundant_allocation, reason = "the outer count is the worker's own, the inner one is shared")]
pub type CountedHere<T> = Rc<Arc<T>>;

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
