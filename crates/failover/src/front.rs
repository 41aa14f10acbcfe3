//! Sqluice, as a process of its own.

use std::fs::{File, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::Value;
use tempfile::TempDir;

use crate::api;
use crate::clock::Clock;
use crate::journal::{self, Line};
use crate::world::World;

/// Longest that it may take to serve and to know all servers.
const READY_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// Time between two probes, milliseconds: the default.
pub(crate) const INTERVAL_MS: u32 = 500;
/// How far behind a replica may be that takes reads, milliseconds.
pub(crate) const LAG_MAX_MS: u32 = 1_000;

/// Keys of a configuration beyond the usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Setup {
    /// Several processes agree by a lease.
    pub(crate) lease: bool,
    /// A primary that cannot write is replaced.
    pub(crate) unwritable: bool,
}

/// The process. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Front {
    process: lab::Daemon,
    folder: TempDir,
    /// Where clients connect.
    pub(crate) address: SocketAddr,
    /// Where the API is.
    pub(crate) admin: SocketAddr,
}

impl Front {
    /// Starts it and waits until it knows the primary and both replicas.
    ///
    /// # Errors
    /// It does not get there; the end of its log is in the error.
    pub(crate) fn start(program: &Path, world: &World, setup: Setup) -> anyhow::Result<Front> {
        let folder = TempDir::with_prefix("sqluice-failover-").context("cannot make a temporary folder")?;
        let (config, ready) = (folder.path().join("sqluice.toml"), folder.path().join("ready"));
        std::fs::write(&config, text(world, setup, folder.path()))?;
        std::fs::set_permissions(&config, Permissions::from_mode(0o600))?;
        let log = File::create(folder.path().join("log"))?;
        let mut command = Command::new(program);
        command.args(["run", "--config"]).arg(&config).arg("--ready-file").arg(&ready);
        command.stdout(log.try_clone()?).stderr(log);
        let process = lab::Daemon::start(command, folder.path())?;
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut front = Front { process, folder, address: nowhere, admin: nowhere };
        let reported = front.wait(|_| std::fs::read_to_string(&ready).ok())?;
        front.address = address_in(&reported, "app")?;
        front.admin = address_in(&reported, "admin")?;
        front.wait(|front| front.status().ok().filter(is_whole))?;
        Ok(front)
    }

    /// The cluster as the API tells it.
    pub(crate) fn status(&self) -> anyhow::Result<Value> {
        let (status, page) = api::ask(self.admin, "GET", "", "")?;
        if status != 200 {
            bail!("the API says {status}: {page}");
        }
        Ok(page)
    }

    /// SIGKILL.
    pub(crate) fn kill9(&mut self) {
        self.process.kill();
    }

    /// Its decisions and acts.
    pub(crate) fn journal(&self, clock: Clock) -> Vec<Line> {
        journal::read(&self.file("journal"), clock)
    }

    /// Keeps log and journal in this folder, under names that begin with `name`.
    pub(crate) fn keep(&self, folder: &Path, name: &str) -> anyhow::Result<()> {
        for file in ["log", "journal"] {
            if self.file(file).exists() {
                std::fs::copy(self.file(file), folder.join(format!("{name}.{file}")))?;
            }
        }
        Ok(())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn wait<T>(&mut self, mut ready: impl FnMut(&Front) -> Option<T>) -> anyhow::Result<T> {
        let deadline = Instant::now() + READY_LIMIT;
        loop {
            if let Some(found) = ready(self) {
                return Ok(found);
            }
            let ended = self.process.ended()?;
            if ended.is_some() || Instant::now() > deadline {
                let log = std::fs::read_to_string(self.file("log")).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(20).collect();
                let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
                bail!("Sqluice is not ready (ended: {ended:?}):\n{tail}");
            }
            thread::sleep(POLL);
        }
    }
}

/// The primary is known, and both replicas take reads.
pub(crate) fn is_whole(page: &Value) -> bool {
    let reads = |server: &&Value| server["role"] == "replica" && server["serves_reads"] == true;
    page["primary"].is_string() && page["servers"].as_array().is_some_and(|all| all.iter().filter(reads).count() == 2)
}

fn address_in(ready: &str, name: &str) -> anyhow::Result<SocketAddr> {
    let line = ready.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|address| address.parse().ok()).with_context(|| format!("no {name} in {ready:?}"))
}

fn text(world: &World, setup: Setup, folder: &Path) -> String {
    let journal = folder.join("journal").display().to_string();
    let lease = if setup.lease { "majority" } else { "off" };
    let unwritable = if setup.unwritable { ", semi_sync_required = true, unwritable = \"failover\"" } else { "" };
    let servers: String = (0..world.all().len())
        .map(|index| format!("servers.db{} = {{ address = \"{}\" }}\n", index + 1, world.address(index)))
        .collect();
    let kind = match world.is_group() {
        true => "kind = \"galera\"".to_owned(),
        false => format!(
            "kind = \"replication\"\nfailover = \"auto\"\nmax_lag_ms = {LAG_MAX_MS}\n\
             promotion = {{ journal = \"{journal}\", lease = \"{lease}\"{unwritable} }}"
        ),
    };
    format!(
        "[proxy]\nworkers = 2\n[log]\nformat = \"json\"\n[admin]\naddress = \"127.0.0.1:0\"\nkey = \"{}\"\n\
         [cluster.main]\n{kind}\nslow_start_s = 0\n{servers}\
         replication = {{ user = \"{}\", password = \"{}\" }}\n\
         [cluster.main.monitor]\nuser = \"{}\"\npassword = \"{}\"\ninterval_ms = {INTERVAL_MS}\n\
         [cluster.main.tls]\nmode = \"disabled\"\n\
         [listener.app]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\n",
        api::KEY,
        lab::REPL_USER,
        lab::REPL_PASSWORD,
        lab::MONITOR_USER,
        lab::MONITOR_PASSWORD
    )
}
