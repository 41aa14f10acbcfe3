//! A cluster as one worker sees it.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use facts::catalog::{Catalog, RoutineAccess};
use facts::group_logs::GroupLogs;
use facts::gtid::Applied;
use facts::positions::Positions;
use facts::view::{Health, ServerId, ServerView, View};
use proof::tail::Name;
use sql::{Asks, Dialect, FunctionAccess, Functions, Leaves, Memo, Statement};
use stats::WorkerStats;
use tokio::sync::{Notify, Semaphore};

use super::demoted::Demoted;
use super::id_columns::KnownColumns;
use crate::busy_poll::BusyPoll;
use crate::pipeline::{PipelineBounds, Pipelines};
use crate::pool::{Key, Pools};
use crate::session::ExemptAccounts;
use crate::shared::{ClusterShared, CountedHere, Shared};
use route::{LagBounds, Loads};

/// How long the answers of a member are waited for that has left its group.
const LAST_ANSWER_WAIT: Duration = Duration::from_millis(200);
/// How many of the last transactions that servers confirmed to sessions are remembered, for proofs.
const CONFIRMED_MAX: usize = 16_384;
/// How many of the last positions of all servers are remembered, one a second: a statement that ran for longer is not looked for.
const PAST_POSITIONS_MAX: usize = 120;

/// Statements that waited for a primary and run at the same time, on one worker; the others wait for their turn.
const RELEASED_MAX: usize = 32;
/// How many keys of sessions are remembered for a cluster.
const KEYS_MAX: usize = 64;

/// When a transaction was acknowledged.
type Acknowledged = (Instant, Name);

/// A user and a schema.
pub type UserSchema = (Arc<str>, Arc<str>);

/// The servers' reports up to one moment.
#[derive(Debug)]
struct Past {
    positions: Arc<Positions>,
    group_logs: Arc<GroupLogs>,
    /// All of it was reported before this moment. The moment of the question says less: the server may have answered much later,
    /// with later writes.
    noted: Instant,
}

/// The reports from before a moment, the newest first.
fn before(past: &VecDeque<Past>, at: Instant) -> impl Iterator<Item = &Past> {
    past.iter().rev().filter(move |past| past.noted <= at)
}

/// A cluster as one worker sees it: the last published snapshots, without any sharing on the way.
#[derive(Debug)]
pub struct ClusterHere {
    /// The columns of tables that list connections.
    pub id_columns: KnownColumns,
    /// The part of it that all workers share.
    pub shared: Arc<ClusterShared>,
    /// It has one server, which takes all traffic, also when it is read-only.
    pub is_standalone: Cell<bool>,
    /// This worker's backend connections.
    pub pools: Rc<Pools>,
    /// The pipelines to its servers.
    pub pipelines: Pipelines,
    /// How busy and how fast its servers are.
    pub loads: Loads,
    /// Which of them are too far behind for rules that bound lag.
    pub lag_bounds: LagBounds,
    /// Wakes statements that wait for another view.
    pub changed: Notify,
    /// When the primary, a hold of writes, or what is fenced changed last.
    pub roles_changed: Cell<Instant>,
    /// Its servers that were the primary.
    demoted: RefCell<Demoted>,
    /// Turns of statements that wait, or have waited, for a primary.
    pub turns: Arc<Semaphore>,
    /// Transactions that servers confirmed to sessions, the oldest first.
    confirmed: RefCell<VecDeque<Acknowledged>>,
    /// The servers' reports of their positions, the oldest first.
    past_positions: RefCell<VecDeque<Past>>,
    /// Bytes of statements that wait for a view.
    pub held_bytes: Cell<usize>,
    /// Schemas that users have entered lately, with `Worker::uptime_s` of that.
    pub entered: RefCell<HashMap<UserSchema, u32>>,
    /// Accounts that go without `init_connect`.
    pub exempt_accounts: ExemptAccounts,
    /// Keys in use by sessions that came lately: sessions with equal keys share one, which makes comparing cheap.
    keys: RefCell<VecDeque<Weak<Key>>>,
    view: RefCell<CountedHere<View>>,
    /// Whether the worker counts as one whose sessions may send writes.
    writing: Cell<bool>,
    catalog: RefCell<CountedHere<Catalog>>,
    /// The last request for a catalog that this one answers.
    catalog_answers: Cell<u64>,
    /// Statements that were understood with this catalog.
    memo: RefCell<Memo>,
    /// Forms of statements whose answers the result cache does not keep.
    pub refused: cache::RefusedForms,
}

impl Drop for ClusterHere {
    fn drop(&mut self) {
        if self.writing.get() {
            self.shared.published.writing.end();
        }
    }
}

impl ClusterHere {
    /// A worker's side of a cluster, without any connections yet. It takes part when it has taken what was published:
    /// [`ClusterHere::refresh`].
    pub fn new(
        worker: usize,
        shared: &Arc<ClusterShared>,
        stats: &Arc<WorkerStats>,
        busy_poll: &Rc<BusyPoll>,
    ) -> ClusterHere {
        ClusterHere {
            id_columns: KnownColumns::default(),
            pools: Rc::new(Pools::new(worker, shared.clone(), stats.clone())),
            pipelines: Pipelines::new(busy_poll.clone()),
            is_standalone: Cell::default(),
            shared: shared.clone(),
            loads: Loads::default(),
            lag_bounds: LagBounds::default(),
            changed: Notify::new(),
            roles_changed: Cell::new(Instant::now()),
            demoted: RefCell::default(),
            turns: Arc::new(Semaphore::new(RELEASED_MAX)),
            confirmed: RefCell::default(),
            past_positions: RefCell::default(),
            held_bytes: Cell::new(0),
            entered: RefCell::default(),
            exempt_accounts: ExemptAccounts::default(),
            keys: RefCell::default(),
            view: RefCell::new(Rc::new(shared.published.view.load_full())),
            writing: Cell::new(false),
            catalog: RefCell::new(Rc::new(shared.published.catalog.load_full())),
            catalog_answers: Cell::default(),
            memo: RefCell::default(),
            refused: cache::RefusedForms::default(),
        }
    }

    /// The meaning of a text, read as this dialect.
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
        // Where servers get each client's address and port, no two are the same.
        if key.client.is_some() {
            return Arc::new(key);
        }
        let mut keys = self.keys.borrow_mut();
        // Keys that no session uses any more are forgotten, passwords with them.
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

    /// Whether the catalog of this worker was read, or could not be read, after the last request for one.
    #[inline]
    pub fn catalog_is_fresh(&self) -> bool {
        self.catalog_answers.get() >= self.shared.published.catalog_request()
    }

    /// Whether this is the catalog still.
    pub fn has_catalog(&self, seen: &CountedHere<Catalog>) -> bool {
        Rc::ptr_eq(&self.catalog.borrow(), seen)
    }

    /// The character set of a handshake's collation, if MariaDB refuses a client that speaks it because its parser cannot
    /// read it. MySQL takes the server's own character set instead.
    pub fn unreadable_charset(&self, collation: u16) -> Option<Arc<str>> {
        let mariadb = self.view().flavour.as_ref().is_some_and(|flavour| flavour.mariadb);
        let charset = self.catalog().collations.get(&collation)?.charset.clone();
        (mariadb && matches!(&*charset, "ucs2" | "utf16" | "utf16le" | "utf32")).then_some(charset)
    }

    /// Waits for the first catalog, but no longer than `limit`.
    pub async fn first_catalog(&self, limit: Duration) {
        let deadline = tokio::time::Instant::now() + limit;
        loop {
            let changed = self.changed.notified();
            if self.catalog().number > 0 || tokio::time::timeout_at(deadline, changed).await.is_err() {
                return;
            }
        }
    }

    /// The catalog. One that was to be read again when the call came is waited for, but no longer than `limit`.
    pub async fn fresh_catalog(&self, limit: Duration) -> CountedHere<Catalog> {
        let deadline = tokio::time::Instant::now() + limit;
        let request = self.shared.published.catalog_request();
        loop {
            let changed = self.changed.notified();
            let (catalog, published) = (self.catalog(), &self.shared.published);
            let is_here = published.catalog_has(request) && Arc::ptr_eq(&catalog, &published.catalog.load());
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

    /// Takes the view that was published last, and gives the one before. Counts the worker among those that write as long as its view
    /// does not hold writes.
    fn take_view(&self) -> CountedHere<View> {
        let published = &self.shared.published;
        let mut view = published.view.load_full();
        if !view.hold_writes && !self.writing.replace(true) {
            published.writing.begin();
            view = published.view.load_full();
        }
        let holds = view.hold_writes;
        let before = self.view.replace(Rc::new(view));
        if holds && self.writing.replace(false) {
            published.writing.end();
        }
        before
    }

    /// Whether the end of this connection, which was opened at that time, belongs to the last change of the primary.
    pub fn is_ended_by_demotion(&self, server: ServerId, opened: Instant) -> bool {
        self.demoted.borrow().ends(server, opened)
    }

    /// Takes what was published last.
    pub fn refresh(self: &Rc<Self>, shared: &Arc<Shared>) {
        self.note_positions();
        self.pools.renew_settings();
        self.is_standalone.set(self.pools.settings().is_standalone);
        self.pipelines.set_bounds(PipelineBounds::of(&self.pools.settings().pool));
        let before = self.take_view();
        let view = self.view();
        self.loads.viewed(&view, Instant::now());
        let fenced = |view: &View| -> Vec<ServerId> {
            view.servers.iter().filter(|server| server.fenced).map(|server| server.id).collect()
        };
        if before.primary != view.primary || before.hold_writes != view.hold_writes || fenced(&before) != fenced(&view)
        {
            self.roles_changed.set(Instant::now());
        }
        self.demoted.borrow_mut().note(&before, &view, Instant::now());
        // Results that were read by the old view may be from a server that has missed writes on another one.
        if let Some(epochs) = self.shared.epochs.get().filter(|_| before.primary != view.primary) {
            epochs.written(None);
        }
        // No session waits for one that is given up, or that takes no sessions any more.
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
        self.catalog_answers.set(self.shared.published.catalog_answers());
        let catalog = self.shared.published.catalog.load_full();
        if !Arc::ptr_eq(&catalog, &self.catalog.borrow()) {
            self.memo.borrow_mut().clear();
            self.refused.clear();
        }
        *self.catalog.borrow_mut() = Rc::new(catalog);
        self.pools.tidy(&self.view.borrow().servers);
        self.pipelines.tidy(&self.view.borrow().servers);
        self.changed.notify_waiters();
    }
}

/// Looks stored functions up in a catalog.
#[derive(Debug)]
pub struct KnownFunctions<'a>(pub &'a Catalog);

impl Functions for KnownFunctions<'_> {
    fn access(&self, schema: Option<&str>, name: &str) -> FunctionAccess {
        match self.0.function(schema, name) {
            Some(RoutineAccess::Reads) if self.0.functions_complete => FunctionAccess::Reads,
            Some(RoutineAccess::Writes) => FunctionAccess::Writes,
            _ => FunctionAccess::Unknown,
        }
    }

    fn bears_own_word(&self, name: &str) -> bool {
        !self.0.own_words.is_empty() && self.0.own_words.contains(name)
    }

    fn leaves(&self, schema: Option<&str>, name: &str) -> Leaves {
        self.0.function_leaves(schema, name)
    }

    fn procedure_leaves(&self, schema: Option<&str>, name: &str) -> Leaves {
        self.0.procedure_leaves(schema, name)
    }

    fn leaves_of_named(&self, text: &str) -> Leaves {
        self.0.leaves_of_named(text)
    }

    fn asks(&self, schema: Option<&str>, name: &str) -> Asks {
        self.0.routine_asks(schema, name)
    }
}

impl ClusterHere {
    /// A server confirmed to a session at this moment that this transaction is its own.
    pub fn note_confirmed(&self, name: Name, at: Instant) {
        let mut confirmed = self.confirmed.borrow_mut();
        if confirmed.len() >= CONFIRMED_MAX {
            confirmed.pop_front();
        }
        confirmed.push_back((at, name));
    }

    /// All confirmed transactions since then; `None` if some are forgotten.
    pub fn confirmed_since(&self, since: Instant) -> Option<Vec<Name>> {
        let confirmed = self.confirmed.borrow();
        let reaches = confirmed.len() < CONFIRMED_MAX || confirmed.front().is_some_and(|(at, _)| *at < since);
        reaches.then(|| confirmed.iter().map(|(_, name)| *name).collect())
    }

    /// The position that a server had applied before this moment, and the moment from which on it had that.
    pub fn position_before(&self, server: ServerId, at: Instant) -> Option<(Arc<Applied>, Instant)> {
        let past = self.past_positions.borrow();
        let mut known = before(&past, at).filter_map(|past| past.positions.of(server));
        known.next().map(|position| (position.applied.clone(), position.asked))
    }

    /// The last report of a group's members on their logs before this moment, and when that was known.
    pub fn group_logs_before(&self, at: Instant) -> Option<(Arc<GroupLogs>, Instant)> {
        let past = self.past_positions.borrow();
        let known = before(&past, at).next();
        known.map(|past| (past.group_logs.clone(), past.noted))
    }

    fn note_positions(&self) {
        let mut past = self.past_positions.borrow_mut();
        if past.len() >= PAST_POSITIONS_MAX {
            past.pop_front();
        }
        let published = &self.shared.published;
        past.push_back(Past {
            positions: published.positions.load_full(),
            group_logs: published.group_logs.load_full(),
            noted: Instant::now(),
        });
    }

    /// Looks through the idle connections, and after what waits for one.
    pub fn refresh_pools(&self) {
        self.note_positions();
        let view = self.view();
        self.pools.tidy(&view.servers);
        self.pools.serve_waiters();
        self.pools.warm(&view.servers);
    }
}
