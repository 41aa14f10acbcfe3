//! The spool: events on disk until every sink has them.
//!
//! One thread appends blocks to the newest of several segments, and asks the disk to keep them. Only then do sinks read them, each
//! from its own cursor. So no sink has an event that the spool loses when the machine crashes, and no number is used twice.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::flow::Flow;
use crate::join::ends_within;
use crate::queue::Queue;
use appender::Appender;

pub(crate) use cursor::Cursor;
pub(crate) use reader::Reader;

mod appender;
mod cursor;
mod frame;
mod reader;
mod segments;

/// Most bytes of events that wait in memory for the spool's disk.
const WAITING_BYTES_MAX: usize = 8 << 20;
/// How long the end of the process waits for the spool's disk.
const STOP_MAX: Duration = Duration::from_secs(5);

/// The settings of a spool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolSettings {
    /// Its folder.
    pub path: PathBuf,
    /// Bytes beyond which the oldest events go, read or not; after a wait if the operator wants that.
    pub bytes_max: u64,
    /// Age beyond which events go, read or not; zero: never.
    pub age_max: Duration,
}

/// The figures of a spool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpoolFigures {
    /// Bytes on disk.
    pub bytes: u64,
    /// Writes that failed.
    pub failures: u64,
    /// Events that are not in the spool, because its disk was too slow or failed for too long.
    pub lost: u64,
    /// Events that were removed before every sink had them.
    pub removed_unread: u64,
    /// Places that could not be read.
    pub damaged: u64,
}

#[derive(Debug, Default)]
struct Counts {
    bytes: AtomicU64,
    failures: AtomicU64,
    lost: AtomicU64,
    removed_unread: AtomicU64,
    damaged: AtomicU64,
}

/// A segment: a file of blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    /// The number of its first event, which is its name.
    first: u64,
    /// The last number in it.
    last: u64,
    /// Bytes that can be read.
    bytes: u64,
    /// When its last block was begun, in microseconds since 1970.
    at_us: u64,
    /// Nothing is appended any more.
    sealed: bool,
}

/// The parts that readers see.
#[derive(Debug, Default)]
struct State {
    segments: VecDeque<Segment>,
    /// The first number that each sink does not have, by the sink's name.
    reached: BTreeMap<String, u64>,
    /// Nothing is appended any more.
    closed: bool,
    /// Grows when readers shall look at something else.
    wakes: u64,
}

/// The spool of a process.
#[derive(Debug)]
pub(crate) struct Spool {
    settings: SpoolSettings,
    /// Blocks on their way to the disk.
    pub(crate) queue: Queue,
    /// Whether queries wait when it is full of events that a sink lacks.
    flow: Arc<Flow>,
    state: Mutex<State>,
    changed: Condvar,
    counts: Counts,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
    /// It keeps other processes out.
    _lock: File,
}

impl Spool {
    /// Opens the spool, or makes it. Gives the number behind the last event in it, as far as it can be known.
    ///
    /// # Errors
    /// The system's, or another process uses it.
    pub(crate) fn open(settings: &SpoolSettings, flow: Arc<Flow>) -> io::Result<(Spool, u64)> {
        let path = &settings.path;
        DirBuilder::new().recursive(true).mode(0o750).create(path)?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o640).open(path.join("lock"))?;
        if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process uses this spool"));
        }
        let (segments, next) = segments::recover(path)?;
        let spool = Spool {
            settings: settings.clone(),
            queue: Queue::new(WAITING_BYTES_MAX),
            flow,
            state: Mutex::new(State { segments, ..State::default() }),
            changed: Condvar::new(),
            counts: Counts::default(),
            thread: Mutex::default(),
            _lock: lock,
        };
        spool.count_bytes(&spool.lock());
        Ok((spool, next))
    }

    /// Starts the thread that appends, from this number on.
    ///
    /// # Errors
    /// There is no thread.
    pub(crate) fn start(self: &Arc<Spool>, next: u64) -> io::Result<()> {
        let appender = Appender::new(self.clone(), next);
        let thread = std::thread::Builder::new().name("sqluice-spool".into()).spawn(move || appender.run())?;
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(())
    }

    /// Opens the cursor of a sink, or makes it.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn cursor(&self, sink: &str) -> io::Result<Cursor> {
        Cursor::open(&self.cursor_path(sink))
    }

    /// From now on the spool keeps what this sink does not have: the events from this number on.
    pub(crate) fn keep_for(&self, sink: &str, next: u64) {
        self.lock().reached.insert(sink.to_owned(), next);
    }

    /// A sink has all events before this number, if the spool keeps events for it.
    pub(crate) fn reached(&self, sink: &str, next: u64) {
        if let Some(reached) = self.lock().reached.get_mut(sink) {
            *reached = next.max(*reached);
        }
    }

    /// A sink is gone: nothing is kept for it.
    pub(crate) fn forget(&self, sink: &str) {
        self.lock().reached.remove(sink);
        if let Err(error) = std::fs::remove_file(self.cursor_path(sink)) {
            tracing::warn!(sink, %error, "the cursor of a sink of events was not removed");
        }
    }

    /// Removes the cursors of sinks that are not among these.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn forget_others(&self, sinks: &[&str]) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.settings.path)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let sink = name.strip_suffix(".cursor");
            if let Some(sink) = sink.filter(|sink| !sinks.contains(sink)) {
                tracing::info!(sink, "this sink of events is gone; the spool keeps nothing for it");
                std::fs::remove_file(self.cursor_path(sink))?;
            }
        }
        Ok(())
    }

    /// Ends waits of readers, so that they look at something else.
    pub(crate) fn wake(&self) {
        self.lock().wakes += 1;
        self.changed.notify_all();
    }

    /// Writes what waits, and ends the thread. If its disk hangs, the thread is left alone.
    pub(crate) fn stop(&self) {
        self.queue.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        if !ends_within(thread, STOP_MAX, "the spool of events") {
            let waiting = self.queue.numbers();
            tracing::error!(?waiting, "the spool of events did not end in time; it may lack events");
        }
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// The figures.
    pub(crate) fn figures(&self) -> SpoolFigures {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { bytes, failures, lost, removed_unread, damaged } = &self.counts;
        SpoolFigures {
            bytes: count(bytes),
            failures: count(failures),
            lost: count(lost),
            removed_unread: count(removed_unread),
            damaged: count(damaged),
        }
    }

    fn cursor_path(&self, sink: &str) -> PathBuf {
        self.settings.path.join(format!("{sink}.cursor"))
    }

    fn segment_path(&self, first: u64) -> PathBuf {
        segments::path(&self.settings.path, first)
    }

    fn count_bytes(&self, state: &State) {
        let bytes = state.segments.iter().map(|segment| segment.bytes).sum();
        self.counts.bytes.store(bytes, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Has the disk keep the names in a folder.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests;
