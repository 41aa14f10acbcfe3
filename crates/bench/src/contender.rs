//! Contenders: the server alone, and each proxy in front of it.

mod fixed;
mod haproxy;
mod maxscale;
mod proxysql;
mod router;
mod sqluice;

use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use lab::{Valkey, ValkeyOptions};
use tempfile::TempDir;

use crate::figures::FIXED;
use crate::process::Daemon;
use crate::system::OTHER_FILES;
use crate::watch::{Watch, Watching};
use crate::world::World;

pub(crate) use sqluice::Build;

/// Longest that a proxy may take to serve its first client.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// How often a port that somebody else took in between is replaced.
pub(crate) const PORT_TRIES: usize = 5;

/// The program between the load and the server, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing.
    Direct,
    /// HAProxy in TCP mode: reads no SQL, one connection to the server for each client.
    HaProxy,
    /// A build of Sqluice.
    Sqluice(Build),
    /// ProxySQL, this program.
    ProxySql(PathBuf),
    /// MaxScale, this program.
    MaxScale(PathBuf),
    /// MySQL Router, this program.
    Router(PathBuf),
    /// One of them with so many routing rules beside what it has anyway.
    Ruled(Box<Kind>, u32),
    /// One of them with its result cache for all reads.
    Cached(Box<Kind>, Cache),
    /// One of them while operators watch it.
    Watched(Box<Kind>, Watch),
    /// Answers the same to everything: the most that anybody could do.
    Fixed,
}

/// A result cache, by what keeps its answers fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cache {
    /// Their age alone; what Sqluice itself writes ends them, too.
    Ttl,
    /// The server's binary log, as only Sqluice has it.
    Follow,
    /// A Valkey or Redis that all processes ask for each answer, as only Sqluice has it.
    Tier,
}

impl Kind {
    /// Its name in tables.
    pub(crate) fn name(&self) -> String {
        match self {
            Kind::Direct => "direct".to_owned(),
            Kind::HaProxy => "haproxy".to_owned(),
            Kind::Sqluice(build) => build.name.clone(),
            Kind::ProxySql(_) => "proxysql".to_owned(),
            Kind::MaxScale(_) => "maxscale".to_owned(),
            Kind::Router(_) => "mysqlrouter".to_owned(),
            Kind::Ruled(kind, rules) => format!("{} {rules} rules", kind.name()),
            Kind::Cached(kind, Cache::Ttl) => format!("{} cache", kind.name()),
            Kind::Cached(kind, Cache::Follow) => format!("{} follow", kind.name()),
            Kind::Cached(kind, Cache::Tier) => format!("{} tier", kind.name()),
            Kind::Watched(kind, watch) => format!("{} {}", kind.name(), watch.name()),
            Kind::Fixed => FIXED.to_owned(),
        }
    }

    /// Many clients can share few connections to a server. MySQL Router does so with MySQL servers only: it asks for
    /// variables that MariaDB does not have.
    pub(crate) fn multiplexes(&self) -> bool {
        !matches!(self.without_rules(), Kind::Direct | Kind::HaProxy | Kind::Router(_) | Kind::Fixed)
    }

    /// It speaks TLS, or passes it on. MySQL Router cannot log in to MariaDB with it.
    pub(crate) fn speaks_tls(&self) -> bool {
        !matches!(self.without_rules(), Kind::Router(_))
    }

    /// The load `rules` can give it rules that route by what a statement is.
    pub(crate) fn has_rules(&self) -> bool {
        matches!(self.without_rules(), Kind::Sqluice(_) | Kind::ProxySql(_))
    }

    /// It has a result cache that the load `cache` can switch on.
    pub(crate) fn has_cache(&self) -> bool {
        matches!(self, Kind::Sqluice(_) | Kind::ProxySql(_))
    }

    fn without_rules(&self) -> &Kind {
        match self {
            Kind::Ruled(kind, _) | Kind::Cached(kind, _) | Kind::Watched(kind, _) => kind.without_rules(),
            kind => kind,
        }
    }

    /// Most clients that it can have when each process may have so many open files.
    pub(crate) fn clients_max(&self, files: u64) -> u64 {
        match self.without_rules() {
            // A connection to the server for each client.
            Kind::HaProxy | Kind::Router(_) => files.saturating_sub(OTHER_FILES) / 2,
            _ => files.saturating_sub(OTHER_FILES),
        }
    }

    /// Which version it is, in its own words.
    pub(crate) fn version(&self) -> Option<String> {
        let (program, argument) = match self {
            // It is there without them, too.
            Kind::Direct | Kind::Ruled(..) | Kind::Cached(..) | Kind::Watched(..) | Kind::Fixed => return None,
            Kind::HaProxy => (haproxy::program(), "-v"),
            Kind::Sqluice(build) => (build.program.clone(), "--version"),
            Kind::ProxySql(program) | Kind::MaxScale(program) | Kind::Router(program) => (program.clone(), "--version"),
        };
        let output = Command::new(program).arg(argument).output().ok()?;
        String::from_utf8_lossy(&output.stdout).lines().next().map(|line| line.trim().to_owned())
    }
}

/// How proxies are set up for a load. All get the same.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Threads that do the work.
    pub(crate) workers: usize,
    /// Most connections to one server, for those that share them; `None` is the proxy's own default.
    pub(crate) server_connections: Option<u32>,
    /// Clients speak TLS, and proxies speak it with the server.
    pub(crate) tls: bool,
    /// Open files that each process may have.
    pub(crate) files: u64,
    /// Routing rules beside the usual ones, for those that have any.
    pub(crate) rules: u32,
    /// More of Sqluice's configuration, behind all else.
    pub(crate) more: String,
    /// Sqluice keeps a history, and its API has the [key of the bench](crate::watch::KEY).
    pub(crate) can_be_watched: bool,
    /// The result cache answers all reads that it can, for those that have one.
    pub(crate) cache: Option<Cache>,
}

/// How old an answer of a result cache may be, in milliseconds: longer than all turns at a point.
pub(crate) const CACHE_TTL_MS: u32 = 3_600_000;
/// Memory of a result cache, in megabytes: the load fits.
const CACHE_MB: u32 = 4096;

/// A contender that serves.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) kind: Kind,
    /// Where clients connect.
    pub(crate) address: SocketAddr,
    /// The proxy; the server without one has none.
    pub(crate) daemon: Option<Daemon>,
    /// The shared tier of its result cache, which serves for as long.
    _tier: Option<Valkey>,
}

impl Running {
    /// Starts a contender in front of the servers.
    ///
    /// # Errors
    /// The program is missing or does not serve; its log is in the error.
    pub(crate) fn start(kind: &Kind, world: &World, setup: &Setup) -> anyhow::Result<Running> {
        let name = kind.name();
        let tier = match kind {
            Kind::Cached(_, Cache::Tier) => Some(Valkey::start(ValkeyOptions::default())?),
            _ => None,
        };
        let start = || match kind {
            Kind::Direct => Ok((world.primary(), None)),
            Kind::HaProxy => on_free_port(|port| haproxy::start(world, setup, port)),
            Kind::Sqluice(build) => sqluice::start(build, world, setup),
            Kind::ProxySql(program) => on_free_port(|port| proxysql::start(program, world, setup, port)),
            Kind::MaxScale(program) => on_free_port(|port| maxscale::start(program, world, setup, port)),
            Kind::Router(program) => on_free_port(|port| router::start(program, world, setup, port)),
            Kind::Fixed => on_free_port(|port| fixed::start(world, setup, port)),
            Kind::Cached(kind, cache) => {
                let mut setup = Setup { cache: Some(*cache), ..setup.clone() };
                if let Some(tier) = &tier {
                    setup.more += &format!("[cache.tier]\naddress = \"{}\"\n", tier.address());
                }
                let cached = Running::start(kind, world, &setup)?;
                Ok((cached.address, cached.daemon))
            }
            Kind::Watched(kind, _) => {
                let watched = Running::start(kind, world, setup)?;
                Ok((watched.address, watched.daemon))
            }
            Kind::Ruled(kind, rules) => {
                let ruled = Running::start(kind, world, &Setup { rules: *rules, ..setup.clone() })?;
                Ok((ruled.address, ruled.daemon))
            }
        };
        let (address, daemon) = start().with_context(|| format!("{name} does not start"))?;
        Ok(Running { kind: kind.clone(), address, daemon, _tier: tier })
    }

    pub(crate) fn pid(&self) -> Option<u32> {
        self.daemon.as_ref().map(Daemon::pid)
    }

    /// Those who watch it begin to.
    ///
    /// # Errors
    /// Its API is not known.
    pub(crate) fn watch(&self) -> anyhow::Result<Option<Watching>> {
        let Kind::Watched(_, watch) = &self.kind else { return Ok(None) };
        Ok(Some(Watching::begin(*watch, self.api()?)))
    }

    /// Where Sqluice's API is.
    ///
    /// # Errors
    /// It is no Sqluice, or has none.
    pub(crate) fn api(&self) -> anyhow::Result<SocketAddr> {
        let daemon = self.daemon.as_ref().context("no proxy")?;
        let reported = std::fs::read_to_string(daemon.file("ready"))?;
        reported.lines().find_map(|line| line.strip_prefix("admin ")?.parse().ok()).context("the API has no address")
    }
}

type Started = (SocketAddr, Option<Daemon>);

/// Starts a proxy that must be told its port; another process may take that in between.
fn on_free_port(start: impl Fn(u16) -> anyhow::Result<Daemon>) -> anyhow::Result<Started> {
    let mut last = None;
    for _ in 0..PORT_TRIES {
        let port = free_port()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut daemon = start(port)?;
        match daemon.wait(READY_LIMIT, |_| greets(address).then_some(())) {
            Ok(()) => return Ok((address, Some(daemon))),
            Err(error) if error.to_string().to_lowercase().contains("address") => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| anyhow::anyhow!("no free port was found")))
}

/// A port that nobody listens on just now.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("there is no free port")?;
    Ok(listener.local_addr()?.port())
}

/// Whether somebody listens there and sends a server's greeting.
fn greets(address: SocketAddr) -> bool {
    let greeting = || -> std::io::Result<u8> {
        let mut socket = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        socket.set_read_timeout(Some(Duration::from_secs(2)))?;
        let mut head = [0; 5];
        socket.read_exact(&mut head)?;
        Ok(head[4])
    };
    // Version 10 of the protocol; an error packet would begin with 0xff.
    greeting().is_ok_and(|first| first == 10)
}

/// A folder for a proxy's files.
fn folder() -> anyhow::Result<TempDir> {
    TempDir::with_prefix("sqluice-bench-").context("cannot make a temporary folder")
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The program that an environment variable names.
pub(crate) fn program_of(variable: &str) -> anyhow::Result<Option<PathBuf>> {
    match std::env::var_os(variable).filter(|value| !value.is_empty()) {
        None => Ok(None),
        Some(value) => match std::fs::canonicalize(&value) {
            Ok(path) if path.is_file() => Ok(Some(path)),
            _ => bail!("{variable} names {}, which is not a program", Path::new(&value).display()),
        },
    }
}
