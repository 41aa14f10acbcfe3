//! A named lock on more than half of all servers.
//!
//! Each lock belongs to a connection of its own. A server gives it to somebody else only when that connection has ended, and it
//! ends a connection that was silent for the lease's time. So a lock that was confirmed at some moment is held until that
//! moment plus this time, and the lease until the latest moment at which more than half of the locks are held.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::query::{Client, Limits};

use super::{Core, Words};
use crate::monitor::link::ServerAccess;
use crate::task::{Owned, own};

/// Names of locks have at most 64 characters on MySQL.
const NAME_MAX: usize = 64;

/// The state of one server's lock.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Lock {
    /// No request was made yet.
    Unknown,
    /// Held until then, unless confirmed again.
    Held(Instant),
    /// Another connection holds it.
    Elsewhere,
    /// It could not be asked for, in words.
    Failed(String),
}

/// The state that all tasks of a lease share.
pub(super) struct State {
    core: Rc<Core>,
    locks: Vec<(Arc<str>, RefCell<Lock>)>,
    interval: Duration,
}

/// Tries for the locks of all these servers.
pub(super) fn start(
    cluster: &str,
    servers: Vec<(Arc<str>, ServerAccess)>,
    interval: Duration,
    core: Rc<Core>,
) -> (Rc<State>, Vec<Owned>) {
    let locks = servers.iter().map(|(name, _)| (name.clone(), RefCell::new(Lock::Unknown))).collect();
    let state = Rc::new(State { core, locks, interval });
    let name: String = format!("sqluice:{cluster}").chars().take(NAME_MAX).collect();
    let task = |(index, (_, access)): (usize, (Arc<str>, ServerAccess))| {
        let holder = Holder { index, access, name: name.clone(), state: state.clone() };
        own(holder.run())
    };
    let tasks = servers.into_iter().enumerate().map(task).collect();
    (state, tasks)
}

impl State {
    fn set(&self, index: usize, lock: Lock) {
        match &lock {
            Lock::Held(_) => self.core.count(|counts| &mut counts.held),
            Lock::Elsewhere => self.core.count(|counts| &mut counts.elsewhere),
            Lock::Failed(_) => self.core.count(|counts| &mut counts.failed),
            Lock::Unknown => {}
        }
        let kind = std::mem::discriminant(&lock);
        let before = self.locks[index].1.replace(lock);
        if std::mem::discriminant(&before) != kind {
            // A process that waits for its turn may have it now.
            self.core.hurry.notify_waiters();
        }
        self.core.set_held(self.held_until(Instant::now()));
    }

    /// The end of the lease: more than half of the locks are held until then.
    fn held_until(&self, now: Instant) -> Option<Instant> {
        let mut ends: Vec<Instant> = self
            .locks
            .iter()
            .filter_map(|(_, lock)| match &*lock.borrow() {
                Lock::Held(end) if *end > now => Some(*end),
                _ => None,
            })
            .collect();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        ends.get(self.locks.len() / 2).copied()
    }

    /// Whether this lock may be asked for. Two processes that took half of the locks each would wait for each other, so
    /// a lock is asked for only when no earlier one, of a server that answers, is somebody else's.
    fn may_ask(&self, index: usize) -> bool {
        self.locks[..index].iter().all(|(_, lock)| !matches!(*lock.borrow(), Lock::Elsewhere | Lock::Unknown))
    }
}

impl Words for State {
    fn words(&self, now: Instant) -> String {
        let (mut held, mut elsewhere, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for (name, lock) in &self.locks {
            match &*lock.borrow() {
                Lock::Held(end) if *end > now => held.push(&**name),
                Lock::Elsewhere => elsewhere.push(&**name),
                Lock::Held(_) | Lock::Unknown => others.push(format!("{name}: not confirmed")),
                Lock::Failed(text) => others.push(format!("{name}: {text}")),
            }
        }
        let list = |what: &str, names: Vec<&str>| {
            if names.is_empty() { String::new() } else { format!("{what} on {}", names.join(", ")) }
        };
        let parts = [list("locks held", held), list("held by another process", elsewhere), others.join("; ")];
        let needed = self.locks.len() / 2 + 1;
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        format!("{} of {} locks are needed; {}", needed, self.locks.len(), parts.join("; "))
    }
}

/// Holds one server's lock.
struct Holder {
    index: usize,
    access: ServerAccess,
    name: String,
    state: Rc<State>,
}

impl Holder {
    async fn run(self) {
        let mut client = None;
        loop {
            let hurry = self.state.core.hurry.notified();
            tokio::pin!(hurry);
            hurry.as_mut().enable();
            if self.state.core.paused(Instant::now()) {
                // The end of its connection gives the lock up.
                client = None;
                self.state.set(self.index, Lock::Unknown);
            } else if client.is_some() || self.state.may_ask(self.index) {
                let lock = self.confirm(&mut client).await;
                if !matches!(lock, Lock::Held(_)) {
                    client = None;
                }
                self.state.set(self.index, lock);
            } else {
                self.state.set(self.index, Lock::Unknown);
            }
            tokio::select! {
                () = tokio::time::sleep(self.state.interval) => {}
                () = hurry => {}
            }
        }
    }

    async fn confirm(&self, kept: &mut Option<Client>) -> Lock {
        let limit = self.state.core.worth.min(Duration::from_secs(5));
        match tokio::time::timeout(limit, self.ask(kept)).await {
            Ok(Ok(lock)) => lock,
            Ok(Err(text)) => Lock::Failed(text),
            Err(_) => Lock::Failed("no answer in time".into()),
        }
    }

    async fn ask(&self, kept: &mut Option<Client>) -> Result<Lock, String> {
        let seconds = self.state.core.worth.as_secs().max(1);
        let asked = Instant::now();
        let client = match kept {
            Some(client) => client,
            None => {
                let limits = Limits { reply_bytes_max: 1 << 20, timeout: self.state.core.worth };
                let mut client = self
                    .access
                    .open(self.state.core.worth, limits)
                    .await
                    .map_err(|failure| failure.text.to_string())?;
                let session = format!("SET SESSION sql_mode = '', wait_timeout = {seconds}");
                client.query(session).await.map_err(|error| error.to_string())?;
                kept.insert(client)
            }
        };
        // Taking a lock that this connection holds succeeds, but counts: it is taken only when it is free.
        // The names of clusters have nothing that needs an escape.
        let name = &self.name;
        let sql = format!(
            "SELECT CASE WHEN IS_USED_LOCK('{name}') = CONNECTION_ID() THEN 1 \
             WHEN IS_USED_LOCK('{name}') IS NULL THEN GET_LOCK('{name}', 0) ELSE 0 END"
        );
        let answer = client.query_one(sql).await.map_err(|error| error.to_string())?;
        Ok(match answer.scalar().as_deref() {
            Some("1") => Lock::Held(asked + self.state.core.worth),
            _ => Lock::Elsewhere,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(locks: Vec<Lock>) -> State {
        State {
            core: Rc::new(Core::new(Duration::from_secs(5), Duration::from_secs(5))),
            locks: locks.into_iter().map(|lock| ("db".into(), RefCell::new(lock))).collect(),
            interval: Duration::from_millis(500),
        }
    }

    #[test]
    fn the_lease_is_held_while_more_than_half_of_all_locks_are() {
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let held = |seconds| Lock::Held(after(seconds));
        let lost = || Lock::Failed("gone".into());
        for (locks, end) in [
            (vec![held(3)], Some(3)),
            (vec![held(3), held(5)], Some(3)),
            (vec![held(3), lost()], None),
            (vec![held(3), lost(), held(4)], Some(3)),
            (vec![held(3), held(5), held(4)], Some(4)),
            (vec![held(3), Lock::Elsewhere, lost()], None),
            (vec![held(3), Lock::Held(now), held(4)], Some(3)),
            (vec![held(3), held(4), lost(), lost()], None),
            (vec![held(3), held(4), held(5), lost()], Some(3)),
        ] {
            assert_eq!(state(locks.clone()).held_until(now), end.map(after), "{locks:?}");
        }
    }

    #[test]
    fn locks_are_asked_for_in_one_order() {
        let held = Lock::Held(Instant::now());
        assert!(state(vec![held.clone(), Lock::Unknown]).may_ask(1));
        assert!(state(vec![Lock::Failed("gone".into()), Lock::Unknown]).may_ask(1));
        assert!(!state(vec![Lock::Elsewhere, Lock::Unknown]).may_ask(1));
        assert!(!state(vec![held, Lock::Unknown, Lock::Unknown]).may_ask(2));
    }
}
