//! Failover, switchover and rejoin.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::Secret;

words! {
    /// Sqluice's own reaction to the loss of a primary.
    Failover {
        /// It follows what others decide.
        Off = "off",
        /// It says what it would do.
        Advise = "advise",
        /// It promotes another server.
        Auto = "auto",
    }
}

words! {
    /// Whether a server may become the primary.
    PromotionRule {
        /// Before others with the same data.
        Prefer = "prefer",
        /// Like any other.
        Neutral = "neutral",
        /// After others with the same data.
        PreferNot = "prefer_not",
        /// Never.
        MustNot = "must_not",
    }
}

words! {
    /// How several Sqluice instances agree on which of them acts.
    Lease {
        /// They do not: there is one.
        Off = "off",
        /// By locks on more than half of the servers.
        Majority = "majority",
        /// By a key in etcd.
        Etcd = "etcd",
    }
}

words! {
    /// The reaction to a primary that replies and cannot write.
    Unwritable {
        /// It is told what is wrong with it.
        Advise = "advise",
        /// It is replaced.
        Failover = "failover",
    }
}

words! {
    /// TLS from a replica to its source.
    ReplicationTls {
        /// When the servers offer it.
        Auto = "auto",
        /// Always.
        On = "on",
        /// Never.
        Off = "off",
    }
}

/// `promotion` of a cluster
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promotion {
    /// No automatic failover for this long after a promotion.
    pub cooldown: Duration,
    /// Failed attempts in a row until an operator must acknowledge.
    pub attempts_max: u32,
    /// Longest wait for a server to apply what it has received.
    pub drain: Duration,
    /// Longest wait for running statements and transactions at a switchover.
    pub in_flight: Duration,
    /// Time limit of the look at a server just before acting.
    pub look_timeout: Duration,
    /// Time limit of every other step.
    pub step_timeout: Duration,
    /// Servers that were further behind are not promoted.
    pub max_lag: Duration,
    /// For so long after a failover the role moves on to a server with a better rule.
    pub preferred_within: Duration,
    /// Nobody is promoted automatically without proof that no acknowledged write is lost.
    pub semi_sync_required: bool,
    /// The reaction to a primary whose disk is full.
    pub unwritable: Unwritable,
    /// More than half of the servers must be reached.
    pub majority_required: bool,
    /// Servers that come back are attached.
    pub rejoin: bool,
    /// The servers' events move with the role of the primary.
    pub events: bool,
    /// `event_scheduler` is switched on on a new primary if it was on on the old one.
    pub event_scheduler: bool,
    /// How several Sqluice instances agree.
    pub lease: Lease,
    /// How long the lease outlives its last renewal.
    pub lease_time: Duration,
    /// A program that runs before a promotion, with its arguments; empty is none.
    pub hook_before: Vec<Arc<str>>,
    /// A program that runs after a promotion, with its arguments; empty is none.
    pub hook_after: Vec<Arc<str>>,
    /// Time limit of a hook.
    pub hook_timeout: Duration,
    /// The file that the journal is appended to.
    pub journal: Option<PathBuf>,
}

/// `replication` of a cluster: how a server logs in that has no replication channel of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicationAccount {
    /// The user; none: such a server cannot be attached.
    pub user: Option<Arc<str>>,
    /// Its password.
    pub password: Option<Secret>,
    /// Whether it uses TLS.
    pub tls: ReplicationTls,
}
