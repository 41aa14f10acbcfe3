//! The kinds of clients for whom the result cache is filled from files, and how far that is.
//!
//! An answer is found by all of a session that may change it. So the statements of a file are run in sessions that are like a real
//! client's: the first session of a kind that asks the cache is noted here.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cache::{Context, WarmCounts, WarmReport, WarmRun};
use config::{Consistency, Split, Warm};
use route::state::StateMap;
use wire::Capabilities;

use super::ListenerShared;
use crate::pool::Key;

/// Kinds of clients that are warmed for a file.
const KINDS_MAX: usize = 4;
/// A kind of clients: those for whom the same text has the same answer.
#[derive(Debug)]
pub struct ClientKind {
    /// The values that tell their cached results apart.
    pub context: Context,
    /// The user's rights, which also belong to the question; once they are others, all is run again.
    pub rights: u64,
    /// Where they come in.
    pub listener: Arc<ListenerShared>,
    /// The key of their backend connections; nothing once the last of them has gone, and their password with it.
    pub key: Weak<Key>,
    /// Their session variables and schema.
    pub state: Arc<StateMap>,
    /// The capabilities of their connections.
    pub capabilities: Capabilities,
    /// Where one of them is.
    pub client: Option<SocketAddr>,
    /// The collation of their login.
    pub collation: u16,
    /// How their statements are split.
    pub split: Split,
    /// The consistency of their reads, now and as configured.
    pub consistency: (Consistency, Consistency),
    /// The user's limit of backend connections.
    pub connections_max: u32,
    /// Statements are run for it.
    pub busy: Arc<AtomicBool>,
    /// They are to be run again.
    pub again: Arc<AtomicBool>,
}

impl ClientKind {
    /// Whether some of its clients are connected.
    pub fn is_there(&self) -> bool {
        self.key.strong_count() > 0
    }
}

/// The known state of the files, by name.
#[derive(Debug, Default)]
pub struct Warming {
    files: Mutex<BTreeMap<Arc<str>, File>>,
    /// Clusters whose files will be run in a moment.
    soon: Mutex<Vec<Arc<str>>>,
}

#[derive(Debug, Default)]
struct File {
    kinds: Vec<Arc<ClientKind>>,
    running: u32,
    runs: u64,
    last: Option<WarmRun>,
    total: WarmCounts,
}

impl Warming {
    fn files(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, File>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session of this kind asks the cache. Gives its kind if it is new, or has other rights than before.
    pub fn note(
        &self,
        name: &Arc<str>,
        (context, rights): (&Context, u64),
        kind: impl FnOnce() -> ClientKind,
    ) -> Option<Arc<ClientKind>> {
        let mut files = self.files();
        let kinds = &mut files.entry(name.clone()).or_default().kinds;
        let known = kinds.iter().position(|known| known.context == *context);
        if known.is_some_and(|at| kinds[at].rights == rights && kinds[at].is_there()) {
            return None;
        }
        let mut kind = kind();
        if let Some(at) = known {
            // Its last client had gone, and what was kept for it may still be there; or nothing that was kept fits any more.
            (kind.busy, kind.again) = (kinds[at].busy.clone(), kinds[at].again.clone());
            let has_other_rights = kinds[at].rights != rights;
            kinds[at] = Arc::new(kind);
            return has_other_rights.then(|| kinds[at].clone());
        }
        if kinds.len() >= KINDS_MAX {
            let gone = kinds.iter().position(|known| !known.is_there())?;
            kinds.remove(gone);
        }
        let kind = Arc::new(kind);
        kinds.push(kind.clone());
        Some(kind)
    }

    /// The kinds that a file of this name was run for, or is to be.
    pub fn kinds(&self, name: &str) -> Vec<Arc<ClientKind>> {
        self.files().get(name).map(|file| file.kinds.clone()).unwrap_or_default()
    }

    /// A file is run for a kind.
    pub fn began(&self, name: &Arc<str>) {
        self.files().entry(name.clone()).or_default().running += 1;
    }

    /// A statement of a run is done.
    pub fn count(&self, name: &str, count: fn(&mut WarmCounts) -> &mut u64) {
        if let Some(file) = self.files().get_mut(name) {
            *count(&mut file.total) += 1;
        }
    }

    /// A run is over; another one for the same kind may follow at once.
    pub fn ended(&self, name: &str, run: WarmRun) {
        if let Some(file) = self.files().get_mut(name) {
            file.runs += 1;
            file.last = Some(run);
        }
    }

    /// None follows.
    pub fn rests(&self, name: &str) {
        if let Some(file) = self.files().get_mut(name) {
            file.running = file.running.saturating_sub(1);
        }
    }
    /// The files of a cluster will be run in a moment. False if that was said before.
    pub fn begins_soon(&self, cluster: &Arc<str>) -> bool {
        let mut soon = self.soon.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !soon.contains(cluster);
        if is_new {
            soon.push(cluster.clone());
        }
        is_new
    }

    /// They begin now.
    pub fn begins(&self, cluster: &str) {
        self.soon.lock().unwrap_or_else(PoisonError::into_inner).retain(|known| **known != *cluster);
    }

    /// The runs of a file, as this process counts them.
    pub fn report(&self, name: &Arc<str>, warm: &Warm) -> WarmReport {
        let files = self.files();
        let file = files.get(name);
        WarmReport {
            name: name.clone(),
            cluster: warm.cluster.clone(),
            user: warm.user.clone(),
            schema: warm.schema.clone(),
            file: warm.file.clone(),
            statements: warm.statements.len(),
            kinds: file.map_or(0, |file| file.kinds.iter().filter(|kind| kind.is_there()).count()),
            running: file.map_or(0, |file| file.running),
            runs: file.map_or(0, |file| file.runs),
            last: file.and_then(|file| file.last.clone()),
            total: file.map(|file| file.total).unwrap_or_default(),
        }
    }
}
