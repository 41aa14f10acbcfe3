//! The lease of a cluster, as this process knows it: only its holder may change servers.

use std::time::{Duration, Instant};

/// How long after a refusal the lease is asked for again.
const LEASE_RETRY: Duration = Duration::from_millis(500);

/// Until when the lease is held, and when it was refused. Both can stand: a lease that could not be renewed holds until it ends.
#[derive(Default)]
pub(super) struct HeldLease {
    until: Option<Instant>,
    refused_at: Option<Instant>,
}

impl HeldLease {
    /// It is held until then; `None`: it is not held.
    pub(super) fn hold(&mut self, until: Option<Instant>) {
        self.until = until;
    }

    /// It could not be had: another instance has it, or too few servers are reached.
    pub(super) fn refuse(&mut self, now: Instant) {
        self.refused_at = Some(now);
    }

    /// Until when it is held.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// It is held for this long.
    pub(super) fn is_held_for(&self, now: Instant, needed: Duration) -> bool {
        self.until.is_some_and(|until| until >= now + needed)
    }

    /// It was refused a moment ago.
    pub(super) fn was_refused(&self, now: Instant) -> bool {
        self.refused_at.is_some_and(|at| now.saturating_duration_since(at) < LEASE_RETRY)
    }
}
