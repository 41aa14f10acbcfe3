//! The clusters as the admin listener sees them: a trait that the control plane implements, and plain values.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use facts::published::Published;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Clusters by name.
pub type Clusters = BTreeMap<Arc<str>, Arc<dyn ClusterStatus>>;

/// All that the control plane knows of the clusters, for reading.
pub trait Status: Send + Sync {
    /// The clusters that are watched now.
    fn clusters(&self) -> Clusters;
}

/// All that the control plane knows of one cluster, for reading.
pub trait ClusterStatus: Send + Sync {
    /// The cluster's name.
    fn name(&self) -> &Arc<str>;

    /// Its snapshots: the view, positions, accounts, tables and privileges.
    fn published(&self) -> &Published;

    /// The counts of its monitor.
    fn figures(&self) -> Figures;

    /// Lines of its journal, oldest first; of more than `limit` the newest.
    fn journal(&self, which: Lines, limit: usize) -> Vec<JournalLine>;

    /// The newest changes of primary, roles, health and diagnoses since the start, oldest first.
    fn state_changes(&self) -> Vec<StateChange>;

    /// Changes whenever the journal gets a line.
    fn journal_changes(&self) -> watch::Receiver<u64>;
}

/// A change of a cluster's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// When the monitor saw it.
    pub at: SystemTime,
    /// How much it matters.
    pub severity: Severity,
    /// The server it concerns.
    pub server: Option<Arc<str>>,
    /// In words.
    pub text: String,
}

/// How much a change matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// All is well.
    Info,
    /// Something is not as it should be.
    Warn,
    /// Traffic is concerned.
    Error,
}

impl Severity {
    /// The word of the API.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warn => "warn",
            Severity::Error => "error",
        }
    }
}

/// A choice of lines of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// Every line.
    All,
    /// The lines of this run.
    OfRun(u64),
    /// Decisions, and what mode `auto` would have decided.
    Decisions,
    /// The line that ended this run.
    EndOf(u64),
}

/// A line of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalLine {
    /// Grows by one with each line of this process.
    pub number: u64,
    /// When it was written.
    pub at: SystemTime,
    /// The failover, switchover or repair that it belongs to; 0 for what belongs to none.
    pub run: u64,
    /// The epoch at that time.
    pub epoch: u64,
    /// Its kind.
    pub kind: LineKind,
    /// The number of the step that was ordered, or that ended.
    pub step: Option<u64>,
    /// The server it concerns.
    pub server: Option<Arc<str>>,
    /// In words.
    pub text: String,
}

impl JournalLine {
    /// The line as the API and the journal's file have it.
    pub fn json(&self, cluster: &str) -> Value {
        let since = self.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        json!({
            "number": self.number,
            "at_ms": since.as_millis() as u64,
            "cluster": cluster,
            "run": self.run,
            "epoch": self.epoch,
            "kind": self.kind.word(),
            "step": self.step,
            "server": self.server.as_deref(),
            "text": self.text,
        })
    }
}

/// Kinds of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// Something was decided.
    Decision,
    /// A step was ordered.
    Step,
    /// A step ended well.
    Done,
    /// A step ended badly.
    Failed,
    /// A run ended well.
    Finished,
    /// A run was given up.
    Aborted,
    /// An action that mode `auto` would do.
    Advice,
}

impl LineKind {
    /// The word of the API and of the journal's file.
    pub fn word(self) -> &'static str {
        match self {
            LineKind::Decision => "decision",
            LineKind::Step => "step",
            LineKind::Done => "done",
            LineKind::Failed => "failed",
            LineKind::Finished => "finished",
            LineKind::Aborted => "aborted",
            LineKind::Advice => "advice",
        }
    }
}

/// The figures of one cluster's monitor. A list of counts by word has every word, in the order in which it is shown.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The faults of now.
    pub diagnoses: Vec<Diagnosis>,
    /// The names of all diagnoses that there are.
    pub diagnosis_names: &'static [&'static str],
    /// By the server's name.
    pub servers: BTreeMap<Arc<str>, ServerFigures>,
    /// How often the accounts could not be read.
    pub accounts_failures: u64,
    /// How often a dictionary could not be read.
    pub catalog_failures: u64,
    /// Heartbeats that were written.
    pub heartbeat_writes: u64,
    /// Heartbeats that could not be written.
    pub heartbeat_failures: u64,
    /// The mode of failover, as configured.
    pub failover: &'static str,
    /// The end of the time without automatic failover, if a promotion has begun one.
    pub cooldown_until: Option<Instant>,
    /// So many failovers have failed that an operator must acknowledge before the next.
    pub failover_stopped: bool,
    /// Lines of the journal that its file lacks.
    pub journal_failures: u64,
    /// The holders of the lease, in words; `None` when none is configured.
    pub lease: Option<String>,
    /// This process holds it.
    pub lease_held: bool,
    /// How often it was asked for, by result.
    pub lease_confirmations: Vec<(&'static str, u64)>,
    /// Failovers, switchovers and the like, by what they were: those that finished, those that were given up.
    pub runs: Vec<(&'static str, [u64; 2])>,
    /// Their steps, by word: those that were done, those that failed.
    pub steps: Vec<(&'static str, [u64; 2])>,
    /// Changes of primary that were published after the first.
    pub primary_changes: u64,
    /// How often runs were not settled within their bounds of turns.
    pub unsettled: u64,
    /// The stream of changes; `None` when nobody listens.
    pub changes: Option<ChangeFigures>,
}

/// Something that is wrong with a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    /// Its name, one of [`Figures::diagnosis_names`].
    pub name: &'static str,
    /// Traffic suffers from it now.
    pub severe: bool,
    /// In words, with the names of servers.
    pub text: String,
}

/// The figures of one server.
#[derive(Clone, Debug, Default)]
pub struct ServerFigures {
    /// How far it is behind, by the last probe.
    pub lag: Option<Duration>,
    /// Probes that ended.
    pub probes: u64,
    /// Those that failed, by class.
    pub failures: Vec<(&'static str, u64)>,
    /// How long the last good probe took.
    pub probe_time: Option<Duration>,
    /// The server's answer at its last good probe.
    pub report: Option<ServerReport>,
}

/// A server's answer at its last good probe.
#[derive(Clone, Debug, Default)]
pub struct ServerReport {
    /// Its version, as its greeting has it.
    pub version: Arc<str>,
    /// `read_only` is on.
    pub read_only: bool,
    /// The transactions that it has.
    pub gtid_executed: Arc<str>,
    /// The channels by which it replicates.
    pub channels: Vec<ChannelReport>,
    /// Its part in semi-synchronous replication now: `source`, `replica` or `off`.
    pub semi_sync: &'static str,
}

/// A channel of replication.
#[derive(Clone, Debug, Default)]
pub struct ChannelReport {
    /// Its name; empty for the default one.
    pub name: Arc<str>,
    /// Host and port of the source.
    pub source: String,
    /// `running`, `connecting` or `stopped`.
    pub receiver: &'static str,
    /// `running` or `stopped`.
    pub applier: &'static str,
    /// The transactions that it received.
    pub gtid_received: Arc<str>,
    /// The last error; empty without one.
    pub error: Arc<str>,
}

/// The figures of a stream of changes that is followed.
#[derive(Clone, Debug, Default)]
pub struct ChangeFigures {
    /// Changes committed before this time have been reported; `None` while the stream is lost.
    pub as_of: Option<Instant>,
    /// The position in the log at that time, as GTIDs.
    pub position: String,
    /// How far the log may be behind for cached results to be given.
    pub delay_max: Option<Duration>,
    /// Transactions that changed known tables.
    pub tables: u64,
    /// Transactions whose changes are unknown, and gaps.
    pub everything: u64,
    /// Streams that were lost.
    pub losses: u64,
}
