//! The clusters that are watched, and the figures of their monitors.

mod shown;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use admin::{Answer, ChangeFigures, ServerReport, Severity, StateChange};
use cluster::diagnosis::Diagnosis;
use cluster::driver::{Event, Level};
use cluster::observation::FailureClass;
use facts::command::Command;
use facts::published::Published;
use tokio::sync::{mpsc, oneshot};

use crate::cluster_link::ClusterLink;
use crate::journal::Journal;
use crate::lease::Confirmations;

/// The clusters that are watched, for the control thread and for those who ask it.
#[derive(Default)]
pub(crate) struct Registry {
    clusters: RwLock<BTreeMap<Arc<str>, Arc<ClusterStatus>>>,
}

/// One cluster's snapshots and its monitor's figures.
pub(crate) struct ClusterStatus {
    pub(crate) name: Arc<str>,
    pub(crate) published: Arc<Published>,
    pub(crate) journal: Journal,
    /// Where commands go to; the cluster's task answers them.
    pub(crate) commands: mpsc::Sender<PendingCommand>,
    figures: Mutex<Figures>,
    changes: Mutex<VecDeque<StateChange>>,
}

/// A command for a cluster's task, and where the answer goes.
pub(crate) struct PendingCommand {
    pub(crate) command: Command,
    pub(crate) answer: oneshot::Sender<Answer>,
}

/// Changes of state that are remembered. The log has all of them.
const STATE_CHANGES_MAX: usize = 500;
/// Commands that wait for the cluster's task.
const COMMANDS_MAX: usize = 16;

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
    /// The end of the cool-down, as of the last look.
    pub(crate) cooldown_until: Option<Instant>,
    /// So many failovers have failed that an operator must acknowledge.
    pub(crate) failover_stopped: bool,
    /// The holders of the lease, in words; `None` when none is configured.
    pub(crate) lease: Option<String>,
    pub(crate) lease_held: bool,
    /// How often it was asked for, by result.
    pub(crate) lease_confirmations: Confirmations,
    pub(crate) runs: RunFigures,
    /// How often runs were not settled within their bounds of turns.
    pub(crate) unsettled: u64,
    /// The stream of changes; `None` when it has no listener.
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

impl Registry {
    /// Shows a cluster from now on.
    pub(crate) fn show(&self, status: Arc<ClusterStatus>) {
        self.clusters.write().unwrap_or_else(PoisonError::into_inner).insert(status.name.clone(), status);
    }

    pub(crate) fn keep_clusters(&self, keep: impl Fn(&Arc<str>) -> bool) {
        self.clusters.write().unwrap_or_else(PoisonError::into_inner).retain(|name, _| keep(name));
    }

    fn watched(&self) -> BTreeMap<Arc<str>, Arc<ClusterStatus>> {
        self.clusters.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ClusterStatus {
    /// A cluster of which nothing is known yet, and where its task takes commands.
    pub(crate) fn new(name: &Arc<str>, link: &ClusterLink) -> (Arc<ClusterStatus>, mpsc::Receiver<PendingCommand>) {
        let (commands, heard) = mpsc::channel(COMMANDS_MAX);
        let status = ClusterStatus {
            name: name.clone(),
            published: link.published.clone(),
            journal: Journal::new(name),
            commands,
            figures: Mutex::default(),
            changes: Mutex::default(),
        };
        (Arc::new(status), heard)
    }

    pub(crate) fn figures(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a change of a role, a health or a diagnosis.
    pub(crate) fn note_change(&self, event: &Event) {
        let severity = match event.level {
            Level::Info => Severity::Info,
            Level::Warn => Severity::Warn,
            Level::Error => Severity::Error,
        };
        let (server, text) = (event.server.clone(), event.text.clone());
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.len() == STATE_CHANGES_MAX {
            changes.pop_front();
        }
        changes.push_back(StateChange { at: SystemTime::now(), severity, server, text });
    }

    fn changes(&self) -> Vec<StateChange> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
