//! The thread that empties the rings: it numbers events and hands their lines to the file and to those who look on.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use crate::event::{Body, Event};
use crate::file::Rotation;
use crate::line::{self, Shows, Timestamps};
use crate::number;
use crate::recent::Recent;
use crate::ring::{Ring, RingOut, WAITING_MAX, ring};
use sink::FileSink;

mod sink;

/// Most events of a ring in one round, so that a busy ring does not keep the others waiting.
const ROUND_MAX: usize = 1_024;
/// How long the thread sleeps when the rings are empty, and after a second without an event.
const NAP: Duration = Duration::from_millis(20);
const SLEEP: Duration = Duration::from_millis(200);
/// How often the file is looked after.
const UPKEEP: Duration = Duration::from_secs(1);

/// The settings of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The name of this process in all lines; empty is the machine's name.
    pub node: String,
    /// The file; without it, lines are only for those who look on.
    pub file: Option<FileSettings>,
}

/// The settings of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSettings {
    /// Its path.
    pub path: PathBuf,
    /// When it gets another name.
    pub rotation: Rotation,
    /// Texts stand there with their literals, and errors with their messages.
    pub texts: bool,
}

/// Why events did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The file cannot be opened.
    #[error("events.file.path: cannot open {path}: {error}")]
    File {
        /// Its path.
        path: PathBuf,
        /// The system's reason.
        error: std::io::Error,
    },
    /// There is no thread.
    #[error("cannot start the thread of events: {0}")]
    Thread(std::io::Error),
}

/// The counts of events.
#[derive(Debug, Default)]
struct Counts {
    queries: AtomicU64,
    logins: AtomicU64,
    lost: AtomicU64,
    file_bytes: AtomicU64,
    file_lost: AtomicU64,
    file_failures: AtomicU64,
}

/// Events of the process.
#[derive(Debug)]
pub struct Events {
    recent: Recent,
    counts: Counts,
    /// Settings of a reload that the thread has not taken yet.
    reloaded: Mutex<Option<Settings>>,
    stopping: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Events {
    /// Starts the thread; gives a ring for each worker.
    ///
    /// # Errors
    /// The file cannot be opened, or there is no thread.
    pub fn start(settings: Settings, workers: usize) -> Result<(Arc<Events>, Vec<Ring>), StartError> {
        let (rings, outs): (Vec<_>, Vec<_>) = (0..workers).map(|_| ring(WAITING_MAX)).unzip();
        let next = settings.file.as_ref().map_or(1, |file| number::next_in(&file.path));
        let file = settings.file.as_ref().map(FileSink::open).transpose()?;
        let events = Arc::new(Events {
            recent: Recent::default(),
            counts: Counts::default(),
            reloaded: Mutex::default(),
            stopping: AtomicBool::new(false),
            thread: Mutex::default(),
        });
        let writer = Writer {
            events: events.clone(),
            rings: outs,
            node: node(&settings),
            next,
            file,
            batch: Batch::default(),
            times: Timestamps::default(),
        };
        let thread = std::thread::Builder::new()
            .name("sqluice-events".into())
            .spawn(move || writer.run())
            .map_err(StartError::Thread)?;
        *events.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok((events, rings))
    }

    /// The last lines.
    pub fn recent(&self) -> &Recent {
        &self.recent
    }

    /// Takes other settings; a file that cannot be opened is told in the log, and the one before goes on.
    pub fn reload(&self, settings: Settings) {
        *self.reloaded.lock().unwrap_or_else(PoisonError::into_inner) = Some(settings);
        self.wake();
    }

    /// Writes what the rings still hold, and ends the thread. No worker may hold a ring any more.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.wake();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread of events has failed");
        }
    }

    /// Events of queries.
    pub fn queries(&self) -> u64 {
        self.counts.queries.load(Ordering::Relaxed)
    }

    /// Events of logins and their ends.
    pub fn logins(&self) -> u64 {
        self.counts.logins.load(Ordering::Relaxed)
    }

    /// Events that were lost because a ring was full.
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
    }

    /// Bytes that were written to files.
    pub fn file_bytes(&self) -> u64 {
        self.counts.file_bytes.load(Ordering::Relaxed)
    }

    /// Events that are not in a file because it could not be written for too long.
    pub fn file_lost(&self) -> u64 {
        self.counts.file_lost.load(Ordering::Relaxed)
    }

    /// Writes to files that failed.
    pub fn file_failures(&self) -> u64 {
        self.counts.file_failures.load(Ordering::Relaxed)
    }

    fn wake(&self) {
        if let Some(thread) = &*self.thread.lock().unwrap_or_else(PoisonError::into_inner) {
            thread.thread().unpark();
        }
    }
}

/// The name of the process in its lines.
fn node(settings: &Settings) -> String {
    if !settings.node.is_empty() {
        return settings.node.clone();
    }
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Lines of one round.
#[derive(Debug, Default)]
struct Batch {
    /// Never with texts.
    forms: Vec<u8>,
    /// With texts, if the file wants them.
    texts: Vec<u8>,
    /// The number of its first event.
    from: u64,
}

/// The state of the thread.
struct Writer {
    events: Arc<Events>,
    rings: Vec<RingOut>,
    node: String,
    /// The number of the next event.
    next: u64,
    file: Option<FileSink>,
    batch: Batch,
    times: Timestamps,
}

impl Writer {
    fn run(mut self) {
        self.begin_batch();
        self.put_start();
        let (mut last_event, mut last_upkeep) = (Instant::now(), Instant::now());
        loop {
            // In this order: an event that was put before the stop is in the last round.
            let stopping = self.events.stopping.load(Ordering::SeqCst);
            let taken = self.round();
            self.hand_over();
            let now = Instant::now();
            if now.saturating_duration_since(last_upkeep) >= UPKEEP || stopping {
                last_upkeep = now;
                self.upkeep();
            }
            if taken > 0 {
                last_event = now;
            } else if stopping {
                return self.file.iter().for_each(|file| file.leave(self.next));
            } else {
                let idle = now.saturating_duration_since(last_event) > Duration::from_secs(1);
                std::thread::park_timeout(if idle { SLEEP } else { NAP });
            }
        }
    }

    /// Takes events out of each ring. Gives how many.
    fn round(&mut self) -> usize {
        self.begin_batch();
        let mut taken = 0;
        for index in 0..self.rings.len() {
            // Lost events came behind those that are in the ring now, or in between.
            let lost = self.rings[index].take_lost();
            for _ in 0..ROUND_MAX {
                let Some(event) = self.rings[index].next() else { break };
                taken += 1;
                self.put(&event);
            }
            if lost > 0 {
                self.put_gap(lost);
            }
        }
        taken
    }

    fn begin_batch(&mut self) {
        self.batch.forms.clear();
        self.batch.texts.clear();
        self.batch.from = self.next;
    }

    fn put(&mut self, event: &Event) {
        let counts = &self.events.counts;
        match event.body {
            Body::Query(_) => counts.queries.fetch_add(1, Ordering::Relaxed),
            Body::Login(_) | Body::ChangeUser(_) | Body::Logout(_) => counts.logins.fetch_add(1, Ordering::Relaxed),
        };
        let seq = self.next;
        self.next += 1;
        event.line(seq, &self.node, Shows::Form, &mut self.times, &mut self.batch.forms);
        if self.shows_texts() {
            event.line(seq, &self.node, Shows::Text, &mut self.times, &mut self.batch.texts);
        }
    }

    fn shows_texts(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.shows() == Shows::Text)
    }

    fn put_gap(&mut self, lost: u64) {
        self.events.counts.lost.fetch_add(lost, Ordering::Relaxed);
        let mut line = Vec::new();
        line::gap(self.next, lost, &self.node, SystemTime::now(), &mut line);
        self.next += lost;
        self.put_plain(&line);
    }

    fn put_start(&mut self) {
        let mut line = Vec::new();
        line::start(self.next, &self.node, SystemTime::now(), &mut line);
        self.next += 1;
        self.put_plain(&line);
        self.hand_over();
    }

    fn put_plain(&mut self, line: &[u8]) {
        self.batch.forms.extend_from_slice(line);
        if self.shows_texts() {
            self.batch.texts.extend_from_slice(line);
        }
    }

    /// Gives the lines of the batch to the file and to those who look on.
    fn hand_over(&mut self) {
        let (from, events) = (self.batch.from, self.next - self.batch.from);
        if events > 0 {
            self.events.recent.keep(from, self.next - 1, &self.batch.forms);
        }
        let shows_texts = self.shows_texts();
        if let Some(file) = &mut self.file {
            file.take(if shows_texts { &self.batch.texts } else { &self.batch.forms }, from, events);
            file.flush(&self.node, &self.events.counts);
        }
        self.begin_batch();
    }

    /// The work of each second.
    fn upkeep(&mut self) {
        let reloaded = self.events.reloaded.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(settings) = reloaded {
            self.take_settings(&settings);
        }
        if let Some(file) = &mut self.file {
            file.upkeep(&self.node, &self.events.counts);
        }
    }

    fn take_settings(&mut self, settings: &Settings) {
        self.node = node(settings);
        if self.file.as_ref().map(FileSink::settings) == settings.file.as_ref() {
            return;
        }
        match settings.file.as_ref().map(FileSink::open).transpose() {
            Ok(file) => {
                let before = std::mem::replace(&mut self.file, file);
                let unwritten = before.and_then(|before| before.unwritten(self.next));
                if let (Some(file), Some((from, lost))) = (&mut self.file, unwritten) {
                    file.begin_with_gap(from, lost, &self.node, &self.events.counts);
                }
            }
            Err(error) => tracing::error!(%error, "events go on in the file of before"),
        }
    }
}

#[cfg(test)]
mod tests;
