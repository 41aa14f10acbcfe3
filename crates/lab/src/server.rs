//! One real server in a temporary folder.

mod config;
mod process;
mod sql;

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::client;
use crate::template;
use crate::{Binaries, Family, LabError, ServerBinary};
pub(crate) use process::log_end;
use process::{Process, StartError};
/// Longest that an orderly stop may take.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// How many ports are tried.
const PORT_TRIES: u32 = 20;
/// Ports below the ones that Linux gives to outgoing connections, which could take a stopped server's port.
const PORTS: std::ops::Range<u16> = 10_100..32_700;
/// Longest path of a unix socket on Linux: `sun_path` has 108 bytes, the last of them zero.
const SOCKET_PATH_LIMIT: usize = 107;

/// Certificate files of a server, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authority that signed the certificate.
    pub authority: PathBuf,
    /// The server's certificate.
    pub certificate: PathBuf,
    /// The server's private key.
    pub key: PathBuf,
}

/// The kind of server to start.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// MariaDB or MySQL.
    pub family: Family,
    /// The server's number in replication: from 1, other for each server of a cluster.
    pub server_id: u32,
    /// Write a binary log with global transaction ids.
    pub gtid: bool,
    /// Start with `read_only=ON`.
    pub read_only: bool,
    /// Sync every commit to the disk. Off, a commit survives `kill -9` of the server, but not a power cut.
    pub durable: bool,
    /// Offer TLS with these files; `None` is no TLS.
    pub tls: Option<TlsFiles>,
    /// More lines for the `[mysqld]` section; they win over the lab's own.
    pub config: Vec<String>,
    /// Statements that root runs once, when the server is ready for the first time.
    pub init_sql: String,
    /// The datadir to begin with, of a server that was stopped in good order; `None` is a fresh one.
    pub seed: Option<PathBuf>,
    /// A folder of programs that the server finds before all others.
    pub programs: Option<PathBuf>,
}

impl ServerOptions {
    /// A server with GTIDs, without TLS, writable.
    pub fn new(family: Family) -> ServerOptions {
        ServerOptions {
            family,
            server_id: 1,
            gtid: true,
            read_only: false,
            durable: false,
            tls: None,
            config: Vec::new(),
            init_sql: String::new(),
            seed: None,
            programs: None,
        }
    }
}

/// A server. It ends, and its folder goes, when this is dropped.
///
/// All methods take `&self`: one thread may kill or freeze what another one talks to.
#[derive(Debug)]
pub struct Server {
    // Before `folder`, so that the server is gone when its files go.
    process: Mutex<Option<Process>>,
    folder: TempDir,
    options: ServerOptions,
    binary: ServerBinary,
    port: u16,
    read_only: AtomicBool,
    /// Options of the next start beside the configuration file.
    arguments: Mutex<Vec<String>>,
}

impl Server {
    /// Starts a server on a free port; returns when it answers and the initial statements are done.
    ///
    /// # Errors
    /// When there is no such server program, no space, or the server does not get ready; the end of its log is in the
    /// error.
    pub fn start(options: ServerOptions) -> Result<Server, LabError> {
        let mut server = Server::prepare(options)?;
        server.launch()?;
        Ok(server)
    }

    /// Makes the folder and the datadir of a server that does not run yet.
    pub(crate) fn prepare(options: ServerOptions) -> Result<Server, LabError> {
        let binary = Binaries::find()?.server(options.family)?.clone();
        let folder = new_folder()?;
        let datadir = folder.path().join("data");
        match &options.seed {
            Some(seed) => template::copy_folder(seed, &datadir)?,
            None => template::copy_to(&binary, &datadir)?,
        }
        let temporary = folder.path().join("tmp");
        fs::create_dir(&temporary).map_err(LabError::file("make", &temporary))?;
        let (process, read_only) = (Mutex::new(None), AtomicBool::new(options.read_only));
        Ok(Server { process, folder, options, binary, port: 0, read_only, arguments: Mutex::default() })
    }

    /// Starts it for the first time, on a free port.
    pub(crate) fn launch(&mut self) -> Result<(), LabError> {
        self.start_on_free_port()?;
        if !self.options.init_sql.is_empty() {
            self.sql(&self.options.init_sql)?;
        }
        Ok(())
    }

    /// Options of later starts beside the configuration file.
    pub(crate) fn set_arguments(&self, arguments: &[String]) {
        *self.arguments.lock().unwrap_or_else(PoisonError::into_inner) = arguments.to_vec();
    }

    /// Runs the server's program to its end, with its own configuration and one argument more, and gives what it printed.
    pub(crate) fn run_once(&self, argument: &str, limit: Duration) -> Result<String, LabError> {
        let mut defaults = std::ffi::OsString::from("--defaults-file=");
        defaults.push(self.folder.path().join("server.cnf"));
        let mut command = Command::new(&self.binary.server);
        command.arg(defaults).arg(argument).current_dir(self.folder.path());
        let output = client::run(&mut command, b"", limit)?;
        Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }

    /// MariaDB or MySQL.
    pub fn family(&self) -> Family {
        self.options.family
    }

    /// The server's number in replication.
    pub fn server_id(&self) -> u32 {
        self.options.server_id
    }

    /// Whether it was given certificate files.
    pub fn offers_tls(&self) -> bool {
        self.options.tls.is_some()
    }

    /// Where it listens; stays the same over restarts.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The unix socket it listens on.
    pub fn socket_path(&self) -> PathBuf {
        self.folder.path().join("s.sock")
    }

    /// The folder of everything it writes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its process id; `None` when it was stopped or killed.
    pub fn pid(&self) -> Option<u32> {
        self.process().as_ref().map(Process::pid)
    }

    /// Whether the process is there. A frozen one is.
    pub fn is_running(&self) -> bool {
        self.process().as_mut().is_some_and(Process::is_running)
    }

    /// The end of its log, at most 8 KiB.
    pub fn log_tail(&self) -> String {
        process::log_end(&self.folder.path().join("server.log"), 0)
    }

    /// Whether it starts, or was last set, read-only.
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    /// Sets `read_only`, now and for later restarts.
    ///
    /// # Errors
    /// When the server does not answer; a later restart knows the new value all the same.
    pub fn set_read_only(&self, read_only: bool) -> Result<(), LabError> {
        self.read_only.store(read_only, Ordering::Relaxed);
        self.sql(&format!("SET GLOBAL read_only = {}", u8::from(read_only))).map(drop)
    }

    /// SIGKILL: no goodbye to clients, crash recovery at the next start.
    pub fn kill9(&self) {
        if let Some(process) = self.process().take() {
            process.kill();
        }
    }

    /// Orderly shutdown.
    ///
    /// # Errors
    /// [`LabError::Timeout`] when it had to be killed after a minute.
    pub fn stop(&self) -> Result<(), LabError> {
        let Some(process) = self.process().take() else { return Ok(()) };
        if process.terminate(STOP_LIMIT)? {
            return Ok(());
        }
        Err(LabError::Timeout { what: format!("stop of the server on port {}", self.port), limit: STOP_LIMIT })
    }

    /// Starts again on the same port and data; an orderly stop comes first when it still runs.
    ///
    /// # Errors
    /// When it does not stop, or does not get ready.
    pub fn restart(&self) -> Result<(), LabError> {
        self.stop()?;
        let mut process = self.process();
        for _ in 0..PORT_TRIES {
            match self.start_process(self.port) {
                Ok(started) => {
                    *process = Some(started);
                    return Ok(());
                }
                Err(StartError::Failed(error)) => return Err(error),
                // Another socket has it, such as an outgoing connection, and may let go of it.
                Err(StartError::PortTaken) => thread::sleep(Duration::from_millis(250)),
            }
        }
        Err(self.no_port(self.port))
    }

    /// SIGSTOP: connections stay open, nothing answers. Returns when no thread of the server runs any more.
    ///
    /// # Errors
    /// [`LabError::NotRunning`].
    pub fn freeze(&self) -> Result<(), LabError> {
        self.with_running(Process::freeze)
    }

    /// SIGCONT: ends [`Server::freeze`].
    ///
    /// # Errors
    /// [`LabError::NotRunning`].
    pub fn thaw(&self) -> Result<(), LabError> {
        self.with_running(|process| process.signal("CONT"))
    }

    fn process(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_running(&self, act: impl FnOnce(&Process) -> Result<(), LabError>) -> Result<(), LabError> {
        let mut process = self.process();
        let running = process.as_mut().is_some_and(Process::is_running);
        match process.as_ref().filter(|_| running) {
            Some(process) => act(process),
            None => Err(LabError::NotRunning { port: self.port }),
        }
    }

    fn start_on_free_port(&mut self) -> Result<(), LabError> {
        for _ in 0..PORT_TRIES {
            let port = free_port()?;
            match self.start_process(port) {
                Ok(process) => {
                    self.port = port;
                    *self.process() = Some(process);
                    return Ok(());
                }
                Err(StartError::Failed(error)) => return Err(error),
                Err(StartError::PortTaken) => {}
            }
        }
        Err(self.no_port(0))
    }

    fn start_process(&self, port: u16) -> Result<Process, StartError> {
        let folder = self.folder.path();
        let as_root = template::user_id().map_err(StartError::Failed)? == 0;
        let values = config::StartValues { folder, port, read_only: self.is_read_only(), as_root };
        let path = folder.join("server.cnf");
        fs::write(&path, config::text(&self.options, &values))
            .map_err(LabError::file("write", &path))
            .map_err(StartError::Failed)?;
        let arguments = self.arguments.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let start = process::Start { folder, port, arguments: &arguments, programs: self.options.programs.as_deref() };
        Process::start(&self.binary.server, &start)
    }

    fn no_port(&self, port: u16) -> LabError {
        let what = format!("found its port taken {PORT_TRIES} times");
        LabError::Start { port, what, log: self.log_tail() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill9();
    }
}

fn new_folder() -> Result<TempDir, LabError> {
    let base = std::env::temp_dir();
    let folder = tempfile::Builder::new()
        .prefix("sqluice-")
        .tempdir_in(&base)
        .map_err(LabError::file("make a folder in", &base))?;
    let path = folder.path().join("s.sock");
    if path.as_os_str().len() > SOCKET_PATH_LIMIT {
        return Err(LabError::SocketPath { path, limit: SOCKET_PATH_LIMIT });
    }
    Ok(folder)
}

/// A port nobody listens on now, found from a random start so that processes seldom meet.
pub(crate) fn free_port() -> Result<u16, LabError> {
    let start = RandomState::new().build_hasher().finish();
    let count = u64::from(PORTS.end - PORTS.start);
    for step in 0..1000 {
        let offset = u16::try_from((start.wrapping_add(step)) % count).unwrap_or(0);
        let port = PORTS.start + offset;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    // The system knows one if anybody does.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(LabError::io("find a free port"))?;
    Ok(listener.local_addr().map_err(LabError::io("find a free port"))?.port())
}
