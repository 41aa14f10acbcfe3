//! `[cluster.NAME]`, but for what has a file of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Etcd, Failover, Galera, Pem, Promotion, PromotionRule, ReplicationAccount, TlsVersion};
use crate::{Address, Secret};

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
    /// Which servers are told passwords in a form that they can read.
    SendPasswords {
        /// Those that are verified, or that show what they have shown first.
        Known = "known",
        /// Those whose certificate was verified, and local sockets.
        Verified = "verified",
        /// Any server that answers at the address.
        Any = "any",
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

/// `[cluster.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// How the servers keep the same data.
    pub kind: ClusterKind,
    /// Servers by name, at least one.
    pub servers: BTreeMap<Arc<str>, Server>,
    /// How they are watched.
    pub monitor: Monitor,
    /// The reaction to the loss of the primary.
    pub failover: Failover,
    /// How a new primary is chosen and made.
    pub promotion: Promotion,
    /// Where the lease is, when it is in etcd.
    pub etcd: Etcd,
    /// Settings of a Galera group.
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
    /// Which servers are told passwords in a form that they can read.
    pub send_passwords: SendPasswords,
    /// Writes are sent behind a comment that names their connection.
    pub mark_writes: bool,
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
    /// The certificate that Sqluice shows when a server requests one. Present exactly when [`Self::key`] is.
    pub cert: Option<Pem>,
    /// The private key of [`Self::cert`], PEM.
    pub key: Option<Secret>,
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
    /// Connections to one server on which each worker may have reads of several sessions outstanding; 0 is none.
    pub pipelines: u32,
    /// How long a read on such a connection may take.
    pub pipeline_time: Duration,
    /// How large its reply may be, in bytes.
    pub pipeline_reply_max: u64,
    /// Longest time for connecting and logging in to a server.
    pub connect_timeout: Duration,
    /// Silence before TCP asks whether the server is still there; zero is never.
    pub keepalive: Duration,
    /// How long sent bytes may stay unacknowledged; zero is the system's own limit.
    pub user_timeout: Duration,
}
