//! Log lines.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _, Write};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

/// Names a filter that wins over the configuration's `log.level`.
const FILTER_VARIABLE: &str = "SQLUICE_LOG";

/// Sends log lines to standard error from now on, as the configuration says.
///
/// # Errors
/// The filter in the environment is none.
pub(crate) fn start(log: &config::Log) -> anyhow::Result<()> {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter(&log.level)?)
        .with_writer(io::stderr)
        // It would complain on standard error, and panic when that cannot be written: its reader has gone, or the disk is full.
        .log_internal_errors(false);
    match log.format {
        config::LogFormat::Human => lines.with_target(false).with_ansi(io::stderr().is_terminal()).init(),
        config::LogFormat::Json => lines.json().flatten_event(true).init(),
    }
    Ok(())
}

fn filter(level: &str) -> anyhow::Result<EnvFilter> {
    match std::env::var(FILTER_VARIABLE) {
        Ok(filter) if !filter.is_empty() => {
            EnvFilter::try_new(&filter).with_context(|| format!("{FILTER_VARIABLE} is no log filter"))
        }
        _ => EnvFilter::try_new(level).context("log.level is no log filter"),
    }
}

/// The newest log lines, for a screen that has no other place for them.
#[derive(Clone, Default)]
pub(crate) struct Recent(Arc<Mutex<VecDeque<String>>>);

/// Lines that are kept.
const RECENT_MAX: usize = 50;

impl Recent {
    /// Keeps log lines here from now on instead of printing them.
    ///
    /// # Errors
    /// The filter in the environment is none.
    pub(crate) fn start(level: &str) -> anyhow::Result<Recent> {
        let recent = Recent::default();
        let writer = recent.clone();
        tracing_subscriber::fmt()
            .with_env_filter(filter(level)?)
            .with_writer(move || writer.clone())
            // A date on every line would leave no room for what happened.
            .with_timer(tracing_subscriber::fmt::time::uptime())
            .with_target(false)
            .with_ansi(false)
            .log_internal_errors(false)
            .init();
        Ok(recent)
    }

    /// The newest lines, oldest first.
    pub(crate) fn newest(&self, count: usize) -> Vec<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().skip(lines.len().saturating_sub(count)).cloned().collect()
    }
}

impl Write for Recent {
    /// Takes one event, which the subscriber writes in one piece.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.extend(String::from_utf8_lossy(bytes).lines().map(str::to_owned));
        let surplus = lines.len().saturating_sub(RECENT_MAX);
        lines.drain(..surplus);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_lines_are_kept() {
        let mut recent = Recent::default();
        for at in 0..RECENT_MAX + 10 {
            recent.write_all(format!("line {at}\n").as_bytes()).unwrap();
        }
        assert_eq!(recent.newest(2), [format!("line {}", RECENT_MAX + 8), format!("line {}", RECENT_MAX + 9)]);
        assert_eq!(recent.newest(1000).len(), RECENT_MAX);
    }
}
