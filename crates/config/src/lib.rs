//! The operator's configuration: one TOML file, checked, as typed values.
//!
//! [`load`] reads a file, [`parse`] takes its text and a [`Source`] for the secrets and certificates it names, so that
//! parsing itself is pure. All mistakes of a file are reported at once, each with line, column, key, the allowed values
//! and, where one is near, the key or word that was probably meant. [`settings`] holds each tunable exactly once; the
//! reader, the documentation ([`document::markdown`]) and the commented sample ([`document::sample`]) all stand on it.
//! [`diff()`] tells what a reload changes.

mod address;
mod checks;
pub mod diff;
pub mod document;
mod error;
mod model;
mod network;
mod parse;
pub mod patterns;
mod read;
mod secret;
pub mod settings;
mod source;
mod suggest;

pub use address::Address;
pub use diff::{Changes, diff};
pub use error::{Errors, Problem, Warning};
pub use model::{
    Admin, AdminKeys, AdminTls, Cache, CacheFreshness, CacheMode, ClientCert, ClientCompression, Cluster, ClusterKind,
    Config, Consistency, Credential, Donors, Etcd, EventFile, EventKafka, EventKafkaLogin, EventKafkaTls, EventOtlp,
    EventQueries, EventSink, EventSpool, EventSyslog, EventTarget, EventText, Events, EventsWhenFull, Failover, Galera,
    Given, Heartbeat, History, KafkaKey, KafkaSasl, Lease, Listener, ListenerTls, Log, LogFormat, LogMode, Matchers,
    Monitor, OtlpCompression, Pem, Pipelines, Pool, Promotion, PromotionRule, Proxy, ProxyIn, ProxyOut, Replay,
    ReplayMode, ReplicationAccount, ReplicationTls, Rule, RuleAccess, RuleCache, RuleLog, RuleRoute, SendPasswords,
    Server, ServerCompression, ServerTls, ServerTlsMode, SinkQueries, Split, SyslogFacility, SyslogProtocol, Tier,
    TlsMode, TlsVersion, TraceKeep, Unwritable, User, Warm, WarmStatement, Writers,
};
pub use network::Network;
pub use parse::{Loaded, load, parse};
pub use secret::Secret;
pub use source::{FileContent, MemorySource, Source, SystemSource};
