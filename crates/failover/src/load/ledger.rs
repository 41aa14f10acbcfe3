//! The clients' record of their writes.

use std::collections::BTreeMap;

use net::query::QueryError;

/// Statements that take longer are noted, milliseconds.
const SLOW_MS: f64 = 5.0;

/// The kind of statement, or pause, that a client was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Work {
    Read,
    /// An autocommit insert with the client's own key.
    Keyed,
    /// An autocommit insert with the server's key.
    Counted,
    /// A transaction.
    Moved,
}

impl Work {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Work::Read => "read",
            Work::Keyed | Work::Counted => "insert",
            Work::Moved => "transaction",
        }
    }
}

/// How a write ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    /// The server said that it is done; the id that it told for the row, or 0.
    Acknowledged { id: u64 },
    /// Nobody knows: the connection broke, or the client was told that it is in doubt.
    Unknown,
    /// The client was told that it is not done.
    Refused,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    pub(crate) token: i64,
    pub(crate) work: Work,
    pub(crate) began_ms: f64,
    pub(crate) ended_ms: f64,
    pub(crate) end: End,
}

/// A statement that took long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slow {
    pub(crate) work: Work,
    pub(crate) began_ms: f64,
    pub(crate) ended_ms: f64,
}

/// The acts of a client, or of all, and their answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) writes: Vec<Write>,
    pub(crate) slow: Vec<Slow>,
    pub(crate) reads: u64,
    /// Reads that did not see what their own client had written.
    pub(crate) blind_reads: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    /// One message of each kind.
    pub(crate) messages: BTreeMap<String, String>,
    pub(crate) reconnects: u64,
    pub(crate) idle: u64,
    /// Idle sessions that did not find their session as they had left it.
    pub(crate) idle_harmed: u64,
    /// The oldest answer of a reader that wrote nothing, milliseconds behind what was acknowledged.
    pub(crate) oldest_ms: f64,
    pub(crate) age_reads: u64,
    /// Beginnings and ends of writes directly on a member of a group.
    pub(crate) beside: Vec<(f64, f64)>,
}

impl Ledger {
    pub(crate) fn error(&mut self, work: &str, error: &QueryError) {
        let kind = format!("{} ({work})", kind(error));
        self.messages.entry(kind.clone()).or_insert_with(|| error.to_string());
        *self.errors.entry(kind).or_default() += 1;
    }

    pub(crate) fn took(&mut self, work: Work, began_ms: f64, ended_ms: f64) {
        if ended_ms - began_ms >= SLOW_MS {
            self.slow.push(Slow { work, began_ms, ended_ms });
        }
    }

    pub(crate) fn add(&mut self, other: Ledger) {
        self.writes.extend(other.writes);
        self.slow.extend(other.slow);
        self.reads += other.reads;
        self.blind_reads += other.blind_reads;
        for (kind, count) in other.errors {
            *self.errors.entry(kind).or_default() += count;
        }
        for (kind, message) in other.messages {
            self.messages.entry(kind).or_insert(message);
        }
        self.reconnects += other.reconnects;
        self.idle += other.idle;
        self.idle_harmed += other.idle_harmed;
        self.oldest_ms = self.oldest_ms.max(other.oldest_ms);
        self.age_reads += other.age_reads;
        self.beside.extend(other.beside);
    }

    /// When writes were acknowledged, in order.
    pub(crate) fn acknowledged_ms(&self) -> Vec<f64> {
        let acknowledged = self.writes.iter().filter(|write| matches!(write.end, End::Acknowledged { .. }));
        let mut times: Vec<f64> = acknowledged.map(|write| write.ended_ms).collect();
        times.sort_by(f64::total_cmp);
        times
    }
}

/// An error's kind, for counting.
fn kind(error: &QueryError) -> String {
    match error {
        QueryError::Server(error) => format!("{} {}", error.code, error.sqlstate.as_deref().unwrap_or("?????")),
        QueryError::Io(_) => "connection lost".into(),
        QueryError::Timeout(_) => "no reply".into(),
        QueryError::Broken => "connection broken".into(),
        other => other.to_string(),
    }
}

/// How a write ended that failed so.
pub(crate) fn end_of(error: &QueryError) -> End {
    match error {
        // wire::errno::CR_SERVER_LOST is what Sqluice says when it ends a session with its server.
        QueryError::Server(error)
            if error.code == wire::errno::CR_SERVER_LOST || error.sqlstate.as_deref() == Some("08007") =>
        {
            End::Unknown
        }
        QueryError::Server(_) => End::Refused,
        _ => End::Unknown,
    }
}
