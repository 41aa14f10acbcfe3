//! Running a program to its end, with a limit on how long that may take.

use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::LabError;

/// How often a wait looks again.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Runs `command` with `input` on its standard input and collects what it prints; kills it after `limit`.
pub(crate) fn run(command: &mut Command, input: &[u8], limit: Duration) -> Result<Output, LabError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(LabError::io(format!("run {name}")))?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        // One thread per pipe: a full pipe in one direction must not stop the other.
        scope.spawn(move || {
            if let Some(mut stdin) = stdin {
                // A client that ends early closes the pipe; its exit status tells why.
                let _ = stdin.write_all(input);
            }
        });
        let stdout = scope.spawn(move || drain(stdout));
        let stderr = scope.spawn(move || drain(stderr));
        let status = wait(&mut child, limit).map_err(LabError::io(format!("wait for {name}")))?;
        if status.is_none() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
        match status {
            Some(status) => Ok(Output { status, stdout, stderr }),
            None => Err(LabError::Timeout { what: name, limit }),
        }
    })
}

/// Waits for a process to end; `None` when it still runs after `limit`.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<std::process::ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn drain(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // The text that was read before an error is still worth showing.
        let _ = pipe.read_to_end(&mut bytes);
    }
    bytes
}
