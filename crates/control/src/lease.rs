//! Which of several Sqluice processes acts: the one that holds the cluster's lease, by locks on the servers themselves
//! (`majority`) or by a key in etcd (`etcd`).
//!
//! Both know until when they hold it whatever happens: time is counted from before the question whose answer confirmed it.

mod etcd;
mod majority;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::tls::ClientTls;
use tokio::sync::{Notify, watch};

use crate::monitor::link::ServerAccess;
use crate::task::Owned;

/// A process that waits for the lease asks for it so often: its holder may have died a moment ago.
const HURRY_PACE: Duration = Duration::from_millis(50);

/// How often questions of the lease ended in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Confirmations {
    /// This process has it.
    pub(crate) held: u64,
    /// Another one has it.
    pub(crate) elsewhere: u64,
    /// No server answered, or none usefully.
    pub(crate) failed: u64,
}

/// How the lease of a cluster is kept.
pub(crate) enum Means {
    /// Locks on these servers, asked for so often.
    Majority { servers: Vec<(Arc<str>, ServerAccess)>, interval: Duration },
    /// A key in etcd.
    Etcd { etcd: config::Etcd, tls: ClientTls, interval: Duration },
}

/// The state that the tasks of a lease share with its readers.
struct Core {
    /// How long one confirmation is good for.
    worth: Duration,
    /// How long the lease is left to others after it was given up.
    pause: Duration,
    /// Asks for the lease at once.
    hurry: Notify,
    /// The lease that outlived this process's connections was given up, or could not be.
    given_up: Notify,
    /// It is not asked for before then.
    paused_until: RefCell<Option<Instant>>,
    /// Until when the lease is held.
    held: watch::Sender<Option<Instant>>,
    confirmations: RefCell<Confirmations>,
}

/// The holders of the lease, in words for people.
trait Words {
    fn words(&self, now: Instant) -> String;
}

/// A lease that is being held, or tried for, as long as this lives.
#[derive(Clone)]
pub(crate) struct Lease {
    core: Rc<Core>,
    state: Rc<dyn Words>,
    /// No other process has it before its time is over, even when all connections of this process have ended.
    outlives: bool,
    _tasks: Rc<Vec<Owned>>,
}

impl Lease {
    /// Tries for the lease of this cluster. Must be called within a `LocalSet`.
    pub(crate) fn start(cluster: &str, lease_time: Duration, means: Means) -> Lease {
        match means {
            Means::Majority { servers, interval } => {
                let core = Rc::new(Core::new(lease_time, lease_time));
                let (state, tasks) = majority::start(cluster, servers, interval, core.clone());
                Lease { core, state, outlives: false, _tasks: Rc::new(tasks) }
            }
            Means::Etcd { etcd, tls, interval } => {
                let core = Rc::new(Core::new(etcd::worth(lease_time), lease_time));
                let (state, task) = etcd::start(cluster, etcd, tls, lease_time, interval, core.clone());
                Lease { core, state, outlives: true, _tasks: Rc::new(vec![task]) }
            }
        }
    }

    /// Tells until when the lease is held, whenever that changes.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<Instant>> {
        self.core.held.subscribe()
    }

    /// Confirms the lease now, and gives the moment until which it is held. One that another process has is asked for again and again
    /// until then.
    pub(crate) async fn take(&self, until: tokio::time::Instant) -> Result<Instant, String> {
        self.core.paused_until.replace(None);
        let asked = Instant::now();
        let mut held = self.watch();
        self.core.hurry.notify_waiters();
        let confirmed = async {
            loop {
                // Only what was confirmed after the question counts.
                let lease = *held.borrow_and_update();
                if let Some(end) = lease.filter(|end| *end >= asked + self.core.worth) {
                    return Some(end);
                }
                match tokio::time::timeout(HURRY_PACE, held.changed()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return None,
                    Err(_) => self.core.hurry.notify_waiters(),
                }
            }
        };
        match tokio::time::timeout_at(until, confirmed).await {
            Ok(Some(end)) => Ok(end),
            Ok(None) | Err(_) => Err(self.words()),
        }
    }

    /// Gives the lease up, and leaves it to others for a while.
    pub(crate) fn release(&self) {
        self.core.paused_until.replace(Some(Instant::now() + self.core.pause));
        self.core.hurry.notify_waiters();
    }

    /// Gives the lease up because the process ends, and waits no longer than this until others may have it.
    pub(crate) async fn end(&self, limit: Duration) {
        let given_up = self.core.given_up.notified();
        tokio::pin!(given_up);
        given_up.as_mut().enable();
        self.release();
        if self.outlives && tokio::time::timeout(limit, given_up).await.is_err() {
            tracing::debug!("a lease was not given back in time; it runs out");
        }
    }

    /// The holders of the lease, in words for people.
    pub(crate) fn words(&self) -> String {
        self.state.words(Instant::now())
    }

    /// How often it was asked for, by result.
    pub(crate) fn confirmations(&self) -> Confirmations {
        *self.core.confirmations.borrow()
    }
}

impl Core {
    fn new(worth: Duration, pause: Duration) -> Core {
        Core {
            worth,
            pause,
            hurry: Notify::new(),
            given_up: Notify::new(),
            paused_until: RefCell::default(),
            held: watch::Sender::new(None),
            confirmations: RefCell::default(),
        }
    }

    fn set_held(&self, held: Option<Instant>) {
        self.held.send_if_modified(|current| std::mem::replace(current, held) != held);
    }

    fn paused(&self, now: Instant) -> bool {
        self.paused_until.borrow().is_some_and(|end| now < end)
    }

    fn count(&self, count: impl FnOnce(&mut Confirmations) -> &mut u64) {
        *count(&mut self.confirmations.borrow_mut()) += 1;
    }
}
