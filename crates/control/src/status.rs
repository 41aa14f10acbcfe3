//! The figures that the admin listener shows: those of the monitors, beside the workers' own.

mod shown;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use cache::{CountedWrites, Store, Warmer};
use cluster::command::Command;
use cluster::diagnosis::Diagnosis;
use cluster::observation::FailureClass;
use config::{Rule, Secret};
use facts::published::Published;
use stats::digests::DigestSource;
use tokio::sync::{mpsc, oneshot};

use crate::admin::{Answer, ChangeFigures, ServerReport};
use crate::cluster_link::ClusterLink;
use crate::journal::Journal;
use crate::lease::Confirmations;

/// The state that the control thread and the admin listener share.
pub(crate) struct Shared {
    pub(crate) workers: stats::Workers,
    pub(crate) digests: Arc<dyn DigestSource>,
    pub(crate) draining: AtomicBool,
    pub(crate) started: SystemTime,
    clusters: RwLock<BTreeMap<Arc<str>, Arc<ClusterStatus>>>,
    api_key: RwLock<Option<Secret>>,
    rules: RwLock<Arc<[Rule]>>,
    cache: OnceLock<Arc<Store>>,
    tier: OnceLock<Arc<tier::Tier>>,
    warmer: OnceLock<Arc<dyn Warmer>>,
    writes: OnceLock<Arc<dyn CountedWrites>>,
}

/// One cluster's snapshots and its monitor's figures.
pub(crate) struct ClusterStatus {
    pub(crate) name: Arc<str>,
    pub(crate) published: Arc<Published>,
    pub(crate) journal: Journal,
    /// Where wishes go to; the cluster's task answers them.
    pub(crate) wishes: mpsc::Sender<Wish>,
    figures: Mutex<Figures>,
}

/// A command for a cluster's task, and where the answer goes.
pub(crate) struct Wish {
    pub(crate) command: Command,
    pub(crate) answer: oneshot::Sender<Answer>,
}

/// Wishes that wait for the cluster's task.
const WISHES_MAX: usize = 16;

/// The figures that a cluster's monitor counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    pub(crate) diagnoses: Vec<Diagnosis>,
    pub(crate) servers: BTreeMap<Arc<str>, ServerFigures>,
    pub(crate) accounts_failures: u64,
    pub(crate) catalog_failures: u64,
    pub(crate) heartbeat_writes: u64,
    pub(crate) heartbeat_failures: u64,
    /// The mode of failover, as configured.
    pub(crate) failover: &'static str,
    /// The holders of the lease, in words; `None` when none is configured.
    pub(crate) lease: Option<String>,
    pub(crate) lease_held: bool,
    /// How often it was asked for, by result.
    pub(crate) lease_confirmations: Confirmations,
    pub(crate) runs: RunFigures,
    /// How often runs were not settled within their bounds of turns.
    pub(crate) unsettled: u64,
    /// The stream of changes; `None` when nobody listens.
    pub(crate) changes: Option<ChangeFigures>,
}

/// The outcomes of failovers and switchovers.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunFigures {
    /// By what they were ([`cluster::journal::RUN_WORDS`]): those that finished, those that were given up.
    pub(crate) ended: BTreeMap<&'static str, [u64; 2]>,
    /// By word: those that were done, those that failed.
    pub(crate) steps: BTreeMap<&'static str, [u64; 2]>,
    /// Changes of primary that were published after the first.
    pub(crate) primary_changes: u64,
}

/// The words of steps, as metrics list them.
pub(crate) const STEP_WORDS: [&str; 13] = [
    "take_lease",
    "release_lease",
    "read_facts",
    "set_read_only",
    "set_writable",
    "end_clients",
    "wait_idle",
    "stop_receiver",
    "wait_applied",
    "promote",
    "follow",
    "hook_before",
    "hook_after",
];

/// The figures that the monitor counts of one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerFigures {
    pub(crate) lag: Option<Duration>,
    pub(crate) probes: u64,
    /// In the order of [`FailureClass::ALL`].
    pub(crate) failures: [u64; FailureClass::ALL.len()],
    /// How long the last good probe took.
    pub(crate) probe_time: Option<Duration>,
    /// The server's last answer, for people.
    pub(crate) report: Option<ServerReport>,
    /// Host and port by its own idea.
    pub(crate) reached: Option<(Arc<str>, u16)>,
}

impl ServerFigures {
    pub(crate) fn count_failure(&mut self, class: FailureClass) {
        if let Some(index) = FailureClass::ALL.iter().position(|candidate| *candidate == class) {
            self.failures[index] += 1;
        }
    }
}

impl Shared {
    pub(crate) fn new(workers: stats::Workers, digests: Arc<dyn DigestSource>) -> Shared {
        let (draining, started) = (AtomicBool::new(false), SystemTime::now());
        let (clusters, api_key, rules) = (RwLock::default(), RwLock::default(), RwLock::default());
        Shared {
            workers,
            digests,
            draining,
            started,
            clusters,
            api_key,
            rules,
            cache: OnceLock::new(),
            tier: OnceLock::new(),
            warmer: OnceLock::new(),
            writes: OnceLock::new(),
        }
    }

    /// The answers that the data plane keeps; `None` when it was not told of.
    pub(crate) fn cache(&self) -> Option<&Arc<Store>> {
        self.cache.get()
    }

    /// The warmer that fills the cache from files.
    pub(crate) fn warmer(&self) -> Option<&Arc<dyn Warmer>> {
        self.warmer.get()
    }

    pub(crate) fn set_warmer(&self, warmer: Arc<dyn Warmer>) {
        // As below.
        let _ = self.warmer.set(warmer);
    }

    /// The writes that ended answers, of each cluster.
    pub(crate) fn cache_writes(&self) -> Vec<(Arc<str>, cache::Writes)> {
        let mut writes = self.writes.get().map(|counted| counted.writes()).unwrap_or_default();
        writes.sort_by(|(one, _), (other, _)| one.cmp(other));
        writes
    }

    pub(crate) fn set_cache_writes(&self, writes: Arc<dyn CountedWrites>) {
        // As below.
        let _ = self.writes.set(writes);
    }

    pub(crate) fn set_cache(&self, store: Arc<Store>) {
        // It is told once, at the start.
        let _ = self.cache.set(store);
    }

    /// Where answers are shared with other processes.
    pub(crate) fn tier(&self) -> Option<&Arc<tier::Tier>> {
        self.tier.get()
    }

    pub(crate) fn set_tier(&self, tier: Arc<tier::Tier>) {
        // It is told once, at the start.
        let _ = self.tier.set(tier);
    }

    /// The routing rules that are in effect.
    pub(crate) fn rules(&self) -> Arc<[Rule]> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_rules(&self, rules: &Arc<[Rule]>) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = rules.clone();
    }

    /// The key that requests to the API must show; without it the API is closed.
    pub(crate) fn api_key(&self) -> Option<Secret> {
        self.api_key.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_api_key(&self, key: Option<Secret>) {
        *self.api_key.write().unwrap_or_else(PoisonError::into_inner) = key;
    }

    /// Gives the cluster's place, and where its task hears wishes.
    pub(crate) fn add_cluster(
        &self,
        name: &Arc<str>,
        link: &ClusterLink,
    ) -> (Arc<ClusterStatus>, mpsc::Receiver<Wish>) {
        let (wishes, heard) = mpsc::channel(WISHES_MAX);
        let status = Arc::new(ClusterStatus {
            name: name.clone(),
            published: link.published.clone(),
            journal: Journal::new(name),
            wishes,
            figures: Mutex::default(),
        });
        self.clusters.write().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), status.clone());
        (status, heard)
    }

    pub(crate) fn keep_clusters(&self, keep: impl Fn(&Arc<str>) -> bool) {
        self.clusters.write().unwrap_or_else(PoisonError::into_inner).retain(|name, _| keep(name));
    }

    fn watched(&self) -> BTreeMap<Arc<str>, Arc<ClusterStatus>> {
        self.clusters.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ClusterStatus {
    pub(crate) fn figures(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
