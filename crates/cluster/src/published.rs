//! Where the control plane and the data plane meet: the snapshots of one cluster, and the way back for evidence.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use arc_swap::ArcSwap;

use crate::accounts::Accounts;
use crate::catalog::Catalog;
use crate::observation::Evidence;
use crate::view::View;

/// Evidence beyond this many entries is dropped: by then the servers it speaks of have been probed anyway.
const EVIDENCE_MAX: usize = 64;

type Callback = Box<dyn Fn() + Send + Sync>;

/// The snapshots of one cluster, readable by any thread without waiting.
pub struct Published {
    /// Roles and health.
    pub view: ArcSwap<View>,
    /// The servers' accounts.
    pub accounts: ArcSwap<Accounts>,
    /// The servers' dictionaries.
    pub catalog: ArcSwap<Catalog>,
    subscribers: RwLock<Vec<Callback>>,
    evidence: Mutex<VecDeque<Evidence>>,
    accounts_wanted: AtomicBool,
    control: RwLock<Option<Callback>>,
}

impl fmt::Debug for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Published").field("view", &self.view.load()).finish_non_exhaustive()
    }
}

impl Published {
    /// A cluster of which nothing is known yet.
    pub fn new(cluster: &str) -> Published {
        Published {
            view: ArcSwap::from_pointee(View::empty(cluster)),
            accounts: ArcSwap::default(),
            catalog: ArcSwap::default(),
            subscribers: RwLock::default(),
            evidence: Mutex::default(),
            accounts_wanted: AtomicBool::new(false),
            control: RwLock::default(),
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

    // Control plane's side.

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

    /// Takes the evidence that is unread.
    pub fn take_evidence(&self) -> Vec<Evidence> {
        self.queue().drain(..).collect()
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
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;
    use crate::observation::EvidenceKind;
    use crate::view::ServerId;

    fn counter() -> (Arc<AtomicU32>, Callback) {
        let calls = Arc::new(AtomicU32::new(0));
        let in_callback = calls.clone();
        (
            calls,
            Box::new(move || {
                in_callback.fetch_add(1, Ordering::Relaxed);
            }),
        )
    }

    #[test]
    fn each_publish_wakes_every_subscriber() {
        let published = Published::new("main");
        let (first, callback) = counter();
        published.subscribe(callback);
        let (second, callback) = counter();
        published.subscribe(callback);
        published.publish_view(View { number: 1, ..View::empty("main") });
        published.publish_accounts(Accounts { number: 7, ..Accounts::default() });
        assert_eq!((first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)), (2, 2));
        assert_eq!((published.view.load().number, published.accounts.load().number), (1, 7));
    }

    #[test]
    fn evidence_is_coalesced_and_bounded() {
        let published = Published::new("main");
        let (wakes, callback) = counter();
        published.attach_control(callback);
        let lost = |server| Evidence { server: ServerId(server), kind: EvidenceKind::ConnectionLost };
        for _ in 0..1000 {
            published.evidence(lost(1));
        }
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
        assert_eq!(published.take_evidence(), [lost(1)]);
        (0..1000).for_each(|server| published.evidence(lost(server)));
        assert_eq!(published.take_evidence().len(), EVIDENCE_MAX);
        assert!(published.take_evidence().is_empty());
    }

    #[test]
    fn a_refresh_is_asked_for_once_until_it_is_taken() {
        let published = Published::new("main");
        let (wakes, callback) = counter();
        published.attach_control(callback);
        published.request_accounts_refresh();
        published.request_accounts_refresh();
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
        assert!(published.take_accounts_request());
        assert!(!published.take_accounts_request());
    }
}
