//! The operator's wishes: one TOML file, checked, as typed values.
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
mod rule;
mod secret;
pub mod settings;
mod source;
mod suggest;

pub use address::Address;
pub use diff::{Changes, diff};
pub use error::{Errors, Problem, Warning};
pub use model::{
    Admin, Cache, CacheFreshness, CacheMode, ClientCert, ClientCompression, Cluster, ClusterKind, Config, Consistency,
    Credential, Donors, Etcd, EventFile, EventQueries, EventText, Events, Failover, Galera, Given, Heartbeat, Lease,
    Listener, ListenerTls, Log, LogFormat, Monitor, Pem, Pool, Promotion, PromotionRule, Proxy, ProxyIn, ProxyOut,
    Replay, ReplayMode, ReplicationAccount, ReplicationTls, RuleAccess, SendPasswords, Server, ServerCompression,
    ServerTls, ServerTlsMode, Split, Tier, TlsMode, TlsVersion, Unwritable, User, Warm, WarmStatement, Writers,
};
pub use network::Network;
pub use parse::{Loaded, load, parse};
pub use rule::{Matchers, Rule, RuleCache, RuleRoute};
pub use secret::Secret;
pub use source::{FileContent, MemorySource, Source, SystemSource};
