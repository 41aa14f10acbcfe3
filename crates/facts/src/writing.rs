//! The workers whose view lets them send writes to the primary.
//!
//! A worker takes a new view when it wakes. Until then its sessions still send by the view before, so that a switchover which
//! only looked at running statements would cut some that begin a moment later.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many workers may send writes to the primary by the view that they have.
#[derive(Debug, Default)]
pub struct WritingWorkers(AtomicUsize);

impl WritingWorkers {
    /// A worker may send writes from now on. It reads the view after this call: it sees a hold that was published before, or
    /// the publisher of the hold sees this worker.
    pub fn begin(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// A worker has a view that holds writes, or has left the cluster; all that its sessions run counts as running already.
    pub fn end(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}
