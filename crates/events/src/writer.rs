//! The thread that empties the rings: it numbers events and hands their lines to the sinks and to those who look on.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use crate::block::{BLOCK_BYTES, Block, Class, Lines};
use crate::event::{AnsweredBy, Body, Event};
use crate::flow::Flow;
use crate::join::ends_within;
use crate::line::{self, Timestamps};
use crate::recent::Recent;
use crate::redaction::{Hasher, HmacKey, Shows};
use crate::ring::{Ring, RingOut, WAITING_MAX, ring};
use crate::sinks::{SinkFigures, SinkSettings, Sinks, next_in_files};
use crate::spool::{Spool, SpoolFigures, SpoolSettings};

/// Most events of a ring in one round, so that a busy ring does not keep the others waiting.
const ROUND_MAX: usize = 1_024;
/// How long the thread sleeps when the rings are empty, and after a second without an event.
const NAP: Duration = Duration::from_millis(20);
const SLEEP: Duration = Duration::from_millis(200);
/// How long the end of the process waits for the thread.
const STOP_MAX: Duration = Duration::from_secs(5);
/// Steps of a wait for a sink that has no room.
const ROOM_STEP: Duration = Duration::from_millis(5);
/// How often settings of a reload are looked for.
const UPKEEP: Duration = Duration::from_secs(1);

/// The settings of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The name of this process in all lines; empty is the machine's name.
    pub node: String,
    /// The sinks; without one, lines are only for those who look on.
    pub sinks: Vec<SinkSettings>,
    /// The spool; without one, events wait for sinks in memory. A reload does not change it.
    pub spool: Option<SpoolSettings>,
    /// The key of hashed literals. Without it a sink that wants them has forms.
    pub hmac_key: Option<HmacKey>,
    /// How long each stage, and a query, waits for room for events; zero: nothing waits, and events are lost instead.
    pub wait_max: Duration,
}

/// Why events did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A sink cannot be opened.
    #[error("events.{name}: {target}: {error}")]
    Sink {
        /// Its name.
        name: String,
        /// Its target, in words.
        target: String,
        /// The system's reason.
        error: std::io::Error,
    },
    /// The spool cannot be opened.
    #[error("events.spool.path: cannot open {path}: {error}", path = path.display())]
    Spool {
        /// Its folder.
        path: PathBuf,
        /// The reason.
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
    admin: AtomicU64,
    lost: AtomicU64,
}

/// Events of the process.
#[derive(Debug)]
pub struct Events {
    recent: Recent,
    counts: Counts,
    flow: Arc<Flow>,
    /// The way of events that no worker makes.
    others: Ring,
    spool: Option<Arc<Spool>>,
    sinks: Sinks,
    /// Settings of a reload that the thread has not taken yet.
    reloaded: Mutex<Option<Settings>>,
    stopping: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Events {
    /// Starts the thread and those of the sinks; gives a ring for each worker.
    ///
    /// # Errors
    /// A sink cannot be opened, or there is no thread.
    pub fn start(settings: Settings, workers: usize) -> Result<(Arc<Events>, Vec<Ring>), StartError> {
        let flow = Arc::new(Flow::default());
        flow.set(settings.wait_max);
        let (rings, mut outs): (Vec<_>, Vec<_>) = (0..workers).map(|_| ring(WAITING_MAX, flow.clone())).unzip();
        let (others, out) = ring(WAITING_MAX, flow.clone());
        outs.push(out);
        let (spool, next) = open_spool(&settings, &flow, next_in_files(&settings.sinks))?;
        let node = node(&settings);
        let sinks = Sinks::start(&settings.sinks, &node, next, spool.clone()).map_err(|(name, error)| {
            let sink = settings.sinks.iter().find(|sink| sink.name == name);
            StartError::Sink { target: sink.map(SinkSettings::words).unwrap_or_default(), name, error }
        })?;
        let events = Arc::new(Events {
            recent: Recent::default(),
            counts: Counts::default(),
            flow,
            others,
            spool,
            sinks,
            reloaded: Mutex::default(),
            stopping: AtomicBool::new(false),
            thread: Mutex::default(),
        });
        let mut writer = Writer::new(events.clone(), outs, node, next);
        writer.hasher = settings.hmac_key.as_ref().map(Hasher::new);
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

    /// Hands over an event that no worker makes, without a wait. It is lost, and counted, if too many wait.
    pub fn put(&self, event: Event) {
        self.others.put(event);
    }

    /// Takes other settings; a sink that cannot be opened is told in the log, and its target of before goes on.
    pub fn reload(&self, settings: Settings) {
        *self.reloaded.lock().unwrap_or_else(PoisonError::into_inner) = Some(settings);
        self.wake();
    }

    /// Writes what the rings still hold, and ends the threads. No worker may hold a ring any more. A sink that hangs does not
    /// keep the process.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.wake();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A reload may have it wait for a disk.
        if thread.is_some_and(|thread| !ends_within(thread, STOP_MAX, "events")) {
            tracing::error!("the thread of events did not end in time; the last events are lost");
        }
        self.sinks.stop();
    }

    /// Events of queries.
    pub fn queries(&self) -> u64 {
        self.counts.queries.load(Ordering::Relaxed)
    }

    /// Events of logins and their ends.
    pub fn logins(&self) -> u64 {
        self.counts.logins.load(Ordering::Relaxed)
    }

    /// Events of operators' orders.
    pub fn admin(&self) -> u64 {
        self.counts.admin.load(Ordering::Relaxed)
    }

    /// Events that were lost because a ring was full.
    pub fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
    }

    /// Has the files of events get other names now, and be made anew where another program has moved them.
    pub fn rotate(&self) {
        self.sinks.rotate();
    }

    /// The figures of each sink.
    pub fn sinks(&self) -> Vec<SinkFigures> {
        self.sinks.figures()
    }

    /// The figures of the spool, if there is one.
    pub fn spool(&self) -> Option<SpoolFigures> {
        self.spool.as_ref().map(|spool| spool.figures())
    }

    fn wake(&self) {
        if let Some(thread) = &*self.thread.lock().unwrap_or_else(PoisonError::into_inner) {
            thread.thread().unpark();
        }
    }
}

/// Opens the spool, if there is one, and finds the number of the next event: no sink, and no spool, has it or one behind it.
fn open_spool(settings: &Settings, flow: &Arc<Flow>, in_files: u64) -> Result<(Option<Arc<Spool>>, u64), StartError> {
    let Some(spool) = &settings.spool else { return Ok((None, in_files)) };
    let open = || {
        let (opened, next) = Spool::open(spool, flow.clone())?;
        let names: Vec<&str> = settings.sinks.iter().map(|sink| &*sink.name).collect();
        opened.forget_others(&names)?;
        let cursors = names.iter().map(|name| Ok(opened.cursor(name)?.next())).collect::<std::io::Result<Vec<_>>>()?;
        let next = cursors.iter().flatten().copied().max().unwrap_or(1).max(next).max(in_files);
        // Before the thread starts, which removes what every sink has.
        names.iter().zip(&cursors).for_each(|(name, cursor)| opened.keep_for(name, cursor.unwrap_or(next)));
        let opened = Arc::new(opened);
        opened.start(next)?;
        Ok((Some(opened), next))
    };
    open().map_err(|error| StartError::Spool { path: spool.path.clone(), error })
}

/// The name of the process in its lines.
fn node(settings: &Settings) -> String {
    node_name(&settings.node)
}

/// The name that the operator chose, or that of the machine.
pub(crate) fn node_name(chosen: &str) -> String {
    if !chosen.is_empty() {
        return chosen.to_owned();
    }
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The state of the thread.
struct Writer {
    events: Arc<Events>,
    rings: Vec<RingOut>,
    node: String,
    /// The lines that are not handed over yet. Its last number is that of the last event.
    block: Block,
    /// The same for those who look on: never with texts.
    forms: Vec<u8>,
    /// The lines of one event.
    form: Vec<u8>,
    hashed: Vec<u8>,
    text: Vec<u8>,
    hasher: Option<Hasher>,
    times: Timestamps,
}

impl Writer {
    fn new(events: Arc<Events>, rings: Vec<RingOut>, node: String, next: u64) -> Writer {
        let block = Block::begin(next, SystemTime::now());
        Writer {
            events,
            rings,
            node,
            block,
            forms: Vec::new(),
            form: Vec::new(),
            hashed: Vec::new(),
            text: Vec::new(),
            hasher: None,
            times: Timestamps::default(),
        }
    }

    fn run(mut self) {
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
                self.take_settings();
            }
            if taken > 0 {
                last_event = now;
            } else if stopping {
                return;
            } else {
                let idle = now.saturating_duration_since(last_event) > Duration::from_secs(1);
                std::thread::park_timeout(if idle { SLEEP } else { NAP });
            }
        }
    }

    /// Takes events out of each ring. Gives how many.
    fn round(&mut self) -> usize {
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

    fn next(&self) -> u64 {
        self.block.last + 1
    }

    fn put(&mut self, event: &Event) {
        let counts = &self.events.counts;
        let count = match event.body {
            Body::Query(_) => &counts.queries,
            Body::Login(_) | Body::ChangeUser(_) | Body::Logout(_) | Body::TurnedAway(_) => &counts.logins,
            Body::Admin(_) => &counts.admin,
        };
        count.fetch_add(1, Ordering::Relaxed);
        let seq = self.next();
        self.clear();
        event.line(seq, &self.node, Shows::Form, &mut self.times, &mut self.form);
        if matches!(event.body, Body::Query(_)) {
            let hasher = self.hasher.as_ref().filter(|_| self.events.sinks.shows_hashes());
            if let Some(hasher) = hasher {
                event.line(seq, &self.node, Shows::Hashed(hasher), &mut self.times, &mut self.hashed);
            }
            if self.events.sinks.shows_texts() {
                event.line(seq, &self.node, Shows::Text, &mut self.times, &mut self.text);
            }
        }
        self.put_lines(seq, class(event));
    }

    /// Forgets the lines of the last event.
    fn clear(&mut self) {
        [&mut self.form, &mut self.hashed, &mut self.text].into_iter().for_each(Vec::clear);
    }

    fn put_gap(&mut self, lost: u64) {
        self.events.counts.lost.fetch_add(lost, Ordering::Relaxed);
        let seq = self.next();
        self.clear();
        line::gap(seq, lost, &self.node, SystemTime::now(), &mut self.form);
        self.put_lines(seq.saturating_add(lost - 1), Class::default());
    }

    fn put_start(&mut self) {
        line::start(self.next(), &self.node, SystemTime::now(), &mut self.form);
        self.put_lines(self.next(), Class::default());
        self.hand_over();
    }

    /// Adds the lines of an event, which uses the numbers up to `last`.
    fn put_lines(&mut self, last: u64, class: Class) {
        let lines = Lines { form: &self.form, hashed: &self.hashed, text: &self.text };
        self.block.put(last, class, lines);
        self.forms.extend_from_slice(&self.form);
        if self.block.bytes().len() >= BLOCK_BYTES {
            self.hand_over();
        }
    }

    /// Gives the lines to the sinks and to those who look on.
    fn hand_over(&mut self) {
        let next = Block::begin(self.next(), SystemTime::now());
        let block = std::mem::replace(&mut self.block, next);
        if block.is_empty() {
            return;
        }
        self.events.recent.keep(block.first, block.last, &self.forms);
        self.forms.clear();
        self.wait_for_room(block.bytes().len());
        self.events.sinks.push(&Arc::new(block));
    }

    /// Waits until all sinks have room for so many bytes, if the operator wants that. Meanwhile the rings become full, and
    /// workers wait for them.
    fn wait_for_room(&mut self, bytes: usize) {
        let begun = Instant::now();
        while let Some(limit) = self.events.flow.limit() {
            let Some(sink) = self.events.sinks.crowded(bytes) else { return };
            if self.events.stopping.load(Ordering::SeqCst) {
                return;
            }
            if begun.elapsed() >= limit {
                let waited_ms = limit.as_millis();
                tracing::error!(
                    sink,
                    waited_ms,
                    "queries have waited in vain for this sink of events (events.when_full); from now on it lacks events"
                );
                return self.events.sinks.give_up(bytes);
            }
            std::thread::park_timeout(ROOM_STEP);
            self.take_settings();
        }
    }

    fn take_settings(&mut self) {
        let reloaded = self.events.reloaded.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(settings) = reloaded {
            self.node = node(&settings);
            self.events.flow.set(settings.wait_max);
            self.hasher = settings.hmac_key.as_ref().map(Hasher::new);
            self.events.sinks.reload(&settings.sinks, &self.node, self.next());
        }
    }
}

/// The properties that sinks choose by.
fn class(event: &Event) -> Class {
    let Body::Query(query) = &event.body else { return Class::default() };
    let failed = query.error.is_some() || matches!(query.answered_by, AnsweredBy::Lost);
    let traced = query.trace.as_ref().is_some_and(|trace| trace.spans);
    let class = Class::QUERY.with(Class::FAILED, failed).with(Class::WRITES, query.writes);
    class.with(Class::SLOW, query.slow).with(Class::TRACED, traced)
}

#[cfg(test)]
mod tests;
