//! Counters and histograms that the data plane writes and the control plane reads.
//!
//! Each worker owns one [`WorkerStats`], so that a count is a plain load and store in the worker's own cache line; a
//! reader adds up what all workers wrote. Nothing here takes a lock after a server's statistics were first asked for.

pub mod cache;
mod codes;
pub mod digests;
mod histogram;
mod listeners;
mod number;
pub mod rules;

use std::sync::{Arc, Mutex, PoisonError};

pub use codes::ErrorCodes;
pub use histogram::{Histogram, Snapshot};
pub use listeners::{ListenerEntry, ListenerStats};
pub use number::{Counter, Gauge, Labelled};

/// Whole microseconds of a time; `u64::MAX` if there are more.
pub fn micros(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The counters of one worker for one server.
#[derive(Debug, Default)]
pub struct ServerStats {
    /// Statements sent that only read.
    pub reads: Counter,
    /// Statements sent that the primary had to run. SET and USE are neither reads nor writes.
    pub writes: Counter,
    /// Replies that were errors of the server's own.
    pub errors: Counter,
    /// Bytes of statements sent, with the heads of their packets; those of session state that went along do not count.
    pub sent_bytes: Counter,
    /// Bytes of replies to them.
    pub received_bytes: Counter,
    /// Reads that shared a connection with reads of other sessions.
    pub pipelined: Counter,
    /// Such reads whose replies are outstanding.
    pub pipelined_now: Gauge,
    /// Statements that had to be tried again elsewhere because this server was lost.
    pub retries: Counter,
    /// Backend connections opened.
    pub opened: Counter,
    /// Backend connections that could not be opened.
    pub open_failures: Counter,
    /// Backend connections that logged in again, for clients that came after their last login.
    pub relogins: Counter,
    /// Backend connections closed, for any reason.
    pub closed: Counter,
    /// Backend connections that serve a session now.
    pub used: Gauge,
    /// Backend connections that wait in the pool.
    pub idle: Gauge,
    /// From a statement sent to its reply's end, in microseconds.
    pub latency_us: Histogram,
}

/// The results of a replay: run again; not tried; stopped because a reply was different; failed.
pub const REPLAY_RESULTS: &[&str] = &["replayed", "refused", "differs", "failed"];

/// Why reads that may share a connection have one of their own. First those that never shared one: their form is not known to be
/// short; nothing else ran; no connection in the session's state was at hand; they need a position, or a server for themselves. Then
/// those that ran once more: the reply was an error, had warnings or told of the session; it was too large; another read on the
/// connection was long; the connection was lost.
pub const UNPIPELINED: &[&str] =
    &["unknown_form", "quiet", "no_connection", "position", "reply", "large_reply", "behind_long", "lost"];

/// Why connections of clients are refused before they log in: the listener has as many sessions as it may have; the process as many
/// files as it may open, or as much memory for logins; the client's address as many connections or sessions.
pub const REFUSED_CLIENTS: &[&str] = &["max_sessions", "open_files", "login_memory", "address"];

/// Why a worker gives sessions to another one: it was busy; an operator ordered it.
pub const SESSION_MOVES: &[&str] = &["busy", "order"];

/// The counters of one worker.
#[derive(Debug)]
pub struct WorkerStats {
    /// Client sessions now.
    pub sessions: Gauge,
    /// Its share of a core over the last seconds, in thousandths.
    pub busy_permille: Gauge,
    /// Sessions that it gave to other workers, by reason ([`SESSION_MOVES`]).
    pub sessions_given: Labelled<Counter>,
    /// Sessions that it got from other workers.
    pub sessions_taken: Counter,
    /// Clients accepted.
    pub accepted: Counter,
    /// Logins that succeeded.
    pub logins: Counter,
    /// Logins that were refused.
    pub login_failures: Counter,
    /// Connections of clients that were refused before they logged in, by reason ([`REFUSED_CLIENTS`]).
    pub refused_clients: Labelled<Counter>,
    /// Logins that waited because others of their address had failed.
    pub delayed_logins: Counter,
    /// Waits of sessions for room for events.
    pub event_waits: Counter,
    /// Memory of clients that have not logged in, and logins that waited for some; the first worker tells it once a second.
    pub login_memory_bytes: Gauge,
    /// Logins that waited for memory.
    pub login_memory_waits: Counter,
    /// Addresses that clients are connected from, or failed to log in from lately; the first worker tells it once a second.
    pub client_addresses: Gauge,
    /// Bytes of the texts of prepared statements.
    pub prepared_bytes: Gauge,
    /// Bytes of long commands.
    pub command_bytes: Gauge,
    /// Client requests of any kind.
    pub requests: Counter,
    /// Statements whose form was not known.
    pub unknown_statements: Counter,
    /// Requests answered without a server.
    pub local_answers: Counter,
    /// Sessions that are pinned now, by reason.
    pub pins: Labelled<Gauge>,
    /// Sessions that became pinned, by reason.
    pub pinned: Labelled<Counter>,
    /// Statements that a server has answered, by the reason of their route.
    pub routes: Labelled<Counter>,
    /// Reads that may share a connection and found none to share, by reason ([`UNPIPELINED`]).
    pub unpipelined: Labelled<Counter>,
    /// Statements waiting for a view that has what they need.
    pub holding: Gauge,
    /// Statements that waited for a view.
    pub held: Counter,
    /// Statements that waited for a view, and none came.
    pub hold_timeouts: Counter,
    /// Reads that waited for a replica with what their session has written.
    pub replica_waits: Counter,
    /// Reads that waited for such a replica, which was too late, and went to the primary.
    pub replica_wait_timeouts: Counter,
    /// Interrupted transactions, by what became of them ([`REPLAY_RESULTS`]).
    pub replays: Labelled<Counter>,
    /// Statements of which nobody knows whether they were done.
    pub in_doubt: Counter,
    /// Statements waiting because their user has as many backend connections as it may have; [`Self::waiting`] has them, too.
    pub user_waiting: Gauge,
    /// Statements that waited for that.
    pub user_waited: Counter,
    /// Statements that waited for that in vain.
    pub user_wait_timeouts: Counter,
    /// Statements waiting for a backend connection.
    pub waiting: Gauge,
    /// Statements that waited for a backend connection.
    pub waited: Counter,
    /// Statements that waited for a backend connection, and none came free.
    pub wait_timeouts: Counter,
    /// Session state applied to a backend connection before a statement.
    pub fix_ups: Counter,
    /// Prepared statements prepared again on another backend connection.
    pub reprepares: Counter,
    /// Backend connections moved to or from another worker.
    pub moved: Counter,
    /// Errors that Sqluice itself sent to clients.
    pub own_errors: Counter,
    /// Queries that ended with an error, by its code.
    pub error_codes: ErrorCodes,
    /// Entries of the table of digests.
    pub digests: Gauge,
    /// Statements counted without an entry of their own.
    pub digests_lost: Counter,
    /// How often each routing rule decided.
    pub rules: rules::RuleHits,
    /// The effects of the result cache, for each rule.
    pub caches: cache::RuleCaches,
    /// Statements for which the rules were gone through, because no outcome was remembered.
    pub rule_searches: Counter,
    servers: Mutex<Vec<ServerEntry>>,
    listeners: Mutex<Vec<ListenerEntry>>,
}

/// One server's statistics with its names.
#[derive(Clone, Debug)]
pub struct ServerEntry {
    /// The cluster's name.
    pub cluster: Arc<str>,
    /// The server's name.
    pub server: Arc<str>,
    /// The counts.
    pub stats: Arc<ServerStats>,
}

impl WorkerStats {
    /// Statistics of a worker whose pins and routes have these reasons.
    pub fn new(pin_reasons: &'static [&'static str], route_reasons: &'static [&'static str]) -> WorkerStats {
        WorkerStats {
            sessions: Gauge::default(),
            busy_permille: Gauge::default(),
            sessions_given: Labelled::new(SESSION_MOVES),
            sessions_taken: Counter::default(),
            accepted: Counter::default(),
            logins: Counter::default(),
            login_failures: Counter::default(),
            refused_clients: Labelled::new(REFUSED_CLIENTS),
            delayed_logins: Counter::default(),
            event_waits: Counter::default(),
            login_memory_bytes: Gauge::default(),
            login_memory_waits: Counter::default(),
            client_addresses: Gauge::default(),
            prepared_bytes: Gauge::default(),
            command_bytes: Gauge::default(),
            requests: Counter::default(),
            unknown_statements: Counter::default(),
            local_answers: Counter::default(),
            pins: Labelled::new(pin_reasons),
            pinned: Labelled::new(pin_reasons),
            routes: Labelled::new(route_reasons),
            unpipelined: Labelled::new(UNPIPELINED),
            holding: Gauge::default(),
            held: Counter::default(),
            hold_timeouts: Counter::default(),
            replica_waits: Counter::default(),
            replica_wait_timeouts: Counter::default(),
            replays: Labelled::new(REPLAY_RESULTS),
            in_doubt: Counter::default(),
            user_waiting: Gauge::default(),
            user_waited: Counter::default(),
            user_wait_timeouts: Counter::default(),
            waiting: Gauge::default(),
            waited: Counter::default(),
            wait_timeouts: Counter::default(),
            fix_ups: Counter::default(),
            reprepares: Counter::default(),
            moved: Counter::default(),
            own_errors: Counter::default(),
            error_codes: ErrorCodes::default(),
            digests: Gauge::default(),
            digests_lost: Counter::default(),
            rules: rules::RuleHits::default(),
            caches: cache::RuleCaches::default(),
            rule_searches: Counter::default(),
            servers: Mutex::new(Vec::new()),
            listeners: Mutex::new(Vec::new()),
        }
    }

    /// The statistics of a server, made at the first call.
    pub fn server(&self, cluster: &Arc<str>, server: &Arc<str>) -> Arc<ServerStats> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = servers.iter().find(|entry| entry.cluster == *cluster && entry.server == *server) {
            return entry.stats.clone();
        }
        let stats = Arc::new(ServerStats::default());
        servers.push(ServerEntry { cluster: cluster.clone(), server: server.clone(), stats: stats.clone() });
        stats
    }

    /// The statistics of a listener in front of a cluster, made at the first call.
    pub fn listener(&self, cluster: &Arc<str>, listener: &Arc<str>) -> Arc<ListenerStats> {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let known = listeners.iter().find(|entry| entry.cluster == *cluster && entry.listener == *listener);
        if let Some(entry) = known {
            return entry.stats.clone();
        }
        let (cluster, listener, stats) = (cluster.clone(), listener.clone(), Arc::<ListenerStats>::default());
        listeners.push(ListenerEntry { cluster, listener, stats: stats.clone() });
        stats
    }

    /// All listeners that this worker has counted.
    pub fn listeners(&self) -> Vec<ListenerEntry> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All servers that this worker has counted.
    pub fn servers(&self) -> Vec<ServerEntry> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The statistics of all workers.
pub type Workers = Arc<[Arc<WorkerStats>]>;
