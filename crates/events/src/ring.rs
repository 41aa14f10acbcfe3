//! A worker's ring: events on their way to the thread that writes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use crate::event::Event;

/// Events that wait in one ring: about 4 MiB.
pub const WAITING_MAX: usize = 16_384;

/// The worker's end of its ring.
#[derive(Debug)]
pub struct Ring {
    sender: SyncSender<Box<Event>>,
    lost: Arc<AtomicU64>,
}

/// The writer's end.
#[derive(Debug)]
pub(crate) struct RingOut {
    receiver: Receiver<Box<Event>>,
    lost: Arc<AtomicU64>,
}

/// Makes a ring that holds at most so many events.
pub(crate) fn ring(waiting_max: usize) -> (Ring, RingOut) {
    let (sender, receiver) = sync_channel(waiting_max);
    let lost = Arc::new(AtomicU64::new(0));
    (Ring { sender, lost: lost.clone() }, RingOut { receiver, lost })
}

impl Ring {
    /// Hands over an event, without a wait. It is lost, and counted, if the ring is full.
    pub fn put(&self, event: Event) {
        match self.sender.try_send(Box::new(event)) {
            Ok(()) => {}
            // Behind the writer's end the process ends.
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl RingOut {
    /// The next event, if there is one.
    pub(crate) fn next(&self) -> Option<Event> {
        self.receiver.try_recv().ok().map(|event| *event)
    }

    /// Events that were lost since the last call.
    pub(crate) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}
