//! Where the control plane and the data plane meet: the snapshots of one cluster, and the way back for evidence.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Instant;

use arc_swap::ArcSwap;

use crate::accounts::Accounts;
use crate::catalog::Catalog;
use crate::changes::ChangeListener;
use crate::evidence::Evidence;
use crate::grants::PublishedGrants;
use crate::group_logs::{GroupLogs, MemberLog};
use crate::gtid::Applied;
use crate::lags::Lags;
use crate::positions::Positions;
use crate::tables::PublishedTables;
use crate::view::{ServerId, View};
use crate::writing::WritingWorkers;

/// Evidence beyond this many entries is dropped: by then the servers it speaks of have been probed anyway.
const EVIDENCE_MAX: usize = 64;

type Callback = Box<dyn Fn() + Send + Sync>;

/// The snapshots of one cluster, readable by any thread without waiting.
pub struct Published {
    /// Roles and health.
    pub view: ArcSwap<View>,
    /// The workers that may send writes to the primary by the view that they have.
    pub writing: WritingWorkers,
    /// The servers' accounts.
    pub accounts: ArcSwap<Accounts>,
    /// The servers' dictionaries.
    pub catalog: ArcSwap<Catalog>,
    /// The primary's tables, if anybody wants them.
    pub tables: PublishedTables,
    /// The privileges of users to read, if anybody wants them.
    pub grants: PublishedGrants,
    /// The applied position of each server.
    pub positions: ArcSwap<Positions>,
    /// The reports of a Galera group's members about their binary logs. No task is woken when they change.
    pub group_logs: ArcSwap<GroupLogs>,
    /// How far each server was behind when it was probed last. No task is woken when it changes.
    pub lags: ArcSwap<Lags>,
    subscribers: RwLock<Vec<Callback>>,
    evidence: Mutex<VecDeque<Evidence>>,
    accounts_wanted: AtomicBool,
    /// How often accounts were changed through here, and up to which change they have been read.
    accounts_changed: AtomicU64,
    accounts_read: AtomicU64,
    /// How often a fresh catalog was asked for, and up to which request it has been read.
    catalog_wanted: AtomicU64,
    catalog_read: AtomicU64,
    /// The request for the catalog that came with the last change of a default.
    defaults_wanted: AtomicU64,
    positions_wanted: AtomicBool,
    control: RwLock<Option<Callback>>,
    listener: RwLock<Option<Arc<dyn ChangeListener>>>,
}

impl fmt::Debug for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Published").field("view", &self.view.load()).finish_non_exhaustive()
    }
}

/// A definition that is being run, until this is dropped.
#[derive(Debug)]
pub struct Defining(Arc<Published>);

impl Drop for Defining {
    fn drop(&mut self) {
        self.0.tables.definition_ends();
        self.0.wake_control();
    }
}

/// A statement that may change users' rights is being run, until this is dropped.
#[derive(Debug)]
pub struct Granting(Arc<Published>);

impl Drop for Granting {
    fn drop(&mut self) {
        self.0.grants.definition_ends();
        self.0.wake_control();
    }
}

impl Published {
    /// A cluster of which nothing is known yet.
    pub fn new(cluster: &str) -> Published {
        Published {
            view: ArcSwap::from_pointee(View::empty(cluster)),
            writing: WritingWorkers::default(),
            accounts: ArcSwap::default(),
            catalog: ArcSwap::default(),
            tables: PublishedTables::default(),
            grants: PublishedGrants::default(),
            positions: ArcSwap::default(),
            group_logs: ArcSwap::default(),
            lags: ArcSwap::default(),
            subscribers: RwLock::default(),
            evidence: Mutex::default(),
            accounts_wanted: AtomicBool::new(false),
            accounts_changed: AtomicU64::new(0),
            accounts_read: AtomicU64::new(0),
            // The first reading is as wanted as any.
            catalog_wanted: AtomicU64::new(1),
            catalog_read: AtomicU64::new(0),
            defaults_wanted: AtomicU64::new(0),
            positions_wanted: AtomicBool::new(false),
            control: RwLock::default(),
            listener: RwLock::default(),
        }
    }

    // Data plane's side.

    /// Has `callback` called after each publish of a view, of accounts or of a catalog, on the publishing thread. It
    /// must be short and must not subscribe in turn.
    pub fn subscribe(&self, callback: Box<dyn Fn() + Send + Sync>) {
        self.subscribers.write().unwrap_or_else(PoisonError::into_inner).push(callback);
    }

    /// Tells the control plane what a session saw of a server. Never waits; the same word about the same server is
    /// kept once until it is read, and when too much is unread the word is dropped.
    pub fn evidence(&self, evidence: Evidence) {
        {
            let mut queue = self.queue();
            if queue.contains(&evidence) || queue.len() >= EVIDENCE_MAX {
                return;
            }
            queue.push_back(evidence);
        }
        self.wake_control();
    }

    /// Asks for the accounts to be read again. The answer is a greater [`Accounts::number`], whether or not anything
    /// changed and whether or not a server could be read; requests are throttled, so it can take more than a second.
    pub fn request_accounts_refresh(&self) {
        if !self.accounts_wanted.swap(true, Ordering::AcqRel) {
            self.wake_control();
        }
    }

    /// Accounts were changed just now: they are to be read again at once. [`Published::accounts_are_fresh`] is false until
    /// that is done; subscribers get a message.
    pub fn accounts_changed(&self) {
        self.accounts_changed.fetch_add(1, Ordering::SeqCst);
        self.wake_control();
    }

    /// Whether the accounts were read, or could not be, after the last change that was made through here.
    pub fn accounts_are_fresh(&self) -> bool {
        self.accounts_have(self.accounts_change())
    }

    /// Whether the accounts were read, or could not be, after this change ([`Published::accounts_change`]). A login waits for
    /// the changes that were there before it: later ones may never end.
    pub fn accounts_have(&self, change: u64) -> bool {
        self.accounts_read.load(Ordering::SeqCst) >= change
    }

    /// Asks for the catalog to be read again: something in it was changed just now. [`Published::catalog_is_fresh`] is
    /// false until that is done; subscribers get a message.
    pub fn request_catalog_refresh(&self) {
        self.catalog_wanted.fetch_add(1, Ordering::AcqRel);
        self.wake_control();
    }

    /// Asks for the catalog to be read again, because a default that sessions begin with was changed.
    pub fn request_defaults_refresh(&self) {
        let number = self.catalog_wanted.fetch_add(1, Ordering::AcqRel) + 1;
        self.defaults_wanted.fetch_max(number, Ordering::AcqRel);
        self.wake_control();
    }

    /// Whether the catalog was read, or could not be read, after the last change of a default.
    pub fn defaults_are_known(&self) -> bool {
        self.catalog_has(self.defaults_wanted.load(Ordering::Acquire))
    }

    /// Whether the catalog was read, or could not be read, after the last request for it.
    pub fn catalog_is_fresh(&self) -> bool {
        self.catalog_has(self.catalog_request())
    }

    /// Whether the catalog was read, or could not be read, after this request ([`Published::catalog_request`]).
    pub fn catalog_has(&self, request: u64) -> bool {
        self.catalog_answers() >= request
    }

    /// The last request after which the catalog was read, or could not be read. A catalog that is loaded behind this call knows of
    /// all that came before that request.
    pub fn catalog_answers(&self) -> u64 {
        self.catalog_read.load(Ordering::Acquire)
    }

    /// Has the catalogue of tables read, and kept from then on. Calling it again costs nothing.
    pub fn watch_tables(&self) {
        if self.tables.watch() {
            self.wake_control();
        }
    }

    /// Tables, views and the like may have been defined elsewhere: what is known of them is not believed until it was read again.
    pub fn tables_changed(&self) {
        self.tables.forget();
        self.wake_control();
    }

    /// Users' rights may have been changed elsewhere: what is known of them is not believed until it was read again.
    pub fn rights_changed(&self) {
        if self.grants.is_watched() {
            self.grants.forget();
            self.wake_control();
        }
    }

    /// A statement that may define tables, views, triggers and the like is about to be sent to a server: what is known of
    /// tables is not believed until a reading that begins after the answer's drop.
    pub fn defining(self: &Arc<Self>) -> Defining {
        self.tables.definition_begins();
        Defining(self.clone())
    }

    /// Has the users' rights read, and kept from then on. Calling it again costs nothing.
    pub fn watch_grants(&self) {
        if self.grants.watch() {
            self.wake_control();
        }
    }

    /// A statement that may change users' rights is about to be sent to a server: what is known of them is not believed
    /// until a reading that begins after the answer's drop.
    pub fn granting(self: &Arc<Self>) -> Granting {
        self.grants.definition_begins();
        Granting(self.clone())
    }

    /// Asks for the servers' positions to be read at once: a read found no replica that is known to have what it needs.
    /// Until that begins, asking again costs nothing.
    pub fn want_positions(&self) {
        let wanted = &self.positions_wanted;
        if !wanted.load(Ordering::Relaxed) && !wanted.swap(true, Ordering::AcqRel) {
            self.wake_control();
        }
    }

    /// Has changes of the primary's data reported to `listener`, from soon on; it replaces the one before it. Nothing is
    /// followed until somebody listens.
    pub fn follow_changes(&self, listener: Arc<dyn ChangeListener>) {
        *self.listener.write().unwrap_or_else(PoisonError::into_inner) = Some(listener);
        self.wake_control();
    }

    /// Ends the stream of changes. The listener may still receive a few.
    pub fn unfollow_changes(&self) {
        *self.listener.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.wake_control();
    }

    // Control plane's side.

    /// The listener that hears of changes.
    pub fn change_listener(&self) -> Option<Arc<dyn ChangeListener>> {
        self.listener.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Publishes a server's report of its position; see [`Positions::with`]. Only one thread may do
    /// so. No task is woken: sessions read positions when they route.
    pub fn publish_position(&self, server: ServerId, reported: Option<(Applied, bool)>, asked: Instant) {
        let positions = self.positions.load().with(server, reported, asked);
        self.positions.store(Arc::new(positions));
    }

    /// Publishes the report of a member of a Galera group about its binary log. Only one thread may do so.
    pub fn publish_group_log(&self, server: ServerId, reported: MemberLog) {
        let logs = self.group_logs.load().with(server, reported);
        self.group_logs.store(Arc::new(logs));
    }

    /// Whether sessions want positions that are not being read yet.
    pub fn positions_wanted(&self) -> bool {
        self.positions_wanted.load(Ordering::Acquire)
    }

    /// The positions are being read from now on: a session that needs newer ones asks again.
    pub fn reading_positions(&self) {
        self.positions_wanted.store(false, Ordering::Release);
    }

    /// Publishes a view.
    pub fn publish_view(&self, view: View) {
        self.view.store(Arc::new(view));
        self.tell_subscribers();
    }

    /// Publishes accounts.
    pub fn publish_accounts(&self, accounts: Accounts) {
        self.accounts.store(Arc::new(accounts));
        self.tell_subscribers();
    }

    /// Publishes a catalog.
    pub fn publish_catalog(&self, catalog: Catalog) {
        self.catalog.store(Arc::new(catalog));
        self.tell_subscribers();
    }

    /// Has `callback` called when there is evidence or a request to read; it replaces the callback before it.
    pub fn attach_control(&self, callback: Box<dyn Fn() + Send + Sync>) {
        *self.control.write().unwrap_or_else(PoisonError::into_inner) = Some(callback);
    }

    /// The number of the last request for a catalog, for [`Published::catalog_was_read`].
    pub fn catalog_request(&self) -> u64 {
        self.catalog_wanted.load(Ordering::Acquire)
    }

    /// The catalog was read, or could not be, by a reading that began after request `number`.
    pub fn catalog_was_read(&self, number: u64) {
        if self.catalog_read.fetch_max(number, Ordering::AcqRel) < number {
            self.tell_subscribers();
        }
    }

    /// Takes the evidence that is unread.
    pub fn take_evidence(&self) -> Vec<Evidence> {
        self.queue().drain(..).collect()
    }

    /// The number of the last change of accounts, for [`Published::accounts_were_read`].
    pub fn accounts_change(&self) -> u64 {
        self.accounts_changed.load(Ordering::SeqCst)
    }

    /// The accounts were read, or could not be, by a reading that began after change `number`.
    pub fn accounts_were_read(&self, number: u64) {
        if self.accounts_read.fetch_max(number, Ordering::SeqCst) < number {
            self.tell_subscribers();
        }
    }

    /// Whether a refresh of the accounts was asked for since the last call.
    pub fn take_accounts_request(&self) -> bool {
        self.accounts_wanted.swap(false, Ordering::AcqRel)
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Evidence>> {
        self.evidence.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_subscribers(&self) {
        for callback in self.subscribers.read().unwrap_or_else(PoisonError::into_inner).iter() {
            callback();
        }
    }

    fn wake_control(&self) {
        if let Some(callback) = &*self.control.read().unwrap_or_else(PoisonError::into_inner) {
            callback();
        }
    }
}

#[cfg(test)]
mod tests;
