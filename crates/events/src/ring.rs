//! A worker's ring: events on their way to the thread that writes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use crate::event::Event;
use crate::flow::Flow;

/// Events that wait in one ring: about 4 MiB.
pub const WAITING_MAX: usize = 16_384;
/// Bytes of their texts, which are not shared with anybody.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// The same where queries wait for room: those that run already may still add theirs.
const HELD_BYTES_MAX: usize = 64 << 20;
/// A ring is crowded if this part of it is full. The rest is for queries that run already.
const CROWDED_PART: usize = 2;

/// The worker's end of its ring.
#[derive(Debug)]
pub struct Ring {
    sender: SyncSender<Box<Event>>,
    shared: Arc<RingShared>,
    flow: Arc<Flow>,
    crowded_at: usize,
}

/// The counts that both ends have.
#[derive(Debug, Default)]
struct RingShared {
    lost: AtomicU64,
    waiting: AtomicUsize,
    text_bytes: AtomicUsize,
}

/// The writer's end.
#[derive(Debug)]
pub(crate) struct RingOut {
    receiver: Receiver<Box<Event>>,
    shared: Arc<RingShared>,
}

/// Makes a ring that holds at most so many events.
pub(crate) fn ring(waiting_max: usize, flow: Arc<Flow>) -> (Ring, RingOut) {
    let (sender, receiver) = sync_channel(waiting_max);
    let shared = Arc::new(RingShared::default());
    let ring = Ring { sender, shared: shared.clone(), flow, crowded_at: waiting_max / CROWDED_PART };
    (ring, RingOut { receiver, shared })
}

impl Ring {
    /// Hands over an event, without a wait. It is lost, and counted, if the ring is full.
    pub fn put(&self, event: Event) {
        let RingShared { lost, waiting, text_bytes: all_bytes } = &*self.shared;
        let text_bytes = event.text_bytes();
        // Only the worker adds to it, so it may be looked at first; events of others have no texts.
        let fits = text_bytes == 0 || all_bytes.load(Ordering::Relaxed) + text_bytes <= self.bytes_max();
        if !fits {
            lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // Ahead of the event, which the other end takes off again.
        waiting.fetch_add(1, Ordering::Relaxed);
        all_bytes.fetch_add(text_bytes, Ordering::Relaxed);
        if self.sender.try_send(Box::new(event)).is_err() {
            // It is full; or the writer has ended, as the process does.
            waiting.fetch_sub(1, Ordering::Relaxed);
            all_bytes.fetch_sub(text_bytes, Ordering::Relaxed);
            lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The limit of a wait for room, if the operator wants queries to wait and the ring is full enough for that.
    pub fn is_crowded(&self) -> Option<Duration> {
        let limit = self.flow.limit()?;
        let RingShared { waiting, text_bytes, .. } = &*self.shared;
        let is_crowded = waiting.load(Ordering::Relaxed) >= self.crowded_at
            || text_bytes.load(Ordering::Relaxed) >= WAITING_BYTES_MAX / CROWDED_PART;
        is_crowded.then_some(limit)
    }

    fn bytes_max(&self) -> usize {
        if self.flow.limit().is_some() { HELD_BYTES_MAX } else { WAITING_BYTES_MAX }
    }
}

impl RingOut {
    /// The next event, if there is one.
    pub(crate) fn next(&self) -> Option<Event> {
        let event = self.receiver.try_recv().ok()?;
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        self.shared.text_bytes.fetch_sub(event.text_bytes(), Ordering::Relaxed);
        Some(*event)
    }

    /// Events that were lost since the last call.
    pub(crate) fn take_lost(&self) -> u64 {
        self.shared.lost.swap(0, Ordering::Relaxed)
    }
}
