//! Processes that the bench starts, and how they end.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use tempfile::TempDir;

use crate::stop;

/// How often waits look for signals.
pub(crate) const POLL: Duration = Duration::from_millis(20);
/// The end of a log that errors show, in bytes.
const LOG_BYTES_MAX: usize = 3000;

/// A proxy that runs until this is dropped; its folder goes as well.
#[derive(Debug)]
pub(crate) struct Daemon {
    process: lab::Daemon,
    folder: TempDir,
}

impl Daemon {
    /// Starts a program whose files are in a folder of its own; its output goes to `log` there.
    pub(crate) fn start(mut command: Command, folder: TempDir) -> anyhow::Result<Daemon> {
        let log = File::create(folder.path().join("log")).context("cannot write a log")?;
        command.stdout(log.try_clone()?).stderr(log);
        Ok(Daemon { process: lab::Daemon::start(command, folder.path())?, folder })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The end of what it has printed.
    pub(crate) fn log(&self) -> String {
        end_of(&fs::read(self.file("log")).unwrap_or_default())
    }

    /// An error when it has ended.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.process.ended()? {
            bail!("it ended by itself ({status}):\n{}", self.log());
        }
        Ok(())
    }

    /// Waits until `ready` gives something.
    pub(crate) fn wait<T>(
        &mut self,
        limit: Duration,
        mut ready: impl FnMut(&Daemon) -> Option<T>,
    ) -> anyhow::Result<T> {
        let deadline = Instant::now() + limit;
        loop {
            stop::check()?;
            if let Some(found) = ready(self) {
                return Ok(found);
            }
            self.check()?;
            if Instant::now() > deadline {
                bail!("it was not ready after {} s:\n{}", limit.as_secs(), self.log());
            }
            thread::sleep(POLL);
        }
    }
}

/// Runs a program to its end, gives what it printed, and calls `on_line` for each line as it comes.
///
/// # Errors
/// It cannot be run, fails, needs longer than `limit`, or a signal asked for an end: then it is killed.
pub(crate) fn run(
    mut command: Command,
    limit: Duration,
    mut on_line: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let shown = format!("{command:?}");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().with_context(|| format!("cannot run {name}; is it installed?"))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (lines, incoming) = mpsc::channel();
    let out = thread::spawn(move || {
        let reader = stdout.map(|pipe| BufReader::new(pipe).lines());
        reader.into_iter().flatten().map_while(Result::ok).for_each(|line| drop(lines.send(line)));
    });
    let err = thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = stderr {
            // The text that was read before an error is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    });
    let deadline = Instant::now() + limit;
    let mut text = String::new();
    let watched = loop {
        match incoming.recv_timeout(POLL) {
            Ok(line) => {
                if let Err(error) = on_line(&line) {
                    break Err(error);
                }
                text.push_str(&line);
                text.push('\n');
            }
            Err(RecvTimeoutError::Disconnected) => break Ok(()),
            Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                break Err(anyhow::anyhow!("{name} did not end within {} s: {shown}", limit.as_secs()));
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Err(error) = stop::check() {
                    break Err(error);
                }
            }
        }
    };
    if watched.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().with_context(|| format!("cannot wait for {name}"))?;
    let _ = out.join();
    let errors = err.join().unwrap_or_default();
    watched?;
    if !status.success() {
        bail!("{name} failed ({status}): {}\n{}\n{shown}", end_of(&errors), end_of(text.as_bytes()));
    }
    Ok(text)
}

fn end_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(LOG_BYTES_MAX)..]).trim().to_owned()
}
