//! A real etcd in temporary folders: one member, or several.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::binaries::in_path;
use crate::client::POLL_INTERVAL;
use crate::server::{free_port, log_end};
use crate::{Daemon, LabError, TlsFiles};

/// Longest that all members may take to serve.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How often ports are chosen anew because somebody else took one.
const TRIES: u32 = 5;
/// A member's line when it serves clients, which it does when there is a leader.
const READY: &str = "ready to serve client requests";
/// Its line when another process has a port.
const PORT_TAKEN: &str = "address already in use";

/// How to start it.
#[derive(Debug, Clone)]
pub struct EtcdOptions {
    /// How many members; three can lose one.
    pub members: usize,
    /// Clients must speak TLS, and show a certificate of its authority.
    pub tls: Option<TlsFiles>,
}

/// etcd's members. They end when this is dropped.
#[derive(Debug)]
pub struct Etcd {
    program: PathBuf,
    options: EtcdOptions,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    process: Option<Daemon>,
    folder: TempDir,
    client_port: u16,
    peer_port: u16,
}

impl Etcd {
    /// Starts all members, and returns when each serves.
    ///
    /// # Errors
    /// [`LabError::Missing`] when this machine has no etcd, [`LabError::Start`] when it does not get there.
    pub fn start(options: EtcdOptions) -> Result<Etcd, LabError> {
        let program = in_path("etcd").ok_or_else(|| LabError::Missing {
            what: "etcd's server `etcd` (looked in PATH)".to_owned(),
            remedy: "install it with `apt-get install etcd-server`, or run `./dev install`".to_owned(),
        })?;
        let mut tries = 0;
        loop {
            tries += 1;
            let mut etcd = Etcd::prepare(&program, &options)?;
            match etcd.start_all() {
                Err(LabError::Start { log, .. }) if log.contains(PORT_TAKEN) && tries < TRIES => {}
                Err(error) => return Err(error),
                Ok(()) => return Ok(etcd),
            }
        }
    }

    /// Where clients reach a member: host and port.
    pub fn endpoint(&self, member: usize) -> String {
        format!("127.0.0.1:{}", self.members[member].client_port)
    }

    /// Where clients reach all members.
    pub fn endpoints(&self) -> Vec<String> {
        (0..self.members.len()).map(|member| self.endpoint(member)).collect()
    }

    /// SIGKILL; waits until the member is gone.
    pub fn kill(&mut self, member: usize) {
        self.members[member].process = None;
    }

    /// Starts a member that was killed, with what it has on its disk. It may have to wait for others to serve.
    ///
    /// # Errors
    /// [`LabError::Io`] when it cannot be run.
    pub fn restart(&mut self, member: usize) -> Result<(), LabError> {
        let mut command = self.command(member);
        let path = self.members[member].log();
        let log = OpenOptions::new().create(true).append(true).open(&path);
        let log = log.map_err(LabError::file("open", &path))?;
        command.stdout(log.try_clone().map_err(LabError::file("open", &path))?).stderr(log);
        let process = Daemon::start(command, self.members[member].folder.path())?;
        self.members[member].process = Some(process);
        Ok(())
    }

    fn prepare(program: &Path, options: &EtcdOptions) -> Result<Etcd, LabError> {
        let member = |_| {
            let folder = TempDir::with_prefix("sqluice-etcd-").map_err(LabError::io("make a temporary folder"))?;
            Ok(Member { process: None, folder, client_port: free_port()?, peer_port: free_port()? })
        };
        let members = (0..options.members).map(member).collect::<Result<_, LabError>>()?;
        Ok(Etcd { program: program.to_owned(), options: options.clone(), members })
    }

    fn start_all(&mut self) -> Result<(), LabError> {
        for member in 0..self.members.len() {
            self.restart(member)?;
        }
        let deadline = Instant::now() + START_LIMIT;
        for member in &mut self.members {
            member.wait_ready(deadline)?;
        }
        Ok(())
    }

    fn command(&self, member: usize) -> Command {
        let own = &self.members[member];
        // A member that has a data folder goes by that.
        let cluster: Vec<String> = (self.members.iter().enumerate())
            .map(|(index, member)| format!("m{index}=http://127.0.0.1:{}", member.peer_port))
            .collect();
        let scheme = if self.options.tls.is_some() { "https" } else { "http" };
        let (client, peer) =
            (format!("{scheme}://127.0.0.1:{}", own.client_port), format!("http://127.0.0.1:{}", own.peer_port));
        let mut command = Command::new(&self.program);
        // Arguments must not be mixed with the environment of a system's service.
        let variables = std::env::vars_os().map(|(name, _)| name);
        variables.filter(|name| name.to_string_lossy().starts_with("ETCD_")).for_each(|name| {
            command.env_remove(name);
        });
        command.args(["--name", &format!("m{member}"), "--data-dir", "data"]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &cluster.join(",")]);
        if let Some(tls) = &self.options.tls {
            command.arg("--cert-file").arg(&tls.certificate).arg("--key-file").arg(&tls.key);
            command.arg("--trusted-ca-file").arg(&tls.authority).arg("--client-cert-auth");
        }
        command
    }
}

impl Member {
    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    fn wait_ready(&mut self, deadline: Instant) -> Result<(), LabError> {
        let (path, port) = (self.log(), self.client_port);
        let failed = |what: String| LabError::Start { port, what, log: log_end(&path, 0) };
        loop {
            let ended = self.process.as_mut().map(Daemon::ended).transpose()?.flatten();
            if let Some(status) = ended {
                return Err(failed(format!("ended ({status})")));
            }
            if std::fs::read_to_string(&path).is_ok_and(|log| log.contains(READY)) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(failed(format!("was not ready after {START_LIMIT:?}")));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_start_and_come_back() {
        let mut etcd = Etcd::start(EtcdOptions { members: 3, tls: None }).unwrap();
        let listens = |endpoint: &str| std::net::TcpStream::connect(endpoint).is_ok();
        assert!(etcd.endpoints().iter().all(|endpoint| listens(endpoint)));
        etcd.kill(1);
        assert!(!listens(&etcd.endpoint(1)));
        etcd.restart(1).unwrap();
        let deadline = Instant::now() + START_LIMIT;
        while !listens(&etcd.endpoint(1)) {
            assert!(Instant::now() < deadline);
            thread::sleep(POLL_INTERVAL);
        }
    }
}
