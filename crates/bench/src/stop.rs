//! Ctrl-C: what runs is ended in order, so that no process and no folder stays.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, bail};
use tokio::signal::unix::{SignalKind, signal};

/// The exit code that a shell gives to a program that SIGINT ended.
pub(crate) const INTERRUPTED: u8 = 130;

static ASKED: AtomicBool = AtomicBool::new(false);

/// Catches SIGINT, SIGTERM and SIGHUP from now on. A second signal ends the process at once; watchdogs then end what it
/// had started.
pub(crate) fn catch_signals() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let (ready, is_ready) = std::sync::mpsc::channel();
    let wait = async move {
        let caught = || -> std::io::Result<_> {
            Ok((signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?))
        };
        let (mut interrupt, mut terminate, mut hangup) = match caught() {
            Ok(signals) => {
                let _ = ready.send(Ok(()));
                signals
            }
            Err(error) => return drop(ready.send(Err(error))),
        };
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            if ASKED.swap(true, Ordering::Relaxed) {
                std::process::exit(INTERRUPTED.into());
            }
            eprintln!("bench: stopping; once more ends at once");
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(move || runtime.block_on(wait))?;
    is_ready.recv().context("the thread for signals ended")?.context("cannot catch signals")
}

/// Whether a signal asked for an end.
pub(crate) fn is_asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// An error when a signal asked for an end.
pub(crate) fn check() -> anyhow::Result<()> {
    if is_asked() {
        bail!("interrupted");
    }
    Ok(())
}
