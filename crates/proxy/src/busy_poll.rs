//! Busy polling: a worker with something to do a moment ago looks for the next event instead of going to sleep, because
//! being woken takes the system longer than most statements do. It costs a core's time, so it is asked for.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// One worker's busy polling.
#[derive(Debug, Default)]
pub struct BusyPoll {
    /// How long a worker looks on after the last event; zero is off.
    limit: Cell<Duration>,
    /// Counts events.
    events: Cell<u64>,
    /// The waker of the task that polls, while it sleeps.
    sleeper: RefCell<Option<Waker>>,
}

impl BusyPoll {
    /// How long to look on after the last event; zero is off.
    pub fn set(&self, limit: Duration) {
        self.limit.set(limit);
    }

    /// Bytes came.
    #[inline]
    pub fn note(&self) {
        if self.limit.get().is_zero() {
            return;
        }
        self.events.set(self.events.get().wrapping_add(1));
        if let Some(sleeper) = self.sleeper.borrow_mut().take() {
            sleeper.wake();
        }
    }

    /// Keeps the worker's event loop from sleeping for as long as is set after each event. Never ends.
    pub async fn run(&self) {
        loop {
            let seen = self.events.get();
            poll_fn(|cx| {
                if self.events.get() != seen {
                    return Poll::Ready(());
                }
                *self.sleeper.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            })
            .await;
            let (mut seen, mut last) = (self.events.get(), Instant::now());
            loop {
                // The event loop looks for events, without waiting for them, before it comes back here.
                tokio::task::yield_now().await;
                let now = Instant::now();
                if self.events.get() != seen {
                    (seen, last) = (self.events.get(), now);
                } else if now.saturating_duration_since(last) >= self.limit.get() {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[tokio::test]
    async fn it_polls_while_events_come_and_sleeps_without() {
        let local = tokio::task::LocalSet::new();
        let poll = Rc::new(BusyPoll::default());
        poll.note();
        assert_eq!(poll.events.get(), 0, "it is off");
        poll.set(Duration::from_millis(1));
        let sleeps = |poll: &BusyPoll| poll.sleeper.borrow().is_some();
        local
            .run_until(async {
                let polling = poll.clone();
                tokio::task::spawn_local(async move { polling.run().await });
                while !sleeps(&poll) {
                    tokio::task::yield_now().await;
                }
                poll.note();
                assert!(!sleeps(&poll), "it was woken");
                let noted = Instant::now();
                while !sleeps(&poll) {
                    tokio::task::yield_now().await;
                }
                assert!(noted.elapsed() >= Duration::from_millis(1));
            })
            .await;
    }
}
