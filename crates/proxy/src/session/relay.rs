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
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use wire::codec::Malformed;
use wire::exchange::{Advance, Event, Exchange, Packet};
use wire::packet::HEADER_BYTES;
use wire::reply::{self, Change, Ok, Prepared};
use wire::{Capabilities, Status};

use super::client::Client;
use super::tracking::TrackWish;
use crate::error::Refusal;
use crate::pool::{Connection, StatementKey};
use crate::sessions::SessionHandle;
use crate::worker::Worker;

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
    /// Warnings.
    pub warnings: u16,
    /// Rows of the last result; `None` when the last reply was no result.
    pub rows: Option<u64>,
    /// What the server told of the session's state.
    pub changes: Vec<StateChange>,
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
    /// The schema is this one; empty is none.
    Schema(String),
    /// Something changed.
    Some,
}

/// Why a relay ended early.
#[derive(Debug)]
pub enum RelayError {
    /// The client's connection failed.
    Client(io::Error),
    /// The server's connection failed, or broke the protocol.
    Server(String),
    /// A fix-up was refused: the statement behind it must not count.
    FixUp(Refusal),
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
    /// Those of a replica that has not heard of a schema, table, column or routine yet.
    NotYetHere,
}

impl Withhold {
    fn applies(self, error: &reply::ServerError<'_>) -> bool {
        match self {
            Withhold::Nothing => false,
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
            poll_fn(|cx| self.poll_chunk(cx)).await?;
        }
        Ok(())
    }

    /// Reads once, understands all that is there, sends once.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        if self.handle.abandoned.load(Ordering::Relaxed) {
            return Poll::Ready(Err(RelayError::Server("the server does not answer and was given up".into())));
        }
        let worker = self.worker;
        let mut scratch = worker.scratch.borrow_mut();
        let mut buffer = ReadBuf::new(&mut scratch);
        let read = ready!(Pin::new(&mut self.connection.stream).poll_read(cx, &mut buffer));
        if let Err(error) = read {
            return Poll::Ready(Err(RelayError::Server(error.to_string())));
        }
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
                    if is_client {
                        self.pass(&mut run, bytes, taken, taken + n);
                    }
                    taken += n;
                }
                Advance::Packet(packet) => {
                    let end = taken + packet.taken;
                    let rows = expected.exchange.rows();
                    let over = packet.over;
                    let stop = matches!(packet.event, Event::Infile(_));
                    if is_client {
                        self.client_packet(&packet, rows, &mut run, bytes, taken, end)?;
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
                if self.must_rewrite(&ok) {
                    self.put_run(run, bytes);
                    let header = if is_rows_end { reply::EOF } else { reply::OK };
                    let told = self.wish.filter(&ok);
                    let ok = Ok { session_state: &told, ..ok };
                    let capabilities = self.client.capabilities;
                    self.client.put_packet(packet.sequence, |out| ok.write(out, header, capabilities));
                    self.outcome.delivered = true;
                    return Ok(());
                }
            }
            Event::Eof(eof) => {
                self.outcome.status = Some(eof.status);
                self.outcome.warnings = eof.warnings;
                self.outcome.rows = Some(rows);
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
                self.put_run(run, bytes);
                let id_at = start + HEADER_BYTES + Prepared::STATEMENT_AT.start;
                self.client.put(&bytes[start..id_at]);
                self.client.put(&self.prepare_as.to_le_bytes());
                self.client.put(&bytes[id_at + Prepared::STATEMENT_AT.len()..end]);
                self.outcome.delivered = true;
                return Ok(());
            }
            Event::Infile(_) | Event::Progress | Event::Text(_) => {}
        }
        self.pass(run, bytes, start, end);
        Ok(())
    }

    /// Whether an OK packet means something else to the client than to us.
    fn must_rewrite(&self, ok: &Ok<'_>) -> bool {
        let ours = self.connection.origin.capabilities.contains(Capabilities::SESSION_TRACK);
        let theirs = self.client.capabilities.contains(Capabilities::SESSION_TRACK);
        match (ours, theirs) {
            (true, true) => !ok.session_state.is_empty(),
            (false, false) => false,
            _ => !ok.info.is_empty() || !ok.session_state.is_empty(),
        }
    }

    fn learn(&mut self, ok: &Ok<'_>) -> Result<(), RelayError> {
        self.outcome.first_byte.get_or_insert_with(Instant::now);
        self.outcome.status = Some(ok.status);
        self.outcome.affected_rows = ok.affected_rows;
        self.outcome.warnings = ok.warnings;
        if ok.insert_id != 0 {
            self.outcome.insert_id = ok.insert_id;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for change in ok.changes() {
            self.outcome.changes.push(match change? {
                Change::Variable { name, value } => StateChange::Variable(text(name), text(value)),
                Change::Schema(name) => StateChange::Schema(text(name)),
                Change::State => StateChange::Some,
                _ => continue,
            });
        }
        Ok(())
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
        loop {
            let (part, is_end) = self.client.next_file_part(self.worker).await.map_err(RelayError::Client)?;
            let sent = self.connection.stream.write_all(&part).await;
            sent.map_err(|error| RelayError::Server(error.to_string()))?;
            if is_end {
                break;
            }
        }
        self.connection.stream.flush().await.map_err(|error| RelayError::Server(error.to_string()))?;
        if let Some(expected) = self.pending.front_mut() {
            expected.exchange.infile_sent();
        }
        Ok(())
    }
}
