//! One run of a server program.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::client;
use crate::{Daemon, LabError};

/// Longest that a start may take on a slow and busy machine; crash recovery is part of it.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Longest that one look at the port may take.
const GREETING_LIMIT: Duration = Duration::from_secs(2);
/// Longest that all threads of a server may take to stop.
const FREEZE_LIMIT: Duration = Duration::from_secs(10);
/// Both families write it when they accept connections, after crash recovery.
const READY: &str = "ready for connections";
/// The families' lines when another process has the port.
const PORT_TAKEN: [&str; 2] = ["Address already in use", "already have another"];

/// Why a start did not work.
pub(super) enum StartError {
    /// Another process has the port: worth another try.
    PortTaken,
    /// Not worth another try.
    Failed(LabError),
}

/// A running server.
#[derive(Debug)]
pub(super) struct Process(Daemon);

/// How to start a server.
pub(super) struct Start<'a> {
    /// Where its configuration is.
    pub(super) folder: &'a Path,
    pub(super) port: u16,
    /// Behind the configuration file.
    pub(super) arguments: &'a [String],
    /// Programs that it finds before all others.
    pub(super) programs: Option<&'a Path>,
}

impl Process {
    /// Starts `program` with the configuration in its folder; returns when it accepts connections.
    pub(super) fn start(program: &Path, start: &Start<'_>) -> Result<Process, StartError> {
        let Start { folder, port, .. } = *start;
        let log_path = folder.join("server.log");
        let opened = OpenOptions::new().create(true).append(true).open(&log_path).and_then(|log| {
            let second = log.try_clone()?;
            Ok((log.metadata()?.len(), log, second))
        });
        let (log_start, log, second) = opened.map_err(LabError::file("open", &log_path)).map_err(StartError::Failed)?;
        let mut defaults = std::ffi::OsString::from("--defaults-file=");
        defaults.push(folder.join("server.cnf"));
        let mut command = Command::new(program);
        if let Some(programs) = start.programs {
            let mut path = programs.as_os_str().to_owned();
            path.push(":");
            path.push(std::env::var_os("PATH").unwrap_or_default());
            command.env("PATH", path);
        }
        command.arg(defaults).args(start.arguments).stdout(log).stderr(second);
        let mut process = Process(Daemon::start(command, folder).map_err(StartError::Failed)?);
        process.wait_ready(&log_path, log_start, port)?;
        Ok(process)
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.pid()
    }

    pub(super) fn is_running(&mut self) -> bool {
        matches!(self.0.ended(), Ok(None))
    }

    /// SIGKILL, and waits until the process is gone.
    pub(super) fn kill(self) {
        drop(self.0);
    }

    /// SIGTERM, and waits; SIGKILL after `limit`. False when it came to that.
    pub(super) fn terminate(mut self, limit: Duration) -> Result<bool, LabError> {
        if self.is_running() {
            self.signal("TERM")?;
        }
        Ok(self.0.wait(limit)?.is_some())
    }

    /// Sends a signal by its short name.
    pub(super) fn signal(&self, name: &str) -> Result<(), LabError> {
        self.0.signal(name)
    }

    /// SIGSTOP, and waits until no thread runs any more: the signal itself is only a request.
    pub(super) fn freeze(&self) -> Result<(), LabError> {
        self.signal("STOP")?;
        let deadline = Instant::now() + FREEZE_LIMIT;
        while !is_stopped(self.pid()).map_err(LabError::io(format!("look at process {}", self.pid())))? {
            if Instant::now() >= deadline {
                return Err(LabError::Timeout {
                    what: format!("stopping process {}", self.pid()),
                    limit: FREEZE_LIMIT,
                });
            }
            thread::sleep(client::POLL_INTERVAL);
        }
        Ok(())
    }

    fn wait_ready(&mut self, log: &Path, log_start: u64, port: u16) -> Result<(), StartError> {
        let deadline = Instant::now() + START_LIMIT;
        let mut ready = false;
        let failed = |what: String| StartError::Failed(LabError::Start { port, what, log: log_end(log, log_start) });
        loop {
            let ended = self.0.ended().map_err(StartError::Failed)?;
            let text = log_end(log, log_start);
            if let Some(status) = ended {
                let taken = PORT_TAKEN.iter().any(|words| text.contains(words));
                return Err(if taken { StartError::PortTaken } else { failed(format!("ended ({status})")) });
            }
            // Remembered, because more lines may push it out of the part that is read.
            ready = ready || text.contains(READY);
            if ready && answers(port) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(failed(format!("was not ready after {START_LIMIT:?}")));
            }
            thread::sleep(client::POLL_INTERVAL);
        }
    }
}

/// Whether every thread is in state `T`, which follows the name in parentheses (proc_pid_stat(5)).
fn is_stopped(pid: u32) -> std::io::Result<bool> {
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let stopped = match std::fs::read_to_string(task?.path().join("stat")) {
            Ok(stat) => stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('T')),
            // A thread that ended meanwhile.
            Err(_) => true,
        };
        if !stopped {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The end of a log (at most 8 KiB), but nothing from before `start`.
pub(crate) fn log_end(path: &Path, start: u64) -> String {
    const LENGTH: u64 = 8192;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(start.max(length.saturating_sub(LENGTH))))?;
        let mut bytes = Vec::new();
        file.take(LENGTH).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => format!("(cannot read {}: {error})", path.display()),
    }
}

/// Whether the server sends a packet: its greeting, or the error that it knows no account for this host.
fn answers(port: u16) -> bool {
    let first_packet = || -> std::io::Result<()> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut socket = TcpStream::connect_timeout(&address, GREETING_LIMIT)?;
        socket.set_read_timeout(Some(GREETING_LIMIT))?;
        // The header (length and number) and the first byte of the payload.
        socket.read_exact(&mut [0; 5])
    };
    first_packet().is_ok()
}
