//! Other programs: ordinary clients, and signals.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use lab::{Binaries, Family};

/// Runs what blocks beside the test's own event loop.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// The outcome of a program.
pub struct Ran {
    pub good: bool,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// Its output; it must have succeeded.
    pub fn output(self) -> String {
        assert!(self.good, "{}\n{}", self.out, self.err);
        self.out
    }
}

/// Runs a program to its end.
pub async fn run(mut command: Command, input: &str) -> Ran {
    let input = input.to_owned();
    blocking(move || {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
        let mut stdin = child.stdin.take().unwrap();
        let feeding = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().unwrap();
        // A program that ended early did not read everything; its output tells why.
        let _ = feeding.join();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ran { good: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
    })
    .await
}

/// The ordinary client of a family.
pub fn client_program(family: Family) -> PathBuf {
    Binaries::find().unwrap().server(family).unwrap().client.clone()
}

/// Sends a signal to a process that this test started.
pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("sh").args(["-c", "kill -s \"$1\" \"$2\"", "sh", name, &pid.to_string()]).status();
    assert!(sent.unwrap().success(), "SIG{name} to {pid}");
}
