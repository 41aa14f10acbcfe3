//! A sink's way through the spool.

use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::frame::{self, Found};
use super::{Spool, State};
use crate::block::Block;

/// A reader of the spool.
#[derive(Debug)]
pub(crate) struct Reader {
    spool: Arc<Spool>,
    /// The number of the next event that it wants.
    next: u64,
    open: Option<Open>,
}

/// The segment that it reads.
#[derive(Debug)]
struct Open {
    first: u64,
    file: File,
    at: u64,
}

/// The bytes that can be read now.
enum Ahead {
    /// In the open segment, up to this place.
    Bytes(u64),
    /// The next segment begins with this number.
    Segment(u64),
    /// None.
    Nothing,
}

impl Reader {
    /// A reader that begins with this number.
    pub(crate) fn new(spool: Arc<Spool>, next: u64) -> Reader {
        Reader { spool, next, open: None }
    }

    /// The spool.
    pub(crate) fn spool(&self) -> &Arc<Spool> {
        &self.spool
    }

    /// The next block, which may begin behind the wanted number: what lies between is lost. Waits so long for it.
    pub(crate) fn next_block(&mut self, wait: Duration) -> Option<Block> {
        let mut waited = wait.is_zero();
        loop {
            let before = signs(&self.spool.lock());
            match self.ahead() {
                Ahead::Bytes(end) => {
                    if let Some(block) = self.read(end) {
                        return Some(block);
                    }
                }
                Ahead::Segment(first) => self.enter(first),
                Ahead::Nothing if waited => return None,
                Ahead::Nothing => {
                    self.wait(wait, before);
                    waited = true;
                }
            }
        }
    }

    /// Whether it has read everything and nothing comes any more.
    pub(crate) fn is_over(&self) -> bool {
        self.spool.lock().closed && matches!(self.ahead(), Ahead::Nothing)
    }

    fn read(&mut self, end: u64) -> Option<Block> {
        let open = self.open.as_mut()?;
        match frame::read(&open.file, open.at, end) {
            Ok(Found::Block(block, behind)) => {
                open.at = behind;
                if block.last < self.next {
                    return None;
                }
                self.next = block.last.saturating_add(1);
                Some(block)
            }
            Ok(Found::Damage(behind)) => {
                self.damaged(&"its checksum differs", behind);
                None
            }
            Ok(Found::End) => {
                self.damaged(&"no whole block follows", end);
                None
            }
            Err(error) => {
                self.damaged(&error, end);
                None
            }
        }
    }

    fn damaged(&mut self, why: &dyn std::fmt::Display, behind: u64) {
        let Some(open) = &mut self.open else { return };
        self.spool.counts.damaged.fetch_add(1, Ordering::Relaxed);
        let (segment, from) = (self.spool.segment_path(open.first), open.at);
        tracing::error!(segment = %segment.display(), from, behind, %why, "the spool of events is damaged here");
        open.at = behind;
    }

    fn ahead(&self) -> Ahead {
        let state = self.spool.lock();
        let Some(open) = &self.open else { return begin(&state, self.next) };
        let segment = state.segments.iter().find(|segment| segment.first == open.first);
        // One that was removed stays readable as long as it is open.
        let end = match segment {
            Some(segment) => segment.bytes,
            None => open.file.metadata().map_or(open.at, |metadata| metadata.len()),
        };
        if open.at < end {
            return Ahead::Bytes(end);
        }
        if segment.is_some_and(|segment| !segment.sealed) {
            return Ahead::Nothing;
        }
        let next = state.segments.iter().find(|segment| segment.first > open.first && segment.bytes > 0);
        next.map_or(Ahead::Nothing, |segment| Ahead::Segment(segment.first))
    }

    fn enter(&mut self, first: u64) {
        match File::open(self.spool.segment_path(first)) {
            Ok(file) => self.open = Some(Open { first, file, at: 0 }),
            // It was removed just now: the list says which one is next.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::error!(%error, "a segment of the spool of events cannot be opened");
                std::thread::sleep(Duration::from_secs(1));
            }
        }
    }

    /// Waits until something has changed since then.
    fn wait(&self, wait: Duration, before: Signs) {
        let is_same = |state: &mut State| signs(state) == before;
        let waited = self.spool.changed.wait_timeout_while(self.spool.lock(), wait, is_same);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

/// The signs of a change: the end of what can be read, and what else readers have to look at.
type Signs = (Option<(u64, u64, bool)>, bool, u64);

fn signs(state: &State) -> Signs {
    let end = state.segments.back().map(|segment| (segment.first, segment.bytes, segment.sealed));
    (end, state.closed, state.wakes)
}

/// The segment to begin with: the one that may have this number, or the oldest one.
fn begin(state: &State, next: u64) -> Ahead {
    let behind = state.segments.partition_point(|segment| segment.first <= next);
    let segment = state.segments.iter().skip(behind.saturating_sub(1)).find(|segment| segment.bytes > 0);
    segment.map_or(Ahead::Nothing, |segment| Ahead::Segment(segment.first))
}
