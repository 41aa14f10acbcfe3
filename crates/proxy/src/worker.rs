//! One thread with its own event loop, sessions and pools. Workers share nothing but snapshots, counts and mail.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use cluster::catalog::{Catalog, RoutineAccess};
use cluster::gtid::Applied;
use cluster::positions::Positions;
use cluster::view::{Health, ServerId, ServerView, View};
use sql::{Dialect, FunctionAccess, Functions, Memo, Statement};
use stats::WorkerStats;
use stats::digests::DigestTable;
use tokio::runtime::LocalOptions;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, Semaphore};

use crate::busy_poll::BusyPoll;
use crate::pool::{Key, Pools};
use crate::route::rules::WorkerRules;
use crate::route::{LagBounds, Loads};
use crate::session::{self, Name, Outgoing, Told};
use crate::shared::{ClusterShared, Mail, Shared};

/// Bytes read from a socket at a time: as many as stay in a core's first cache between being read and being written. With
/// 64 KiB, large results took a third more of the CPU's time.
const SCRATCH_BYTES: usize = 32 * 1024;
/// How often idle connections are looked through.
const TIDY_INTERVAL: Duration = Duration::from_secs(1);

/// How often a worker that is about to end looks whether its sessions have ended.
const DRAIN_PACE: Duration = Duration::from_millis(20);

/// How long the answers of a member are waited for that has left its group.
const LAST_ANSWER_WAIT: Duration = Duration::from_millis(200);
/// How many of the last transactions that sessions were told to be theirs are remembered, for proofs.
const TOLD_MAX: usize = 16_384;
/// How many of the last positions of all servers are remembered, one a second: a statement that ran for longer is not looked for.
const PAST_POSITIONS_MAX: usize = 120;

/// How many keys of sessions are remembered for a cluster.
const KEYS_MAX: usize = 64;

/// One worker, as its sessions see it.
#[derive(Debug)]
pub struct Worker {
    /// Its number.
    pub index: usize,
    /// What all workers share.
    pub shared: Arc<Shared>,
    /// Its counts.
    pub stats: Arc<WorkerStats>,
    /// Where sockets are read into; borrowed for one poll at a time.
    pub scratch: RefCell<Box<[u8]>>,
    /// Whether and how it looks for events instead of sleeping.
    pub busy_poll: Rc<BusyPoll>,
    /// Memory for what is sent to servers, used again by the next statements.
    pub outgoing: RefCell<Vec<Outgoing>>,
    /// What statements of one form cost.
    pub digests: RefCell<DigestTable>,
    /// The operator's rules.
    pub rules: WorkerRules,
    /// Sessions must end at the next good moment.
    pub draining: Cell<bool>,
    /// [`Shared::uptime_s`], read once a second.
    pub uptime_s: Cell<u32>,
    clusters: RefCell<Vec<Rc<ClusterHere>>>,
}

/// A snapshot that all workers have, counted per worker: statements must not write to a count that workers share.
#[allow(clippy::redundant_allocation, reason = "the outer count is the worker's own, the inner one is shared")]
pub type CountedHere<T> = Rc<Arc<T>>;

/// A user and a schema.
pub type UserSchema = (Arc<str>, Arc<str>);

/// A cluster as one worker sees it: the last published snapshots, without any sharing on the way.
#[derive(Debug)]
pub struct ClusterHere {
    /// What all workers share of it.
    pub shared: Arc<ClusterShared>,
    /// This worker's backend connections.
    pub pools: Rc<Pools>,
    /// How busy and how fast its servers are.
    pub loads: Loads,
    /// Which of them are too far behind for rules that bound lag.
    pub lag_bounds: LagBounds,
    /// Wakes statements that wait for another view.
    pub changed: Notify,
    /// Turns of statements that wait, or have waited, for a primary.
    pub turns: Arc<Semaphore>,
    /// Transactions that sessions were told to be theirs, the oldest first.
    pub told: RefCell<VecDeque<Told>>,
    /// What the servers told of their positions, the oldest first.
    past_positions: RefCell<VecDeque<Arc<Positions>>>,
    /// Bytes of statements that wait for a view.
    pub held_bytes: Cell<usize>,
    /// Schemas that users have entered lately, with [`Worker::uptime_s`] of that.
    pub entered: RefCell<HashMap<UserSchema, u32>>,
    /// Keys in use by sessions that came lately: sessions with equal keys share one, which makes comparing cheap.
    keys: RefCell<VecDeque<Weak<Key>>>,
    view: RefCell<CountedHere<View>>,
    catalog: RefCell<CountedHere<Catalog>>,
    /// Statements that were understood with this catalog.
    memo: RefCell<Memo>,
}

impl ClusterHere {
    /// What a text is, read as this dialect.
    pub fn classify(&self, text: &[u8], dialect: &Dialect) -> Rc<Statement> {
        self.memo.borrow_mut().classify(text, dialect, &KnownFunctions(&self.catalog.borrow()))
    }

    /// The view.
    pub fn view(&self) -> CountedHere<View> {
        self.view.borrow().clone()
    }

    /// The primary, as the view has it.
    pub fn primary(&self) -> Option<ServerId> {
        self.view.borrow().primary
    }

    /// This key, as equal sessions of the last time have it.
    pub fn same_key(&self, key: Key) -> Arc<Key> {
        // Where servers are told each client's address and port, no two are the same.
        if key.client.is_some() {
            return Arc::new(key);
        }
        let mut keys = self.keys.borrow_mut();
        // What nobody uses any more is forgotten, passwords with it.
        keys.retain(|known| known.strong_count() > 0);
        if let Some(known) = keys.iter().filter_map(Weak::upgrade).find(|known| **known == key) {
            return known;
        }
        if keys.len() >= KEYS_MAX {
            keys.pop_front();
        }
        let key = Arc::new(key);
        keys.push_back(Arc::downgrade(&key));
        key
    }

    /// The catalog.
    pub fn catalog(&self) -> CountedHere<Catalog> {
        self.catalog.borrow().clone()
    }

    /// The character set of a handshake's collation, if MariaDB refuses a client that speaks it because its parser cannot
    /// read it. MySQL takes the server's own character set instead.
    pub fn unreadable_charset(&self, collation: u16) -> Option<Arc<str>> {
        let mariadb = self.view().flavour.as_ref().is_some_and(|flavour| flavour.mariadb);
        let charset = self.catalog().collations.get(&collation)?.charset.clone();
        (mariadb && matches!(&*charset, "ucs2" | "utf16" | "utf16le" | "utf32")).then_some(charset)
    }

    /// The catalog; one that somebody has just asked to be read again is waited for, but no longer than `limit`.
    pub async fn fresh_catalog(&self, limit: Duration) -> CountedHere<Catalog> {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let changed = self.changed.notified();
            let (catalog, published) = (self.catalog(), &self.shared.published);
            let is_here = published.catalog_is_fresh() && Arc::ptr_eq(&catalog, &published.catalog.load());
            if is_here || tokio::time::timeout_at(deadline, changed).await.is_err() {
                return catalog;
            }
        }
    }

    /// A member that left its group answers in a moment what it was doing, and only it knows what became of that.
    fn abandon_later(self: &Rc<Self>, server: ServerId, shared: &Arc<Shared>) {
        let (cluster, shared) = (Rc::downgrade(self), shared.clone());
        tokio::task::spawn_local(async move {
            tokio::time::sleep(LAST_ANSWER_WAIT).await;
            let Some(cluster) = cluster.upgrade() else { return };
            if cluster.view().server(server).is_none_or(ServerView::is_lost) {
                shared.sessions.abandon(&cluster.shared.name, server);
            }
        });
    }

    fn refresh(self: &Rc<Self>, shared: &Arc<Shared>) {
        self.note_positions();
        self.pools.renew_settings();
        let view = self.shared.published.view.load_full();
        self.loads.viewed(&view, Instant::now());
        let before = self.view.replace(Rc::new(view.clone()));
        // What was read by the old view may be from a server that has missed what others wrote elsewhere.
        if let Some(epochs) = self.shared.epochs.get().filter(|_| before.primary != view.primary) {
            epochs.written(None);
        }
        // Nobody waits for one that is given up, or that takes no sessions any more.
        let is_lost = |id: ServerId| view.server(id).is_none_or(ServerView::is_lost);
        for server in before.servers.iter().filter(|server| !server.is_lost() && is_lost(server.id)) {
            match view.server(server.id) {
                Some(now) if view.group.is_some() && now.health != Health::Down => {
                    self.abandon_later(server.id, shared)
                }
                _ => shared.sessions.abandon(&self.shared.name, server.id),
            }
        }
        // One that left its group may have died since.
        for server in before.servers.iter().filter(|server| server.is_lost() && server.health != Health::Down) {
            if view.server(server.id).is_some_and(|now| now.health == Health::Down) {
                shared.sessions.abandon(&self.shared.name, server.id);
            }
        }
        let catalog = self.shared.published.catalog.load_full();
        if !Arc::ptr_eq(&catalog, &self.catalog.borrow()) {
            self.memo.borrow_mut().clear();
        }
        *self.catalog.borrow_mut() = Rc::new(catalog);
        self.pools.tidy(&self.view.borrow().servers);
        self.changed.notify_waiters();
    }
}

/// Looks stored functions up in a catalog.
#[derive(Debug)]
struct KnownFunctions<'a>(&'a Catalog);

impl Functions for KnownFunctions<'_> {
    fn access(&self, schema: Option<&str>, name: &str) -> FunctionAccess {
        match self.0.function(schema, name) {
            Some(RoutineAccess::Reads) if self.0.functions_complete => FunctionAccess::Reads,
            Some(RoutineAccess::Writes) => FunctionAccess::Writes,
            _ => FunctionAccess::Unknown,
        }
    }
}

impl Worker {
    /// Runs until all sessions have ended after [`Mail::Drain`], or the mail's senders are gone. Takes
    /// the thread it is called on.
    ///
    /// # Errors
    /// The event loop could not be made.
    pub fn run(index: usize, shared: Arc<Shared>, mail: UnboundedReceiver<Mail>) -> std::io::Result<()> {
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
            outgoing: RefCell::default(),
            digests: RefCell::new(digests),
            rules: WorkerRules::default(),
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
        let mut tidy = tokio::time::interval(TIDY_INTERVAL);
        tidy.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
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
                _ = tidy.tick() => {
                    self.uptime_s.set(self.shared.uptime_s());
                    let config = self.shared.config.load();
                    self.busy_poll.set(config.proxy.busy_poll);
                    self.change_digests(|digests| digests.set_max(config.proxy.digests_max));
                    if self.index == 0 {
                        self.shared.end_idle_sessions();
                    }
                    self.clusters.borrow().iter().for_each(|cluster| cluster.refresh_pools());
                }
            }
        }
    }

    fn receive(self: &Rc<Self>, mail: Mail) {
        match mail {
            Mail::Client(client) => session::spawn(self.clone(), *client),
            Mail::Published(name) => {
                if let Some(cluster) = self.known_cluster(&name) {
                    let before = cluster.primary();
                    cluster.refresh(&self.shared);
                    if cluster.primary().is_some_and(|now| before != Some(now)) {
                        crate::warm::primary_changed(self, &cluster);
                    }
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
            Mail::Told(name, ask) => {
                let told = self.known_cluster(&name).map_or(Some(Vec::new()), |cluster| cluster.told_since(ask.since));
                // Who asked may have gone.
                let _ = ask.answer.send(told);
            }
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

    /// Takes the rules that are in effect now.
    fn take_rules(&self) {
        let set = self.shared.rules.load_full();
        let names = set.as_ref().map(|set| set.names()).unwrap_or_default();
        let hits = self.stats.rules.renew(names);
        self.stats.caches.retain(|rule| names.iter().any(|name| **name == *rule));
        self.rules.take(set.clone(), hits, &self.stats.caches);
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

    /// This worker's side of a cluster, made at the first call.
    pub fn cluster(&self, shared: &Arc<ClusterShared>) -> Rc<ClusterHere> {
        if let Some(cluster) = self.known_cluster(&shared.name) {
            return cluster;
        }
        let pools = Rc::new(Pools::new(self.index, shared.clone(), self.stats.clone()));
        let cluster = Rc::new(ClusterHere {
            shared: shared.clone(),
            pools,
            loads: Loads::default(),
            lag_bounds: LagBounds::default(),
            changed: Notify::new(),
            turns: Arc::new(Semaphore::new(session::RELEASED_MAX)),
            told: RefCell::default(),
            past_positions: RefCell::default(),
            held_bytes: Cell::new(0),
            entered: RefCell::default(),
            keys: RefCell::default(),
            view: RefCell::new(Rc::new(shared.published.view.load_full())),
            catalog: RefCell::new(Rc::new(shared.published.catalog.load_full())),
            memo: RefCell::default(),
        });
        cluster.refresh(&self.shared);
        self.clusters.borrow_mut().push(cluster.clone());
        cluster
    }
}

impl ClusterHere {
    /// A session was told at this moment that this transaction is its own.
    pub fn note_told(&self, name: Name, at: Instant) {
        let mut told = self.told.borrow_mut();
        if told.len() >= TOLD_MAX {
            told.pop_front();
        }
        told.push_back((at, name));
    }

    /// All that sessions were told since then; `None` if some of it is forgotten.
    pub fn told_since(&self, since: Instant) -> Option<Vec<Name>> {
        let told = self.told.borrow();
        let reaches = told.len() < TOLD_MAX || told.front().is_some_and(|(at, _)| *at < since);
        reaches.then(|| told.iter().map(|(_, name)| *name).collect())
    }

    /// What a server had applied when it was asked last before this moment, and when that was.
    pub fn position_before(&self, server: ServerId, at: Instant) -> Option<(Arc<Applied>, Instant)> {
        let past = self.past_positions.borrow();
        let mut known = past.iter().rev().filter_map(|positions| positions.of(server));
        known.find(|position| position.asked <= at).map(|position| (position.applied.clone(), position.asked))
    }

    fn note_positions(&self) {
        let mut past = self.past_positions.borrow_mut();
        if past.len() >= PAST_POSITIONS_MAX {
            past.pop_front();
        }
        past.push_back(self.shared.published.positions.load_full());
    }

    fn refresh_pools(&self) {
        self.note_positions();
        let view = self.view();
        self.pools.tidy(&view.servers);
        self.pools.serve_waiters();
        self.pools.warm(&view.servers);
    }
}
