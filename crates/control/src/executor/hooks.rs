//! Programs of the operator that run before and after a promotion.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cluster::step::ErrorKind;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::Instant;

/// The part of a hook's standard error that is logged when it fails.
const WORDS_MAX: u64 = 1_000;

/// The values that a hook is given beside its call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Called {
    pub(crate) epoch: u64,
    /// Why, in words.
    pub(crate) reason: String,
}

/// Between two looks whether a program has ended.
const PACE: Duration = Duration::from_millis(10);

/// A program that runs, and is killed when its run waits no longer.
///
/// It is none of tokio's: with those, every event loop of the process, a worker's too, looks for programs that have ended each time that it goes to
/// sleep.
struct Running(Option<Child>);

impl Running {
    async fn ended(&mut self) -> io::Result<ExitStatus> {
        loop {
            let child = self.0.as_mut().ok_or(io::ErrorKind::NotFound)?;
            match child.try_wait()? {
                Some(status) => return Ok(status),
                None => tokio::time::sleep(PACE).await,
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mut child) = self.0.take() else { return };
        if let Ok(None) = child.try_wait() {
            // The system keeps it until somebody has seen its end, which may take a moment.
            let _ = child.kill();
            std::thread::spawn(move || child.wait());
        }
    }
}

/// Runs a program, not through a shell, with `facts` and the search path as its only environment. It is killed when its time is
/// over or its run waits no longer.
pub(super) async fn run(
    command: &[Arc<str>],
    facts: &[(&str, String)],
    until: Instant,
) -> Result<(), (ErrorKind, String)> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let mut child = Command::new(&**program)
        .args(arguments.iter().map(|argument| &**argument))
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .envs(facts.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| (ErrorKind::Failed, format!("{program} cannot be started: {error}")))?;
    let errors = child.stderr.take();
    let mut running = Running(Some(child));
    let mut words = Vec::new();
    let ended = async {
        if let Some(errors) = errors {
            let errors = pipe::Receiver::from_owned_fd(OwnedFd::from(errors))?;
            let mut errors = errors.take(WORDS_MAX);
            // The hook's text is for the journal only; its exit code decides.
            let _ = errors.read_to_end(&mut words).await;
            // The rest is read and dropped, so that the program is not stopped by a full pipe.
            let _ = tokio::io::copy(&mut errors.into_inner(), &mut tokio::io::sink()).await;
        }
        running.ended().await
    };
    match tokio::time::timeout_at(until, ended).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => {
            let words = String::from_utf8_lossy(&words);
            let words: String = words.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            let said = if words.is_empty() { String::new() } else { format!(": {words}") };
            Err((ErrorKind::Failed, format!("{program} ended with {status}{said}")))
        }
        Ok(Err(error)) => Err((ErrorKind::Failed, format!("{program} cannot be waited for: {error}"))),
        Err(_) => Err((ErrorKind::Timeout, format!("{program} did not end in time and was killed"))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn hook(command: &[&str], facts: &[(&str, String)], limit: Duration) -> Result<(), (ErrorKind, String)> {
        let command: Vec<Arc<str>> = command.iter().map(|word| Arc::from(*word)).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { run(&command, facts, Instant::now() + limit).await })
    }

    #[test]
    fn the_exit_code_decides_and_the_facts_are_reported() {
        let long = Duration::from_secs(20);
        assert_eq!(hook(&[], &[], long), Ok(()));
        let facts = [("SQLUICE_NEW_PRIMARY", "db2; rm -rf $HOME".to_owned())];
        let test = "test \"$SQLUICE_NEW_PRIMARY\" = 'db2; rm -rf $HOME' && test -z \"$HOME\"";
        assert_eq!(hook(&["/bin/sh", "-c", test], &facts, long), Ok(()));
        let (kind, text) = hook(&["/bin/sh", "-c", "echo no quorum >&2; exit 3"], &facts, long).unwrap_err();
        assert_eq!(kind, ErrorKind::Failed);
        assert!(text.contains("exit status: 3") && text.contains("no quorum"), "{text}");
        let (_, text) = hook(&["/nowhere/hook"], &[], long).unwrap_err();
        assert!(text.contains("cannot be started"), "{text}");
    }

    #[test]
    fn a_hook_that_hangs_or_talks_for_ever_is_killed() {
        let begin = std::time::Instant::now();
        for program in ["exec sleep 60", "while :; do echo words >&2; done"] {
            let (kind, text) = hook(&["/bin/sh", "-c", program], &[], Duration::from_millis(100)).unwrap_err();
            assert!(kind == ErrorKind::Timeout && text.contains("was killed"), "{text}");
        }
        assert!(begin.elapsed() < Duration::from_secs(20));
    }
}
