//! Streaming replies: from a backend connection to the client, rows unread, until the reply is over.
//!
//! Several replies may be outstanding: those of fix-ups, which are swallowed, and then the client's. A slow client stops
//! its server: nothing is read while something waits to be sent.

mod copied;
mod outcome;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

pub use copied::Copied;
pub(super) use outcome::changes_of;
pub use outcome::{GROUP_LOST, NOT_IN_GROUP, Outcome, RelayError, StateChange, Withhold, is_not_in_group};
use tokio::io::{AsyncRead, ReadBuf};
use wire::exchange::{Advance, Event, Exchange, Packet};
use wire::packet::HEADER_BYTES;
use wire::reply::{self, Eof, Ok, Prepared};
use wire::{Status, errno};

use super::client::Client;
use super::outgoing::write_while_alive;
use super::processes::Tap;
use super::tracking::{ClientTracking, Hearing};
use crate::error::Refusal;
use crate::pool::{Connection, End, StatementKey};
use crate::sessions::SessionHandle;
use crate::worker::Worker;

/// How long the next bytes of a reply are waited for when the client has closed its side. It may have closed only its
/// sending one.
const LEFT_WAIT: Duration = Duration::from_secs(10);
/// Why a session stops waiting for a server that the view calls down.
pub const GIVEN_UP: &str = "the server does not answer and was given up";
/// The purpose of an outstanding reply.
#[derive(Debug)]
pub enum Purpose {
    /// It is the client's.
    Client,
    /// The client had it before: a transaction is run again.
    Replay,
    /// COM_RESET_CONNECTION ahead of a fix-up.
    Reset,
    /// The schema was changed for the session.
    Schema,
    /// Variables were set for the session.
    Variables,
    /// The session's last error was raised again, so that its diagnostics can be asked for.
    Signal,
    /// The server waits until it has what the statement must find.
    Wait,
    /// A statement was prepared again for an execution.
    Prepare(StatementKey),
}

/// An outstanding reply.
#[derive(Debug)]
pub struct Expected {
    /// Where in the reply the server is.
    pub exchange: Exchange,
    /// Its purpose.
    pub purpose: Purpose,
}

/// How much of a refused file's name the client is told.
const FILE_NAME_TOLD_MAX: usize = 200;

/// One relay at work.
#[derive(Debug)]
pub struct Relay<'a> {
    /// The worker, for its scratch buffer.
    pub worker: &'a Worker,
    /// The session that gets the reply.
    pub handle: &'a SessionHandle,
    /// The client to write to.
    pub client: &'a mut Client,
    /// The connection to read from.
    pub connection: &'a mut Connection,
    /// Replies that are outstanding, in order.
    pub pending: VecDeque<Expected>,
    /// The part of session tracking that the client wants to hear.
    pub wish: &'a ClientTracking,
    /// Errors that are not for the client.
    pub withhold: Withhold,
    /// The client's statement is one that sends a file.
    pub file_allowed: bool,
    /// The change of the client's reply on its way.
    pub tap: Option<Tap>,
    /// The count of warnings to tell instead of the connection's own.
    pub warnings: Option<u16>,
    /// The changes that the client wants to hear of, for results in the old framing; without it, none.
    pub hearing: Option<Hearing<'a>>,
    /// The id that a client prepares under.
    pub prepare_as: u32,
    /// The end of the reply stays in the client's outbox: what it says must be noted before the client hears it.
    pub keeps_end: bool,
    /// The outcome so far.
    pub outcome: &'a mut Outcome,
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
        let worker = self.worker;
        let mut scratch = worker.scratch.borrow_mut();
        let mut buffer = ReadBuf::new(&mut scratch);
        let is_given_up = self.handle.abandoned.load(Ordering::Relaxed);
        match Pin::new(&mut self.connection.stream).poll_read(cx, &mut buffer) {
            // That the connection has ended as well tells more than that nobody waits for it.
            Poll::Ready(Ok(())) if is_given_up && !buffer.filled().is_empty() => {
                return Poll::Ready(Err(RelayError::Server(GIVEN_UP.into())));
            }
            Poll::Pending if is_given_up => {
                self.outcome.end = End::GivenUp;
                return Poll::Ready(Err(RelayError::Server(GIVEN_UP.into())));
            }
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => {
                self.outcome.end = End::of(&error);
                return Poll::Ready(Err(RelayError::Server(error.to_string())));
            }
            // A client that has left is given a little time, not all that its statement may take.
            Poll::Pending => return self.client.poll_left(cx, &mut scratch).map(Ok),
        }
        worker.busy_poll.note();
        let chunk = buffer.filled();
        if chunk.is_empty() {
            self.outcome.end = End::Closed;
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
        if self.outcome.delivered && self.outcome.first_byte.is_none() && !self.pending.is_empty() {
            self.outcome.first_byte = Some(Instant::now());
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
            let is_replay = matches!(expected.purpose, Purpose::Replay);
            match expected.exchange.advance(&bytes[taken..])? {
                Advance::Pass(n) => {
                    if let Some(sum) = self.outcome.checksum.as_mut().filter(|_| is_client || is_replay) {
                        sum.bytes(&bytes[taken..taken + n]);
                    }
                    if is_client && let Some(tap) = &mut self.tap {
                        if !tap.take(&bytes[taken..taken + n])
                            && let Some(tap) = self.tap.take()
                        {
                            self.client.put(&tap.give_up());
                            self.outcome.delivered = true;
                        }
                    } else if is_client {
                        self.pass(&mut run, bytes, taken, taken + n);
                    }
                    taken += n;
                }
                Advance::Packet(mut packet) => {
                    let end = taken + packet.taken;
                    let rows = expected.exchange.rows();
                    let over = packet.over;
                    let stop = matches!(packet.event, Event::Infile(_));
                    if let Some(sum) = self.outcome.checksum.as_mut().filter(|_| is_client || is_replay) {
                        sum.event(&packet.event);
                    }
                    if is_client && let Some(tap) = &mut self.tap {
                        let is_rows_end = matches!(packet.event, Event::RowsEnd(_) | Event::Eof(_)) && over;
                        let renumbered = tap.give(is_rows_end);
                        packet.sequence = tap.sequence_for(packet.sequence);
                        self.put_run(&mut run, bytes);
                        self.client.put(&renumbered);
                        self.outcome.delivered |= !renumbered.is_empty();
                    }
                    if is_client {
                        self.client_packet(&packet, rows, &mut run, bytes, taken, end)?;
                    } else if stop {
                        return Err(RelayError::Server("it asked for a file where none is sent".into()));
                    } else if is_replay {
                        self.outcome.learn_again(&packet.event)?;
                    } else {
                        self.fix_up_packet(&packet, rows)?;
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
        self.send_run(cx, run, bytes)?;
        if self.pending.is_empty() && taken < bytes.len() {
            return Err(RelayError::Server("the server sent more than its reply".into()));
        }
        Ok(taken)
    }

    /// Sends the client the run that the bytes end with, or keeps it while the reply's end is kept.
    #[inline]
    fn send_run(&mut self, cx: &mut Context<'_>, mut run: Run, bytes: &[u8]) -> Result<(), RelayError> {
        if self.keeps_end && self.pending.is_empty() {
            self.put_run(&mut run, bytes);
        } else if run.end > run.start || self.client.has_unsent() {
            self.outcome.delivered |= run.end > run.start;
            self.copy(&bytes[run.start..run.end]);
            if let Poll::Ready(Err(error)) = self.client.poll_send(cx, &bytes[run.start..run.end]) {
                return Err(RelayError::Client(error));
            }
        }
        Ok(())
    }

    fn pass(&mut self, run: &mut Run, bytes: &[u8], start: usize, end: usize) {
        if run.start == run.end {
            *run = Run { start, end };
        } else if run.end == start {
            run.end = end;
        } else {
            self.put_run(run, bytes);
            *run = Run { start, end };
        }
    }

    /// Keeps what goes to the client, for the result cache.
    fn copy(&mut self, bytes: &[u8]) {
        if let Some(copied) = &mut self.outcome.copied {
            copied.take(bytes);
        }
    }

    fn put_run(&mut self, run: &mut Run, bytes: &[u8]) {
        if run.end > run.start {
            self.client.put(&bytes[run.start..run.end]);
            self.copy(&bytes[run.start..run.end]);
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
        let is_put = match packet.event {
            Event::Ok(ok) => self.ok_packet(packet.sequence, &ok, None, run, bytes)?,
            Event::RowsEnd(ok) => self.ok_packet(packet.sequence, &ok, Some(rows), run, bytes)?,
            Event::Eof(eof) => self.eof_packet(packet.sequence, eof, rows, run, bytes),
            Event::Error(error) => {
                let message = String::from_utf8_lossy(error.message).into_owned();
                let refusal = Refusal { code: error.code, sqlstate: error.sqlstate, message };
                let untouched = !self.outcome.delivered && run.end == run.start;
                if untouched && self.pending.len() == 1 && self.withhold.applies(&error) && end == bytes.len() {
                    return Err(RelayError::Withheld(refusal));
                }
                self.outcome.error = Some(refusal);
                false
            }
            Event::Prepared(prepared) => {
                self.outcome.prepared = Some(prepared);
                self.outcome.warnings = prepared.warnings;
                self.put_run(run, bytes);
                let id_at = start + HEADER_BYTES + Prepared::STATEMENT_AT.start;
                self.client.put(&bytes[start..id_at]);
                self.client.put(&self.prepare_as.to_le_bytes());
                self.client.put(&bytes[id_at + Prepared::STATEMENT_AT.len()..end]);
                true
            }
            Event::Infile(name) if !self.file_allowed => {
                self.put_run(run, bytes);
                let name = String::from_utf8_lossy(&name[..name.len().min(FILE_NAME_TOLD_MAX)]).into_owned();
                return Err(RelayError::UnexpectedInfile { sequence: packet.sequence, name });
            }
            Event::Infile(_) | Event::Progress | Event::Text(_) => false,
        };
        if !is_put && bytes[start + HEADER_BYTES - 1] == packet.sequence {
            self.pass(run, bytes, start, end);
            return Ok(());
        }
        if !is_put {
            self.put_run(run, bytes);
            self.client.put_packet(packet.sequence, |out| out.extend_from_slice(&bytes[start + HEADER_BYTES..end]));
        }
        self.outcome.delivered = true;
        Ok(())
    }

    /// An OK packet, at the end of `rows` if there were any; gives whether the client gets another one in its place, which is put then.
    fn ok_packet(
        &mut self,
        sequence: u8,
        ok: &Ok<'_>,
        rows: Option<u64>,
        run: &mut Run,
        bytes: &[u8],
    ) -> Result<bool, RelayError> {
        self.outcome.learn(ok)?;
        self.outcome.rows = rows;
        self.outcome.rows_sent += rows.unwrap_or(0);
        let warnings = self.warnings.unwrap_or(ok.warnings);
        if ok.session_state.is_empty() && warnings == ok.warnings {
            return Ok(false);
        }
        self.put_run(run, bytes);
        let header = if rows.is_some() { reply::EOF } else { reply::OK };
        // The server's reports on the session are for Sqluice; the client gets those that it asked for itself.
        let told = self.wish.filter(ok);
        let is_whole = told.is_empty() && warnings == ok.warnings;
        let ok = Ok { session_state: &told, warnings, ..*ok };
        let capabilities = self.client.capabilities;
        match &mut self.outcome.copied {
            Some(copied) if is_whole => copied.take_packet(sequence, |out| ok.write(out, header, capabilities)),
            Some(copied) => copied.give_up(cache::Refusal::Changes),
            None => {}
        }
        self.client.put_packet(sequence, |out| ok.write(out, header, capabilities));
        Ok(true)
    }

    /// An EOF packet; gives whether the client gets another one in its place, which is put then.
    fn eof_packet(&mut self, sequence: u8, eof: Eof, rows: u64, run: &mut Run, bytes: &[u8]) -> bool {
        self.outcome.learn_end(eof, rows);
        let mut told = Eof { warnings: self.warnings.unwrap_or(eof.warnings), ..eof };
        if eof.status.contains(Status::SESSION_STATE_CHANGED) && !self.hearing.as_ref().is_some_and(Hearing::is_of_any)
        {
            // It is about all that Sqluice tracks; this framing has no room to tell what it is.
            told.status -= Status::SESSION_STATE_CHANGED;
        }
        if told == eof {
            return false;
        }
        self.put_run(run, bytes);
        if let Some(copied) = &mut self.outcome.copied {
            copied.take_packet(sequence, |out| told.write(out));
        }
        self.client.put_packet(sequence, |out| told.write(out));
        true
    }

    fn fix_up_packet(&mut self, packet: &Packet<'_>, rows: u64) -> Result<(), RelayError> {
        if matches!(self.pending.front(), Some(Expected { purpose: Purpose::Wait, .. })) {
            // A server that cannot wait has not shown that it has it, either.
            if matches!(packet.event, Event::Error(_)) || packet.over && rows == 0 {
                let why = "the server has not applied in time what the statement must find";
                return Err(RelayError::NotThere(Refusal::own(errno::ER_LOCK_WAIT_TIMEOUT, b"HY000", why)));
            }
            if packet.over {
                self.outcome.there_at = Some(Instant::now());
            }
            return Ok(());
        }
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
