//! The driver's steps on servers, and their outcomes.
//!
//! Every step may be repeated, also when it was carried out before: by another attempt, by another instance, after a crash.
//! It then ends well and changes nothing. Steps that are out at the same time may run at the same time; two steps for one
//! server are never out together.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::view::ServerId;

use crate::observation::{Facts, FailureClass};

/// Names a step of this process; never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StepId(pub u64);

/// A step with its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Names it in the outcome.
    pub id: StepId,
    /// The action.
    pub step: Step,
    /// It must end by then, well or with [`ErrorKind::Timeout`]. An outcome that never comes counts as that a second later.
    pub timeout: Duration,
    /// When it is given, nothing that changes a server may be sent to it after this moment: the lease ends then. The step
    /// ends with [`ErrorKind::LeaseLost`].
    pub not_after: Option<Instant>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Take the lease, or make sure that it is held. Ends with [`StepResult::Lease`].
    TakeLease,
    /// Give the lease up, if it is held.
    ReleaseLease,
    /// Ask a server what a probe asks, now, on a new connection. Ends with [`StepResult::Facts`]; when the server does not
    /// answer, the error's class says in what way.
    ReadFacts {
        /// Which server.
        server: ServerId,
    },
    /// Switch `super_read_only` (MySQL) or `read_only` (MariaDB) on, or both off. MariaDB waits for running writes when it
    /// is switched on; a timeout is then possible and the next step cuts them.
    SetReadOnly {
        /// Which server.
        server: ServerId,
        /// On or off.
        on: bool,
        /// Nothing there may be waited for: locks are taken from sessions, and commits that wait for an acknowledgement are let
        /// go when no client can get their OK any more. For a server that is the primary no longer.
        cut: bool,
    },
    /// End the connections of clients: all but replication, the server's own threads and the monitor's. Ends with
    /// [`StepResult::Ended`].
    EndClients {
        /// Which server.
        server: ServerId,
    },
    /// Wait until no session of Sqluice runs a statement or has a transaction open on this server. A timeout is no failure:
    /// what is left is cut.
    WaitIdle {
        /// Which server.
        server: ServerId,
    },
    /// Stop the receiving threads of all channels; appliers go on. It never discards relay logs.
    StopReceiver {
        /// Which server.
        server: ServerId,
    },
    /// Wait until the server has applied all of this position (text of its family), and everything it has received.
    WaitApplied {
        /// Which server.
        server: ServerId,
        /// The position as text, MariaDB's or MySQL's.
        position: Arc<str>,
    },
    /// Make it the primary. In this order: stop the receivers; make sure that all that was received is applied, else fail
    /// with [`ErrorKind::Failed`] and forget nothing; stop the appliers and forget the replication (`RESET REPLICA ALL`);
    /// switch on what a primary has (semi-sync of the source); `read_only` off. Ends with [`StepResult::Facts`], read afterwards.
    Promote {
        /// Which server.
        server: ServerId,
        /// The primary before it.
        old: Option<ServerId>,
    },
    /// Make it a running replica of `source`, read-only, with GTIDs, and with its channel's other options as they are (TLS,
    /// credentials, filters, delay); a server without a channel takes the options of another replica. When it
    /// follows `source` already, only what is stopped is started and a running receiver is left alone: a MariaDB server whose
    /// threads are both started anew discards its relay logs. The driver asks for it only when `source` has all that
    /// `server` has.
    Follow {
        /// Which server.
        server: ServerId,
        /// Whom it follows.
        source: ServerId,
    },
    /// Have the server's enabled events run on a source only (`DISABLE ON REPLICA`), outside its binary log, and remember which they
    /// were. For a server that is about to be the primary no longer. It is done as far as it can be, and an error is reported.
    DisableEvents {
        /// Which server.
        server: ServerId,
    },
    /// Enable the events that ran on `old`, as far as replication disabled them here, outside the binary log. Others stay as they are:
    /// an event that the old primary had disabled looks the same on a replica. It is done as far as it can be, and an error is reported.
    EnableEvents {
        /// Which server.
        server: ServerId,
        /// The primary before it; itself when it is made the primary again.
        old: ServerId,
    },
    /// Have a replication group make a member its primary (`group_replication_set_as_primary()`). It is asked of that member.
    SetGroupPrimary {
        /// Which server.
        server: ServerId,
        /// Its `server_uuid`.
        member: Arc<str>,
    },
    /// Run a hook. An error of [`Hook::Before`] stops the run; that of [`Hook::After`] is reported and changes nothing.
    RunHook {
        /// Which.
        hook: Hook,
        /// The values that it is given.
        call: HookCall,
    },
}

impl Step {
    /// The server it concerns.
    pub fn server(&self) -> Option<ServerId> {
        match self {
            Step::TakeLease | Step::ReleaseLease | Step::RunHook { .. } => None,
            Step::ReadFacts { server }
            | Step::SetReadOnly { server, .. }
            | Step::EndClients { server }
            | Step::WaitIdle { server }
            | Step::StopReceiver { server }
            | Step::WaitApplied { server, .. }
            | Step::Promote { server, .. }
            | Step::SetGroupPrimary { server, .. }
            | Step::DisableEvents { server }
            | Step::EnableEvents { server, .. }
            | Step::Follow { server, .. } => Some(*server),
        }
    }

    /// The word for logs and metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Step::TakeLease => "take_lease",
            Step::ReleaseLease => "release_lease",
            Step::ReadFacts { .. } => "read_facts",
            Step::SetReadOnly { on: true, .. } => "set_read_only",
            Step::SetReadOnly { on: false, .. } => "set_writable",
            Step::EndClients { .. } => "end_clients",
            Step::WaitIdle { .. } => "wait_idle",
            Step::StopReceiver { .. } => "stop_receiver",
            Step::WaitApplied { .. } => "wait_applied",
            Step::Promote { .. } => "promote",
            Step::Follow { .. } => "follow",
            Step::SetGroupPrimary { .. } => "set_group_primary",
            Step::DisableEvents { .. } => "disable_events",
            Step::EnableEvents { .. } => "enable_events",
            Step::RunHook { hook: Hook::Before, .. } => "hook_before",
            Step::RunHook { hook: Hook::After, .. } => "hook_after",
        }
    }

    /// It changes a server, so it needs the lease where one is required.
    pub fn changes(&self) -> bool {
        !matches!(
            self,
            Step::TakeLease
                | Step::ReleaseLease
                | Step::ReadFacts { .. }
                | Step::WaitIdle { .. }
                | Step::WaitApplied { .. }
                | Step::RunHook { hook: Hook::After, .. }
        )
    }
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hook {
    /// Before anything is changed; its failure stops the run.
    Before,
    /// After the new primary was published and the others follow it.
    After,
}

/// The values that a hook is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookCall {
    /// `failover` or `switchover`.
    pub kind: &'static str,
    /// The run's number, as in the journal.
    pub run: u64,
    /// The primary before.
    pub old: Option<ServerId>,
    /// The primary to be.
    pub new: Option<ServerId>,
}

/// How a step ended well.
#[derive(Clone, Debug, PartialEq)]
pub enum StepResult {
    /// Nothing more to say.
    Done,
    /// The lease is held until then.
    Lease {
        /// Its end, unless renewed.
        held_until: Instant,
    },
    /// The facts that the server reported.
    Facts(Box<Facts>),
    /// So many connections were ended.
    Ended(u32),
}

/// How a step ended badly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepError {
    /// The meaning of the error for the run.
    pub kind: ErrorKind,
    /// In words, without secrets.
    pub text: Arc<str>,
}

/// Kinds of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The server could not be reached, so nothing was done; the class says in what way, as for a probe.
    Unreachable(FailureClass),
    /// It did not end in time, or the connection was lost in the middle: it may or may not have been done.
    Timeout,
    /// The server, the hook or whoever else said no.
    Failed,
    /// The lease is not held, or could not be taken.
    LeaseLost,
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ErrorKind::Unreachable(class) => write!(f, "not reached ({}): {}", class.word(), self.text),
            ErrorKind::Timeout => write!(f, "not known whether done: {}", self.text),
            ErrorKind::Failed => f.write_str(&self.text),
            ErrorKind::LeaseLost => write!(f, "without the lease: {}", self.text),
        }
    }
}
