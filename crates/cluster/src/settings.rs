//! The operator's settings for decisions.

use std::sync::Arc;
use std::time::Duration;

use crate::galera::GaleraRules;

/// The settings that decisions depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cluster's name.
    pub cluster: Arc<str>,
    /// A single server takes all traffic, whatever its role.
    pub standalone: bool,
    /// The servers form a group that decides by itself who belongs to it.
    pub group: Option<GroupKind>,
    /// Replicas further behind take no reads.
    pub max_lag: Duration,
    /// Failed probes in a row until a server is down; at least 1.
    pub down_after: u32,
    /// Good probes in a row until it is up again; at least 1.
    pub up_after: u32,
    /// Time between probes of a server.
    pub interval: Duration,
    /// Longest wait for a probe.
    pub timeout: Duration,
    /// Failover, switchover and rejoin.
    pub failover: Failover,
}

/// Groups that decide by themselves who belongs to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// Galera: Sqluice chooses who takes writes.
    Galera(GaleraRules),
    /// MySQL Group Replication: the group chooses.
    GroupReplication,
    /// NDB Cluster: every SQL node takes writes.
    Ndb,
}

/// The actions of Sqluice by itself when the primary is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Nothing: a primary that somebody else moves is followed. Commands of an operator are still carried out.
    #[default]
    Off,
    /// It says what it would do, and does nothing.
    Advise,
    /// It fails over, puts back what an interrupted run left, and attaches servers that come back.
    Auto,
}

impl Mode {
    /// The word that users meet.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Advise => "advise",
            Mode::Auto => "auto",
        }
    }
}

/// Whether a server may become the primary. A rule never wins over data: the server that received most comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PromotionRule {
    /// Before others with the same data.
    Prefer,
    /// Like any other.
    #[default]
    Neutral,
    /// After others with the same data.
    PreferNot,
    /// Never, not by a command either.
    MustNot,
}

impl PromotionRule {
    /// The word that users meet.
    pub fn word(self) -> &'static str {
        match self {
            PromotionRule::Prefer => "prefer",
            PromotionRule::Neutral => "neutral",
            PromotionRule::PreferNot => "prefer_not",
            PromotionRule::MustNot => "must_not",
        }
    }

    /// Its place among the rules: the lower, the sooner.
    pub(crate) fn rank(self) -> u8 {
        match self {
            PromotionRule::Prefer => 0,
            PromotionRule::Neutral => 1,
            PromotionRule::PreferNot => 2,
            PromotionRule::MustNot => 3,
        }
    }
}

/// Bounds and demands of failover, switchover and rejoin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failover {
    /// The actions that need no command.
    pub mode: Mode,
    /// After a promotion no automatic failover for this long, unless an operator acknowledges the one before. Commands are
    /// not bound by it.
    pub cooldown: Duration,
    /// Failed attempts in a row after which nothing is tried again until an operator acknowledges; at least 1. An attempt
    /// that ends because its reason went away does not count.
    pub attempts_max: u32,
    /// Longest wait for a candidate to apply what it has received.
    pub drain_max: Duration,
    /// Longest wait at a switchover for running statements and open transactions; then they are cut.
    pub in_flight_max: Duration,
    /// Time limit of the look at a server just before acting. A dead primary that does not answer costs all of it.
    pub look_timeout: Duration,
    /// Time limit of every other step.
    pub step_timeout: Duration,
    /// Time limit of a hook.
    pub hook_timeout: Duration,
    /// Longest lag, as known before the primary was lost, of a server that is promoted.
    pub lag_max: Duration,
    /// For so long after a failover the primary's role moves on to a server with a better rule, once that has all the data.
    pub preferred_within: Duration,
    /// Without proof that no acknowledged write can be lost (lossless semi-sync, and enough of its replicas reached) no
    /// server is promoted automatically.
    pub semi_sync_required: bool,
    /// A primary that answers and cannot write (a full disk) is replaced in mode `auto`, given the proof of semi-sync.
    pub replace_unwritable: bool,
    /// Automatic failover needs more than half of all servers to be reached. With two servers in all, one is enough.
    pub majority_required: bool,
    /// Steps are taken only while the lease is held: several Sqluice instances watch this cluster.
    pub lease_required: bool,
    /// Servers that come back are attached (mode `auto`).
    pub rejoin: bool,
    /// Decisions outlive the process: they are kept beside the journal.
    pub remembers: bool,
    /// A server without a replication channel can be attached: it is known as whom it would log in. Without this an old primary would
    /// stay behind after a switchover.
    pub attaches: bool,
    /// The servers' events move with the role of the primary.
    pub events: bool,
    /// A hook runs before a promotion and may forbid it.
    pub hook_before: bool,
    /// A hook runs after a promotion.
    pub hook_after: bool,
}

impl Default for Failover {
    fn default() -> Failover {
        Failover {
            mode: Mode::Off,
            // Long enough that a statement which kills servers meets a human before it meets the last server, short enough
            // that two unrelated crashes of one evening do not need one.
            cooldown: Duration::from_secs(300),
            attempts_max: 5,
            drain_max: Duration::from_secs(30),
            in_flight_max: Duration::from_secs(1),
            look_timeout: Duration::from_millis(500),
            step_timeout: Duration::from_secs(2),
            hook_timeout: Duration::from_secs(10),
            lag_max: Duration::from_secs(30),
            preferred_within: Duration::from_secs(60),
            semi_sync_required: false,
            replace_unwritable: false,
            majority_required: true,
            lease_required: false,
            rejoin: true,
            remembers: true,
            attaches: true,
            events: true,
            hook_before: false,
            hook_after: false,
        }
    }
}

/// A server as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSpec {
    /// Name.
    pub name: Arc<str>,
    /// Address as text: `host:port`, `[ipv6]:port` or `unix:/path`.
    pub address: Arc<str>,
    /// Share of the reads.
    pub weight: u32,
    /// Zone, empty when none.
    pub zone: Arc<str>,
    /// Whether it may become the primary.
    pub promotion: PromotionRule,
}
