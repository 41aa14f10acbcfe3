//! The thread that appends to the spool.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use super::{Segment, Spool, State, frame, sync_folder};
use crate::block::{Block, micros};
use crate::queue::Item;

/// Bytes of a segment, unless the whole spool is small.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// The spool has at least so many segments when it is full.
const SEGMENTS_MIN: u32 = 8;
/// How often the disk is asked to keep what was written; sinks get it then.
const SYNC: Duration = Duration::from_millis(100);
/// How often old segments are looked for.
const UPKEEP: Duration = Duration::from_secs(1);
/// Steps of a wait for a sink.
const HELD_STEP: Duration = Duration::from_millis(5);
/// How long nothing is tried again after a write has failed.
const RETRY: Duration = Duration::from_secs(1);

/// The state of the thread.
pub(super) struct Appender {
    spool: Arc<Spool>,
    /// The number of the next event.
    next: u64,
    open: Option<Open>,
    frame: Vec<u8>,
    /// The first number of the block in that frame.
    framed: Option<u64>,
    /// Since when the spool is full of events that a sink lacks, and waits for it.
    held_since: Option<Instant>,
    /// That wait was in vain: there is none until the sink goes on.
    given_up: bool,
    failing: bool,
    upkeep_at: Instant,
}

/// The newest segment.
struct Open {
    file: File,
    segment: Segment,
    begun: Instant,
    /// When the disk has to be asked to keep the last bytes.
    sync_at: Option<Instant>,
}

impl Appender {
    pub(super) fn new(spool: Arc<Spool>, next: u64) -> Appender {
        let upkeep_at = Instant::now();
        let (frame, framed, held_since) = (Vec::new(), None, None);
        Appender { spool, next, open: None, frame, framed, held_since, given_up: false, failing: false, upkeep_at }
    }

    pub(super) fn run(mut self) {
        let mut pending: Option<Arc<Block>> = None;
        loop {
            if pending.is_none() {
                pending = self.take();
            }
            let appended = pending.as_ref().map_or(Ok(true), |block| self.append(block));
            let appended = appended.map(|is_appended| match is_appended {
                true => pending = None,
                false => std::thread::sleep(HELD_STEP),
            });
            let is_over = pending.is_none() && self.spool.queue.is_over();
            match appended.and_then(|()| self.sync_if_due(is_over)) {
                Ok(()) if is_over => return,
                Ok(()) => self.recovered(),
                Err(error) => {
                    self.failed(&error);
                    if self.spool.queue.is_closed() {
                        let first = pending.map_or(self.next, |block| block.first);
                        return tracing::error!(first, "the spool lacks the events from this number on");
                    }
                    std::thread::sleep(RETRY);
                }
            }
            self.upkeep();
        }
    }

    /// The next block, or none within the time in which something else has to be done.
    fn take(&mut self) -> Option<Arc<Block>> {
        let sync_at = self.open.as_ref().and_then(|open| open.sync_at);
        let until = sync_at.unwrap_or(self.upkeep_at).min(self.upkeep_at);
        let wait = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match self.spool.queue.pop(wait)? {
            Item::Block(block) => Some(block),
            // Readers see by the numbers that they lack these.
            Item::Gap { first, last } => {
                self.spool.counts.lost.fetch_add((last - first).saturating_add(1), Ordering::Relaxed);
                None
            }
        }
    }

    /// Appends a block. False if it has to wait for a sink.
    fn append(&mut self, block: &Block) -> io::Result<bool> {
        if self.framed != Some(block.first) {
            self.framed = None;
            self.frame.clear();
            frame::encode(block, &mut self.frame)?;
            self.framed = Some(block.first);
        }
        let frame = std::mem::take(&mut self.frame);
        let appended = match self.is_held(frame.len() as u64) {
            true => Ok(false),
            false => self.append_frame(block, &frame).map(|()| true),
        };
        self.frame = frame;
        appended
    }

    fn append_frame(&mut self, block: &Block, frame: &[u8]) -> io::Result<()> {
        self.make_room(frame.len() as u64);
        let open = self.current(block.first)?;
        if let Err(error) = open.file.write_all(frame) {
            let is_whole = open.file.set_len(open.segment.bytes).is_ok();
            if !is_whole {
                // Half a block stays: nothing is appended to it.
                self.sync(true)?;
                self.open = None;
            }
            return Err(error);
        }
        open.segment.bytes += frame.len() as u64;
        (open.segment.last, open.segment.at_us) = (block.last, block.at_us);
        open.sync_at.get_or_insert_with(|| Instant::now() + SYNC);
        self.next = block.last.saturating_add(1);
        Ok(())
    }

    /// The segment for a block that begins with this number.
    fn current(&mut self, first: u64) -> io::Result<&mut Open> {
        self.seal_full()?;
        if self.open.is_none() {
            let path = self.spool.segment_path(first);
            // A write that failed may have left it there.
            let file = OpenOptions::new().create(true).append(true).mode(0o640).open(path)?;
            file.set_len(0)?;
            sync_folder(&self.spool.settings.path)?;
            let segment = Segment { first, last: first, bytes: 0, at_us: micros(SystemTime::now()), sealed: false };
            let mut state = self.spool.lock();
            state.segments.retain(|other| other.first != first);
            state.segments.push_back(segment.clone());
            self.open = Some(Open { file, segment, begun: Instant::now(), sync_at: None });
        }
        self.open.as_mut().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Ends the newest segment if it is large or old enough.
    fn seal_full(&mut self) -> io::Result<()> {
        let bytes_max = SEGMENT_BYTES_MAX.min(self.spool.settings.bytes_max / u64::from(SEGMENTS_MIN));
        let age_max = self.spool.settings.age_max / SEGMENTS_MIN;
        let is_old = |open: &Open| !age_max.is_zero() && open.begun.elapsed() >= age_max;
        if self.open.as_ref().is_some_and(|open| open.segment.bytes >= bytes_max || is_old(open)) {
            self.sync(true)?;
            self.open = None;
        }
        Ok(())
    }

    fn sync_if_due(&mut self, at_once: bool) -> io::Result<()> {
        let sync_at = self.open.as_ref().and_then(|open| open.sync_at);
        if sync_at.is_some_and(|at| at_once || Instant::now() >= at) { self.sync(false) } else { Ok(()) }
    }

    /// Has the disk keep what was written, and lets readers have it.
    fn sync(&mut self, seal: bool) -> io::Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        if open.sync_at.is_some() {
            open.file.sync_data()?;
            open.sync_at = None;
        }
        open.segment.sealed = seal;
        let mut state = self.spool.lock();
        if let Some(segment) = state.segments.iter_mut().find(|segment| segment.first == open.segment.first) {
            *segment = open.segment.clone();
        }
        self.spool.count_bytes(&state);
        drop(state);
        self.spool.changed.notify_all();
        Ok(())
    }

    /// Removes the oldest segments until so many bytes fit.
    fn make_room(&mut self, bytes: u64) {
        while let Some((oldest, _)) = self.in_the_way(bytes) {
            self.remove(&oldest, "the spool of events is full");
        }
    }

    /// The oldest segment, if it has to go for so many bytes, and whether a sink lacks some of it.
    fn in_the_way(&self, bytes: u64) -> Option<(Segment, bool)> {
        let state = self.spool.lock();
        let own = self.open.as_ref().map_or(0, |open| open.segment.bytes);
        let others: u64 = state.segments.iter().filter(|segment| segment.sealed).map(|segment| segment.bytes).sum();
        let oldest = state.segments.front().filter(|segment| segment.sealed)?;
        let is_full = own + others + bytes > self.spool.settings.bytes_max;
        is_full.then(|| (oldest.clone(), reached(&state) <= oldest.last))
    }

    /// Whether so many bytes have to wait until a sink has what is in the way, because the operator wants that.
    fn is_held(&mut self, bytes: u64) -> bool {
        let is_unread = self.in_the_way(bytes).is_some_and(|(_, is_unread)| is_unread);
        let Some(limit) = self.spool.flow.limit().filter(|_| is_unread) else {
            (self.held_since, self.given_up) = (None, false);
            return false;
        };
        if self.given_up || self.spool.queue.is_closed() {
            return false;
        }
        let is_held = self.held_since.get_or_insert_with(Instant::now).elapsed() < limit;
        if !is_held {
            let waited_ms = limit.as_millis();
            tracing::error!(
                waited_ms,
                "queries have waited in vain for a sink, and the spool of events is full (events.when_full): the oldest \
                 events go"
            );
            self.given_up = true;
        }
        is_held
    }

    /// The work of each second: segments that every sink has, or that are too old, go.
    fn upkeep(&mut self) {
        if Instant::now() < self.upkeep_at {
            return;
        }
        self.upkeep_at = Instant::now() + UPKEEP;
        if let Err(error) = self.seal_full() {
            self.failed(&error);
        }
        let age_max = self.spool.settings.age_max;
        let oldest_us =
            micros(SystemTime::now()).saturating_sub(u64::try_from(age_max.as_micros()).unwrap_or(u64::MAX));
        let is_old = |segment: &Segment| !age_max.is_zero() && segment.at_us < oldest_us;
        loop {
            let state = self.spool.lock();
            let oldest = state.segments.front().filter(|segment| segment.sealed);
            let oldest = oldest.filter(|segment| segment.last < reached(&state) || is_old(segment)).cloned();
            drop(state);
            let Some(oldest) = oldest else { return };
            self.remove(&oldest, "events of the spool are too old");
        }
    }

    fn remove(&mut self, segment: &Segment, why: &str) {
        let mut state = self.spool.lock();
        state.segments.retain(|other| other.first != segment.first);
        let unread_from = reached(&state).max(segment.first);
        self.spool.count_bytes(&state);
        drop(state);
        if unread_from <= segment.last {
            let unread = segment.last - unread_from + 1;
            self.spool.counts.removed_unread.fetch_add(unread, Ordering::Relaxed);
            tracing::error!(first = unread_from, last = segment.last, "{why}: events go that a sink does not have");
        }
        if let Err(error) = std::fs::remove_file(self.spool.segment_path(segment.first)) {
            tracing::error!(first = segment.first, %error, "a segment of the spool of events was not removed");
        }
    }

    fn failed(&mut self, error: &io::Error) {
        self.spool.counts.failures.fetch_add(1, Ordering::Relaxed);
        if !std::mem::replace(&mut self.failing, true) {
            let folder = self.spool.settings.path.display();
            tracing::error!(%folder, %error, "the spool of events cannot be written; events wait");
        }
    }

    fn recovered(&mut self) {
        if std::mem::take(&mut self.failing) {
            tracing::info!("the spool of events is written again");
        }
    }
}

/// The first number that a sink does not have. Without a sink nothing is kept.
fn reached(state: &State) -> u64 {
    state.reached.values().copied().min().unwrap_or(u64::MAX)
}
