//! `[events]`

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::{Address, Secret};

words! {
    /// The queries that become events.
    EventQueries {
        /// None.
        Off = "off",
        /// Those that end in an error.
        Errors = "errors",
        /// The same, and those that may change data.
        Writes = "writes",
        /// All.
        All = "all",
    }
}

words! {
    /// The part of a statement's text that a sink of events has.
    EventText {
        /// Its form, without literals.
        Form = "form",
        /// The same, and the statement with hashed literals.
        Hmac = "hmac",
        /// All of it.
        Text = "text",
    }
}

words! {
    /// The compression of requests to a collector.
    OtlpCompression {
        /// None.
        Off = "off",
        /// gzip.
        Gzip = "gzip",
    }
}

words! {
    /// The queries that become spans at their end, though neither their client nor the sample has chosen them.
    TraceKeep {
        /// None.
        Off = "off",
        /// Those that end in an error.
        Errors = "errors",
        /// The same, and slow ones.
        Slow = "slow",
    }
}

words! {
    /// The effect of a sink that cannot take events as fast as they come.
    EventsWhenFull {
        /// Events are lost.
        Drop = "drop",
        /// Sessions wait.
        Wait = "wait",
    }
}

words! {
    /// The queries that a sink of events takes, of those that are events.
    SinkQueries {
        /// None.
        Off = "off",
        /// Those that end in an error.
        Errors = "errors",
        /// The same, and slow ones.
        Slow = "slow",
        /// Those that end in an error, and those that may change data.
        Writes = "writes",
        /// All.
        All = "all",
    }
}

words! {
    /// The way to a receiver of syslog.
    SyslogProtocol {
        /// Datagrams.
        Udp = "udp",
        /// A connection.
        Tcp = "tcp",
    }
}

words! {
    /// The facility of messages of syslog.
    SyslogFacility {
        /// 1.
        User = "user",
        /// 3.
        Daemon = "daemon",
        /// 4.
        Auth = "auth",
        /// 10.
        Authpriv = "authpriv",
        /// 16.
        Local0 = "local0",
        /// 17.
        Local1 = "local1",
        /// 18.
        Local2 = "local2",
        /// 19.
        Local3 = "local3",
        /// 20.
        Local4 = "local4",
        /// 21.
        Local5 = "local5",
        /// 22.
        Local6 = "local6",
        /// 23.
        Local7 = "local7",
    }
}

words! {
    /// The key of messages to Kafka.
    KafkaKey {
        /// The session.
        Session = "session",
        /// The user.
        User = "user",
        /// The digest.
        Digest = "digest",
        /// None.
        None = "none",
    }
}

words! {
    /// The login to Kafka.
    KafkaSasl {
        /// None.
        Off = "off",
        /// The password itself.
        Plain = "plain",
        /// SCRAM with SHA-256.
        Scram256 = "scram-sha-256",
        /// SCRAM with SHA-512.
        Scram512 = "scram-sha-512",
    }
}

impl SyslogFacility {
    /// Its number in RFC 5424.
    pub fn number(self) -> u8 {
        match self {
            SyslogFacility::User => 1,
            SyslogFacility::Daemon => 3,
            SyslogFacility::Auth => 4,
            SyslogFacility::Authpriv => 10,
            SyslogFacility::Local0 => 16,
            SyslogFacility::Local1 => 17,
            SyslogFacility::Local2 => 18,
            SyslogFacility::Local3 => 19,
            SyslogFacility::Local4 => 20,
            SyslogFacility::Local5 => 21,
            SyslogFacility::Local6 => 22,
            SyslogFacility::Local7 => 23,
        }
    }
}

/// `[events]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Events {
    /// The queries that become events.
    pub queries: EventQueries,
    /// Queries of this length become events, too; zero: none.
    pub slow: Duration,
    /// Queries of one session in so many.
    pub sample: u32,
    /// The name of this process; `None` is the machine's.
    pub node: Option<Arc<str>>,
    /// The effect of a sink that cannot take events as fast as they come.
    pub when_full: EventsWhenFull,
    /// The longest wait for it.
    pub wait_max: Duration,
    /// The key of hashed literals.
    pub hmac_key: Option<Secret>,
    /// Names of the tags that events keep.
    pub tags: Vec<Arc<str>>,
    /// Of the queries without a trace, one in so many begins one; 0: none.
    pub trace_sample: u32,
    /// The queries that become spans besides.
    pub trace_keep: TraceKeep,
    /// The spool.
    pub spool: Option<EventSpool>,
    /// The sinks by their names: `file`, `files.NAME`, `stdout`, `syslog.NAME`, `kafka.NAME`, `otlp.NAME`.
    pub sinks: BTreeMap<Arc<str>, EventSink>,
}

/// `[events.spool]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSpool {
    /// Its folder.
    pub path: PathBuf,
    /// Its size.
    pub max_bytes: u64,
    /// Age beyond which events go; zero: never.
    pub max_age: Duration,
}

/// A place where events go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSink {
    /// The queries that it takes.
    pub queries: SinkQueries,
    /// The part of a statement's text in it.
    pub text: EventText,
    /// Regular expressions of what its texts shall not have.
    pub mask: Vec<Arc<str>>,
    /// Fields whose values it shall not have.
    pub mask_fields: Vec<Arc<str>>,
    /// The place.
    pub target: EventTarget,
}

/// The place of a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventTarget {
    /// A file.
    File(EventFile),
    /// Standard output.
    Stdout,
    /// A receiver of syslog.
    Syslog(EventSyslog),
    /// Kafka.
    Kafka(EventKafka),
    /// An OpenTelemetry collector.
    Otlp(EventOtlp),
}

/// `[events.file]`, `[events.files.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFile {
    /// Its path.
    pub path: PathBuf,
    /// Bytes after which it gets another name; 0: never.
    pub rotate_size: u64,
    /// Time after which it gets another name; zero: never.
    pub rotate: Duration,
    /// Files with other names that stay.
    pub keep: usize,
    /// Whether they are compressed.
    pub compress: bool,
}

/// `[events.syslog.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSyslog {
    /// The address of the receiver.
    pub address: Address,
    /// The way to it, unless it is a socket of this machine.
    pub protocol: SyslogProtocol,
    /// The facility.
    pub facility: SyslogFacility,
}

/// `[events.otlp.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventOtlp {
    /// Its address, with `http://` or `https://`.
    pub endpoint: Arc<str>,
    /// A header of each request.
    pub header: Option<(Arc<str>, Secret)>,
    /// Certificates of authorities; `None` is the system's.
    pub ca_file: Option<PathBuf>,
    /// Events are sent as log records.
    pub logs: bool,
    /// Queries of recorded traces are sent as spans.
    pub traces: bool,
    /// The time from push to push of metrics; zero: none.
    pub metrics: Duration,
    /// The compression of requests.
    pub compression: OtlpCompression,
}

/// `[events.kafka.NAME]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventKafka {
    /// Brokers to begin with.
    pub brokers: Vec<Address>,
    /// The topic.
    pub topic: Arc<str>,
    /// The key of messages.
    pub key: KafkaKey,
    /// TLS; `None` is without.
    pub tls: Option<EventKafkaTls>,
    /// The login; `None` is without.
    pub login: Option<EventKafkaLogin>,
}

/// TLS to Kafka.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventKafkaTls {
    /// Certificates of authorities; `None` is the system's.
    pub ca_file: Option<PathBuf>,
    /// The own certificate and its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// The login to Kafka.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventKafkaLogin {
    /// The way.
    pub sasl: KafkaSasl,
    /// The user.
    pub user: Arc<str>,
    /// The password.
    pub password: Secret,
}

impl Events {
    /// Whether a sink has statements with their literals.
    pub fn has_texts(&self) -> bool {
        self.sinks.values().any(|sink| sink.text != EventText::Form)
    }

    /// Whether a sink takes spans.
    pub fn has_spans(&self) -> bool {
        self.sinks.values().any(|sink| matches!(&sink.target, EventTarget::Otlp(otlp) if otlp.traces))
    }

    /// The files, with their keys.
    pub fn files(&self) -> impl Iterator<Item = (String, &EventFile)> {
        self.sinks.iter().filter_map(|(name, sink)| match &sink.target {
            EventTarget::File(file) => Some((format!("events.{name}.path"), file)),
            EventTarget::Stdout | EventTarget::Syslog(_) | EventTarget::Kafka(_) | EventTarget::Otlp(_) => None,
        })
    }
}
