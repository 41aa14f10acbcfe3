//! `[listener.NAME]`.

use std::sync::Arc;
use std::time::Duration;

use super::{Pem, Replay, TlsVersion};
use crate::{Address, Network, Secret};

words! {
    /// Whether reads share backend connections with those of other sessions.
    Pipelines {
        /// Those that are known to be short do.
        On = "on",
        /// None do.
        Off = "off",
        /// All that may do.
        Always = "always",
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
    /// The writes that a read is sure to see.
    Consistency {
        /// The earlier writes of its session.
        Session = "session",
        /// The earlier writes of all sessions of this process.
        Cluster = "cluster",
        /// The earlier writes of all sessions of this process to the tables that the read names.
        Table = "table",
        /// Nothing in particular.
        None = "none",
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
    /// Certificates of clients.
    ClientCert {
        /// A client may show one.
        Optional = "optional",
        /// A client without one is refused.
        Required = "required",
    }
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

/// `[listener.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Where clients connect; port 0 lets the system choose.
    pub address: Address,
    /// Name of the cluster, which exists.
    pub cluster: Arc<str>,
    /// Where statements go.
    pub split: Split,
    /// The writes that a read is sure to see.
    pub consistency: Consistency,
    /// Whether reads share connections with those of other sessions.
    pub pipelines: Pipelines,
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
    /// Most sessions of one client address at a time; 0 is no limit.
    pub max_sessions_per_address: u32,
    /// Most connections of one client address that have not logged in; 0 is no limit.
    pub max_logins_per_address: u32,
    /// Failed logins of one address after which its logins wait; 0 is never.
    pub login_delay_after: u32,
    /// The longest that they wait.
    pub login_delay_max: Duration,
    /// Addresses for which none of that counts.
    pub addresses_exempt: Vec<Network>,
    /// Most bytes of one session's prepared texts.
    pub prepared_memory_max: u64,
    /// Longest time from connecting to being logged in.
    pub login_timeout: Duration,
    /// How long a session may do nothing.
    pub idle_timeout: Duration,
    /// How long a statement waits for a primary.
    pub hold: Duration,
    /// Whether transactions whose server is lost are replayed.
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
