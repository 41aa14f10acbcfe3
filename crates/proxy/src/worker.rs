//! One thread with its own event loop, sessions and pools, as its sessions see it. Workers share nothing but snapshots, counts and mail.

mod busy;
mod cluster;
mod demoted;
mod events;
mod id_columns;
mod relief;
mod traces;

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Instant, SystemTime};

use ::events::Event;
use stats::WorkerStats;
use stats::digests::DigestTable;
use tokio::sync::Semaphore;

use self::busy::BusyShare;
pub use self::cluster::{ClusterHere, KnownFunctions, UserSchema};
pub use self::events::WorkerEvents;
pub use self::relief::WorkerRelief;
use crate::busy_poll::BusyPoll;
use crate::coarse_clock::CoarseClock;
use crate::leavers::Leavers;
use crate::outgoing;
use crate::shared::{ClusterShared, Mail, Shared};
use crate::turned_away::{TurnedAway, TurnedAwayCounts};
pub use id_columns::Names;
use policy::WorkerChain;

/// Bytes read from a socket at a time: as many as stay in a core's first cache between being read and being written. With
/// 64 KiB, large results took a third more of the CPU's time.
const SCRATCH_BYTES: usize = 32 * 1024;
/// Work that a session may do in one turn: so many short commands. They take some 100 microseconds.
const TURN_WORK: u32 = 64;
/// Bytes that are as much work as a short command.
const WORK_BYTES: usize = 1024;

/// One worker, as its sessions see it.
#[derive(Debug)]
pub struct Worker {
    /// Its number.
    pub index: usize,
    /// The data that all workers share.
    pub shared: Arc<Shared>,
    /// Its counts.
    pub stats: Arc<WorkerStats>,
    /// Where sockets are read into; borrowed for one poll at a time.
    pub scratch: RefCell<Box<[u8]>>,
    /// Whether and how it looks for events instead of sleeping.
    pub busy_poll: Rc<BusyPoll>,
    /// Clients that ended before they had logged in, and wait to be forgotten.
    pub leavers: Rc<Leavers>,
    /// For bounds that need not be kept to the millisecond.
    pub clock: CoarseClock,
    /// Memory for parameters that the result cache is asked with.
    pub parameters: RefCell<Vec<u8>>,
    /// Memory for a reply of the result cache; taken until it is sent.
    pub reply: RefCell<Vec<u8>>,
    /// Memory for what is sent to servers, used again by the next statements.
    pub outgoing: outgoing::Kept,
    /// The costs of statements by digest.
    pub digests: RefCell<DigestTable>,
    /// The operator's rules.
    pub chain: WorkerChain,
    /// The way of its events.
    pub events: WorkerEvents,
    /// Clients that were refused, and are not told as events yet.
    pub turned_away: RefCell<TurnedAwayCounts>,
    /// The turn of the session whose long text a thread reads.
    pub long_texts: Semaphore,
    /// How much work the session that runs now may still do before others get their turn.
    turn: Cell<u32>,
    /// Sessions must end at the next good moment.
    pub draining: Cell<bool>,
    /// Sessions have something to do before their next statements: they end, wait for room for events, or are measured and move.
    pub presses: Cell<bool>,
    /// Sessions wait for room for events.
    pub events_crowded: Cell<bool>,
    /// The relief that is under way.
    pub relief: WorkerRelief,
    /// How busy it is.
    pub busy: BusyShare,
    /// [`Shared::uptime_s`], read once a second.
    pub uptime_s: Cell<u32>,
    clusters: RefCell<Vec<Rc<ClusterHere>>>,
}

/// Has the task that is polled go on after the next look at the sockets.
#[cold]
fn end_turn(cx: &mut Context<'_>) -> Poll<()> {
    pin!(tokio::task::yield_now()).poll(cx)
}

impl Worker {
    /// A worker that has no sessions yet. Its events go to `ring`, if any are wanted.
    pub fn new(index: usize, shared: Arc<Shared>, ring: Option<::events::Ring>) -> Worker {
        let stats = shared.stats[index].clone();
        let digests_max = shared.config.load().proxy.digests_max;
        let digests = DigestTable::new(digests_max, (Instant::now(), SystemTime::now()));
        Worker {
            index,
            shared,
            stats,
            scratch: RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice()),
            busy_poll: Rc::default(),
            leavers: Rc::default(),
            clock: CoarseClock::start(),
            parameters: RefCell::default(),
            reply: RefCell::default(),
            outgoing: outgoing::Kept::default(),
            digests: RefCell::new(digests),
            chain: WorkerChain::default(),
            events: WorkerEvents::new(ring),
            turned_away: RefCell::default(),
            long_texts: Semaphore::new(1),
            turn: Cell::new(TURN_WORK),
            draining: Cell::new(false),
            presses: Cell::new(false),
            events_crowded: Cell::new(false),
            relief: WorkerRelief::default(),
            busy: BusyShare::default(),
            uptime_s: Cell::new(1),
            clusters: RefCell::default(),
        }
    }

    /// Counts a client that was refused before its login. The first one of its kind becomes an event at once.
    pub fn count_refused(&self, client: TurnedAway) {
        self.stats.refused_clients.at(client.reason).inspect(|count| count.add_one());
        if let Some(event) = self.turned_away.borrow_mut().count(client) {
            self.put_event(|| event);
        }
    }

    /// Hands an event over, without a wait.
    pub fn put_event(&self, event: impl FnOnce() -> Event) {
        if self.events.put(event) {
            self.events_crowded.set(true);
            self.presses.set(true);
        }
    }

    /// Waits until there is room for events, if the operator wants that and there is none.
    pub async fn wait_for_events(&self) {
        self.stats.event_waits.add_one();
        self.events.wait_for_room().await;
        self.events_crowded.set(false);
        self.press();
    }

    /// Sees whether sessions have something to do before their next statements.
    pub fn press(&self) {
        self.presses.set(self.draining.get() || self.events_crowded.get() || self.relief.is_on());
    }

    /// Makes the events of all that were refused since the last call.
    pub fn tell_refused(&self) {
        self.turned_away.borrow_mut().take(|event| self.put_event(|| event));
    }

    /// A session's turn begins.
    #[inline]
    pub fn begin_turn(&self) {
        self.turn.set(TURN_WORK);
    }

    /// The session has done work that grows with so many bytes: a command that it has taken, or an answer.
    #[inline]
    pub fn spend_bytes(&self, bytes: usize) {
        let work = 1 + (bytes / WORK_BYTES).min(TURN_WORK as usize) as u32;
        self.turn.set(self.turn.get().saturating_sub(work));
    }

    /// Ready while the session's turn is not over; else it goes on in its next turn, behind all others that have something to do.
    #[inline]
    pub fn poll_turn(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.turn.get() > 0 {
            return Poll::Ready(());
        }
        end_turn(cx)
    }

    /// Takes the rules that are in effect now.
    pub fn take_rules(&self) {
        let set = self.shared.rules.load_full();
        let names = set.as_ref().map(|set| set.names()).unwrap_or_default();
        let hits = self.stats.rules.renew(names);
        self.stats.caches.retain(|rule| names.iter().any(|name| **name == *rule));
        self.events.take_rules(set.as_ref().is_some_and(|set| set.logs()));
        self.chain.take(set.clone(), hits, &self.stats.caches);
    }

    /// Changes which digests have entries, and tells the counts.
    pub fn change_digests(&self, change: impl FnOnce(&mut DigestTable)) {
        let mut digests = self.digests.borrow_mut();
        let (lost, entries) = (digests.lost(), digests.len());
        change(&mut digests);
        self.stats.digests.add(digests.len() as i64 - entries as i64);
        self.stats.digests_lost.add(digests.lost().saturating_sub(lost));
    }

    /// This worker's side of a cluster, if it was made.
    pub fn known_cluster(&self, name: &str) -> Option<Rc<ClusterHere>> {
        self.clusters.borrow().iter().find(|cluster| *cluster.shared.name == *name).cloned()
    }

    /// Takes what was published last of a cluster.
    pub fn take_published(&self, cluster: &Rc<ClusterHere>) {
        let before = cluster.primary();
        cluster.refresh(&self.shared);
        if cluster.primary().is_some_and(|now| before != Some(now)) {
            cluster.shared.send(self.index, Mail::PrimaryChanged(cluster.shared.name.clone()));
        }
    }

    /// Looks through the connections of each cluster, and serves what waits for one.
    pub fn refresh_pools(&self) {
        self.clusters.borrow().iter().for_each(|cluster| cluster.refresh_pools());
    }

    /// This worker's side of a cluster, made at the first call.
    pub fn cluster(&self, shared: &Arc<ClusterShared>) -> Rc<ClusterHere> {
        if let Some(cluster) = self.known_cluster(&shared.name) {
            return cluster;
        }
        let cluster = Rc::new(ClusterHere::new(self.index, shared, &self.stats, &self.busy_poll));
        cluster.refresh(&self.shared);
        self.clusters.borrow_mut().push(cluster.clone());
        cluster
    }
}
