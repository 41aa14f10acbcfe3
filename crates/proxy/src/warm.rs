//! Filling the result cache from files of statements: when a file is run, and for which kinds of clients.
//!
//! A file is run for a kind of clients that is new, after another server became the primary, and on demand.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cache::{WarmReport, Warmer};
use config::Warm;

use crate::session::warm_up;
use crate::shared::{ClientKind, Mail, Mailboxes, Shared};
use crate::worker::Worker;

/// After another server became the primary, all workers have heard of it after so long; each of them ends what was kept before.
const SETTLE: Duration = Duration::from_secs(1);

/// Runs the files that fill the cache for this kind of clients.
pub fn run_for(worker: &Rc<Worker>, name: &Arc<str>, kind: Arc<ClientKind>, why: &'static str) {
    if let Some(warm) = worker.shared.config.load().warms.get(name) {
        start(worker, name, warm, kind, why);
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

/// Another server is the primary of a cluster: its cached answers are forgotten, and its files are run again.
pub fn primary_changed(worker: &Rc<Worker>, name: Arc<str>) {
    if !worker.shared.config.load().warms.values().any(|warm| warm.cluster == name) {
        return;
    }
    // One worker is enough.
    if !worker.shared.warming.begins_soon(&name) {
        return;
    }
    let worker = worker.clone();
    tokio::task::spawn_local(async move {
        tokio::time::sleep(SETTLE).await;
        worker.shared.warming.begins(&name);
        let config = worker.shared.config.load_full();
        for (file, _) in config.warms.iter().filter(|(_, warm)| warm.cluster == name) {
            run_for_all(&worker, file, "another primary");
        }
    });
}

fn start(worker: &Rc<Worker>, name: &Arc<str>, warm: &Arc<Warm>, kind: Arc<ClientKind>, why: &'static str) {
    if kind.busy.swap(true, Ordering::SeqCst) {
        kind.again.store(true, Ordering::SeqCst);
        return;
    }
    let (worker, name, warm) = (worker.clone(), name.clone(), warm.clone());
    worker.shared.warming.began(&name);
    tokio::task::spawn_local(async move {
        loop {
            if let Some(run) = warm_up(&worker, &name, &warm, &kind, why).await {
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
            kinds += self.shared.warming.kinds(name).iter().filter(|kind| kind.is_there()).count();
            if let Some(mailbox) = self.mailboxes.first() {
                // A worker that has ended fills nothing.
                let _ = mailbox.send(Mail::Warm(name.clone()));
            }
        }
        kinds
    }

    fn report(&self) -> Vec<WarmReport> {
        let config = self.shared.config.load();
        config.warms.iter().map(|(name, warm)| self.shared.warming.report(name, warm)).collect()
    }
}
