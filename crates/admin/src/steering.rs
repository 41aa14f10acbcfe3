//! Commands of an operator to the clusters: a trait that the control plane implements, and plain values.

use facts::view::ServerId;
use tokio::sync::oneshot;

/// Takes an operator's commands.
pub trait Steering: Send + Sync {
    /// Gives a command to a cluster. The answer does not wait for servers; what was accepted is done afterwards.
    ///
    /// # Errors
    /// Too many commands wait already, or the cluster is no longer watched.
    fn command(&self, cluster: &str, command: Command) -> Result<oneshot::Receiver<Answer>, Busy>;
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Move the primary to another server while both live.
    Switchover {
        /// The new primary; `None` leaves the choice to Sqluice.
        to: Option<ServerId>,
        /// Only say what would be done.
        dry_run: bool,
    },
    /// Replace a primary that is lost.
    Failover {
        /// The new primary; `None` leaves the choice to Sqluice.
        to: Option<ServerId>,
        /// Only say what would be done.
        dry_run: bool,
        /// Also if the primary may live, or data may be lost.
        force: bool,
    },
    /// Attach a server as a replica of the primary.
    Rejoin {
        /// The server.
        server: ServerId,
        /// Only say what would be done.
        dry_run: bool,
    },
    /// An outside manager has moved the primary to this server.
    SetPrimary {
        /// The server.
        server: ServerId,
    },
    /// Let a server finish what it has and give it nothing new.
    Drain {
        /// The server.
        server: ServerId,
    },
    /// Use a server again, after drain or maintenance.
    Resume {
        /// The server.
        server: ServerId,
    },
    /// Leave a server alone.
    Maintenance {
        /// The server.
        server: ServerId,
    },
    /// The operator has seen what happened: forget cool-down and failed attempts.
    Acknowledge,
}

/// The answer to a command.
pub type Answer = Result<Accepted, Refused>;

/// A command is carried out, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// The run that does it, as in the journal; `None` for a dry run, or if it is done already.
    pub run: Option<u64>,
    /// The actions, step by step.
    pub steps: Vec<String>,
    /// For each server that was not chosen: why.
    pub others: Vec<String>,
    /// Consequences that the operator should know of.
    pub warnings: Vec<String>,
}

/// A command is not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The reason, in one sentence.
    pub reason: String,
    /// For each server that cannot be promoted: why.
    pub others: Vec<String>,
}

/// The cluster takes no command now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;
