//! The configuration as typed values. Every meaning, unit, default and bound stands in [`crate::settings`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::settings::Apply;
use crate::{Address, Network, Rule, Secret};

/// Declares an enum whose variants have one word each in the file, so that the word stands in one place.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word in the file.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

mod etcd;
mod failover;
mod galera;
mod replay;

pub use etcd::Etcd;
pub use failover::{Failover, Lease, Promotion, PromotionRule, ReplicationAccount, ReplicationTls, Unwritable};
pub use galera::{Donors, Galera, Writers};
pub use replay::{Replay, ReplayMode};

words! {
    /// How the servers of a cluster keep the same data.
    ClusterKind {
        /// One server, or several that nobody replicates between.
        Standalone = "standalone",
        /// One primary and its replicas.
        Replication = "replication",
        /// Members of a Galera group.
        Galera = "galera",
        /// Members of a replication group of MySQL.
        GroupReplication = "group_replication",
        /// SQL nodes of an NDB cluster.
        Ndb = "ndb",
    }
}

impl ClusterKind {
    /// The servers form a group that decides by itself who belongs to it.
    pub fn is_group(self) -> bool {
        match self {
            ClusterKind::Galera | ClusterKind::GroupReplication | ClusterKind::Ndb => true,
            ClusterKind::Standalone | ClusterKind::Replication => false,
        }
    }
}

words! {
    /// Whether the monitor writes a heartbeat row to measure lag.
    Heartbeat {
        /// Where its rights allow.
        Auto = "auto",
        /// Always; a refusal is logged as an error.
        On = "on",
        /// Never; lag is what the server says.
        Off = "off",
    }
}

words! {
    /// Where statements of a listener or user go.
    Split {
        /// Reads outside transactions to replicas, all else to the primary.
        Auto = "auto",
        /// All to the primary.
        Primary = "primary",
        /// All to replicas.
        Replica = "replica",
    }
}

words! {
    /// What a read is sure to see.
    Consistency {
        /// What the session has written before it.
        Session = "session",
        /// What any session has written before it through this process.
        Cluster = "cluster",
        /// What any session has written to the tables that the read names, before it, through this process.
        Table = "table",
        /// Nothing in particular.
        None = "none",
    }
}

words! {
    /// What a rule wants a statement to do.
    RuleAccess {
        /// It only reads.
        Read = "read",
        /// Anything else.
        Write = "write",
    }
}

words! {
    /// Whether the result cache answers.
    CacheMode {
        /// It does.
        On = "on",
        /// It only counts what it would have saved.
        Advise = "advise",
        /// It does not.
        Off = "off",
    }
}

words! {
    /// TLS towards servers, with the meanings of the MySQL client's `--ssl-mode`.
    ServerTlsMode {
        /// Never.
        Disabled = "disabled",
        /// When the server offers it; its certificate is not checked.
        Preferred = "preferred",
        /// Always; the certificate is not checked.
        Required = "required",
        /// Always; the certificate's chain is checked.
        VerifyCa = "verify_ca",
        /// Always; chain and host name are checked.
        VerifyIdentity = "verify_identity",
    }
}

words! {
    /// TLS towards clients.
    TlsMode {
        /// Not offered.
        Off = "off",
        /// Offered.
        Optional = "optional",
        /// A client without TLS is refused, except on a Unix socket.
        Required = "required",
    }
}

words! {
    /// Compression towards servers.
    ServerCompression {
        /// None.
        Off = "off",
        /// zlib, if the server has it.
        Zlib = "zlib",
        /// zstd, if the server has it.
        Zstd = "zstd",
    }
}

words! {
    /// Compression that clients are offered.
    ClientCompression {
        /// None.
        Off = "off",
        /// zlib.
        Zlib = "zlib",
        /// zstd, where the servers are MySQL.
        Zstd = "zstd",
        /// Both.
        All = "all",
    }
}

words! {
    /// PROXY headers from proxies in front.
    ProxyIn {
        /// None is taken.
        Off = "off",
        /// Trusted addresses may send one.
        Optional = "optional",
        /// Trusted addresses must send one.
        Required = "required",
    }
}

words! {
    /// PROXY headers to servers.
    ProxyOut {
        /// None is sent.
        Off = "off",
        /// As a line of text.
        V1 = "v1",
        /// Binary.
        V2 = "v2",
    }
}

words! {
    /// Certificates of clients.
    ClientCert {
        /// A client may show one.
        Optional = "optional",
        /// A client without one is refused.
        Required = "required",
    }
}

words! {
    /// The lowest TLS version that is spoken.
    TlsVersion {
        /// 1.2.
        V12 = "1.2",
        /// 1.3.
        V13 = "1.3",
    }
}

words! {
    /// How log lines look.
    LogFormat {
        /// For reading.
        Human = "human",
        /// One JSON object a line.
        Json = "json",
    }
}

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The process itself.
    pub proxy: Proxy,
    /// Log lines.
    pub log: Log,
    /// The admin listener, when wanted.
    pub admin: Option<Admin>,
    /// The result cache.
    pub cache: Cache,
    /// Clusters by name, at least one.
    pub clusters: BTreeMap<Arc<str>, Cluster>,
    /// Listeners by name, at least one.
    pub listeners: BTreeMap<Arc<str>, Listener>,
    /// What is special about users, by user name.
    pub users: BTreeMap<Arc<str>, User>,
    /// Routing rules, in order: the first that fits a statement decides.
    pub rules: Arc<[Rule]>,
    /// Every setting with its effective value as text, in the order of [`crate::settings`]; secrets are hidden. Of rules only
    /// what the file says is here.
    pub given: Vec<Given>,
}

/// One setting as it is in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// Path, as in `cluster.main.pool.wait_ms`.
    pub path: String,
    /// The value as it would stand in the file; `(hidden)` for a secret.
    pub value: String,
    /// Whether the file says it; otherwise it is the default.
    pub set: bool,
    /// When a change takes effect.
    pub apply: Apply,
}

/// `[proxy]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Worker threads; 0 is one per core.
    pub workers: usize,
    /// How long a worker looks for the next event before it sleeps; zero is off.
    pub busy_poll: Duration,
    /// Entries of each worker's table of digests; 0 is off.
    pub digests_max: usize,
    /// How long sessions may finish when the process stops.
    pub drain: Duration,
    /// Where this proxy stands, compared with [`Server::zone`]; empty is no preference.
    pub zone: Arc<str>,
}

/// `[log]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// How lines look.
    pub format: LogFormat,
    /// A `tracing` filter: a level, or a comma-separated list of `target=level`.
    pub level: String,
}

/// `[admin]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where metrics, health and the API are served over HTTP.
    pub address: Address,
    /// What requests to the API must show; without it the API is closed.
    pub key: Option<Secret>,
}

/// `[cache]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Bytes of all answers that are kept.
    pub memory_max: u64,
    /// Bytes of one reply.
    pub entry_max: u64,
    /// How long one session waits for the answer that another one is asking for.
    pub fill_wait: Duration,
}

/// `[cluster.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// How the servers keep the same data.
    pub kind: ClusterKind,
    /// Servers by name, at least one.
    pub servers: BTreeMap<Arc<str>, Server>,
    /// How they are watched.
    pub monitor: Monitor,
    /// What happens when the primary is gone.
    pub failover: Failover,
    /// How a new primary is chosen and made.
    pub promotion: Promotion,
    /// Where the lease is, when it is in etcd.
    pub etcd: Etcd,
    /// What is wanted of a Galera group.
    pub galera: Galera,
    /// How servers log in to their source that have no channel.
    pub replication: ReplicationAccount,
    /// Replicas further behind take no reads.
    pub max_lag: Duration,
    /// Failed probes in a row until a server is down.
    pub down_after: u32,
    /// Good probes in a row until it is up again.
    pub up_after: u32,
    /// How long a server that came up gets less than its share; zero is off.
    pub slow_start: Duration,
    /// How often accounts are read from the servers.
    pub accounts_refresh: Duration,
    /// How often routines and other catalog facts are read.
    pub catalog_refresh: Duration,
    /// TLS towards the servers.
    pub tls: ServerTls,
    /// Backend connections.
    pub pool: Pool,
    /// Compression towards the servers.
    pub compression: ServerCompression,
    /// Whether servers are told the clients' addresses.
    pub proxy_protocol: ProxyOut,
}

/// `servers.NAME` of a cluster
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Where it is; a port is never 0.
    pub address: Address,
    /// Share of the reads compared with the other replicas; 0 takes none.
    pub weight: u32,
    /// Where it stands; empty is nowhere in particular.
    pub zone: Arc<str>,
    /// Most backend connections to it; 0 is only the pool's limits.
    pub max_connections: u32,
    /// Whether it may become the primary.
    pub promotion: PromotionRule,
}

/// `monitor` of a cluster
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Monitor {
    /// The user it logs in with.
    pub user: Arc<str>,
    /// That user's password; may be empty.
    pub password: Secret,
    /// Time between probes of a server.
    pub interval: Duration,
    /// Longest wait for a probe's answer.
    pub timeout: Duration,
    /// Whether a heartbeat row is written.
    pub heartbeat: Heartbeat,
    /// The schema the heartbeat table is in.
    pub heartbeat_schema: Arc<str>,
}

/// `tls` of a cluster
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// Whether and how strictly.
    pub mode: ServerTlsMode,
    /// The lowest version that is spoken.
    pub min_version: TlsVersion,
    /// The authorities servers' certificates are checked against; none: the system's.
    pub ca: Option<Pem>,
    /// What Sqluice shows when a server asks for a certificate. Present exactly when [`Self::key`] is.
    pub cert: Option<Pem>,
    /// The private key of [`Self::cert`], PEM.
    pub key: Option<Secret>,
}

/// `tls` of a listener
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerTls {
    /// Whether it is offered or demanded.
    pub mode: TlsMode,
    /// The lowest version that is spoken.
    pub min_version: TlsVersion,
    /// The authorities that clients' certificates are checked against; none: clients are not asked for one.
    pub client_ca: Option<Pem>,
    /// Whether clients must show one.
    pub client_cert: ClientCert,
    /// The certificate chain shown to clients; none: one that is made at start. Present exactly when [`Self::key`] is.
    pub cert: Option<Pem>,
    /// The private key of [`Self::cert`], PEM.
    pub key: Option<Secret>,
}

/// A PEM file that was read when the configuration was. Its content is compared on reload, so a renewed certificate
/// in the same place counts as a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pem {
    /// Where it was read from.
    pub path: PathBuf,
    /// What was in it; whether it is a good certificate is for the TLS library to say.
    pub text: Arc<[u8]>,
}

/// `[cluster.NAME.pool]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Most backend connections to all servers together; 0 is no limit.
    pub max_connections: u32,
    /// Most backend connections to one server.
    pub max_connections_per_server: u32,
    /// Most backend connections for one user; 0 is no limit.
    pub max_connections_per_user: u32,
    /// Connections kept open to each server although nothing uses them.
    pub min_idle: u32,
    /// How long an unused connection stays open.
    pub idle_timeout: Duration,
    /// How long one does that is beyond the number of its user's sessions.
    pub spare_timeout: Duration,
    /// How old a connection may get.
    pub max_age: Duration,
    /// Longest wait for a connection when all are in use.
    pub wait: Duration,
    /// How many sessions may wait at a time.
    pub wait_max: u32,
    /// Prepared statements kept per backend connection; the least recently used goes.
    pub statements_max: u32,
    /// Longest time for connecting and logging in to a server.
    pub connect_timeout: Duration,
    /// Silence before TCP asks whether the server is still there; zero is never.
    pub keepalive: Duration,
    /// How long sent bytes may stay unacknowledged; zero is the system's own limit.
    pub user_timeout: Duration,
}

/// `[listener.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Where clients connect; port 0 lets the system choose.
    pub address: Address,
    /// Name of the cluster, which exists.
    pub cluster: Arc<str>,
    /// Where statements go.
    pub split: Split,
    /// What a read is sure to see.
    pub consistency: Consistency,
    /// How long a read waits for a replica that has what it is sure to see.
    pub consistency_wait: Duration,
    /// How long reads stay on the primary behind a write of which no position is known; none: the cluster's `max_lag`.
    pub consistency_window: Option<Duration>,
    /// TLS towards clients.
    pub tls: ListenerTls,
    /// Most sessions at a time.
    pub max_sessions: u32,
    /// Most sessions of one user at a time; 0 is no limit.
    pub max_sessions_per_user: u32,
    /// Longest time from connecting to being logged in.
    pub login_timeout: Duration,
    /// How long a session may do nothing.
    pub idle_timeout: Duration,
    /// How long a statement waits for a primary.
    pub hold: Duration,
    /// What becomes of transactions whose server is lost.
    pub replay: Replay,
    /// Largest packet taken from a client, in bytes.
    pub max_packet: u64,
    /// Whether LOAD DATA LOCAL INFILE is let through.
    pub local_infile: bool,
    /// The version in the greeting; none: what fits the cluster.
    pub server_version: Option<Arc<str>>,
    /// Compression that clients are offered.
    pub compression: ClientCompression,
    /// Whether proxies in front tell the clients' addresses.
    pub proxy_protocol: ProxyIn,
    /// Which addresses are believed.
    pub proxy_protocol_from: Vec<Network>,
    /// Silence before TCP asks whether the client is still there; zero is never.
    pub keepalive: Duration,
    /// How long sent bytes may stay unacknowledged; zero is the system's own limit.
    pub user_timeout: Duration,
    /// Clients that may wait in the kernel to be accepted.
    pub backlog: u32,
    /// Permissions of a Unix socket's file.
    pub socket_mode: u32,
}

/// `[user.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// How the user's login is checked.
    pub credential: Credential,
    /// Most sessions at a time; 0 is only the listener's limits.
    pub max_sessions: u32,
    /// Most backend connections; 0 is only the pool's limits.
    pub max_connections: u32,
    /// Where this user's statements go; none: what the listener says.
    pub split: Option<Split>,
    /// What this user's reads are sure to see; none: what the listener says.
    pub consistency: Option<Consistency>,
    /// The only cluster this user may use, which exists; none: any.
    pub cluster: Option<Arc<str>>,
}

/// How a user's login is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// By what the servers know; the file says only limits.
    Servers,
    /// By this password.
    Password(Secret),
    /// By `mysql_native_password`'s SHA1(SHA1(password)), 20 bytes.
    NativeHash(Secret),
}
