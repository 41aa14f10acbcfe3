//! Clients that end before they have logged in: they left, were refused, or took too long.
//!
//! To forget a client costs many times what it takes to hear of its end. Clients that leave by the thousand at once would stand before
//! the statements of sessions. So a worker forgets a few of them, then does what its sessions have ready, and goes on with the next
//! ones, as it does with [newcomers](crate::newcomers).

use std::cell::RefCell;
use std::collections::VecDeque;

use tokio::sync::{Notify, oneshot};

/// Clients that a worker forgets before its sessions have their turn; the event loop does 61 pieces of work in a turn.
const FORGOTTEN_AT_ONCE: usize = 16;

/// The clients of one worker that wait to be forgotten. The memory for logins, which they still have, bounds their number.
#[derive(Debug, Default)]
pub struct Leavers {
    waiting: RefCell<VecDeque<oneshot::Sender<()>>>,
    came: Notify,
}

impl Leavers {
    /// Waits for the turn of a client that has just ended.
    pub async fn turn(&self) {
        let (go, turn) = oneshot::channel();
        self.waiting.borrow_mut().push_back(go);
        self.came.notify_one();
        // No sender goes without its word while the worker runs.
        let _ = turn.await;
    }

    /// Gives the turns, in the order in which the clients have ended. Never ends.
    pub async fn run(&self) {
        loop {
            self.came.notified().await;
            while !self.waiting.borrow().is_empty() {
                // The event loop looks for events, and does what is ready, before it comes back here.
                tokio::task::yield_now().await;
                self.next().into_iter().for_each(|go| {
                    // The task of a client may have been dropped.
                    let _ = go.send(());
                });
            }
        }
    }

    fn next(&self) -> Vec<oneshot::Sender<()>> {
        let mut waiting = self.waiting.borrow_mut();
        let some = waiting.len().min(FORGOTTEN_AT_ONCE);
        waiting.drain(..some).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use tokio::task::{LocalSet, spawn_local, yield_now};

    use super::*;

    #[tokio::test]
    async fn a_crowd_leaves_others_their_turns() {
        const CROWD: usize = 100;
        LocalSet::new()
            .run_until(async {
                let leavers = Rc::new(Leavers::default());
                let forgotten = Rc::new(Cell::new(0));
                spawn_local({
                    let leavers = leavers.clone();
                    async move { leavers.run().await }
                });
                for _ in 0..CROWD {
                    let (leavers, forgotten) = (leavers.clone(), forgotten.clone());
                    spawn_local(async move {
                        leavers.turn().await;
                        forgotten.set(forgotten.get() + 1);
                    });
                }
                let mut turns = 0;
                while forgotten.get() < CROWD {
                    let before = forgotten.get();
                    yield_now().await;
                    assert!(forgotten.get() <= before + FORGOTTEN_AT_ONCE, "{before}, then {}", forgotten.get());
                    turns += 1;
                    assert!(turns < 10 * CROWD, "only {} of {CROWD} had their turns", forgotten.get());
                }
                // Those that come when nobody waits have theirs as well.
                leavers.turn().await;
            })
            .await;
    }
}
