//! The outcome of a reply, and the ways it can go wrong.

use std::io;
use std::time::Instant;

use wire::Status;
use wire::codec::Malformed;
use wire::exchange::Event;
use wire::reply::{Change, Eof, Ok, Prepared};

use super::taps::Taps;
use crate::error::Refusal;
use crate::pool::ConnectionEnd;

/// Changes of the session that are kept for after one reply. Beyond them it is only known that something changed.
const CHANGES_MAX: usize = 4096;

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
    /// It has left nothing on the session but what each read does, and that is noted.
    pub is_plain: bool,
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

    /// Whether the reply was one result of rows, and told nothing else.
    #[inline]
    pub(in crate::session) fn has_rows_alone(&self) -> bool {
        const TELLING: Status = Status::IN_TRANSACTION
            .union(Status::CURSOR_EXISTS)
            .union(Status::MORE_RESULTS)
            .union(Status::SESSION_STATE_CHANGED);
        self.error.is_none()
            && self.replies == 1
            && self.rows.is_some()
            && self.changes.is_empty()
            && self.warnings == 0
            && self.insert_id == 0
            && self.status_behind.is_none()
            && self.status.is_some_and(|status| !status.intersects(TELLING))
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
            Event::ColumnsEnd(_) | Event::Prepared(_) | Event::Infile(_) | Event::Progress | Event::Text(_) => {}
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
