//! The attempts to run one statement: when they began, the servers that failed it, and what it waits for.

use std::time::Instant;

use facts::view::ServerId;
use tokio::sync::OwnedSemaphorePermit;

use crate::error::Refusal;
use crate::shared::ShortOf;

/// Servers that may fail one statement before the client gets an error.
const FAILURES_MAX: usize = 4;

/// The attempts to run one statement.
#[derive(Debug)]
pub struct Attempts {
    /// When a server was wanted.
    pub(super) begun: Instant,
    /// When a server was chosen last, or a connection came after a wait.
    pub(super) at: Instant,
    pub(super) avoid: Vec<ServerId>,
    failures: usize,
    pub(super) last_error: Option<String>,
    /// The error that the client gets when no other server turns up.
    pub(super) refusal: Option<Refusal>,
    /// Since when the statement waits for a server that fits.
    pub(super) held_since: Option<Instant>,
    /// It has waited for a primary, and is one of those that go on now.
    pub(super) turn: Option<OwnedSemaphorePermit>,
    /// How long the statement is.
    pub(super) bytes: usize,
    /// How often the open transaction was replayed for it.
    pub(super) replays: u32,
    /// How often it lost against another one in its Galera group.
    pub(super) conflicts: u32,
    /// Since when it waits for a replica that has what its session has written.
    pub(super) lacking_since: Option<Instant>,
    /// The connections that servers were short of when they refused one; looked at by [`Session::hold`].
    pub(super) short_of: Vec<ShortOf>,
    /// A replica may be asked ahead of the statement to wait.
    pub(super) may_ask_replicas: bool,
    /// A replica has waited, and not got what was awaited.
    pub(super) waited_too_long: bool,
    /// The statement does the same whatever schema its connection is in.
    pub(super) in_any_schema: bool,
    /// Whether the statement runs on a pipeline.
    pub(super) sharing: Sharing,
    /// No connection was at hand.
    pub(super) has_waited: bool,
    /// It has left the queue of the primary for a replica that had caught up. It does so once.
    pub(super) has_left_primary: bool,
    /// When it came to the queue for a connection, if it has left that since.
    pub(super) queued_since: Option<Instant>,
}

/// Whether a statement shares its connection with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// It runs on a connection of its own.
    Never,
    /// It looks for a pipeline now.
    Now,
    /// It may make a pipeline of the connection that it has waited for.
    Begins,
    /// The same; and while it waits it goes to a pipeline that begins, where the statement with this number is prepared if there
    /// is a number.
    Waits(Option<u32>),
}

impl Attempts {
    /// Nothing yet.
    pub fn new() -> Attempts {
        let now = Instant::now();
        Attempts {
            begun: now,
            at: now,
            avoid: Vec::new(),
            failures: 0,
            last_error: None,
            refusal: None,
            held_since: None,
            turn: None,
            bytes: 0,
            replays: 0,
            conflicts: 0,
            lacking_since: None,
            short_of: Vec::new(),
            may_ask_replicas: false,
            waited_too_long: false,
            in_any_schema: false,
            sharing: Sharing::Never,
            has_waited: false,
            has_left_primary: false,
            queued_since: None,
        }
    }

    /// The attempts for a statement of so many bytes.
    pub fn of(bytes: usize) -> Attempts {
        Attempts { bytes, may_ask_replicas: true, ..Attempts::new() }
    }

    /// A server is avoided for now.
    pub(super) fn has_avoided(&self) -> bool {
        !self.avoid.is_empty()
    }

    /// No server is avoided any longer.
    pub(super) fn forgive(&mut self) {
        self.avoid.clear();
    }

    /// This server refused the statement, which has done nothing; no other may turn up.
    pub fn refused(&mut self, server: ServerId, refusal: Refusal) {
        self.at = Instant::now();
        self.avoid.push(server);
        self.refusal = Some(refusal);
    }

    /// The statement failed on this server, which is avoided from now on. Gives whether another try is allowed.
    pub fn failed_on(&mut self, server: ServerId) -> bool {
        self.at = Instant::now();
        self.failures += 1;
        if !self.avoid.contains(&server) {
            self.avoid.push(server);
        }
        self.failures < FAILURES_MAX
    }
}
