//! A worker's ring: events on their way to the thread that writes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::event::Event;

/// Events that wait in one ring: about 4 MiB.
pub const WAITING_MAX: usize = 16_384;
/// Bytes of their texts, which are not shared with anybody.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// The worker's end of its ring.
#[derive(Debug)]
pub struct Ring {
    sender: SyncSender<Box<Event>>,
    lost: Arc<AtomicU64>,
    text_bytes: Arc<AtomicUsize>,
}

/// The writer's end.
#[derive(Debug)]
pub(crate) struct RingOut {
    receiver: Receiver<Box<Event>>,
    lost: Arc<AtomicU64>,
    text_bytes: Arc<AtomicUsize>,
}

/// Makes a ring that holds at most so many events.
pub(crate) fn ring(waiting_max: usize) -> (Ring, RingOut) {
    let (sender, receiver) = sync_channel(waiting_max);
    let (lost, text_bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
    let ring = Ring { sender, lost: lost.clone(), text_bytes: text_bytes.clone() };
    (ring, RingOut { receiver, lost, text_bytes })
}

impl Ring {
    /// Hands over an event, without a wait. It is lost, and counted, if the ring is full.
    pub fn put(&self, event: Event) {
        let text_bytes = event.text_bytes();
        // Only the worker adds to it, so it may be looked at first; events of others have no texts.
        let fits = text_bytes == 0 || self.text_bytes.load(Ordering::Relaxed) + text_bytes <= WAITING_BYTES_MAX;
        // Ahead of the event, which the other end takes off again.
        self.text_bytes.fetch_add(if fits { text_bytes } else { 0 }, Ordering::Relaxed);
        if !fits {
            self.lost.fetch_add(1, Ordering::Relaxed);
        } else if self.sender.try_send(Box::new(event)).is_err() {
            // It is full; or the writer has ended, as the process does.
            self.text_bytes.fetch_sub(text_bytes, Ordering::Relaxed);
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl RingOut {
    /// The next event, if there is one.
    pub(crate) fn next(&self) -> Option<Event> {
        let event = self.receiver.try_recv().ok()?;
        self.text_bytes.fetch_sub(event.text_bytes(), Ordering::Relaxed);
        Some(*event)
    }

    /// Events that were lost since the last call.
    pub(crate) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}
