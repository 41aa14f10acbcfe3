//! Whether queries wait when events cannot be written as fast as they come, and how long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::block::micros_of;

/// The choice of the operator, as all threads of events read it.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// Microseconds; 0: events are lost instead.
    limit_us: AtomicU64,
}

impl Flow {
    /// Takes the limit of a wait; zero: nothing waits, and events are lost instead.
    pub(crate) fn set(&self, limit: Duration) {
        self.limit_us.store(micros_of(limit), Ordering::Relaxed);
    }

    /// The limit of a wait, if events are waited for.
    pub(crate) fn limit(&self) -> Option<Duration> {
        match self.limit_us.load(Ordering::Relaxed) {
            0 => None,
            limit_us => Some(Duration::from_micros(limit_us)),
        }
    }
}
