//! The thread of a sink.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::batch::{Batch, Choice};
use super::counts::SinkCounts;
use super::output::Output;
use super::source::Source;
use super::{SinkSettings, Target};
use crate::queue::Queue;

/// Most bytes of events that wait for a sink in memory.
const WAITING_BYTES_MAX: usize = 8 << 20;
/// How long nothing is tried again after a write has failed.
const RETRY: Duration = Duration::from_secs(1);
/// How often an output is looked after.
const UPKEEP: Duration = Duration::from_secs(1);
/// How long a sink goes on at the end of the process if the next one can do the rest.
const FINISH_MAX: Duration = Duration::from_secs(2);
/// Steps of a wait for the next try, so that the end of the process is noticed.
const STEP: Duration = Duration::from_millis(20);

/// The parts of a sink that others reach.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) queue: Queue,
    pub(super) counts: SinkCounts,
    /// The settings of a reload, with the name of the process, that the thread has not taken yet.
    changed: Mutex<Option<(SinkSettings, String)>>,
    /// The operator wants another file now.
    rotating: AtomicBool,
    finishing: AtomicBool,
    quitting: AtomicBool,
}

impl Shared {
    pub(super) fn new(counts: SinkCounts) -> Shared {
        Shared {
            queue: Queue::new(WAITING_BYTES_MAX),
            counts,
            changed: Mutex::default(),
            rotating: AtomicBool::new(false),
            finishing: AtomicBool::new(false),
            quitting: AtomicBool::new(false),
        }
    }

    /// Brings other settings.
    pub(super) fn change(&self, settings: SinkSettings, node: &str) {
        *self.changed.lock().unwrap_or_else(PoisonError::into_inner) = Some((settings, node.to_owned()));
        self.queue.wake();
    }

    /// Has a file get another name now, or be made anew if it was moved.
    pub(super) fn rotate(&self) {
        self.rotating.store(true, Ordering::SeqCst);
        self.queue.wake();
    }

    /// Has the thread write what waits, and end.
    pub(super) fn finish(&self) {
        self.finishing.store(true, Ordering::SeqCst);
        self.queue.close();
    }

    /// Has the thread end: nobody wants this sink any more.
    pub(super) fn quit(&self) {
        self.quitting.store(true, Ordering::SeqCst);
        self.queue.close();
    }
}

/// The state of the thread.
pub(super) struct Runner {
    settings: SinkSettings,
    node: String,
    shared: Arc<Shared>,
    /// `None` if it could not be opened yet.
    output: Option<Output>,
    source: Source,
    batch: Batch,
    /// A write has failed and none has succeeded since.
    failing: bool,
    upkeep_at: Instant,
}

impl Runner {
    /// A sink for the events of a source, from the number `next` on.
    pub(super) fn new(
        settings: SinkSettings,
        node: &str,
        shared: Arc<Shared>,
        output: Option<Output>,
        (source, next): (Source, u64),
    ) -> Runner {
        let (batch, upkeep_at) = (Batch::from(next), Instant::now() + UPKEEP);
        Runner { settings, node: node.to_owned(), shared, output, source, batch, failing: false, upkeep_at }
    }

    pub(super) fn run(mut self) {
        let mut finishing_since = None;
        loop {
            self.take_settings();
            if self.batch.is_empty() {
                self.fill();
            }
            let is_over = self.batch.is_empty() && self.source.is_over(&self.shared.queue);
            let written = self.write();
            let upkeep = self.rotate().and_then(|()| self.upkeep(is_over));
            if self.shared.quitting.load(Ordering::SeqCst) {
                return;
            }
            let is_finishing = self.shared.finishing.load(Ordering::SeqCst);
            if is_finishing {
                finishing_since.get_or_insert_with(Instant::now);
            }
            if let Err(error) = written.and(upkeep) {
                self.failed(&error);
                if is_finishing {
                    return self.leave();
                }
                self.wait_to_retry();
            } else if is_over {
                return self.leave();
            } else if self.source.keeps() && finishing_since.is_some_and(|since| since.elapsed() >= FINISH_MAX) {
                // Whatever else this says, the next process goes on here.
                let _ = self.upkeep(true);
                return self.leave();
            }
        }
    }

    fn fill(&mut self) {
        self.batch.clear();
        let SinkSettings { takes, literals, ref masks, .. } = self.settings;
        let choice = Choice { takes, literals, masks, node: &self.node };
        self.source.fill(&self.shared.queue, &mut self.batch, choice, UPKEEP);
        self.shared.counts.in_hand(&self.batch);
    }

    /// Writes the batch, if there is one.
    fn write(&mut self) -> io::Result<()> {
        if self.output.is_none() {
            self.output = Some(Output::open(&self.settings.target, &self.node)?);
        }
        let Some(output) = &mut self.output else { return Ok(()) };
        let survives = output.survives_kill();
        if self.batch.is_empty() {
            // There may be events that the sink does not take.
            return self.source.passed(self.batch.next, survives);
        }
        let too_long = output.write(&self.batch, &self.node)?;
        self.shared.counts.wrote(&self.batch, too_long);
        self.batch.clear();
        self.source.passed(self.batch.next, survives)?;
        if std::mem::take(&mut self.failing) {
            tracing::info!(sink = self.settings.name, "events are written again");
        }
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        match &mut self.output {
            Some(output) if self.shared.rotating.swap(false, Ordering::SeqCst) => output.rotate(),
            _ => Ok(()),
        }
    }

    fn upkeep(&mut self, at_once: bool) -> io::Result<()> {
        let now = Instant::now();
        if now < self.upkeep_at && !at_once {
            return Ok(());
        }
        self.upkeep_at = now + UPKEEP;
        let Some(output) = &mut self.output else { return Ok(()) };
        output.upkeep()?;
        self.source.settle()
    }

    fn failed(&mut self, error: &io::Error) {
        self.shared.counts.failed();
        if !std::mem::replace(&mut self.failing, true) {
            tracing::error!(sink = self.settings.name, %error, "events cannot be written; they wait");
        }
    }

    fn wait_to_retry(&self) {
        let begun = Instant::now();
        let is_wanted = || {
            let is_changed = self.shared.changed.lock().unwrap_or_else(PoisonError::into_inner).is_some();
            let ends = self.shared.finishing.load(Ordering::SeqCst) || self.shared.quitting.load(Ordering::SeqCst);
            is_changed || ends
        };
        while begun.elapsed() < RETRY && !is_wanted() {
            std::thread::sleep(STEP);
        }
    }

    fn take_settings(&mut self) {
        let changed = self.shared.changed.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((settings, node)) = changed else { return };
        // A file that was moved before the reload is made again at once.
        self.upkeep_at = Instant::now();
        // Messages of syslog begin with the name of the process.
        let is_named = matches!(settings.target, Target::Syslog(_)) && node != self.node;
        self.node = node;
        if settings.target == self.settings.target && !is_named {
            self.settings = settings;
            return;
        }
        match Output::open(&settings.target, &self.node) {
            Ok(output) => {
                let before = self.output.replace(output).map(|mut before| before.upkeep());
                if let Some(Err(error)) = before {
                    tracing::error!(sink = settings.name, %error, "the target of before may lack its last events");
                }
                self.settings = settings;
            }
            Err(error) => {
                let sink = &settings.name;
                tracing::error!(sink, %error, "events go on to the target of before: the new one cannot be opened");
            }
        }
    }

    /// The process ends: says in the log which events the sink lacks.
    fn leave(&self) {
        if self.source.keeps() {
            return;
        }
        let (in_hand, waiting) = (self.batch.rows().next(), self.shared.queue.numbers());
        let first = in_hand.map(|(row, _)| row.first).or(waiting.map(|(first, _)| first));
        let last = waiting.map_or(self.batch.next.saturating_sub(1), |(_, last)| last);
        if let Some(first) = first {
            tracing::error!(sink = self.settings.name, first, last, "this sink lacks these events");
        }
    }
}
