//! Commands of an operator or of a tool to a cluster, and the answers: the words in which the API and the deciding part speak
//! to each other.

use std::fmt;

use crate::view::ServerId;

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
    /// Replace a primary that is lost. Not bound by mode, cool-down, attempts or the demand for semi-sync.
    Failover {
        /// The new primary; `None` leaves the choice to Sqluice.
        to: Option<ServerId>,
        /// Only say what would be done.
        dry_run: bool,
        /// Also when the primary may live, when too few servers are reached, and when a server with more data is left
        /// behind. Writes that only those servers have are lost.
        force: bool,
    },
    /// Attach a server as a replica of the primary, if it has nothing that the primary lacks.
    Rejoin {
        /// The server.
        server: ServerId,
        /// Only say what would be done.
        dry_run: bool,
    },
    /// An outside manager tells that it moved the primary here: this server is meant from now on, as soon as it takes
    /// writes, and the one before is fenced. Nothing is changed on any server.
    SetPrimary {
        /// The server.
        server: ServerId,
    },
    /// Let a server finish what it has and give it nothing new.
    Drain {
        /// The server.
        server: ServerId,
        /// Only say what it would mean.
        dry_run: bool,
    },
    /// Use a server again, after drain or maintenance.
    Resume {
        /// The server.
        server: ServerId,
    },
    /// Leave a server alone: no traffic, no promotion, no repair, no vote.
    Maintenance {
        /// The server.
        server: ServerId,
        /// Only say what it would mean.
        dry_run: bool,
    },
    /// The operator has seen what happened: cool-down and failed attempts are forgotten.
    Acknowledge,
}

/// A command is carried out, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// The run that does it, as in the journal; `None` for a dry run or when it is done already.
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

impl Refused {
    /// A refusal that concerns no candidates.
    pub fn because(reason: impl Into<String>) -> Refused {
        Refused { reason: reason.into(), others: Vec::new() }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        self.others.iter().try_for_each(|line| write!(f, "; {line}"))
    }
}
