//! Filling the result cache from files of statements: which kinds of clients there are, and what runs for them.
//!
//! An answer is found by all of a session that may change it. So statements are run in sessions that are twins of a real client's: the
//! first one of a kind that asks the cache is noted here, and its kind is warmed then, after another server became the primary, and on demand.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use cache::{Context, WarmCounts, WarmReport, WarmRun, Warmer};
use config::{Consistency, Split, Warm};
use wire::Capabilities;

use crate::pool::Key;
use crate::shared::{ListenerShared, Mail, Mailboxes, Shared};
use crate::worker::{ClusterHere, Worker};
use route::state::StateMap;

/// Kinds of clients that are warmed for a file.
const KINDS_MAX: usize = 4;
/// After another server became the primary, all workers have heard of it after so long; each of them ends what was kept before.
const SETTLE: Duration = Duration::from_secs(1);

/// A kind of clients: those for whom the same text has the same answer.
#[derive(Debug)]
pub struct Kind {
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
    pub(crate) busy: Arc<AtomicBool>,
    /// They are to be run again.
    pub(crate) again: Arc<AtomicBool>,
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
    kinds: Vec<Arc<Kind>>,
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
    fn note(
        &self,
        name: &Arc<str>,
        (context, rights): (&Context, u64),
        kind: impl FnOnce() -> Kind,
    ) -> Option<Arc<Kind>> {
        let mut files = self.files();
        let kinds = &mut files.entry(name.clone()).or_default().kinds;
        let known = kinds.iter().position(|known| known.context == *context);
        if known.is_some_and(|at| kinds[at].rights == rights && kinds[at].key.strong_count() > 0) {
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
            let gone = kinds.iter().position(|known| known.key.strong_count() == 0)?;
            kinds.remove(gone);
        }
        let kind = Arc::new(kind);
        kinds.push(kind.clone());
        Some(kind)
    }

    fn kinds(&self, name: &str) -> Vec<Arc<Kind>> {
        self.files().get(name).map(|file| file.kinds.clone()).unwrap_or_default()
    }

    fn began(&self, name: &Arc<str>) {
        self.files().entry(name.clone()).or_default().running += 1;
    }

    /// A statement of a run is done.
    pub(crate) fn count(&self, name: &str, count: fn(&mut WarmCounts) -> &mut u64) {
        if let Some(file) = self.files().get_mut(name) {
            *count(&mut file.total) += 1;
        }
    }

    /// A run is over; another one for the same kind may follow at once.
    fn ended(&self, name: &str, run: WarmRun) {
        if let Some(file) = self.files().get_mut(name) {
            file.runs += 1;
            file.last = Some(run);
        }
    }

    /// None follows.
    fn rests(&self, name: &str) {
        if let Some(file) = self.files().get_mut(name) {
            file.running = file.running.saturating_sub(1);
        }
    }
}

/// The files that fill the cache for this user and schema, as far as this kind of clients is new to them.
pub fn note(
    worker: &Rc<Worker>,
    cluster: &str,
    user: &str,
    schema: Option<&str>,
    context: (&Context, u64),
    kind: impl Fn() -> Kind,
) {
    let config = worker.shared.config.load();
    for (name, warm) in &config.warms {
        let fits = *warm.cluster == *cluster && *warm.user == *user && warm.schema.as_deref() == schema;
        if fits && let Some(kind) = worker.shared.warming.note(name, context, &kind) {
            start(worker, name, warm, kind, "first client");
        }
    }
}

/// Runs a file for all kinds of clients that were seen.
pub fn run_for_all(worker: &Rc<Worker>, name: &Arc<str>, why: &'static str) {
    let config = worker.shared.config.load();
    let Some(warm) = config.warms.get(name) else { return };
    for kind in worker.shared.warming.kinds(name) {
        start(worker, name, warm, kind, why);
    }
}

/// Another server is the primary: what was kept before is forgotten.
pub fn primary_changed(worker: &Rc<Worker>, cluster: &Rc<ClusterHere>) {
    let name = cluster.shared.name.clone();
    if !worker.shared.config.load().warms.values().any(|warm| warm.cluster == name) {
        return;
    }
    {
        // One worker is enough.
        let mut soon = worker.shared.warming.soon.lock().unwrap_or_else(PoisonError::into_inner);
        if soon.contains(&name) {
            return;
        }
        soon.push(name.clone());
    }
    let worker = worker.clone();
    tokio::task::spawn_local(async move {
        tokio::time::sleep(SETTLE).await;
        worker.shared.warming.soon.lock().unwrap_or_else(PoisonError::into_inner).retain(|known| *known != name);
        let config = worker.shared.config.load_full();
        for (file, _) in config.warms.iter().filter(|(_, warm)| warm.cluster == name) {
            run_for_all(&worker, file, "another primary");
        }
    });
}

fn start(worker: &Rc<Worker>, name: &Arc<str>, warm: &Arc<Warm>, kind: Arc<Kind>, why: &'static str) {
    if kind.busy.swap(true, Ordering::SeqCst) {
        kind.again.store(true, Ordering::SeqCst);
        return;
    }
    let (worker, name, warm) = (worker.clone(), name.clone(), warm.clone());
    worker.shared.warming.began(&name);
    tokio::task::spawn_local(async move {
        loop {
            if let Some(run) = crate::session::warm_up(&worker, &name, &warm, &kind, why).await {
                worker.shared.warming.ended(&name, run);
            }
            kind.busy.store(false, Ordering::SeqCst);
            // A request that came meanwhile wants another run; one that comes now begins by itself.
            if !kind.again.swap(false, Ordering::SeqCst) || kind.busy.swap(true, Ordering::SeqCst) {
                worker.shared.warming.rests(&name);
                return;
            }
        }
    });
}

/// Asks the workers to fill the cache.
pub struct WarmAll {
    pub(crate) shared: Arc<Shared>,
    pub(crate) mailboxes: Mailboxes,
}

impl Warmer for WarmAll {
    fn start(&self, cluster: Option<&str>) -> usize {
        let config = self.shared.config.load();
        let mut kinds = 0;
        for (name, _) in config.warms.iter().filter(|(_, warm)| cluster.is_none_or(|only| *warm.cluster == *only)) {
            kinds += self.shared.warming.kinds(name).iter().filter(|kind| kind.key.strong_count() > 0).count();
            if let Some(mailbox) = self.mailboxes.first() {
                // A worker that has ended fills nothing.
                let _ = mailbox.send(Mail::Warm(name.clone()));
            }
        }
        kinds
    }

    fn report(&self) -> Vec<WarmReport> {
        let config = self.shared.config.load();
        let files = self.shared.warming.files();
        let report = |(name, warm): (&Arc<str>, &Arc<Warm>)| {
            let file = files.get(name);
            WarmReport {
                name: name.clone(),
                cluster: warm.cluster.clone(),
                user: warm.user.clone(),
                schema: warm.schema.clone(),
                file: warm.file.clone(),
                statements: warm.statements.len(),
                kinds: file.map_or(0, |file| file.kinds.iter().filter(|kind| kind.key.strong_count() > 0).count()),
                running: file.map_or(0, |file| file.running),
                runs: file.map_or(0, |file| file.runs),
                last: file.and_then(|file| file.last.clone()),
                total: file.map(|file| file.total).unwrap_or_default(),
            }
        };
        config.warms.iter().map(report).collect()
    }
}
