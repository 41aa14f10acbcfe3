//! Which of several Sqluice processes acts: the one that holds a named lock on more than half of all servers.
//!
//! Each lock belongs to a connection of its own. A server gives it to somebody else only when that connection has ended, and it
//! ends a connection that was silent for the lease's time. So a lock that was confirmed at some moment is held until that
//! moment plus this time, and the lease until the latest moment at which more than half of the locks are held.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::query::{Client, Limits};
use tokio::sync::{Notify, watch};

use crate::monitor::link::Way;
use crate::monitor::{Owned, own};

/// Names of locks have at most 64 characters on MySQL.
const NAME_MAX: usize = 64;

/// What one server's lock is like.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Lock {
    /// Nobody has asked yet.
    Unknown,
    /// Held until then, unless confirmed again.
    Held(Instant),
    /// Another connection holds it.
    Elsewhere,
    /// It could not be asked for, in words.
    Failed(String),
}

/// The state that all tasks of a lease share.
struct State {
    locks: Vec<(Arc<str>, RefCell<Lock>)>,
    lease_time: Duration,
    interval: Duration,
    /// Asks for all locks at once.
    hurry: Notify,
    /// Locks are not asked for before then.
    paused_until: RefCell<Option<Instant>>,
    /// Until when the lease is held.
    held: watch::Sender<Option<Instant>>,
}

/// A lease that is being held, or tried for, as long as this lives.
#[derive(Clone)]
pub(crate) struct Lease {
    state: Rc<State>,
    _tasks: Rc<Vec<Owned>>,
}

impl Lease {
    /// Tries for the lease of this cluster on these servers. Must be called within a `LocalSet`.
    pub(crate) fn start(
        cluster: &str,
        servers: Vec<(Arc<str>, Way)>,
        lease_time: Duration,
        interval: Duration,
    ) -> Lease {
        let state = Rc::new(State {
            locks: servers.iter().map(|(name, _)| (name.clone(), RefCell::new(Lock::Unknown))).collect(),
            lease_time,
            interval,
            hurry: Notify::new(),
            paused_until: RefCell::default(),
            held: watch::Sender::new(None),
        });
        let name: String = format!("sqluice:{cluster}").chars().take(NAME_MAX).collect();
        let task = |(index, (_, way)): (usize, (Arc<str>, Way))| {
            let holder = Holder { index, way, name: name.clone(), state: state.clone() };
            own(holder.run())
        };
        let tasks = servers.into_iter().enumerate().map(task).collect();
        Lease { state, _tasks: Rc::new(tasks) }
    }

    /// Tells until when the lease is held, whenever that changes.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<Instant>> {
        self.state.held.subscribe()
    }

    /// Confirms all locks now, and gives the moment until which the lease is held.
    pub(crate) async fn take(&self, until: tokio::time::Instant) -> Result<Instant, String> {
        self.state.paused_until.replace(None);
        let asked = Instant::now();
        let mut held = self.watch();
        self.state.hurry.notify_waiters();
        let confirmed = async {
            loop {
                // Only what was confirmed after the question counts.
                let lease = *held.borrow_and_update();
                if let Some(end) = lease.filter(|end| *end >= asked + self.state.lease_time) {
                    return Some(end);
                }
                if held.changed().await.is_err() {
                    return None;
                }
            }
        };
        match tokio::time::timeout_at(until, confirmed).await {
            Ok(Some(end)) => Ok(end),
            Ok(None) | Err(_) => Err(self.words()),
        }
    }

    /// Gives all locks up, and leaves the lease to others for a while.
    pub(crate) fn release(&self) {
        self.state.paused_until.replace(Some(Instant::now() + self.state.lease_time));
        self.state.hurry.notify_waiters();
    }

    /// Who holds what, for people.
    pub(crate) fn words(&self) -> String {
        self.state.words(Instant::now())
    }
}

impl State {
    fn set(&self, index: usize, lock: Lock) {
        let kind = std::mem::discriminant(&lock);
        let before = self.locks[index].1.replace(lock);
        if std::mem::discriminant(&before) != kind {
            // Whoever waits for its turn may have it now.
            self.hurry.notify_waiters();
        }
        let now = Instant::now();
        let held = self.held_until(now);
        self.held.send_if_modified(|current| std::mem::replace(current, held) != held);
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

    fn paused(&self, now: Instant) -> bool {
        self.paused_until.borrow().is_some_and(|end| now < end)
    }

    /// Whether this lock may be asked for. Two processes that took half of the locks each would wait for each other, so
    /// a lock is asked for only when no earlier one, of a server that answers, is somebody else's.
    fn may_ask(&self, index: usize) -> bool {
        self.locks[..index].iter().all(|(_, lock)| !matches!(*lock.borrow(), Lock::Elsewhere | Lock::Unknown))
    }

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
    way: Way,
    name: String,
    state: Rc<State>,
}

impl Holder {
    async fn run(self) {
        let mut client = None;
        loop {
            let hurry = self.state.hurry.notified();
            tokio::pin!(hurry);
            hurry.as_mut().enable();
            if self.state.paused(Instant::now()) {
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
        let limit = self.state.lease_time.min(Duration::from_secs(5));
        match tokio::time::timeout(limit, self.ask(kept)).await {
            Ok(Ok(lock)) => lock,
            Ok(Err(text)) => Lock::Failed(text),
            Err(_) => Lock::Failed("no answer in time".into()),
        }
    }

    async fn ask(&self, kept: &mut Option<Client>) -> Result<Lock, String> {
        let seconds = self.state.lease_time.as_secs().max(1);
        let asked = Instant::now();
        let client = match kept {
            Some(client) => client,
            None => {
                let limits = Limits { reply_bytes_max: 1 << 20, timeout: self.state.lease_time };
                let mut client =
                    self.way.open(self.state.lease_time, limits).await.map_err(|failure| failure.text.to_string())?;
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
            Some("1") => Lock::Held(asked + self.state.lease_time),
            _ => Lock::Elsewhere,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(locks: Vec<Lock>) -> State {
        State {
            locks: locks.into_iter().map(|lock| ("db".into(), RefCell::new(lock))).collect(),
            lease_time: Duration::from_secs(5),
            interval: Duration::from_millis(500),
            hurry: Notify::new(),
            paused_until: RefCell::default(),
            held: watch::Sender::new(None),
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
