//! One cluster as all workers see it: its settings and limits, and how its servers are reached.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use cache::{Follow, WriteCounters};
use facts::published::Published;
use facts::view::{ServerId, ServerView};
use net::client::{Announce, Target};
use net::stream::Keepalive;
use net::tls::ClientTls;
use proof::mark::Marks;
use proof::tail::Name;
use tokio::sync::mpsc::UnboundedSender;
use wire::Capabilities;
use wire::auth::Credential;
use wire::compress::Algorithm;
use wire::handshake::client::{COLLATION_FALLBACK, LoginRequest, RsaPolicy};
use wire::proxy_header::Version;

use super::cluster_writes::ClusterWrites;
use super::logins::{AccountChange, Logins};
use super::mail::{AskConfirmed, Mail, Mailboxes};
use super::quiet_login::MonitorExempt;
use super::short::Short;
use crate::keyring::Keyring;
use crate::pool::Quota;

/// The longest packet announced to servers.
const PACKET_BYTES_MAX: u32 = 1 << 30;

/// The settings that change with the configuration of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Limits of the pools.
    pub pool: config::Pool,
    /// The monitor's user.
    pub monitor: config::Monitor,
    /// TLS towards the servers.
    pub tls: ClientTls,
    /// Grows when `tls`, `compression` or `announce` is configured anew: connections of before are not used again.
    pub tls_number: u64,
    /// Compression towards the servers.
    pub compression: Option<Algorithm>,
    /// The form in which servers get the clients' addresses.
    pub announce: Option<Version>,
    /// How a vanished server is noticed.
    pub keepalive: Keepalive,
    /// How long a server that came back gets less than its share.
    pub slow_start: Duration,
    /// Replicas further behind take no reads.
    pub max_lag: Duration,
    /// The servers' logs tell what became of a commit that was never answered.
    pub logs_tell: bool,
    /// It has one server, which takes all traffic, also when it is read-only.
    pub is_standalone: bool,
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
    /// The clients' proofs of their passwords.
    pub keyring: Keyring,
    /// Counts the clients that log in.
    pub logins: Logins,
    /// Whether the monitor goes without `init_connect`.
    pub(super) monitor_exempt: MonitorExempt,
    /// The last change of accounts that was made through here.
    pub account_change: ArcSwapOption<AccountChange>,
    quotas: RwLock<HashMap<ServerId, NamedQuota>>,
    /// When its tables were written, once an answer is to be kept.
    pub epochs: OnceLock<WriteCounters>,
    /// The changes that its binary log reports, if cached results are to follow it.
    pub follow: ArcSwapOption<Follow>,
    /// The writes of all sessions, once a read wants to see them.
    pub writes: ClusterWrites,
    /// Statements that wait for connections which servers have refused to open.
    pub short: Short,
    /// Connections in use by each user, for `max_connections_per_user`.
    pub user_leases: crate::pool::UserLeases,
    mailboxes: Mailboxes,
    workers: usize,
    /// Transactions that a session was found to have committed on a server that was lost.
    pub claimed: Mutex<HashSet<Name>>,
    /// The marks that tell its backend connections from each other, and from those of other processes, in a binary log.
    pub marks: Marks,
    /// Backend connections that are open.
    pub backends: crate::pool::Backends,
}

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
            monitor_exempt: MonitorExempt::default(),
            account_change: ArcSwapOption::empty(),
            quotas: RwLock::default(),
            epochs: OnceLock::new(),
            follow: ArcSwapOption::empty(),
            writes: ClusterWrites::default(),
            short: Short::default(),
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

    /// The `max_statement_time` that the account of this user and address begins with, unless it is the server's.
    pub fn statement_time(&self, user: &str, address: Option<IpAddr>) -> Option<Arc<str>> {
        self.published.accounts.load().find(user, address)?.statement_time.clone()
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
        self.tell_others(worker, || Mail::Asked(self.name.clone(), server));
    }

    /// Tells the other workers that a statement of this one waits for a connection which this server has refused to open.
    pub fn ask_short(&self, worker: usize, server: ServerId) {
        self.tell_others(worker, || Mail::Short(self.name.clone(), server));
    }

    /// Tells the other workers that there is room in the cluster's limit again, if anybody waits for that.
    pub fn tell_room(&self, worker: usize) {
        if self.cluster_quota.waiting() > 0 {
            self.tell_others(worker, || Mail::Room(self.name.clone()));
        }
    }

    fn tell_others(&self, worker: usize, mail: impl Fn() -> Mail) {
        for (_, mailbox) in self.mailboxes.iter().enumerate().filter(|(index, _)| *index != worker) {
            // A worker that has ended has nothing to give, and waits for nothing.
            let _ = mailbox.send(mail());
        }
    }

    /// Asks the other workers for the transactions that servers confirmed to their sessions.
    pub fn ask_confirmed(
        &self,
        worker: usize,
        since: Instant,
    ) -> Vec<tokio::sync::oneshot::Receiver<Option<Vec<Name>>>> {
        let others = self.mailboxes.iter().enumerate().filter(|(index, _)| *index != worker);
        let ask = |(_, mailbox): (usize, &UnboundedSender<Mail>)| {
            let (answer, answered) = tokio::sync::oneshot::channel();
            // A worker that has ended has confirmed no transaction that counts.
            let _ = mailbox.send(Mail::Confirmed(self.name.clone(), AskConfirmed { since, answer }));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_limit_holds_and_zero_is_none() {
        assert_eq!((limit_of(100, None), limit_of(100, Some(0)), limit_of(100, Some(7))), (100, 100, 7));
        assert_eq!((limit_of(0, Some(7)), limit_of(0, None)), (7, 0));
    }
}
