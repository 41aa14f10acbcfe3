//! Real MariaDB and MySQL servers in temporary folders, alone, with replicas, as a Galera group or as a replication group: the demo, the end-to-end tests and the benchmarks stand on it.
//!
//! ```no_run
//! # fn main() -> Result<(), sqluice_lab::LabError> {
//! use sqluice_lab::{Family, Replication, ReplicationOptions};
//! use std::time::Duration;
//!
//! let cluster = Replication::start(ReplicationOptions::new(Family::MariaDb, 2))?;
//! cluster.primary().sql("CREATE TABLE app.t (id INT PRIMARY KEY); INSERT INTO app.t VALUES (1)")?;
//! cluster.wait_in_sync(Duration::from_secs(10))?;
//! assert_eq!(cluster.server(1).sql("SELECT id FROM app.t")?, "1\n");
//! # Ok(())
//! # }
//! ```
//!
//! Everything blocks: asynchronous callers use `spawn_blocking`. Every wait has a limit. Nothing outlives its owner: a
//! server goes when its [`Server`] is dropped, and also when the process that started it is killed.

mod accounts;
mod binaries;
mod client;
mod daemon;
mod error;
mod etcd;
mod galera;
mod group;
mod group_replication;
mod kafka;
mod otelcol;
mod replication;
mod server;
mod skip;
mod template;
mod valkey;

pub use accounts::{
    APP_DATABASE, APP_PASSWORD, APP_PRIVILEGES, APP_USER, MONITOR_DATABASE, MONITOR_PASSWORD, MONITOR_USER,
    REPL_PASSWORD, REPL_USER, accounts_sql,
};
pub use binaries::{Binaries, Family, ServerBinary};
pub use daemon::Daemon;
pub use error::LabError;
pub use etcd::{Etcd, EtcdOptions};
pub use galera::{Galera, GaleraOptions};
pub use group_replication::{GROUP_NAME, GroupReplication, GroupReplicationOptions};
pub use kafka::{KAFKA_PASSWORD, KAFKA_USER, Kafka};
pub use otelcol::OtelCollector;
pub use replication::{Replication, ReplicationOptions};
pub use server::{Server, ServerOptions, TlsFiles};
pub use skip::skip;
pub use valkey::{Valkey, ValkeyOptions};
