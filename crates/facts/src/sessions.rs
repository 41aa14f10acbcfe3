//! Sessions, as an operator sees them.

use std::sync::Arc;
use std::time::Duration;

/// One session, at one moment. The default one has just connected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFacts {
    /// The id that its client knows: the greeting's, which KILL takes.
    pub id: u32,
    /// The listener that its client came to; `None` before the login is over, like all facts of a login.
    pub listener: Option<Arc<str>>,
    /// The cluster behind it.
    pub cluster: Option<Arc<str>>,
    /// The user.
    pub user: Option<Arc<str>>,
    /// Where the client is: address and port, or `localhost` for a local socket.
    pub client: String,
    /// The program, by the client's own word.
    pub program: Option<Arc<str>>,
    /// The schema that it is in.
    pub schema: Option<Arc<str>>,
    /// The client's connection is encrypted.
    pub tls: bool,
    /// Since when it is there.
    pub connected: Duration,
    /// The thing it does.
    pub state: SessionState,
    /// For how long it does that. Of idle sessions, and of queries that wait, it is known to the second.
    pub state_for: Duration,
    /// The digest of the query that runs, or that ran last; 0 is none.
    pub digest: u64,
    /// The form of the query that runs: its text without literals.
    pub form: Option<Arc<str>>,
    /// The server of the backend connection that it holds.
    pub server: Option<Arc<str>>,
    /// That server's id of the connection.
    pub thread_id: Option<u64>,
    /// How long its transaction is open.
    pub transaction: Option<Duration>,
    /// The reasons why it must keep its backend connection, in words.
    pub pins: Vec<&'static str>,
    /// The worker that runs it.
    pub worker: usize,
    /// Bytes that came from its client since the login.
    pub received_bytes: u64,
    /// Bytes that went to its client since the login.
    pub sent_bytes: u64,
    /// Its queries that have waited for a backend connection, for their user's limit, for a server, or on a pipeline.
    pub waits: u32,
    /// How long these waits took, the one of now included.
    pub waited: Duration,
    /// How long its query waits now.
    pub waits_for: Option<Duration>,
}

/// The thing that a session does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SessionState {
    /// Its client has not logged in.
    #[default]
    Login,
    /// It waits for its client.
    Idle,
    /// It waits for its client, in a transaction.
    IdleInTransaction,
    /// It has a query.
    Running,
    /// Its query waits for a backend connection.
    WaitsForConnection,
    /// Its query waits until its user has fewer backend connections in use.
    WaitsForUserLimit,
    /// Its query waits for a server: there is no primary, or no replica that has what it must find.
    WaitsForServer,
}

impl SessionState {
    /// All of them.
    pub const ALL: [SessionState; 7] = [
        SessionState::Login,
        SessionState::Idle,
        SessionState::IdleInTransaction,
        SessionState::Running,
        SessionState::WaitsForConnection,
        SessionState::WaitsForUserLimit,
        SessionState::WaitsForServer,
    ];

    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            SessionState::Login => "login",
            SessionState::Idle => "idle",
            SessionState::IdleInTransaction => "idle_in_transaction",
            SessionState::Running => "running",
            SessionState::WaitsForConnection => "waits_for_connection",
            SessionState::WaitsForUserLimit => "waits_for_user_limit",
            SessionState::WaitsForServer => "waits_for_server",
        }
    }

    /// Whether it has a query that is not over.
    pub fn is_busy(self) -> bool {
        use SessionState::{Running, WaitsForConnection, WaitsForServer, WaitsForUserLimit};
        matches!(self, Running | WaitsForConnection | WaitsForUserLimit | WaitsForServer)
    }
}

/// The result of a relief: a worker has given sessions to another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Relieved {
    /// The worker that got them.
    pub to: usize,
    /// The share of the worker's load, or of its sessions, that was to move.
    pub share: f64,
    /// The share is one of sessions: the worker was no busier than others.
    pub by_sessions: bool,
    /// Sessions that were chosen.
    pub chosen: usize,
    /// Those of them that have moved. The others did not come to the end of a statement or a transaction in time.
    pub moved: usize,
}
