//! The journal: the last lines in memory, all of them in a file if one is named.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use admin::{JournalLine, LineKind};
use cluster::journal::{EntryKind, JournalEntry};
use tokio::sync::watch;

/// Lines that are kept in memory.
const KEPT_MAX: usize = 1_000;
/// Lines that wait for the disk.
const WAITING_MAX: usize = 1_000;

/// A line with its time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// Grows by one with each line of this process.
    pub(crate) number: u64,
    pub(crate) at: SystemTime,
    pub(crate) entry: JournalEntry,
}

impl Record {
    /// The line as the API and the file have it.
    pub(crate) fn line(&self) -> JournalLine {
        let (kind, step) = match self.entry.kind {
            EntryKind::Decision => (LineKind::Decision, None),
            EntryKind::Step(id) => (LineKind::Step, Some(id.0)),
            EntryKind::Done(id) => (LineKind::Done, Some(id.0)),
            EntryKind::Failed(id) => (LineKind::Failed, Some(id.0)),
            EntryKind::Finished(_) => (LineKind::Finished, None),
            EntryKind::Aborted(_) => (LineKind::Aborted, None),
            EntryKind::Advice => (LineKind::Advice, None),
        };
        JournalLine {
            number: self.number,
            at: self.at,
            run: self.entry.run,
            epoch: self.entry.epoch,
            kind,
            step,
            server: self.entry.server.clone(),
            text: self.entry.text.clone(),
        }
    }
}

/// A cluster's journal.
pub(crate) struct Journal {
    cluster: Arc<str>,
    kept: Mutex<VecDeque<Record>>,
    /// The number of the newest line.
    newest: watch::Sender<u64>,
    file: Mutex<Option<Appender>>,
    /// Lines that a file was to have and lacks.
    failures: Arc<AtomicU64>,
}

struct Appender {
    path: PathBuf,
    lines: SyncSender<Line>,
    failures: Arc<AtomicU64>,
}

enum Line {
    Text(String),
    /// The file may have been renamed: what follows goes to a new one of the same name.
    Reopen,
}

impl Journal {
    pub(crate) fn new(cluster: &Arc<str>) -> Journal {
        Journal {
            cluster: cluster.clone(),
            kept: Mutex::default(),
            newest: watch::Sender::new(0),
            file: Mutex::default(),
            failures: Arc::default(),
        }
    }

    /// Lines that a file was to have and lacks, and openings of a file that failed.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Appends to this file from now on; `None` to none. The file that is open already is opened anew, for programs that rotate logs.
    pub(crate) fn set_file(&self, path: Option<&Path>) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        match &*file {
            Some(open) if Some(&*open.path) == path => open.send(&self.cluster, Line::Reopen),
            _ => *file = path.and_then(|path| Appender::start(&self.cluster, path, &self.failures)),
        }
    }

    /// Adds a line.
    pub(crate) fn add(&self, entry: JournalEntry) {
        let record = {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let number = kept.back().map_or(1, |last| last.number + 1);
            let record = Record { number, at: SystemTime::now(), entry };
            if kept.len() >= KEPT_MAX {
                kept.pop_front();
            }
            kept.push_back(record.clone());
            record
        };
        if let Some(file) = &*self.file.lock().unwrap_or_else(PoisonError::into_inner) {
            file.send(&self.cluster, Line::Text(record.line().json(&self.cluster).to_string()));
        }
        self.newest.send_replace(record.number);
    }

    /// The newest lines that fit, oldest first.
    pub(crate) fn tail(&self, limit: usize, fits: impl Fn(&Record) -> bool) -> Vec<Record> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut newest: Vec<Record> = kept.iter().rev().filter(|record| fits(record)).take(limit).cloned().collect();
        newest.reverse();
        newest
    }

    /// Tells of new lines.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }
}

impl Appender {
    /// Opens the file and starts the thread that waits for the disk in place of the control thread.
    fn start(cluster: &Arc<str>, path: &Path, failures: &Arc<AtomicU64>) -> Option<Appender> {
        let complain = |error: std::io::Error| {
            failures.fetch_add(1, Ordering::Relaxed);
            tracing::error!(cluster = &**cluster, "the journal {} cannot be written: {error}", path.display());
        };
        let mut file = open(path).map_err(complain).ok()?;
        let (lines, waiting) = sync_channel::<Line>(WAITING_MAX);
        let (of, cluster, failed) = (path.to_path_buf(), cluster.clone(), failures.clone());
        let write = move || {
            while let Ok(line) = waiting.recv() {
                let written = match line {
                    Line::Text(line) => append(&mut file, &line),
                    // The old one stays when there is no new one.
                    Line::Reopen => open(&of).map(|new| file = new),
                };
                if let Err(error) = written {
                    failed.fetch_add(1, Ordering::Relaxed);
                    tracing::error!(cluster = &*cluster, "the journal {} cannot be written: {error}", of.display());
                }
            }
        };
        std::thread::Builder::new().name("sqluice-journal".into()).spawn(write).map_err(complain).ok()?;
        Some(Appender { path: path.to_path_buf(), lines, failures: failures.clone() })
    }

    fn send(&self, cluster: &str, line: Line) {
        match self.lines.try_send(line) {
            Ok(()) => {}
            Err(TrySendError::Full(Line::Text(line)) | TrySendError::Disconnected(Line::Text(line))) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                tracing::error!(cluster, "the journal {} is too slow, a line is lost: {line}", self.path.display());
            }
            Err(TrySendError::Full(Line::Reopen) | TrySendError::Disconnected(Line::Reopen)) => {
                tracing::error!(cluster, "the journal {} is too slow to be opened anew", self.path.display());
            }
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

/// One line, on the disk when this returns.
fn append(file: &mut File, line: &str) -> std::io::Result<()> {
    file.write_all(format!("{line}\n").as_bytes())?;
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use cluster::step::StepId;
    use serde_json::{Value, json};

    use super::*;

    fn entry(run: u64, kind: EntryKind) -> JournalEntry {
        JournalEntry { run, epoch: 3, kind, server: Some("db1".into()), text: "because".into() }
    }

    #[test]
    fn kinds_have_the_same_words_in_the_log_and_in_the_file() {
        let id = StepId(4);
        for (kind, step) in [
            (EntryKind::Decision, None),
            (EntryKind::Step(id), Some(4)),
            (EntryKind::Done(id), Some(4)),
            (EntryKind::Failed(id), Some(4)),
            (EntryKind::Finished("failover"), None),
            (EntryKind::Aborted("failover"), None),
            (EntryKind::Advice, None),
        ] {
            let line = Record { number: 1, at: SystemTime::now(), entry: entry(7, kind) }.line();
            assert_eq!((line.kind.word(), line.step), (kind.word(), step));
        }
    }

    #[test]
    fn the_newest_lines_are_kept() {
        let journal = Journal::new(&"main".into());
        let watch = journal.watch();
        (0..1_500).for_each(|run| journal.add(entry(run, EntryKind::Decision)));
        let tail = journal.tail(usize::MAX, |_| true);
        assert_eq!((tail.len(), tail[0].number, *watch.borrow()), (KEPT_MAX, 501, 1_500));
        let of_run = journal.tail(10, |record| record.entry.run == 1_200);
        assert_eq!(of_run.len(), 1);
        assert_eq!(journal.tail(2, |_| true).iter().map(|record| record.number).collect::<Vec<_>>(), [1_499, 1_500]);
    }

    #[test]
    fn a_journal_that_was_rotated_is_opened_anew() {
        let folder = tempfile::TempDir::new().unwrap();
        let (path, rotated) = (folder.path().join("journal"), folder.path().join("journal.1"));
        let journal = Journal::new(&"main".into());
        journal.set_file(Some(&path));
        journal.add(entry(1, EntryKind::Decision));
        std::fs::rename(&path, &rotated).unwrap();
        journal.add(entry(2, EntryKind::Decision));
        journal.set_file(Some(&path));
        journal.add(entry(3, EntryKind::Decision));
        let runs = |path: &Path| -> Vec<u64> {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            // The last line may be half written.
            let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            lines.filter_map(|line| line["run"].as_u64()).collect()
        };
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while runs(&path) != [3] {
            assert!(std::time::Instant::now() < deadline, "{:?} {:?}", runs(&rotated), runs(&path));
            std::thread::yield_now();
        }
        assert_eq!(runs(&rotated), [1, 2]);
    }

    #[test]
    fn lines_that_the_file_lacks_are_counted() {
        let folder = tempfile::TempDir::new().unwrap();
        let journal = Journal::new(&"main".into());
        journal.set_file(Some(&folder.path().join("nowhere/journal")));
        assert_eq!(journal.failures(), 1);
        // This disk is always full.
        journal.set_file(Some(Path::new("/dev/full")));
        journal.add(entry(1, EntryKind::Decision));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while journal.failures() != 2 {
            assert!(std::time::Instant::now() < deadline, "{} failures", journal.failures());
            std::thread::yield_now();
        }
    }

    #[test]
    fn lines_reach_the_file_in_order() {
        let folder = std::env::temp_dir().join(format!("sqluice-journal-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("journal");
        let journal = Journal::new(&"main".into());
        journal.set_file(Some(&path));
        journal.add(entry(7, EntryKind::Step(StepId(4))));
        journal.add(entry(7, EntryKind::Finished("failover")));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let text = loop {
            let text = std::fs::read_to_string(&path).unwrap();
            if text.lines().count() == 2 || std::time::Instant::now() > deadline {
                break text;
            }
            std::thread::yield_now();
        };
        std::fs::remove_dir_all(&folder).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(
            (&lines[0]["kind"], &lines[0]["step"], &lines[0]["cluster"]),
            (&json!("step"), &json!(4), &json!("main"))
        );
        assert_eq!(
            (&lines[1]["kind"], &lines[1]["step"], &lines[1]["run"]),
            (&json!("finished"), &Value::Null, &json!(7))
        );
    }
}
