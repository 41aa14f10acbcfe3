//! The servers behind all contenders.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use lab::{Family, Replication, ReplicationOptions, TlsFiles};
use net::tls::ServerTls;
use tempfile::TempDir;

use crate::system;

/// The database that all loads use.
pub(crate) const DATABASE: &str = lab::APP_DATABASE;
/// A table of [`LARGE_ROWS`] rows of a megabyte each.
pub(crate) const LARGE_TABLE: &str = "large";
pub(crate) const LARGE_ROWS: u32 = 4;
/// Longest wait until replicas have the data.
const SYNC_LIMIT: Duration = Duration::from_secs(60);

/// Abilities that the servers must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// The family of the servers.
    pub(crate) family: Family,
    /// Connections at a time.
    pub(crate) connections: u64,
    /// Offer TLS.
    pub(crate) tls: bool,
    /// The table of large rows.
    pub(crate) large: bool,
    /// Replicas beside the primary.
    pub(crate) replicas: usize,
    /// Megabytes that each server has for data.
    pub(crate) buffer_mb: u32,
}

/// The servers. One is behind every contender, so that all share the same bottleneck.
#[derive(Debug)]
pub(crate) struct World {
    replication: Replication,
    /// Certificates, for as long as servers and proxies read them.
    _certificates: Option<TempDir>,
    /// The server's certificate files, when it offers TLS.
    pub(crate) tls: Option<TlsFiles>,
    /// The version that the server tells of itself.
    pub(crate) version: String,
}

impl World {
    /// Starts the servers.
    ///
    /// # Errors
    /// There is no server program, or it does not start.
    pub(crate) fn start(needs: Needs) -> anyhow::Result<World> {
        let (certificates, tls) = if needs.tls { certificates()? } else { (None, None) };
        let mut config = vec![
            format!("innodb_buffer_pool_size={}M", needs.buffer_mb),
            format!("max_connections={}", needs.connections + 200),
            "table_open_cache=4000".to_owned(),
            // sysbench prepares each statement for each table on each connection.
            "max_prepared_stmt_count=1048576".to_owned(),
            "max_binlog_size=64M".to_owned(),
            "loose_binlog_expire_logs_seconds=60".to_owned(),
        ];
        if needs.connections > THREADS_MAX && needs.family == Family::MariaDb {
            // A thread for each of them would take gigabytes, and the connections only wait.
            config.push("thread_handling=pool-of-threads".to_owned());
        }
        let options =
            ReplicationOptions { config, tls: tls.clone(), ..ReplicationOptions::new(needs.family, needs.replicas) };
        let replication = Replication::start(options).context("the servers did not start")?;
        let version = replication.primary().sql("SELECT VERSION()")?.trim().to_owned();
        if needs.large {
            let rows: Vec<String> = (1..=LARGE_ROWS).map(|id| format!("({id}, REPEAT('x', 1000000))")).collect();
            replication.primary().sql(&format!(
                "USE {DATABASE}; CREATE TABLE {LARGE_TABLE} (id INT PRIMARY KEY, data LONGTEXT NOT NULL);\n\
                 INSERT INTO {LARGE_TABLE} VALUES {}",
                rows.join(",")
            ))?;
        }
        Ok(World { replication, _certificates: certificates, tls, version })
    }

    /// Where the primary is.
    pub(crate) fn primary(&self) -> SocketAddr {
        self.replication.primary().address()
    }

    /// The primary itself.
    pub(crate) fn server(&self) -> &lab::Server {
        self.replication.primary()
    }

    /// Time on a CPU of all servers until now, in nanoseconds.
    ///
    /// # Errors
    /// One of them is gone.
    pub(crate) fn cpu_ns(&self) -> anyhow::Result<u64> {
        let servers = self.replication.servers().iter();
        servers.map(|server| system::cpu_ns(server.pid().context("a server has ended")?)).sum()
    }

    /// Where all servers are, the primary first.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.replication.servers().iter().map(lab::Server::address).collect()
    }

    /// Waits until replicas have what the primary has.
    ///
    /// # Errors
    /// They are too slow.
    pub(crate) fn wait_in_sync(&self) -> anyhow::Result<()> {
        Ok(self.replication.wait_in_sync(SYNC_LIMIT)?)
    }
}

/// Connections that get a thread each, as servers are usually run.
const THREADS_MAX: u64 = 3000;

fn certificates() -> anyhow::Result<(Option<TempDir>, Option<TlsFiles>)> {
    let folder = TempDir::with_prefix("sqluice-bench-")?;
    let (certificate, key) = (folder.path().join("server.pem"), folder.path().join("server.key"));
    ServerTls::self_made_in(&["127.0.0.1".to_owned()], &certificate, &key).context("cannot make a certificate")?;
    // Signed by itself: it is its own authority.
    let files = TlsFiles { authority: certificate.clone(), certificate, key };
    Ok((Some(folder), Some(files)))
}
