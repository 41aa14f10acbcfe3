//! A program that runs in a folder of its own, and that ends with its parent.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::LabError;
use crate::client;

/// Kills the program and removes its folder when its standard input closes, which happens when the process that started it
/// ends, even by SIGKILL. (A parent-death signal would come when the starting *thread* ends.)
const WATCHDOG: &str = "read -r _; kill -9 \"$1\" 2>/dev/null; rm -rf -- \"$2\"";

/// A running program, and the watchdog that ends it with us. Dropping it kills the program; the folder stays with its owner.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    watchdog: Child,
}

impl Daemon {
    /// Starts a program whose files are in `folder`. It reads nothing; where it writes is for `command` to say.
    ///
    /// # Errors
    /// [`LabError::Io`] when it cannot be run.
    pub fn start(mut command: Command, folder: &Path) -> Result<Daemon, LabError> {
        let name = command.get_program().to_string_lossy().into_owned();
        // Its own process group: Ctrl-C in a terminal reaches the owner, who ends it.
        let child = command.current_dir(folder).stdin(Stdio::null()).process_group(0).spawn();
        let mut child = child.map_err(LabError::io(format!("run {name}")))?;
        let watchdog = Command::new("/bin/sh")
            .args(["-c", WATCHDOG, "sqluice-watchdog", &child.id().to_string()])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        match watchdog {
            Ok(watchdog) => Ok(Daemon { child, watchdog }),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(LabError::io("run /bin/sh")(error))
            }
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended; `None` while it runs.
    ///
    /// # Errors
    /// [`LabError::Io`] when the system does not say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, LabError> {
        self.child.try_wait().map_err(LabError::io("wait for a program"))
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends a signal by its short name. A shell does it: the standard library has no other signal than SIGKILL.
    ///
    /// # Errors
    /// [`LabError::Io`] when it is not there, or may not be sent signals.
    pub fn signal(&self, name: &str) -> Result<(), LabError> {
        let pid = self.pid().to_string();
        let status = Command::new("/bin/sh")
            .args(["-c", "kill -s \"$1\" \"$2\"", "sh", name, &pid])
            .stdin(Stdio::null())
            .status()
            .map_err(LabError::io(format!("send SIG{name} to process {pid}")))?;
        if status.success() {
            return Ok(());
        }
        Err(LabError::io(format!("send SIG{name} to process {pid}"))(std::io::Error::other(status.to_string())))
    }

    /// Waits for its end; `None` when it still runs after `limit`.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>, LabError> {
        client::wait(&mut self.child, limit).map_err(LabError::io("wait for a program"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
        // Before its input closes, or it would kill whatever has the process id by then.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
    }
}
