//! One thread with its own event loop, sessions and pools. Workers share nothing but snapshots, counts and mail.

mod cluster;
mod events;

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use stats::WorkerStats;
use stats::digests::DigestTable;
use tokio::runtime::LocalOptions;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;

pub use self::cluster::{ClusterHere, CountedHere, KnownFunctions, UserSchema};
pub use self::events::WorkerEvents;
use crate::busy_poll::BusyPoll;
use crate::coarse_clock::CoarseClock;
use crate::session::{self, Outgoing};
use crate::shared::{ClusterShared, Mail, Shared};
use policy::WorkerChain;

/// Bytes read from a socket at a time: as many as stay in a core's first cache between being read and being written. With
/// 64 KiB, large results took a third more of the CPU's time.
const SCRATCH_BYTES: usize = 32 * 1024;
/// How often a worker that is about to end looks whether its sessions have ended.
const DRAIN_PACE: Duration = Duration::from_millis(20);

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
    /// For bounds that need not be kept to the millisecond.
    pub clock: CoarseClock,
    /// Memory for parameters that the result cache is asked with.
    pub parameters: RefCell<Vec<u8>>,
    /// Memory for a reply of the result cache; taken until it is sent.
    pub reply: RefCell<Vec<u8>>,
    /// Memory for what is sent to servers, used again by the next statements.
    pub outgoing: RefCell<Vec<Outgoing>>,
    /// The costs of statements by digest.
    pub digests: RefCell<DigestTable>,
    /// The operator's rules.
    pub chain: WorkerChain,
    /// The way of its events.
    pub events: WorkerEvents,
    /// The turn of the session whose long text a thread reads.
    pub long_texts: Semaphore,
    /// How much work the session that runs now may still do before others get their turn.
    turn: Cell<u32>,
    /// Sessions must end at the next good moment.
    pub draining: Cell<bool>,
    /// [`Shared::uptime_s`], read once a second.
    pub uptime_s: Cell<u32>,
    clusters: RefCell<Vec<Rc<ClusterHere>>>,
}

/// Tells workers once a second what time it is, for as long as there are any.
pub async fn tell_seconds(shared: Weak<Shared>) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while let Some(shared) = shared.upgrade() {
        shared.seconds.send_replace(shared.uptime_s());
        drop(shared);
        second.tick().await;
    }
}

/// Has the task that is polled go on after the next look at the sockets.
#[cold]
fn end_turn(cx: &mut Context<'_>) -> Poll<()> {
    pin!(tokio::task::yield_now()).poll(cx)
}

impl Worker {
    /// Runs until all sessions have ended after [`Mail::Drain`], or the mail's senders are gone. Takes
    /// the thread it is called on.
    ///
    /// # Errors
    /// The event loop could not be made.
    pub fn run(
        index: usize,
        shared: Arc<Shared>,
        mail: UnboundedReceiver<Mail>,
        ring: Option<::events::Ring>,
    ) -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build_local(LocalOptions::default())?;
        let stats = shared.stats[index].clone();
        let digests_max = shared.config.load().proxy.digests_max;
        let digests = DigestTable::new(digests_max, (Instant::now(), SystemTime::now()));
        let worker = Rc::new(Worker {
            index,
            shared,
            stats,
            scratch: RefCell::new(vec![0; SCRATCH_BYTES].into_boxed_slice()),
            busy_poll: Rc::default(),
            clock: CoarseClock::start(),
            parameters: RefCell::default(),
            reply: RefCell::default(),
            outgoing: RefCell::default(),
            digests: RefCell::new(digests),
            chain: WorkerChain::default(),
            events: WorkerEvents::new(ring),
            long_texts: Semaphore::new(1),
            turn: Cell::new(TURN_WORK),
            draining: Cell::new(false),
            uptime_s: Cell::new(1),
            clusters: RefCell::default(),
        });
        worker.take_rules();
        runtime.block_on(worker.serve(mail));
        Ok(())
    }

    async fn serve(self: Rc<Self>, mut mail: UnboundedReceiver<Mail>) {
        let busy_poll = self.busy_poll.clone();
        tokio::task::spawn_local(async move { busy_poll.run().await });
        let mut seconds = self.shared.seconds.subscribe();
        self.tidy();
        loop {
            if self.draining.get() && self.stats.sessions.get() == 0 {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(DRAIN_PACE), if self.draining.get() => {}
                received = mail.recv() => match received {
                    Some(mail) => self.receive(mail),
                    None => return,
                },
                // The sender lives as long as the data that all workers share.
                _ = seconds.changed() => self.tidy(),
            }
        }
    }

    /// The work of each second.
    fn tidy(&self) {
        let second = self.shared.uptime_s();
        self.uptime_s.set(second);
        let config = self.shared.config.load();
        self.busy_poll.set(config.proxy.busy_poll);
        self.events.take_settings(&config.events);
        self.change_digests(|digests| {
            digests.set_max(config.proxy.digests_max);
            digests.set_second(u64::from(second));
        });
        if self.index == 0 {
            self.shared.end_idle_sessions();
            self.tidy_logins();
        }
        self.clusters.borrow().iter().for_each(|cluster| cluster.refresh_pools());
    }

    /// Forgets refused logins that no longer matter, and counts what clients take.
    fn tidy_logins(&self) {
        let (shared, now) = (&self.shared, Instant::now());
        shared.addresses.tidy(now);
        let clusters = shared.clusters.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        clusters.values().for_each(|cluster| cluster.keyring.tidy(now));
        let set = |gauge: &stats::Gauge, value: i64| gauge.add(value - gauge.get());
        set(&self.stats.login_memory_bytes, i64::try_from(shared.login_memory.used_bytes()).unwrap_or(i64::MAX));
        set(&self.stats.prepared_bytes, i64::try_from(shared.prepared.bytes()).unwrap_or(i64::MAX));
        set(&self.stats.client_addresses, shared.addresses.count() as i64);
        let waits = &self.stats.login_memory_waits;
        waits.add(shared.login_memory.waited().saturating_sub(waits.get()));
    }

    /// Counts a client that was refused, for the reason of this index in [`stats::REFUSED_CLIENTS`].
    pub fn count_refused(&self, reason: usize) {
        self.stats.refused_clients.at(reason).inspect(|count| count.add_one());
    }

    fn receive(self: &Rc<Self>, mail: Mail) {
        match mail {
            Mail::Client(client) => session::spawn(self.clone(), *client),
            Mail::Published(name) => {
                if let Some(cluster) = self.known_cluster(&name) {
                    self.take_published(&cluster);
                }
            }
            Mail::Connection(name, parcel) => {
                if let Some(cluster) = self.known_cluster(&name) {
                    cluster.pools.receive(*parcel);
                }
            }
            Mail::Permit(name, server) => {
                if let Some(cluster) = self.known_cluster(&name) {
                    cluster.pools.receive_permit(server);
                }
            }
            Mail::Asked(name, server) => {
                if let Some(cluster) = self.known_cluster(&name) {
                    cluster.pools.asked(server);
                }
            }
            Mail::Room(name) => {
                if let Some(cluster) = self.known_cluster(&name) {
                    cluster.pools.serve_waiters();
                }
            }
            Mail::Short(name, server) => {
                if let Some(cluster) = self.known_cluster(&name) {
                    cluster.pools.asked_by_short(server);
                }
            }
            Mail::Freed(name) => {
                if let Some(cluster) = self.known_cluster(&name) {
                    cluster.pools.room_for_short();
                }
            }
            Mail::Told(name, ask) => {
                let told = self.known_cluster(&name).map_or(Some(Vec::new()), |cluster| cluster.told_since(ask.since));
                // The session that asked may have gone.
                let _ = ask.answer.send(told);
            }
            Mail::Refused(reason) => self.count_refused(reason),
            Mail::Drain => self.draining.set(true),
            Mail::Rules => self.take_rules(),
            Mail::Warm(name) => crate::warm::run_for_all(self, &name, "asked for"),
            Mail::Digests(ask) => {
                let report = self.digests.borrow().report();
                if ask.reset {
                    self.change_digests(DigestTable::reset);
                }
                (ask.deliver)(report);
            }
        }
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
    fn take_rules(&self) {
        let set = self.shared.rules.load_full();
        let names = set.as_ref().map(|set| set.names()).unwrap_or_default();
        let hits = self.stats.rules.renew(names);
        self.stats.caches.retain(|rule| names.iter().any(|name| **name == *rule));
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

    fn known_cluster(&self, name: &str) -> Option<Rc<ClusterHere>> {
        self.clusters.borrow().iter().find(|cluster| *cluster.shared.name == *name).cloned()
    }

    /// Takes what was published last of a cluster.
    pub fn take_published(self: &Rc<Self>, cluster: &Rc<ClusterHere>) {
        let before = cluster.primary();
        cluster.refresh(&self.shared);
        if cluster.primary().is_some_and(|now| before != Some(now)) {
            crate::warm::primary_changed(self, cluster);
        }
    }

    /// This worker's side of a cluster, made at the first call.
    pub fn cluster(&self, shared: &Arc<ClusterShared>) -> Rc<ClusterHere> {
        if let Some(cluster) = self.known_cluster(&shared.name) {
            return cluster;
        }
        let cluster = Rc::new(ClusterHere::new(self.index, shared, &self.stats));
        cluster.refresh(&self.shared);
        self.clusters.borrow_mut().push(cluster.clone());
        cluster
    }
}
