//! Streaming replies: from a backend connection to the client, rows unread, until the reply is over.
//!
//! Several replies may be outstanding: those of fix-ups, which are swallowed, and then the client's. A slow client stops
//! its server: nothing is read while something waits to be sent.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, ReadBuf};
use wire::Status;
use wire::codec::Malformed;
use wire::exchange::{Advance, Event, Exchange, Packet};
use wire::packet::HEADER_BYTES;
use wire::reply::{self, Change, Ok, Prepared};

use super::client::Client;
use super::outgoing::write_while_alive;
use super::processes::Renumber;
use super::tracking::TrackWish;
use crate::error::Refusal;
use crate::pool::{Connection, StatementKey};
use crate::sessions::SessionHandle;
use crate::worker::Worker;

/// How long the next bytes of a reply are waited for when the client has closed its side. It may have closed only its
/// sending one.
const LEFT_WAIT: Duration = Duration::from_secs(10);
/// Why a session stops waiting for a server that the view calls down.
pub const GIVEN_UP: &str = "the server does not answer and was given up";
/// Changes of the session that are kept for after one reply. Beyond them it is only known that something changed.
const CHANGES_MAX: usize = 4096;

/// What an outstanding reply is for.
#[derive(Debug)]
pub enum Purpose {
    /// It is the client's.
    Client,
    /// COM_RESET_CONNECTION ahead of a fix-up.
    Reset,
    /// The schema was changed for the session.
    Schema,
    /// Variables were set for the session.
    Variables,
    /// The session's last error was raised again, so that its diagnostics can be asked for.
    Signal,
    /// A statement was prepared again for an execution.
    Prepare(StatementKey),
}

/// An outstanding reply.
#[derive(Debug)]
pub struct Expected {
    /// Where in the reply the server is.
    pub exchange: Exchange,
    /// What it is for.
    pub purpose: Purpose,
}

/// What the client's reply said.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The error that ended it.
    pub error: Option<Refusal>,
    /// The last status flags.
    pub status: Option<Status>,
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
    /// Rows that an UPDATE found, changed or not.
    pub matched: Option<u64>,
    /// What the server told of the session's state.
    pub changes: Vec<StateChange>,
    /// The last reply ended with an EOF packet of the old framing, which has no room for trackers.
    pub ended_by_eof: bool,
    /// The head of a prepared statement, with the server's id.
    pub prepared: Option<Prepared>,
    /// Bytes of the reply reached the client's socket.
    pub delivered: bool,
    /// When the first byte of the reply came.
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
    Theft {
        /// The sequence number of the request: the client's error takes its place.
        sequence: u8,
        /// The file.
        name: String,
    },
    /// A fix-up was refused: the statement behind it must not count.
    FixUp(Refusal),
    /// The server refused the statement in a way that another server may not, and the client has not heard of it. The
    /// connection is as good as before.
    Withheld(Refusal),
}

/// How much of a refused file's name the client is told.
const FILE_NAME_TOLD_MAX: usize = 200;

/// Which errors of the statement are not for the client while another server may do better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Withhold {
    /// None.
    #[default]
    Nothing,
    /// Those of a server that is read-only: it is the primary no more, and has done nothing.
    ReadOnly,
    /// Those of a replica that has not heard of a schema, table, column or routine yet.
    NotYetHere,
    /// All of a replica, which may be set up otherwise than the primary: a SET that it refuses is the primary's to judge.
    All,
}

impl Withhold {
    fn applies(self, error: &reply::ServerError<'_>) -> bool {
        match self {
            Withhold::Nothing => false,
            Withhold::All => true,
            // 1290 names the option in the way; only read_only says that this is the wrong server.
            Withhold::ReadOnly => {
                error.code == 1836 || error.code == 1290 && memchr::memmem::find(error.message, b"read-only").is_some()
            }
            Withhold::NotYetHere => matches!(error.code, 1049 | 1054 | 1146 | 1305 | 1370),
        }
    }
}

impl From<Malformed> for RelayError {
    fn from(error: Malformed) -> RelayError {
        RelayError::Server(error.to_string())
    }
}

/// One relay at work.
#[derive(Debug)]
pub struct Relay<'a> {
    /// Whose scratch buffer is used.
    pub worker: &'a Worker,
    /// Whose reply it is.
    pub handle: &'a SessionHandle,
    /// To where.
    pub client: &'a mut Client,
    /// From where.
    pub connection: &'a mut Connection,
    /// Replies that are outstanding, in order.
    pub pending: VecDeque<Expected>,
    /// What of session tracking the client wants to hear.
    pub wish: &'a TrackWish,
    /// Errors that are not for the client.
    pub withhold: Withhold,
    /// The client's statement is one that sends a file.
    pub file_allowed: bool,
    /// The reply lists connections by ids that are not the clients'.
    pub renumber: Option<Renumber>,
    /// The count of warnings to tell instead of the connection's own.
    pub warnings: Option<u16>,
    /// The id that a client prepares under.
    pub prepare_as: u32,
    /// What was learned.
    pub outcome: Outcome,
}

/// Bytes of one chunk on their way to the client: a single run is sent from where it was read.
#[derive(Debug, Default)]
struct Run {
    start: usize,
    end: usize,
}

impl Relay<'_> {
    /// Runs until no reply is outstanding. The connection is of no further use after an error.
    pub async fn run(&mut self) -> Result<(), RelayError> {
        while !self.pending.is_empty() {
            if self.pending.front().is_some_and(|expected| expected.exchange.is_over()) {
                self.pending.pop_front();
                continue;
            }
            if self.pending.front().is_some_and(|expected| expected.exchange.awaits_infile()) {
                self.send_file().await?;
            }
            if self.client.has_unsent() {
                self.client.flush().await.map_err(RelayError::Client)?;
            }
            if self.client.has_left() {
                let gone = |_| RelayError::Client(io::ErrorKind::UnexpectedEof.into());
                tokio::time::timeout(LEFT_WAIT, poll_fn(|cx| self.poll_chunk(cx))).await.map_err(gone)??;
            } else {
                poll_fn(|cx| self.poll_chunk(cx)).await?;
            }
        }
        Ok(())
    }

    /// Reads once, understands all that is there, sends once.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        if self.handle.abandoned.load(Ordering::Relaxed) {
            return Poll::Ready(Err(RelayError::Server(GIVEN_UP.into())));
        }
        let worker = self.worker;
        let mut scratch = worker.scratch.borrow_mut();
        let mut buffer = ReadBuf::new(&mut scratch);
        match Pin::new(&mut self.connection.stream).poll_read(cx, &mut buffer) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => return Poll::Ready(Err(RelayError::Server(error.to_string()))),
            // A client that has left is given a little time, not all that its statement may take.
            Poll::Pending => return self.client.poll_left(cx, &mut scratch).map(Ok),
        }
        worker.busy_poll.note();
        let chunk = buffer.filled();
        if chunk.is_empty() {
            return Poll::Ready(Err(RelayError::Server("the server closed the connection".into())));
        }
        let mut inbox = std::mem::take(&mut self.connection.inbox);
        let taken;
        if inbox.is_empty() {
            taken = self.take(cx, chunk)?;
            self.connection.inbox.extend_from_slice(&chunk[taken..]);
        } else {
            inbox.extend_from_slice(chunk);
            taken = self.take(cx, &inbox)?;
            inbox.drain(..taken);
            self.connection.inbox = inbox;
        }
        Poll::Ready(Ok(()))
    }

    /// Understands and forwards `bytes`; gives how many were used up.
    fn take(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Result<usize, RelayError> {
        let mut run = Run::default();
        let mut taken = 0;
        while let Some(expected) = self.pending.front_mut() {
            if expected.exchange.is_over() {
                self.pending.pop_front();
                continue;
            }
            let is_client = matches!(expected.purpose, Purpose::Client);
            match expected.exchange.advance(&bytes[taken..])? {
                Advance::Pass(n) => {
                    if is_client && let Some(renumber) = &mut self.renumber {
                        self.outcome.first_byte.get_or_insert_with(Instant::now);
                        if !renumber.take(&bytes[taken..taken + n])
                            && let Some(renumber) = self.renumber.take()
                        {
                            self.client.put(&renumber.give_up());
                            self.outcome.delivered = true;
                        }
                    } else if is_client {
                        self.pass(&mut run, bytes, taken, taken + n);
                    }
                    taken += n;
                }
                Advance::Packet(packet) => {
                    let end = taken + packet.taken;
                    let rows = expected.exchange.rows();
                    let over = packet.over;
                    let stop = matches!(packet.event, Event::Infile(_));
                    if is_client && let Some(renumber) = &mut self.renumber {
                        let renumbered = renumber.give();
                        self.put_run(&mut run, bytes);
                        self.client.put(&renumbered);
                        self.outcome.delivered |= !renumbered.is_empty();
                    }
                    if is_client {
                        self.client_packet(&packet, rows, &mut run, bytes, taken, end)?;
                    } else if stop {
                        return Err(RelayError::Server("it asked for a file where none is sent".into()));
                    } else {
                        self.fix_up_packet(&packet)?;
                    }
                    taken = end;
                    if over {
                        self.pending.pop_front();
                    }
                    if stop {
                        break;
                    }
                }
                Advance::Needs(_) => break,
            }
        }
        if run.end > run.start || self.client.has_unsent() {
            self.outcome.delivered |= run.end > run.start;
            if let Poll::Ready(Err(error)) = self.client.poll_send(cx, &bytes[run.start..run.end]) {
                return Err(RelayError::Client(error));
            }
        }
        if self.pending.is_empty() && taken < bytes.len() {
            return Err(RelayError::Server("the server sent more than its reply".into()));
        }
        Ok(taken)
    }

    fn pass(&mut self, run: &mut Run, bytes: &[u8], start: usize, end: usize) {
        if self.outcome.first_byte.is_none() {
            self.outcome.first_byte = Some(Instant::now());
        }
        if run.start == run.end {
            *run = Run { start, end };
        } else if run.end == start {
            run.end = end;
        } else {
            self.put_run(run, bytes);
            *run = Run { start, end };
        }
    }

    fn put_run(&mut self, run: &mut Run, bytes: &[u8]) {
        if run.end > run.start {
            self.client.put(&bytes[run.start..run.end]);
            self.outcome.delivered = true;
        }
        *run = Run::default();
    }

    /// A packet of the client's reply: learn from it, and forward it as it is or as this client must see it.
    fn client_packet(
        &mut self,
        packet: &Packet<'_>,
        rows: u64,
        run: &mut Run,
        bytes: &[u8],
        start: usize,
        end: usize,
    ) -> Result<(), RelayError> {
        match packet.event {
            Event::Ok(ok) | Event::RowsEnd(ok) => {
                let is_rows_end = matches!(packet.event, Event::RowsEnd(_));
                self.learn(&ok)?;
                self.outcome.rows = is_rows_end.then_some(rows);
                if is_rows_end {
                    self.outcome.rows_sent += rows;
                }
                if !ok.session_state.is_empty() || self.warnings.is_some_and(|warnings| warnings != ok.warnings) {
                    self.put_run(run, bytes);
                    let header = if is_rows_end { reply::EOF } else { reply::OK };
                    // What it tells of the session is for us; the client hears what it asked for itself.
                    let told = self.wish.filter(&ok);
                    let warnings = self.warnings.unwrap_or(ok.warnings);
                    let ok = Ok { session_state: &told, warnings, ..ok };
                    let capabilities = self.client.capabilities;
                    self.client.put_packet(packet.sequence, |out| ok.write(out, header, capabilities));
                    self.outcome.delivered = true;
                    return Ok(());
                }
            }
            Event::Eof(eof) => {
                self.outcome.status = Some(eof.status);
                self.outcome.ended_by_eof = true;
                self.outcome.warned_before |= self.outcome.warnings > 0;
                self.outcome.warnings = eof.warnings;
                self.outcome.rows = Some(rows);
                self.outcome.rows_sent += rows;
            }
            Event::Error(error) => {
                let message = String::from_utf8_lossy(error.message).into_owned();
                let refusal = Refusal { code: error.code, sqlstate: error.sqlstate, message };
                let untouched = !self.outcome.delivered && run.end == run.start;
                if untouched && self.pending.len() == 1 && self.withhold.applies(&error) && end == bytes.len() {
                    return Err(RelayError::Withheld(refusal));
                }
                self.outcome.error = Some(refusal);
            }
            Event::Prepared(prepared) => {
                self.outcome.prepared = Some(prepared);
                self.outcome.warnings = prepared.warnings;
                self.put_run(run, bytes);
                let id_at = start + HEADER_BYTES + Prepared::STATEMENT_AT.start;
                self.client.put(&bytes[start..id_at]);
                self.client.put(&self.prepare_as.to_le_bytes());
                self.client.put(&bytes[id_at + Prepared::STATEMENT_AT.len()..end]);
                self.outcome.delivered = true;
                return Ok(());
            }
            Event::Infile(name) if !self.file_allowed => {
                self.put_run(run, bytes);
                let name = String::from_utf8_lossy(&name[..name.len().min(FILE_NAME_TOLD_MAX)]).into_owned();
                return Err(RelayError::Theft { sequence: packet.sequence, name });
            }
            Event::Infile(_) | Event::Progress | Event::Text(_) => {}
        }
        self.pass(run, bytes, start, end);
        Ok(())
    }

    fn learn(&mut self, ok: &Ok<'_>) -> Result<(), RelayError> {
        self.outcome.first_byte.get_or_insert_with(Instant::now);
        self.outcome.status = Some(ok.status);
        self.outcome.ended_by_eof = false;
        self.outcome.affected_rows = ok.affected_rows;
        self.outcome.rows_affected = self.outcome.rows_affected.saturating_add(ok.affected_rows);
        self.outcome.warned_before |= self.outcome.warnings > 0;
        self.outcome.warnings = ok.warnings;
        if ok.insert_id != 0 {
            self.outcome.insert_id = ok.insert_id;
        }
        if !ok.info.is_empty() {
            self.outcome.matched = matched(ok.info);
        }
        changes_of(ok, &mut self.outcome.changes)
    }

    fn fix_up_packet(&mut self, packet: &Packet<'_>) -> Result<(), RelayError> {
        let is_signal = matches!(self.pending.front(), Some(Expected { purpose: Purpose::Signal, .. }));
        if let (Event::Error(error), false) = (packet.event, is_signal) {
            let message = String::from_utf8_lossy(error.message).into_owned();
            return Err(RelayError::FixUp(Refusal { code: error.code, sqlstate: error.sqlstate, message }));
        }
        if let (Event::Prepared(prepared), Some(Expected { purpose: Purpose::Prepare(key), .. })) =
            (packet.event, self.pending.front())
        {
            let max = self.connection.origin.statements_max;
            self.connection.origin.statements.insert(key.clone(), prepared.statement, max);
            self.outcome.prepared = Some(prepared);
        }
        Ok(())
    }

    /// Streams the file that the server asked for from the client, no faster than the server takes it.
    async fn send_file(&mut self) -> Result<(), RelayError> {
        self.client.flush().await.map_err(RelayError::Client)?;
        let (mut packet_left, mut is_silent) = (0, true);
        loop {
            let part = tokio::select! {
                biased;
                part = self.client.next_file_part(self.worker, &mut packet_left) => part,
                // A server does not wait for ever for a client that has stopped sending.
                heard = hear(self.connection, self.worker), if is_silent => {
                    heard?;
                    is_silent = false;
                    continue;
                }
            };
            let (part, is_end) = part.map_err(RelayError::Client)?;
            write_while_alive(self.handle, &mut self.connection.stream, &part).await?;
            if is_end {
                break;
            }
        }
        if let Some(expected) = self.pending.front_mut() {
            expected.exchange.infile_sent();
        }
        Ok(())
    }
}

/// The number in `Rows matched: 2  Changed: 1  Warnings: 0`, as servers say it that speak English.
fn matched(info: &[u8]) -> Option<u64> {
    let (number, _) = std::str::from_utf8(info).ok()?.strip_prefix("Rows matched: ")?.split_once(' ')?;
    number.parse().ok()
}

/// Puts what an OK packet tells of the session behind what is known already.
pub(super) fn changes_of(ok: &Ok<'_>, changes: &mut Vec<StateChange>) -> Result<(), RelayError> {
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
            _ => continue,
        });
    }
    Ok(())
}

/// Waits for the server to say something, which goes to the inbox, or to hang up, which is an error.
pub(super) async fn hear(connection: &mut Connection, worker: &Worker) -> Result<(), RelayError> {
    let n = poll_fn(|cx| {
        let mut scratch = worker.scratch.borrow_mut();
        let mut buffer = ReadBuf::new(&mut scratch);
        ready!(Pin::new(&mut connection.stream).poll_read(cx, &mut buffer))?;
        connection.inbox.extend_from_slice(buffer.filled());
        Poll::Ready(Ok::<usize, io::Error>(buffer.filled().len()))
    });
    match n.await {
        Ok(0) => Err(RelayError::Server("the server closed the connection".into())),
        Ok(_) => Ok(()),
        Err(error) => Err(RelayError::Server(error.to_string())),
    }
}
