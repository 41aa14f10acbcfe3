//! The counts of a listener's clients.

use std::sync::Arc;

use crate::Counter;

/// The counters of one worker for one listener.
#[derive(Debug, Default)]
pub struct ListenerStats {
    /// Logins that succeeded.
    pub logins: Counter,
    /// Logins that were refused.
    pub login_failures: Counter,
    /// Bytes that came from clients that have logged in, headers and encryption not counted.
    pub received_bytes: Counter,
    /// Bytes that went to clients that have logged in, headers and encryption not counted.
    pub sent_bytes: Counter,
    /// Queries that only read, answered by a server.
    pub reads: Counter,
    /// Queries that the primary had to run. SET and USE are neither reads nor writes.
    pub writes: Counter,
    /// Queries that the result cache answered.
    pub cached: Counter,
    /// Queries that ended with an error, whoever made it.
    pub errors: Counter,
}

/// One listener's statistics with its names.
#[derive(Clone, Debug)]
pub struct ListenerEntry {
    /// The name of the cluster behind it.
    pub cluster: Arc<str>,
    /// The listener's name.
    pub listener: Arc<str>,
    /// The counts.
    pub stats: Arc<ListenerStats>,
}
