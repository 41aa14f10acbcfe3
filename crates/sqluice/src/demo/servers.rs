//! The demo's servers, and the configuration for them.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use lab::{
    APP_DATABASE, Binaries, Family, MONITOR_PASSWORD, MONITOR_USER, REPL_PASSWORD, REPL_USER, Replication,
    ReplicationOptions,
};

use crate::init::files::made_up_password;
use crate::out;

/// The listener's name.
pub(super) const LISTENER: &str = "app";
/// The cluster's name.
pub(super) const CLUSTER: &str = "demo";
/// Rows of the table that the load works on.
pub(super) const ACCOUNTS: u32 = 1000;
/// Disk space of one server, in MB, with some room for its binary log.
const SERVER_MB: u64 = 250;
/// Longest wait until replicas have what the primary has.
const SYNC_LIMIT: Duration = Duration::from_secs(20);

/// A demo runs for as long as somebody looks at it: its binary log must not fill the disk.
const CONFIG: [&str; 2] = ["max_binlog_size=16M", "loose_binlog_expire_logs_seconds=60"];

/// The demo's servers.
pub(super) struct Servers {
    replication: Replication,
    /// The key of the page and the API.
    key: String,
    client: String,
}

/// Says at once that a port is taken, before servers are started for nothing.
pub(super) fn check_port(port: u16) -> anyhow::Result<()> {
    if port == 0 {
        return Ok(());
    }
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map(drop).with_context(|| {
        format!(
            "port {port} of 127.0.0.1 cannot be listened on; name another with --port, or leave it out for a free one"
        )
    })
}

impl Servers {
    /// Starts a primary and its replicas, with a table to work on.
    pub(super) fn start(replicas: usize) -> anyhow::Result<Servers> {
        let missing = |error| anyhow!("{error}; `./dev demo` in a clone of Sqluice's repository installs it as well");
        let binaries = Binaries::find().map_err(missing)?;
        let binary = binaries.server(Family::MariaDb).map_err(missing)?;
        check_disk(replicas + 1)?;
        out::line(&format!("starting a primary and {replicas} replicas of {}", binary.version))?;
        let started = Instant::now();
        let options = ReplicationOptions {
            config: CONFIG.map(str::to_owned).to_vec(),
            // MariaDB's own tables of numbers fill it.
            init_sql: format!(
                "USE {APP_DATABASE};\n\
                 CREATE TABLE account (id INT PRIMARY KEY, balance BIGINT NOT NULL, note VARCHAR(60) NOT NULL DEFAULT '');\n\
                 INSERT INTO account (id, balance) SELECT seq, 1000 FROM seq_1_to_{ACCOUNTS};"
            ),
            ..ReplicationOptions::new(Family::MariaDb, replicas)
        };
        let replication = Replication::start(options).context("the servers did not start")?;
        for (index, server) in replication.servers().iter().enumerate() {
            out::line(&format!("  {} on {}, in {}", name(index), server.address(), server.folder().display()))?;
        }
        out::line(&format!("they replicate, after {:.1} s", started.elapsed().as_secs_f64()))?;
        let client = binary.client.file_name().map_or("mariadb".into(), |name| name.to_string_lossy().into_owned());
        Ok(Servers { replication, key: made_up_password()?, client })
    }

    /// How many replicas there are.
    pub(super) fn replicas(&self) -> usize {
        self.replication.servers().len() - 1
    }

    /// The key of the page and the API.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// The ordinary client's name.
    pub(super) fn client(&self) -> &str {
        &self.client
    }

    /// Where the configuration is.
    pub(super) fn config_path(&self) -> PathBuf {
        self.replication.server(0).folder().join("sqluice.toml")
    }

    /// Writes the configuration and reads it back, as `sqluice run` would.
    pub(super) fn config(&self, port: u16) -> anyhow::Result<config::Config> {
        let mut text = format!(
            "[listener.{LISTENER}]\naddress = \"127.0.0.1:{port}\"\ncluster = \"{CLUSTER}\"\n\n\
             [proxy]\ndigests_max = 2000\n\n[admin]\naddress = \"127.0.0.1:0\"\n\
             sql_address = \"127.0.0.1:0\"\nkey = \"{}\"\n\n\
             [events]\nqueries = \"all\"\n\n[history]\npath = \"history.sqlite\"\n\n\
             [cluster.{CLUSTER}]\nkind = \"replication\"\n\
             monitor = {{ user = \"{MONITOR_USER}\", password = \"{MONITOR_PASSWORD}\" }}\n\
             replication = {{ user = \"{REPL_USER}\", password = \"{REPL_PASSWORD}\" }}\n",
            self.key
        );
        for (index, server) in self.replication.servers().iter().enumerate() {
            writeln!(text, "servers.{} = {{ address = \"{}\" }}", name(index), server.address())?;
        }
        let path = self.config_path();
        let written = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(config::load(&path)?.config)
    }

    /// `kill -9` of the last replica that runs.
    pub(super) fn kill_a_replica(&self) {
        let primary = self.replication.primary_index();
        let servers = self.replication.servers().iter().enumerate();
        let running = servers.filter(|(index, server)| *index != primary && server.is_running()).last();
        match running {
            Some((index, server)) => {
                tracing::info!("you killed {} (kill -9)", name(index));
                server.kill9();
            }
            None => tracing::info!("no replica is left to kill"),
        }
    }

    /// Starts what was killed, in the background: it takes a second or more.
    pub(super) fn restart_all(self: &Arc<Self>) {
        let servers = self.clone();
        tokio::task::spawn_blocking(move || {
            for (index, server) in servers.replication.servers().iter().enumerate() {
                if server.is_running() {
                    continue;
                }
                tracing::info!("starting {} again", name(index));
                if let Err(error) = server.restart() {
                    tracing::error!("{} did not start: {error}", name(index));
                }
            }
        });
    }

    /// Says whether all running servers have the same data.
    pub(super) fn compare(&self) -> anyhow::Result<String> {
        let down = self.replication.servers().iter().position(|server| !server.is_running());
        if let Some(down) = down {
            return Ok(format!("{} is down: the servers' data was not compared", name(down)));
        }
        if self.replicas() == 0 {
            return Ok("there is one server: no data to compare".to_owned());
        }
        self.replication.wait_in_sync(SYNC_LIMIT)?;
        let sums = self.replication.checksums(APP_DATABASE)?;
        match sums.iter().position(|sum| *sum != sums[0]) {
            None => Ok(format!("all {} servers have the same data", sums.len())),
            Some(other) => bail!("{} has other data than {}", name(other), name(0)),
        }
    }
}

fn name(index: usize) -> String {
    format!("db{}", index + 1)
}

fn check_disk(servers: usize) -> anyhow::Result<()> {
    let folder = std::env::temp_dir();
    let space = rustix::fs::statvfs(&folder).with_context(|| format!("cannot use {}", folder.display()))?;
    let free = space.f_bavail.saturating_mul(space.f_frsize) / 1_000_000;
    let needed = servers as u64 * SERVER_MB;
    if free < needed {
        bail!(
            "{} has {free} MB left, and {servers} servers need about {needed} MB; free some, or let TMPDIR name a \
             folder on another disk",
            folder.display()
        );
    }
    Ok(())
}
