//! Servers' answers about something that statements change, as both planes share them, and whether they can be believed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arc_swap::{ArcSwap, Guard};

/// The newest reading of something, such as the catalogue of tables. All that counts is ordered one after the other (`SeqCst`).
#[derive(Debug, Default)]
pub struct Believed<T> {
    newest: ArcSwap<T>,
    /// Moves with everything that may change what [`Believed::current`] gives.
    version: AtomicU64,
    watched: AtomicBool,
    /// Statements that are being run and may change it.
    defining: AtomicUsize,
    /// How often a fresh reading was asked for, and up to which request it was read.
    wanted: AtomicU64,
    read: AtomicU64,
}

impl<T: PartialEq> Believed<T> {
    /// The newest reading; `None` while there is none or a statement may have changed what it says: anything may be so then.
    pub fn current(&self) -> Option<Guard<Arc<T>>> {
        // Judged after it was taken: what is believed now was true then.
        let newest = self.newest.load();
        self.is_current().then_some(newest)
    }

    /// As long as this is the same, so is what [`Believed::current`] gives, if it is asked behind this.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    fn is_current(&self) -> bool {
        let read = self.read.load(Ordering::SeqCst);
        self.defining.load(Ordering::SeqCst) == 0 && read > 0 && read >= self.wanted.load(Ordering::SeqCst)
    }

    /// Whether anybody wants it.
    pub fn is_watched(&self) -> bool {
        self.watched.load(Ordering::SeqCst)
    }

    /// From now on it is read. Gives whether it was not wanted before.
    pub(crate) fn watch(&self) -> bool {
        if self.is_watched() || self.watched.swap(true, Ordering::SeqCst) {
            return false;
        }
        self.forget();
        true
    }

    /// A statement is about to be sent to a server that may change what was read.
    pub(crate) fn definition_begins(&self) {
        self.defining.fetch_add(1, Ordering::SeqCst);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// It is over, whatever became of it.
    pub(crate) fn definition_ends(&self) {
        self.forget();
        self.defining.fetch_sub(1, Ordering::SeqCst);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    // Control plane's side.

    /// Marks the known value as not to be believed any more.
    pub fn forget(&self) {
        self.wanted.fetch_add(1, Ordering::SeqCst);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether a reading is asked for that has not been done.
    pub fn is_wanted(&self) -> bool {
        self.is_watched() && self.read.load(Ordering::SeqCst) < self.wanted.load(Ordering::SeqCst)
    }

    /// The number of the last request, for [`Believed::publish`].
    pub fn request(&self) -> u64 {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Publishes what a reading gave that began after this request.
    pub fn publish(&self, reading: T, request: u64) {
        let is_other = reading != **self.newest.load();
        if is_other {
            self.newest.store(Arc::new(reading));
        }
        let before = self.read.fetch_max(request, Ordering::SeqCst);
        if is_other || before < request {
            self.version.fetch_add(1, Ordering::SeqCst);
        }
    }
}
