//! A real Valkey, or Redis, in a temporary folder.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::binaries::in_path;
use crate::client::POLL_INTERVAL;
use crate::server::{free_port, log_end};
use crate::{Daemon, LabError, TlsFiles};

/// The environment variable that names the program.
const PROGRAM: &str = "SQLUICE_VALKEY";
/// Longest that it may take to serve.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Longest that a command may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(10);
/// How often a port is chosen anew because somebody else took it.
const TRIES: u32 = 5;
/// Its line when it serves.
const READY: &str = "Ready to accept connections";
/// Its line when another process has its port.
const PORT_TAKEN: &str = "Address already in use";

/// How to start it.
#[derive(Debug, Clone, Default)]
pub struct ValkeyOptions {
    /// Lines of its configuration besides those that it needs here.
    pub lines: Vec<String>,
    /// Clients must speak TLS; they need no certificate.
    pub tls: Option<TlsFiles>,
}

/// The server. It ends when this is dropped.
#[derive(Debug)]
pub struct Valkey {
    program: PathBuf,
    options: ValkeyOptions,
    process: Option<Daemon>,
    folder: TempDir,
    port: u16,
}

impl Valkey {
    /// Starts it, and returns when it serves.
    ///
    /// # Errors
    /// [`LabError::Missing`] when this machine has neither, [`LabError::Start`] when it does not get there.
    pub fn start(options: ValkeyOptions) -> Result<Valkey, LabError> {
        let named = std::env::var_os(PROGRAM).filter(|named| !named.is_empty()).map(PathBuf::from);
        let found = named.or_else(|| ["valkey-server", "redis-server"].into_iter().find_map(in_path));
        let program = found.ok_or_else(|| LabError::Missing {
            what: format!("a server `valkey-server` or `redis-server` (looked in PATH; {PROGRAM} names another place)"),
            remedy: "install one with `apt-get install redis-server`, or run `./dev install`".to_owned(),
        })?;
        let mut tries = 0;
        loop {
            tries += 1;
            let folder = TempDir::with_prefix("sqluice-valkey-").map_err(LabError::io("make a temporary folder"))?;
            let (program, options) = (program.clone(), options.clone());
            let mut valkey = Valkey { program, options, process: None, folder, port: free_port()? };
            match valkey.restart() {
                Err(LabError::Start { log, .. }) if log.contains(PORT_TAKEN) && tries < TRIES => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(valkey),
            }
        }
    }

    /// Where clients reach it: host and port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// SIGKILL; waits until it is gone.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Sends it a signal, such as STOP and CONT.
    ///
    /// # Errors
    /// [`LabError::Io`] when the system refuses.
    pub fn signal(&self, name: &str) -> Result<(), LabError> {
        self.process.as_ref().map_or(Ok(()), |process| process.signal(name))
    }

    /// Starts it again after a kill, with what it has saved.
    ///
    /// # Errors
    /// [`LabError::Start`] when it does not serve.
    pub fn restart(&mut self) -> Result<(), LabError> {
        let path = self.folder.path().join("log");
        let log = OpenOptions::new().create(true).append(true).open(&path).map_err(LabError::file("open", &path))?;
        let before = std::fs::read_to_string(&path).map_or(0, |log| log.matches(READY).count());
        let mut command = Command::new(&self.program);
        command.stdout(log.try_clone().map_err(LabError::file("open", &path))?).stderr(log);
        command.args(["--bind", "127.0.0.1", "--daemonize", "no", "--dir", ".", "--save", ""]);
        let port = self.port.to_string();
        match &self.options.tls {
            None => command.args(["--port", &port]),
            Some(tls) => command
                .args(["--port", "0", "--tls-port", &port, "--tls-auth-clients", "no"])
                .arg("--tls-cert-file")
                .arg(&tls.certificate)
                .arg("--tls-key-file")
                .arg(&tls.key)
                .arg("--tls-ca-cert-file")
                .arg(&tls.authority),
        };
        for line in &self.options.lines {
            let mut words = line.split_whitespace();
            command.arg(format!("--{}", words.next().unwrap_or_default())).args(words);
        }
        let mut process = Daemon::start(command, self.folder.path())?;
        let failed = |what: String| LabError::Start { port: self.port, what, log: log_end(&path, 0) };
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if let Some(status) = process.ended()? {
                return Err(failed(format!("ended ({status})")));
            }
            if std::fs::read_to_string(&path).is_ok_and(|log| log.matches(READY).count() > before) {
                break;
            }
            if Instant::now() >= deadline {
                return Err(failed(format!("was not ready after {START_LIMIT:?}")));
            }
            thread::sleep(POLL_INTERVAL);
        }
        self.process = Some(process);
        Ok(())
    }

    /// Sends commands over a connection without TLS, each its words between spaces, and gives the last one's reply as it comes: its first
    /// bytes, if it is long.
    ///
    /// # Errors
    /// [`LabError::Io`] when it does not answer.
    pub fn commands(&self, commands: &[&str]) -> Result<String, LabError> {
        let io = |error| LabError::io("ask Valkey")(error);
        let mut stream = TcpStream::connect(self.address()).map_err(io)?;
        stream.set_read_timeout(Some(COMMAND_LIMIT)).map_err(io)?;
        let mut reply = String::new();
        for command in commands {
            stream.write_all(format!("{command}\r\n").as_bytes()).map_err(io)?;
            let mut bytes = [0; 4096];
            let length = stream.read(&mut bytes).map_err(io)?;
            reply = String::from_utf8_lossy(&bytes[..length]).into_owned();
        }
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_starts_and_comes_back() {
        let mut valkey = Valkey::start(ValkeyOptions::default()).unwrap();
        assert_eq!(valkey.commands(&["SET a 1", "GET a"]).unwrap(), "$1\r\n1\r\n");
        valkey.kill();
        assert!(TcpStream::connect(valkey.address()).is_err());
        valkey.restart().unwrap();
        assert_eq!(valkey.commands(&["GET a"]).unwrap(), "$-1\r\n");
    }
}
