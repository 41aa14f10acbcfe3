//! The figures of a sink.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::batch::Batch;

/// The counts of a sink, which its thread writes and everybody reads.
#[derive(Debug, Default)]
pub(super) struct SinkCounts {
    written: AtomicU64,
    bytes: AtomicU64,
    failures: AtomicU64,
    dropped: AtomicU64,
    /// When the first event in hand was, in microseconds since 1970; 0 if there is none.
    in_hand_us: AtomicU64,
}

/// The figures of a sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SinkFigures {
    /// Its name.
    pub name: String,
    /// Lines that it has.
    pub written: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Writes that failed.
    pub failures: u64,
    /// Events that it lacks: they waited too long. Gaps say which ones.
    pub dropped: u64,
    /// The age of the oldest event that it does not have yet.
    pub behind: Duration,
}

impl SinkCounts {
    /// A batch has to be written.
    pub(super) fn in_hand(&self, batch: &Batch) {
        self.in_hand_us.store(if batch.is_empty() { 0 } else { batch.at_us.max(1) }, Ordering::Relaxed);
    }

    /// The batch is written.
    pub(super) fn wrote(&self, batch: &Batch, more_dropped: u64) {
        self.written.fetch_add(batch.len() as u64, Ordering::Relaxed);
        self.bytes.fetch_add(batch.lines().len() as u64, Ordering::Relaxed);
        self.dropped.fetch_add(batch.dropped.saturating_add(more_dropped), Ordering::Relaxed);
        self.in_hand_us.store(0, Ordering::Relaxed);
    }

    /// A write has failed.
    pub(super) fn failed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn figures(&self, name: &str, now_us: u64) -> SinkFigures {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let behind_us = match count(&self.in_hand_us) {
            0 => 0,
            at_us => now_us.saturating_sub(at_us),
        };
        SinkFigures {
            name: name.to_owned(),
            written: count(&self.written),
            bytes: count(&self.bytes),
            failures: count(&self.failures),
            dropped: count(&self.dropped),
            behind: Duration::from_micros(behind_us),
        }
    }
}
