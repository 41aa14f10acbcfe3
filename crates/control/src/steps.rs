//! The steps of failover on servers: each step as SQL of the server's dialect.
//!
//! Each step may be run again: it looks first, and does only what is left to do. None waits for longer than its limit,
//! which is the caller's: a step that is dropped halfway leaves a connection that is closed.

mod channel;
mod cut;
mod events;
mod follow;
mod group;
mod promote;
mod read_only;
mod semi_sync;
#[cfg(test)]
mod servers;
mod sessions;

use std::fmt;
use std::time::Duration;

use facts::gtid::WrittenGtids;
use net::query::{Client, QueryError, ResultSet};
use tokio::time::Instant;

use crate::monitor::dialect::{self, Dialect};
use crate::monitor::link::is_denied;

pub(crate) use channel::{Ours, stop_receiver, wait_applied};
pub(crate) use events::{Running, disable_events, enable_events, events_of_primary, running_events};
pub(crate) use follow::{Account, Source, follow};
pub(crate) use group::set_group_primary;
pub(crate) use promote::promote;
pub(crate) use read_only::{Clients, fence, set_read_only};
pub(crate) use sessions::end_sessions;

/// A connection that acts, what is at its other end, and until when the step must be done.
pub(crate) struct Hand<'a> {
    pub(crate) client: &'a mut Client,
    pub(crate) dialect: Dialect,
    pub(crate) until: Instant,
}

/// Why a step was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) kind: FailedKind,
    pub(crate) text: String,
}

/// Classes of failed steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailedKind {
    /// The connection broke, or none could be opened.
    Lost,
    /// It was not done in time.
    TimedOut,
    /// The user lacks a right.
    Denied,
    /// The server, or what the step found there, forbids it.
    Refused,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Failed {
    pub(crate) fn new(kind: FailedKind, text: impl Into<String>) -> Failed {
        Failed { kind, text: text.into() }
    }

    fn refused(text: impl Into<String>) -> Failed {
        Failed::new(FailedKind::Refused, text)
    }
}

impl<'a> Hand<'a> {
    /// Takes a connection for one step.
    pub(crate) fn new(client: &'a mut Client, until: Instant) -> Hand<'a> {
        let dialect = Dialect::of(&dialect::greeting(client.greeting()));
        Hand { client, dialect, until }
    }

    /// Runs statements; `what` says in words what they are for, since their text may hold a password.
    async fn run(&mut self, what: &str, sql: impl AsRef<[u8]>) -> Result<ResultSet, Failed> {
        // When the lease has ended, nothing may be sent any more.
        if self.left().is_zero() {
            return Err(self.late(what));
        }
        match tokio::time::timeout_at(self.until, self.client.query_one(sql)).await {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(failed(what, &error)),
            Err(_) => Err(self.late(what)),
        }
    }

    fn late(&self, what: &str) -> Failed {
        Failed::new(FailedKind::TimedOut, format!("cannot {what}: it took too long"))
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Waits for a moment between two looks; fails when the step's time is over.
    async fn pause(&self, what: &str, time: Duration) -> Result<(), Failed> {
        if self.left() < time {
            return Err(self.late(what));
        }
        tokio::time::sleep(time).await;
        Ok(())
    }
}

fn failed(what: &str, error: &QueryError) -> Failed {
    let kind = match error {
        QueryError::Server(refusal) if is_denied(refusal.code) => FailedKind::Denied,
        QueryError::Server(_) => FailedKind::Refused,
        QueryError::Timeout(_) => FailedKind::TimedOut,
        _ => FailedKind::Lost,
    };
    Failed::new(kind, format!("cannot {what}: {error}"))
}

/// A string literal. The executor's sessions have an empty `sql_mode`, in which a backslash escapes.
fn text(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
}

/// A position, or why it is none.
fn position(dialect: Dialect, gtids: &str) -> Result<Option<WrittenGtids>, Failed> {
    if gtids.trim().is_empty() {
        return Ok(None);
    }
    let read = WrittenGtids::parse(dialect.mariadb, gtids);
    read.map(Some).ok_or_else(|| Failed::refused(format!("{gtids} is no position of this family of servers")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_cannot_be_left() {
        assert_eq!(text("a'b"), "'a''b'");
        assert_eq!(text(r"a\'b\"), r"'a\\''b\\'");
        assert_eq!(text(""), "''");
    }

    #[test]
    fn positions_are_those_of_the_family() {
        let maria = Dialect { mariadb: true, number: 101_106 };
        assert_eq!(position(maria, " "), Ok(None));
        assert!(position(maria, "0-1-5").is_ok_and(|position| position.is_some()));
        assert_eq!(position(maria, "nonsense").map_err(|failed| failed.kind), Err(FailedKind::Refused));
    }
}
