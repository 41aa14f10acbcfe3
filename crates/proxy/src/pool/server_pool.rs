//! The pool of one worker for one server.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;

use facts::view::ServerId;
use stats::ServerStats;

use super::queue::{Grant, Waiter};
use super::{Connection, ConnectionNeeds, Key, Origin, Quota};
use route::state::StateMap;

/// How many idle connections are looked at for one that needs no fix-up.
const LOOKED_AT_MAX: usize = 32;

/// The pool of one worker for one server.
#[derive(Debug)]
pub struct ServerPool {
    pub(super) id: ServerId,
    pub(super) name: Arc<str>,
    /// The worker whose pool it is.
    pub(super) worker: usize,
    pub(super) quota: Arc<Quota>,
    pub(super) stats: Arc<ServerStats>,
    #[allow(clippy::vec_box, reason = "connections go in and out with each statement and are large")]
    pub(super) idle: RefCell<Vec<Box<Connection>>>,
    pub(super) waiters: RefCell<VecDeque<Waiter>>,
    /// The key and state that a session wanted last: the warm minimum is kept for them.
    pub(super) last_wanted: RefCell<Option<ConnectionNeeds>>,
    pub(super) warming: Cell<bool>,
    /// The server left the configuration or must be emptied: nothing goes back into the pool.
    pub(super) closed: Cell<bool>,
}

impl ServerPool {
    /// One that has logged in after the session's client, if there is one; else it has to do so again.
    pub(super) fn take_idle(
        &self,
        key: &Key,
        login: u64,
        state: &StateMap,
        in_any_schema: bool,
    ) -> Option<Box<Connection>> {
        if self.has_waiters() {
            return None;
        }
        let place = self.find_idle(key, login, state, in_any_schema)?;
        self.stats.idle.add(-1);
        Some(self.idle.borrow_mut().remove(place))
    }

    /// Whether [`ServerPool::take_idle`] would give one.
    pub(super) fn has_idle(&self, key: &Key, login: u64, state: &StateMap, in_any_schema: bool) -> bool {
        !self.has_waiters() && self.find_idle(key, login, state, in_any_schema).is_some()
    }

    fn find_idle(&self, key: &Key, login: u64, state: &StateMap, in_any_schema: bool) -> Option<usize> {
        let idle = self.idle.borrow();
        let (mut fallback, mut outdated) = (None, None);
        for (index, connection) in idle.iter().enumerate().rev().take(LOOKED_AT_MAX) {
            if *connection.origin.key != *key {
                continue;
            }
            if connection.origin.logged_in < login {
                outdated.get_or_insert(index);
                continue;
            }
            if !connection.origin.fits(state, in_any_schema) {
                continue;
            }
            if connection.origin.state.fingerprint() == state.fingerprint() {
                fallback = Some(index);
                break;
            }
            fallback.get_or_insert(index);
        }
        fallback.or(outdated)
    }

    /// Closes the connection that was idle longest; its permit is the caller's now.
    pub(super) fn drop_oldest_idle(&self) -> bool {
        let mut idle = self.idle.borrow_mut();
        if idle.is_empty() {
            return false;
        }
        drop(idle.remove(0));
        self.stats.idle.add(-1);
        self.stats.closed.add_one();
        true
    }

    /// Whether somebody waits still: those whose time was over are out of the way afterwards.
    pub(super) fn has_waiters(&self) -> bool {
        let mut waiters = self.waiters.borrow_mut();
        let before = waiters.len();
        while waiters.front().is_some_and(|waiter| waiter.grant.is_closed()) {
            waiters.pop_front();
        }
        if waiters.len() != before {
            self.tell_oldest(&waiters);
        }
        !waiters.is_empty()
    }

    /// Takes a place in the queue, behind those that came before.
    pub(super) fn push_waiter(&self, waiter: Waiter) {
        let mut waiters = self.waiters.borrow_mut();
        let place = match waiters.back() {
            Some(last) if last.since > waiter.since => waiters.partition_point(|other| other.since <= waiter.since),
            _ => waiters.len(),
        };
        waiters.insert(place, waiter);
        if place == 0 {
            self.tell_oldest(&waiters);
        }
    }

    /// A connection becomes a pipeline: those that may share it wait no longer.
    pub(super) fn call_sharers(&self, origin: &Origin) {
        let mut waiters = self.waiters.borrow_mut();
        if waiters.is_empty() {
            return;
        }
        let (called, left): (VecDeque<Waiter>, _) =
            std::mem::take(&mut *waiters).into_iter().partition(|waiter| waiter.may_share(origin));
        *waiters = left;
        for waiter in called {
            // One that is gone is not called.
            let _ = waiter.grant.send(Grant::Pipeline { since: waiter.since });
        }
        self.tell_oldest(&waiters);
    }

    pub(super) fn pop_waiter(&self) -> Option<Waiter> {
        if !self.has_waiters() {
            return None;
        }
        let mut waiters = self.waiters.borrow_mut();
        let first = waiters.pop_front();
        while waiters.front().is_some_and(|waiter| waiter.grant.is_closed()) {
            waiters.pop_front();
        }
        self.tell_oldest(&waiters);
        first
    }

    /// The other workers may know who waits longest here.
    fn tell_oldest(&self, waiters: &VecDeque<Waiter>) {
        self.quota.set_oldest(self.worker, waiters.front().map(|waiter| waiter.since));
    }
}
