//! The catalogue of tables as both planes share it, and whether it can be believed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arc_swap::{ArcSwap, Guard};

use super::TableCatalog;

/// The newest catalogue. All that counts is ordered one after the other (`SeqCst`).
#[derive(Debug, Default)]
pub struct PublishedTables {
    catalog: ArcSwap<TableCatalog>,
    watched: AtomicBool,
    /// Definitions that are being run.
    defining: AtomicUsize,
    /// How often a fresh catalogue was asked for, and up to which request it was read.
    wanted: AtomicU64,
    read: AtomicU64,
}

impl PublishedTables {
    /// The catalogue; `None` while it is not known or a definition may have changed what it says: anything may touch any
    /// table then.
    pub fn current(&self) -> Option<Guard<Arc<TableCatalog>>> {
        // Judged after it was taken: what is believed now was true then.
        let catalog = self.catalog.load();
        self.is_current().then_some(catalog)
    }

    fn is_current(&self) -> bool {
        let read = self.read.load(Ordering::SeqCst);
        self.defining.load(Ordering::SeqCst) == 0 && read > 0 && read >= self.wanted.load(Ordering::SeqCst)
    }

    /// Whether anybody wants the catalogue.
    pub fn is_watched(&self) -> bool {
        self.watched.load(Ordering::SeqCst)
    }

    /// From now on the catalogue is kept. Gives whether nobody had wanted it before.
    pub(crate) fn watch(&self) -> bool {
        if self.is_watched() || self.watched.swap(true, Ordering::SeqCst) {
            return false;
        }
        self.forget();
        true
    }

    /// A definition is about to be sent to a server.
    pub(crate) fn definition_begins(&self) {
        self.defining.fetch_add(1, Ordering::SeqCst);
    }

    /// It is over, whatever became of it.
    pub(crate) fn definition_ends(&self) {
        self.forget();
        self.defining.fetch_sub(1, Ordering::SeqCst);
    }

    // Control plane's side.

    /// What is known is not to be believed any more.
    pub fn forget(&self) {
        self.wanted.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether a reading is asked for that has not been done.
    pub fn is_wanted(&self) -> bool {
        self.is_watched() && self.read.load(Ordering::SeqCst) < self.wanted.load(Ordering::SeqCst)
    }

    /// The number of the last request, for [`PublishedTables::publish`].
    pub fn request(&self) -> u64 {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Publishes what a reading gave that began after this request.
    pub fn publish(&self, catalog: TableCatalog, request: u64) {
        if catalog != **self.catalog.load() {
            self.catalog.store(Arc::new(catalog));
        }
        self.read.fetch_max(request, Ordering::SeqCst);
    }
}
