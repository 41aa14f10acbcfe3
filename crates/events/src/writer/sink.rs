//! The file as the thread of events uses it: lines that cannot be written now wait, and those beyond a bound become a gap.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use super::{Counts, FileSettings, StartError};
use crate::file::{EventFile, tidy};
use crate::line::{self, Shows};

/// Most bytes of lines that wait for a file that cannot be written.
const BACKLOG_MAX: usize = 8 << 20;
/// How long nothing is tried again after a write has failed.
const RETRY: Duration = Duration::from_secs(1);

/// A file, and the lines that wait for it.
#[derive(Debug)]
pub(super) struct FileSink {
    settings: FileSettings,
    file: EventFile,
    backlog: Vec<u8>,
    /// The number of the first event that is not written.
    unwritten_from: u64,
    /// Events behind the backlog for which there was no room: the number of the first one, and how many.
    gap: Option<(u64, u64)>,
    retry_at: Option<Instant>,
    written: bool,
}

impl FileSink {
    pub(super) fn open(settings: &FileSettings) -> Result<FileSink, StartError> {
        let FileSettings { path, rotation, .. } = settings;
        let file = EventFile::open(path, rotation, SystemTime::now())
            .map_err(|error| StartError::File { path: path.clone(), error })?;
        let (settings, backlog) = (settings.clone(), Vec::new());
        Ok(FileSink { settings, file, backlog, unwritten_from: 0, gap: None, retry_at: None, written: false })
    }

    pub(super) fn settings(&self) -> &FileSettings {
        &self.settings
    }

    pub(super) fn shows(&self) -> Shows {
        if self.settings.texts { Shows::Text } else { Shows::Form }
    }

    /// Takes lines of so many events, the first with this number.
    pub(super) fn take(&mut self, lines: &[u8], from: u64, events: u64) {
        if self.backlog.is_empty() && self.gap.is_none() {
            self.unwritten_from = from;
        }
        match &mut self.gap {
            Some((_, lost)) => *lost += events,
            None if self.backlog.len() + lines.len() <= BACKLOG_MAX => self.backlog.extend_from_slice(lines),
            None => self.gap = Some((from, events)),
        }
    }

    /// The events that are not written, before the one with the number `next`: the first one's number, and how many.
    pub(super) fn unwritten(&self, next: u64) -> Option<(u64, u64)> {
        let waits = !self.backlog.is_empty() || self.gap.is_some();
        waits.then(|| (self.unwritten_from, next.saturating_sub(self.unwritten_from)))
    }

    /// The file takes the place of one that could not be written. Lines with texts may not be for it, so a gap stands for them.
    pub(super) fn begin_with_gap(&mut self, from: u64, lost: u64, node: &str, counts: &Counts) {
        counts.file_lost.fetch_add(lost, Ordering::Relaxed);
        self.unwritten_from = from;
        line::gap(from, lost, node, SystemTime::now(), &mut self.backlog);
    }

    /// The process ends: says in the log which events the file lacks.
    pub(super) fn leave(&self, next: u64) {
        if let Some((from, events)) = self.unwritten(next) {
            tracing::error!(file = %self.settings.path.display(), from, events, "these events are not in the file");
        }
    }

    /// Writes the waiting lines, if the file can be written.
    pub(super) fn flush(&mut self, node: &str, counts: &Counts) {
        if self.backlog.is_empty() || self.retry_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        while !self.backlog.is_empty() {
            match self.file.write(&self.backlog, SystemTime::now()) {
                Ok(rotated) => {
                    if let Some(rotated) = rotated {
                        self.tidy(rotated);
                    }
                    self.wrote(counts);
                }
                Err(error) => return self.failed(&error, counts),
            }
            if let Some((from, lost)) = self.gap.take() {
                counts.file_lost.fetch_add(lost, Ordering::Relaxed);
                line::gap(from, lost, node, SystemTime::now(), &mut self.backlog);
            }
        }
    }

    /// The work of each second: the file's name is followed, and the disk keeps the written lines.
    pub(super) fn upkeep(&mut self, node: &str, counts: &Counts) {
        if let Err(error) = self.file.follow_name(SystemTime::now()) {
            self.failed(&error, counts);
        }
        if std::mem::take(&mut self.written)
            && let Err(error) = self.file.sync()
        {
            self.failed(&error, counts);
        }
        self.flush(node, counts);
    }

    fn wrote(&mut self, counts: &Counts) {
        counts.file_bytes.fetch_add(self.backlog.len() as u64, Ordering::Relaxed);
        self.backlog.clear();
        self.written = true;
        if self.retry_at.take().is_some() {
            tracing::info!(file = %self.settings.path.display(), "events are written again");
        }
    }

    fn failed(&mut self, error: &std::io::Error, counts: &Counts) {
        counts.file_failures.fetch_add(1, Ordering::Relaxed);
        if self.retry_at.is_none() {
            let waiting = self.backlog.len();
            tracing::error!(file = %self.settings.path.display(), %error, waiting, "events cannot be written; they wait");
        }
        self.retry_at = Some(Instant::now() + RETRY);
    }

    /// Compresses and removes files on a thread of its own.
    fn tidy(&self, rotated: std::path::PathBuf) {
        let FileSettings { path, rotation, .. } = self.settings.clone();
        let work = move || {
            if let Err(error) = tidy(&path, &rotated, &rotation) {
                tracing::error!(file = %rotated.display(), %error, "a file of events was not compressed or removed");
            }
        };
        if let Err(error) = std::thread::Builder::new().name("sqluice-zstd".into()).spawn(work) {
            tracing::error!(%error, "no thread to compress a file of events");
        }
    }
}

#[cfg(test)]
impl FileSink {
    /// Goes on in another file at once.
    pub(super) fn move_to(&mut self, path: &std::path::Path) {
        self.file =
            EventFile::open(path, &self.settings.rotation, SystemTime::now()).expect("a file in a folder of tests");
        self.retry_at = None;
    }
}
