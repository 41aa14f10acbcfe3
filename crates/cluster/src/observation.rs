//! Observations of a server: by a probe of the monitor, or by a session in passing.

mod group;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::evidence::{Evidence, EvidenceKind};
use facts::view::ServerId;

pub use group::{DataNode, DataNodeStatus, Galera, GroupMember, GroupReplication, LocalState, MemberState, Ndb};

/// One thing seen of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// Which server.
    pub server: ServerId,
    /// When the server was asked, or when a session met it: an answer does not show what a step has changed since.
    pub asked: Instant,
    /// The observation.
    pub seen: ObservationKind,
}

/// An observation of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum ObservationKind {
    /// A probe was answered completely.
    Facts(Box<Facts>),
    /// A probe failed.
    Failure(Failure),
    /// A probe was not answered over the open connection, nor the same question over a new one; this tells how the new one failed.
    FailedTwice(Failure),
    /// A session met trouble.
    Evidence(EvidenceKind),
    /// A member of a Galera group has all that was written anywhere before this moment.
    CaughtUp(Instant),
    /// The heartbeat was written to it.
    Written,
    /// The heartbeat could not be written to it, although it answers.
    NotWritten(NotWritten),
}

/// Why a heartbeat is not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotWritten {
    /// The kind of trouble.
    pub trouble: WriteTrouble,
    /// In words.
    pub text: Arc<str>,
}

/// The reason why a server that answers cannot write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteTrouble {
    /// It says that its disk is full.
    DiskFull,
    /// The write does not end, and neither a lock nor a missing acknowledgement explains it.
    Stuck,
    /// The write waits for somebody's lock: a backup, FLUSH TABLES WITH READ LOCK.
    Locked,
    /// The write waits for replicas to acknowledge it.
    Unacknowledged,
}

impl Observation {
    /// A session's evidence, which is read at this moment.
    pub fn of_session(evidence: Evidence, now: Instant) -> Observation {
        Observation { server: evidence.server, asked: now, seen: ObservationKind::Evidence(evidence.kind) }
    }
}

/// Why a probe failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The class, which decides what it means.
    pub class: FailureClass,
    /// The error in words, without secrets.
    pub text: Arc<str>,
}

/// Classes of failed probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureClass {
    /// The name did not resolve.
    Name,
    /// The connection was refused or the host is unreachable.
    Refused,
    /// No answer in time.
    Timeout,
    /// A new connection was accepted by the host, and then came no greeting in time: the host lives, the process may be
    /// frozen.
    Silent,
    /// The connection ended in the middle.
    Lost,
    /// TLS could not be agreed on.
    Tls,
    /// The server answers, but has no connection left for the monitor (1040, 1203, 1226).
    TooManyConnections,
    /// The server answers, but refuses the monitor user.
    Login,
    /// The server answers with an error to what the monitor asks.
    Query,
    /// The server is starting or shutting down (1053, 1927, 3169).
    NotReady,
    /// The server is in offline mode, and takes the monitor for an ordinary user (3032).
    Offline,
    /// The server does not speak the protocol.
    Protocol,
}

impl FailureClass {
    /// The word that metrics and logs use.
    pub fn word(self) -> &'static str {
        match self {
            FailureClass::Name => "name",
            FailureClass::Refused => "refused",
            FailureClass::Timeout => "timeout",
            FailureClass::Silent => "silent",
            FailureClass::Lost => "lost",
            FailureClass::Tls => "tls",
            FailureClass::TooManyConnections => "too_many_connections",
            FailureClass::Login => "login",
            FailureClass::Query => "query",
            FailureClass::NotReady => "not_ready",
            FailureClass::Offline => "offline",
            FailureClass::Protocol => "protocol",
        }
    }

    /// All classes.
    pub const ALL: [FailureClass; 12] = [
        FailureClass::Name,
        FailureClass::Refused,
        FailureClass::Timeout,
        FailureClass::Silent,
        FailureClass::Lost,
        FailureClass::Tls,
        FailureClass::TooManyConnections,
        FailureClass::Login,
        FailureClass::Query,
        FailureClass::NotReady,
        FailureClass::Offline,
        FailureClass::Protocol,
    ];

    /// The server answered, so this failure concerns the monitor alone and is no sign of the server's death.
    pub fn proves_life(self) -> bool {
        use FailureClass::{Login, Offline, Query, TooManyConnections};
        matches!(self, TooManyConnections | Login | Query | Offline)
    }
}

/// The facts that a server reported at a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The server's greeting.
    pub greeting: Greeting,
    /// The address that was connected to; `None` for a local socket.
    pub resolved: Option<SocketAddr>,
    /// `@@server_id`.
    pub server_id: u32,
    /// `@@hostname`, the server's own idea of its name.
    pub hostname: Arc<str>,
    /// `@@port`.
    pub port: u16,
    /// `@@report_host`, empty when not set.
    pub report_host: Arc<str>,
    /// `@@report_port`, 0 when not set.
    pub report_port: u16,
    /// `@@read_only` refuses writes of ordinary users (MariaDB 12's NO_LOCK values count as on).
    pub read_only: bool,
    /// `@@super_read_only`; always false on MariaDB.
    pub super_read_only: bool,
    /// Position of what was executed, as the server writes it: `@@gtid_current_pos` (MariaDB), `@@gtid_executed` (MySQL).
    pub gtid_executed: Arc<str>,
    /// The server's replication.
    pub replication: Replication,
    /// How far the heartbeat row shows it behind the primary; `None` without a usable heartbeat.
    pub heartbeat_lag: Option<Duration>,
    /// The facts that a decision about another primary needs.
    pub details: Details,
}

/// The facts of a server that a decision about another primary needs. By default it has reported nothing; a missing report can keep
/// a server from being promoted, and never makes it fit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// `@@server_uuid` (MySQL), empty otherwise.
    pub server_uuid: Arc<str>,
    /// Status variable `Uptime` in seconds; by it a restart is seen.
    pub uptime_s: Option<u64>,
    /// MySQL: `@@gtid_mode` is `ON`. MariaDB: true, for it always writes GTIDs.
    pub gtid_on: Option<bool>,
    /// `@@gtid_slave_pos` (MariaDB), empty otherwise: what came by replication.
    pub gtid_replicated: Arc<str>,
    /// `@@gtid_binlog_state` (MariaDB), empty otherwise: the last of each domain and server in its binary log.
    pub gtid_binlog_state: Arc<str>,
    /// `@@offline_mode` (MySQL): it takes statements of administrators only.
    pub offline: bool,
    /// `@@log_bin`.
    pub log_bin: Option<bool>,
    /// `@@log_replica_updates`, `@@log_slave_updates`.
    pub log_replica_updates: Option<bool>,
    /// `@@binlog_rows_query_log_events` (MySQL), `@@binlog_annotate_row_events` (MariaDB): its binary log has the texts of statements
    /// beside the rows.
    pub logs_statements: Option<bool>,
    /// `@@event_scheduler` is ON: it runs the events that are enabled there.
    pub event_scheduler: Option<bool>,
    /// The filters of its binary log: `Binlog_Do_DB` and `Binlog_Ignore_DB` as text, empty when nothing.
    pub binlog_filters: Arc<str>,
    /// Semi-synchronous replication.
    pub semi_sync: SemiSync,
    /// Galera or group replication is active here, in words; such a server is not promoted.
    pub group: Option<Arc<str>>,
    /// Where it stands in its Galera group.
    pub galera: Option<Galera>,
    /// Its report of its replication group; asked only where the servers should form one.
    pub group_replication: Option<GroupReplication>,
    /// Its report of its NDB cluster; asked only where the servers should belong to one.
    pub ndb: Option<Ndb>,
}

/// Semi-synchronous replication of a server, in both roles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SemiSync {
    /// As a source it is switched on (`rpl_semi_sync_source_enabled`, `…_master_enabled`).
    pub source_enabled: Option<bool>,
    /// It waits for acknowledgements now (`Rpl_semi_sync_source_status`); off when it has fallen back.
    pub source_active: Option<bool>,
    /// It waits before others see the transaction (`AFTER_SYNC`); otherwise nothing is lossless.
    pub after_sync: Option<bool>,
    /// How long it waits before it falls back, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// How many replicas must acknowledge; 1 on MariaDB.
    pub acks_needed: Option<u32>,
    /// How many semi-synchronous replicas are connected.
    pub clients: Option<u32>,
    /// As a replica it is switched on.
    pub replica_enabled: Option<bool>,
    /// As a replica it acknowledges now (`Rpl_semi_sync_replica_status`).
    pub replica_active: Option<bool>,
}

/// The values of a server's greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// It is MariaDB.
    pub mariadb: bool,
    /// The version text as sent.
    pub version: Arc<str>,
    /// The version as a number, for example 101106 or 80402.
    pub number: u32,
    /// Capabilities, MariaDB's extended bits in the upper half.
    pub capabilities: u64,
    /// Default authentication plugin.
    pub auth_plugin: Arc<str>,
    /// Collation byte.
    pub collation: u8,
}

/// The replication of a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Replication {
    /// The monitor user may not read it; the error in words.
    Unreadable(Arc<str>),
    /// The configured channels, empty when there are none.
    Channels(Vec<Channel>),
}

/// One replication channel (MariaDB: connection).
#[derive(Clone, Debug, PartialEq)]
pub struct Channel {
    /// Name, empty for the default channel.
    pub name: Arc<str>,
    /// Host of the source as configured.
    pub source_host: Arc<str>,
    /// Port of the source.
    pub source_port: u16,
    /// `server_id` of the source, 0 while it never connected.
    pub source_server_id: u32,
    /// The receiving thread.
    pub receiver: Receiver,
    /// The applying thread runs.
    pub applier_running: bool,
    /// Seconds behind as the server tells; `None` is NULL and never means zero.
    pub seconds_behind: Option<u64>,
    /// Position of what was received, as text (MariaDB `Gtid_IO_Pos`, MySQL `Retrieved_Gtid_Set`).
    pub gtid_received: Arc<str>,
    /// Last error of the receiving thread, empty when none.
    pub receiver_error: Arc<str>,
    /// That error only says that the source was not there. The receiver tries again then, so somebody stopped one that is stopped.
    pub receiver_lost_source: bool,
    /// Last error of the applying thread, empty when none.
    pub applier_error: Arc<str>,
    /// Intended delay in seconds (`MASTER_DELAY`).
    pub delay_s: u64,
    /// It finds its position by GTID: MySQL's `Auto_Position`, MariaDB's `Using_Gtid` other than `No`.
    pub uses_gtid: Option<bool>,
    /// The filters: all replication filters of the channel as text, empty when nothing.
    pub filters: Arc<str>,
    /// A number that changes whenever the source has sent anything, be it a heartbeat: proof that the source lives. For
    /// example the sum of received heartbeats and the position that was read.
    pub life: Option<u64>,
    /// How often an idle source sends a heartbeat (`Slave_heartbeat_period`, `HEARTBEAT_INTERVAL`).
    pub heartbeat_period: Option<Duration>,
    /// The server did not tell its replication status this time; all of this is from before.
    pub outdated: bool,
}

/// State of a channel's receiving thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// Connected.
    Running,
    /// Started, but not connected to the source.
    Connecting,
    /// Stopped.
    Stopped,
}

impl Channel {
    /// Both threads run and the receiver is connected.
    pub fn works(&self) -> bool {
        self.receiver == Receiver::Running && self.applier_running
    }

    /// Somebody stopped both threads, and no error did it.
    pub fn stopped_by_hand(&self) -> bool {
        self.receiver == Receiver::Stopped
            && !self.applier_running
            && self.receiver_error.is_empty()
            && self.applier_error.is_empty()
    }
}
