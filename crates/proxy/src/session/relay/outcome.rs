//! The outcome of a reply, and the ways it can go wrong.

use std::io;
use std::time::Instant;

use wire::codec::Malformed;
use wire::exchange::Event;
use wire::reply::{self, Change, Eof, Ok, Prepared};
use wire::{Status, errno};

use super::taps::Taps;
use crate::error::Refusal;
use crate::pool::ConnectionEnd;

/// Changes of the session that are kept for after one reply. Beyond them it is only known that something changed.
const CHANGES_MAX: usize = 4096;

/// With this Galera says that it has not prepared the node.
pub const NOT_IN_GROUP: u16 = errno::ER_UNKNOWN_COM_ERROR;
/// With this Galera says that a member lost its group while it committed.
pub const GROUP_LOST: u16 = errno::ER_ERROR_DURING_COMMIT;
/// With this a replication group refuses everything on a primary that it moves within a limit of time.
const GROUP_MOVES: u16 = errno::ER_OPERATION_NOT_ALLOWED_WHILE_PRIMARY_CHANGE_IS_RUNNING;

/// The outcome of the client's reply.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The error that ended it.
    pub error: Option<Refusal>,
    /// The server's own message where the client got another one.
    pub of_server: Option<String>,
    /// How many replies have come, of one statement of a text each.
    pub replies: usize,
    /// The last status flags; behind an error those of the part before it.
    pub status: Option<Status>,
    /// Those that the server gave when it was asked behind the error.
    pub status_behind: Option<Status>,
    /// Rows changed, of the last OK.
    pub affected_rows: u64,
    /// The last AUTO_INCREMENT value made, or 0.
    pub insert_id: u64,
    /// Rows of all results.
    pub rows_sent: u64,
    /// Rows changed, of all replies.
    pub rows_affected: u64,
    /// Warnings.
    pub warnings: u16,
    /// A result before the last one had warnings.
    pub warned_before: bool,
    /// Rows of the last result; `None` when the last reply was no result.
    pub rows: Option<u64>,
    /// The value of ROW_COUNT() behind the reply before the last one.
    pub row_count_before: Option<i64>,
    /// Rows that an UPDATE found, changed or not.
    pub matched: Option<u64>,
    /// The changes of the session's state that the server reported.
    pub changes: Vec<StateChange>,
    /// The last reply ended with an EOF packet of the old framing, which has no room for trackers.
    pub ended_by_eof: bool,
    /// The error with which the server refused to prepare the statement again.
    pub unprepared: Option<Box<Refusal>>,
    /// The head of a prepared statement, with the server's id.
    pub prepared: Option<Prepared>,
    /// All that reads the reply on its way, or changes it.
    pub taps: Taps,
    /// All of the statement was given to the server's connection.
    pub sent: bool,
    /// It shared a connection with reads of other sessions.
    pub pipelined: bool,
    /// How the connection ended.
    pub end: ConnectionEnd,
    /// Bytes of the reply reached the client's socket.
    pub delivered: bool,
    /// When the server had what the statement must find, if it was asked to wait for that.
    pub there_at: Option<Instant>,
    /// Bytes that the server has answered, to what was sent ahead of the statement, too.
    pub reply_bytes: u64,
    /// When the first bytes of the reply came, if more came later.
    pub first_byte: Option<Instant>,
}

/// A change of the session's state, kept for after the reply.
#[derive(Debug, PartialEq, Eq)]
pub enum StateChange {
    /// A system variable has this value.
    Variable(String, String),
    /// The schema is this one; empty is none. While more results follow it may be that of a routine that runs.
    Schema {
        /// Its name.
        name: String,
        /// More results follow.
        more: bool,
    },
    /// Something changed.
    Some,
    /// The characteristics that SET TRANSACTION and START TRANSACTION gave a transaction that has not ended, in SQL.
    Characteristics(String),
    /// A commit has this position.
    Committed(String),
}

/// Why a relay ended early.
#[derive(Debug)]
pub enum RelayError {
    /// The client's connection failed.
    Client(io::Error),
    /// The server's connection failed, or broke the protocol.
    Server(String),
    /// The server asked for a file that the client's statement does not send.
    UnexpectedInfile {
        /// The sequence number of the request: the client's error takes its place.
        sequence: u8,
        /// The file.
        name: String,
    },
    /// The server has ended the connection on purpose, with these words, before the statement was sent: somebody killed it, or
    /// it was idle for too long.
    Ended(Refusal),
    /// The server did not get in time what the statement must find, which is on its way to it all the same.
    NotThere(Refusal),
    /// A fix-up was refused: the statement behind it must not count.
    FixUp(Refusal),
    /// The server did not prepare the statement again, so that it has not run. The connection is as good as before.
    Unprepared(Refusal),
    /// The server refused the statement in a way that another server may not, and the client has not heard of it. The
    /// connection is as good as before.
    Withheld(Refusal),
}

/// Which errors of the statement are not for the client while another server may do better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Withhold {
    /// None.
    #[default]
    Nothing,
    /// Those of a server that is read-only: it is the primary no more, and has done nothing.
    ReadOnly,
    /// Those of a member of a Galera group that serves no session, shuts down or lost its group in a commit, and of a single write
    /// that lost against another one there.
    Group {
        /// Those of a server that is read-only, too.
        read_only: bool,
        /// The statement is a write that is its own transaction.
        alone: bool,
    },
    /// Those of a server that is read-only, shuts down or has cut the connection, within a transaction that can be replayed.
    Lost,
    /// Those of a replica that has not heard of a schema, table, column, routine or right yet, that is read-only, or shuts down.
    NotYetHere,
    /// Those of a server that shuts down: that a cluster's only server is read-only, the client hears from itself.
    ShutsDown,
    /// The same, and those of a connection that the server has cut, within a transaction that can be replayed.
    Cut,
    /// All of a replica, which may be set up otherwise than the primary: a SET that it refuses is the primary's to judge.
    All,
}

impl Withhold {
    /// The same where there is no other server.
    pub(in crate::session) fn of_only_server(self) -> Withhold {
        match self {
            Withhold::ReadOnly => Withhold::ShutsDown,
            Withhold::Lost => Withhold::Cut,
            other => other,
        }
    }

    /// Whether this error is one of them.
    pub(in crate::session) fn applies(self, error: &reply::ServerError<'_>) -> bool {
        match self {
            Withhold::Nothing => false,
            Withhold::ShutsDown => error.code == errno::ER_SERVER_SHUTDOWN,
            Withhold::Cut => matches!(error.code, errno::ER_SERVER_SHUTDOWN | errno::ER_CONNECTION_KILLED),
            Withhold::All => true,
            Withhold::Group { read_only, alone } => {
                is_not_in_group(error)
                    || is_group_lost(error)
                    || alone && error.code == errno::ER_LOCK_DEADLOCK
                    || error.code == errno::ER_SERVER_SHUTDOWN
                    || read_only && is_read_only(error)
            }
            // A server that shuts down, or whose connection was killed, has not run the statement.
            Withhold::ReadOnly => error.code == errno::ER_SERVER_SHUTDOWN || is_read_only(error),
            Withhold::Lost => {
                matches!(error.code, errno::ER_SERVER_SHUTDOWN | errno::ER_CONNECTION_KILLED)
                    || is_read_only(error)
                    || is_not_in_group(error)
                    || is_group_lost(error)
            }
            // A read that a read-only replica refuses hides a write: in a view, a column's default, or a function.
            Withhold::NotYetHere => {
                matches!(
                    error.code,
                    errno::ER_BAD_DB_ERROR
                        | errno::ER_BAD_FIELD_ERROR
                        | errno::ER_NO_SUCH_TABLE
                        | errno::ER_SP_DOES_NOT_EXIST
                        | errno::ER_PROCACCESS_DENIED_ERROR
                        | errno::ER_DBACCESS_DENIED_ERROR
                        | errno::ER_TABLEACCESS_DENIED_ERROR
                        | errno::ER_COLUMNACCESS_DENIED_ERROR
                        | errno::ER_SPECIFIC_ACCESS_DENIED_ERROR
                ) || is_read_only(error)
                    || is_not_in_group(error)
                    || error.code == errno::ER_SERVER_SHUTDOWN
            }
        }
    }
}

/// A member of a Galera group without its group, or one that an operator has set to refuse, says so before it does anything.
/// The same code is that of commands that a server does not know.
pub fn is_not_in_group(error: &reply::ServerError<'_>) -> bool {
    error.code == NOT_IN_GROUP && memchr::memmem::find(error.message, b"WSREP").is_some()
}

/// The member has taken back what it was to commit. Other members have it if it reached them before the group broke: most often it was
/// never sent, but the words are the same in both cases.
fn is_group_lost(error: &reply::ServerError<'_>) -> bool {
    error.code == GROUP_LOST && memchr::memmem::find(error.message, b"Not connected to Primary Component").is_some()
}

/// An option that prevents a statement stands in the message; only read_only says that this is the wrong server.
fn is_read_only(error: &reply::ServerError<'_>) -> bool {
    matches!(error.code, errno::ER_READ_ONLY_MODE | GROUP_MOVES)
        || error.code == errno::ER_OPTION_PREVENTS_STATEMENT
            && memchr::memmem::find(error.message, b"read-only").is_some()
}

impl From<Malformed> for RelayError {
    fn from(error: Malformed) -> RelayError {
        RelayError::Server(error.to_string())
    }
}

impl Outcome {
    /// Whether the statement could be prepared again, if it had to be.
    ///
    /// # Errors
    /// The server refused it.
    pub fn unprepared(&mut self) -> Result<(), RelayError> {
        match self.unprepared.take() {
            Some(refusal) => Err(RelayError::Unprepared(*refusal)),
            None => Ok(()),
        }
    }

    /// The value of ROW_COUNT() behind the last reply.
    pub fn row_count(&self) -> i64 {
        match (self.rows, &self.error) {
            (None, None) => i64::try_from(self.affected_rows).unwrap_or(i64::MAX),
            _ => -1,
        }
    }

    /// Takes in what a packet says that is not for the client.
    pub(super) fn learn_again(&mut self, event: &Event<'_>) -> Result<(), RelayError> {
        match event {
            Event::Ok(ok) | Event::RowsEnd(ok) => self.learn(ok)?,
            Event::Eof(eof) => self.status = Some(eof.status),
            Event::Error(error) => {
                let message = String::from_utf8_lossy(error.message).into_owned();
                self.error = Some(Refusal { code: error.code, sqlstate: error.sqlstate, message });
            }
            Event::Prepared(_) | Event::Infile(_) | Event::Progress | Event::Text(_) => {}
        }
        Ok(())
    }

    /// Takes in what an EOF packet at the end of `rows` says.
    pub(super) fn learn_end(&mut self, eof: Eof, rows: u64) {
        if self.status.is_some() {
            self.row_count_before = Some(self.row_count());
        }
        self.replies += 1;
        self.status = Some(eof.status);
        self.ended_by_eof = true;
        self.warned_before |= self.warnings > 0;
        self.warnings = eof.warnings;
        self.rows = Some(rows);
        self.rows_sent += rows;
    }

    /// Takes in what an OK packet says.
    pub(super) fn learn(&mut self, ok: &Ok<'_>) -> Result<(), RelayError> {
        if self.status.is_some() {
            self.row_count_before = Some(self.row_count());
        }
        self.replies += 1;
        self.status = Some(ok.status);
        self.ended_by_eof = false;
        self.affected_rows = ok.affected_rows;
        self.rows_affected = self.rows_affected.saturating_add(ok.affected_rows);
        self.warned_before |= self.warnings > 0;
        self.warnings = ok.warnings;
        if ok.insert_id != 0 {
            self.insert_id = ok.insert_id;
        }
        if !ok.info.is_empty() {
            self.matched = matched(ok.info);
        }
        changes_of(ok, &mut self.changes)
    }
}

/// The number in `Rows matched: 2  Changed: 1  Warnings: 0`, as servers say it that speak English.
fn matched(info: &[u8]) -> Option<u64> {
    let (number, _) = std::str::from_utf8(info).ok()?.strip_prefix("Rows matched: ")?.split_once(' ')?;
    number.parse().ok()
}

/// Puts what an OK packet tells of the session behind what is known already.
pub(in crate::session) fn changes_of(ok: &Ok<'_>, changes: &mut Vec<StateChange>) -> Result<(), RelayError> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    for change in ok.changes() {
        let change = change?;
        match changes.len() {
            ..CHANGES_MAX => {}
            CHANGES_MAX => changes.push(StateChange::Some),
            _ => break,
        }
        changes.push(match change {
            Change::Variable { name: b"last_gtid", value } | Change::Gtids(value) => {
                StateChange::Committed(text(value))
            }
            Change::Variable { name, value } => StateChange::Variable(text(name), text(value)),
            Change::Schema(name) => {
                StateChange::Schema { name: text(name), more: ok.status.contains(Status::MORE_RESULTS) }
            }
            Change::State => StateChange::Some,
            Change::TransactionCharacteristics(reported) => StateChange::Characteristics(text(reported)),
            _ => continue,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_lost_its_group_is_kept_from_the_client_and_other_errors_of_commits_are_not() {
        let applies = |withhold: Withhold, code, message: &str| {
            withhold.applies(&reply::ServerError { code, sqlstate: *b"HY000", message: message.as_bytes() })
        };
        let lost =
            "Error while appending streaming replication fragment(provider status: Not connected to Primary Component)";
        let full = "Got error 28 \"No space left on device\" during COMMIT";
        for withhold in [Withhold::Group { read_only: true, alone: false }, Withhold::Lost] {
            assert!(applies(withhold, GROUP_LOST, lost) && !applies(withhold, GROUP_LOST, full), "{withhold:?}");
            assert!(applies(withhold, NOT_IN_GROUP, "WSREP has not yet prepared node for application use"));
        }
        for withhold in [Withhold::Nothing, Withhold::ReadOnly, Withhold::NotYetHere] {
            assert!(!applies(withhold, GROUP_LOST, lost), "{withhold:?}");
        }
    }

    #[test]
    fn a_server_that_shuts_down_is_left_by_all_statements_that_another_one_may_run() {
        let error = reply::ServerError { code: errno::ER_SERVER_SHUTDOWN, sqlstate: *b"08S01", message: b"" };
        let group = [true, false].map(|read_only| Withhold::Group { read_only, alone: false });
        let others = [Withhold::ReadOnly, Withhold::NotYetHere, Withhold::ShutsDown, Withhold::Lost, Withhold::Cut];
        for withhold in group.into_iter().chain(others) {
            assert!(withhold.applies(&error), "{withhold:?}");
        }
        assert!(!Withhold::Nothing.applies(&error));
    }
}
