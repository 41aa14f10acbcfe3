//! The configuration as typed values. Every meaning, unit, default and bound stands in [`crate::settings`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::settings::Apply;
use crate::{Address, Secret};

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

mod cluster;
mod etcd;
mod events;
mod failover;
mod galera;
mod history;
mod listener;
mod replay;
mod rule;
mod tier;

pub use cluster::{
    Cluster, ClusterKind, Heartbeat, Monitor, Pool, ProxyOut, SendPasswords, Server, ServerCompression, ServerTls,
    ServerTlsMode,
};
pub use etcd::Etcd;
pub use events::{
    EventFile, EventKafka, EventKafkaLogin, EventKafkaTls, EventOtlp, EventQueries, EventSink, EventSpool, EventSyslog,
    EventTarget, EventText, Events, EventsWhenFull, KafkaKey, KafkaSasl, OtlpCompression, SinkQueries, SyslogFacility,
    SyslogProtocol, TraceKeep,
};
pub use failover::{Failover, Lease, Promotion, PromotionRule, ReplicationAccount, ReplicationTls, Unwritable};
pub use galera::{Donors, Galera, Writers};
pub use history::History;
pub use listener::{
    ClientCert, ClientCompression, Consistency, Listener, ListenerTls, Pipelines, ProxyIn, Split, TlsMode,
};
pub use replay::{Replay, ReplayMode};
pub use rule::{CacheFreshness, CacheMode, LogMode, Matchers, Rule, RuleAccess, RuleCache, RuleLog, RuleRoute};
pub use tier::Tier;

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
    /// Events of queries and logins.
    pub events: Events,
    /// The file of history, when wanted.
    pub history: Option<History>,
    /// The result cache.
    pub cache: Cache,
    /// Clusters by name, at least one.
    pub clusters: BTreeMap<Arc<str>, Cluster>,
    /// Listeners by name, at least one.
    pub listeners: BTreeMap<Arc<str>, Listener>,
    /// Settings of users, by user name.
    pub users: BTreeMap<Arc<str>, User>,
    /// Routing rules, in order: the first that fits a statement decides.
    pub rules: Arc<[Rule]>,
    /// Statements that fill the result cache, by name.
    pub warms: BTreeMap<Arc<str>, Arc<Warm>>,
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
    /// The share of a core above which a busy worker gives sessions to others, in percent; 0 is off.
    pub relieve_above_percent: u32,
    /// Entries of each worker's table of digests; 0 is off.
    pub digests_max: usize,
    /// A text of each digest is kept for EXPLAIN.
    pub digest_samples: bool,
    /// How long sessions may finish when the process stops.
    pub drain: Duration,
    /// Where this proxy stands, compared with [`Server::zone`]; empty is no preference.
    pub zone: Arc<str>,
    /// Most bytes for clients that have not logged in.
    pub login_memory_max: u64,
    /// Most bytes of all sessions' prepared texts.
    pub prepared_memory_max: u64,
    /// Most bytes of all clients' long commands.
    pub command_memory_max: u64,
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
    /// Where the SQL console listens, when wanted.
    pub sql_address: Option<Address>,
    /// The keys of the API; without any the API is closed.
    pub keys: AdminKeys,
    /// TLS of both.
    pub tls: AdminTls,
}

/// `[admin.tls]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminTls {
    /// Whether clients may or must encrypt.
    pub mode: TlsMode,
    /// The lowest version that is spoken.
    pub min_version: TlsVersion,
    /// The certificate chain; none: one that is made at start. Present exactly when [`Self::key`] is.
    pub cert: Option<Pem>,
    /// The private key of [`Self::cert`], PEM.
    pub key: Option<Secret>,
}

impl Default for AdminTls {
    fn default() -> AdminTls {
        AdminTls { mode: TlsMode::Off, min_version: TlsVersion::V12, cert: None, key: None }
    }
}

/// The keys of the API, one for each role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminKeys {
    /// May do everything.
    pub admin: Option<Secret>,
    /// May read, kill, drain, set maintenance and marks.
    pub operate: Option<Secret>,
    /// May read.
    pub view: Option<Secret>,
}

impl AdminKeys {
    /// The key that may do the most.
    pub fn strongest(&self) -> Option<Secret> {
        self.admin.as_ref().or(self.operate.as_ref()).or(self.view.as_ref()).cloned()
    }
}

/// `[cache]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Bytes of all answers that are kept.
    pub memory_max: u64,
    /// Bytes of one reply.
    pub entry_max: u64,
    /// How long one session waits for the answer that another one is asking for.
    pub fill_wait: Duration,
    /// How far the followed log may be behind for answers to be given.
    pub follow_delay_max: Duration,
    /// The cache that other processes share.
    pub tier: Option<Tier>,
}

/// `[warm.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warm {
    /// The cluster.
    pub cluster: Arc<str>,
    /// The user whose clients shall find the answers.
    pub user: Arc<str>,
    /// The schema in which they are; `None` is none.
    pub schema: Option<Arc<str>>,
    /// Where the statements were read from.
    pub file: PathBuf,
    /// The statements.
    pub statements: Arc<[WarmStatement]>,
    /// How many run at a time.
    pub sessions: usize,
}

/// One statement of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmStatement {
    /// The line where it begins, from 1.
    pub line: u32,
    /// Its text.
    pub text: Box<[u8]>,
}

/// A PEM file that was read when the configuration was. Its content is compared on reload, so a renewed certificate
/// in the same place counts as a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pem {
    /// Where it was read from.
    pub path: PathBuf,
    /// Its content; the TLS library decides whether it is a good certificate.
    pub text: Arc<[u8]>,
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
    /// The writes that this user's reads are sure to see; none: as the listener says.
    pub consistency: Option<Consistency>,
    /// Whether this user's reads share connections; none: as the listener says.
    pub pipelines: Option<Pipelines>,
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
