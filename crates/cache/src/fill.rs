//! One fill for a question at a time: who comes while it is under way waits for it instead of asking the database the same.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// How many may wait for one fill; those beyond ask the database themselves.
pub(crate) const WAITERS_MAX: usize = 10_000;

/// A fill that is under way.
#[derive(Debug, Default)]
pub struct Filling {
    over: AtomicBool,
    waiters: Mutex<Vec<Waker>>,
}

impl Filling {
    /// Waits until the fill is over, whatever its outcome. The caller limits the time itself, and then looks again; `place` is
    /// the caller's for as long, and `None` at first.
    pub fn poll_over(&self, place: &mut Option<usize>, cx: &mut Context<'_>) -> Poll<()> {
        if self.over.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have ended before the lock was taken.
        if self.over.load(Ordering::SeqCst) {
            return Poll::Ready(());
        }
        let count = waiters.len();
        match place.and_then(|place| waiters.get_mut(place)) {
            Some(waiter) => waiter.clone_from(cx.waker()),
            None if count >= WAITERS_MAX => return Poll::Ready(()),
            None => {
                *place = Some(count);
                waiters.push(cx.waker().clone());
            }
        }
        Poll::Pending
    }

    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        let waiters = std::mem::take(&mut *self.waiters.lock().unwrap_or_else(PoisonError::into_inner));
        waiters.into_iter().for_each(Waker::wake);
    }
}

/// The right to fill, and the duty: while it lives others wait. It ends when it is dropped.
#[derive(Debug)]
pub struct Ticket {
    pub(crate) hash: u64,
    pub(crate) filling: Arc<Filling>,
    pub(crate) store: Arc<crate::Store>,
    /// How often something had been wiped before.
    pub(crate) wipes: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.store.end_fill(self.hash, &self.filling);
        self.filling.end();
    }
}
