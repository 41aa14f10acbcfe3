//! Streaming replies: from a backend connection to the client, rows unread, until the reply is over.
//!
//! Several replies may be outstanding: those of fix-ups, which are swallowed, and then the client's. A slow client stops
//! its server: nothing is read while something waits to be sent.

mod administration;
mod copied;
mod outcome;
mod packets;
mod quoted;
mod taps;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

pub use copied::{Copied, packets_of};
pub(super) use outcome::changes_of;
pub use outcome::{Outcome, RelayError, StateChange};
pub use quoted::Texts;
pub use taps::{RowChange, Taps};
use tokio::io::{AsyncRead, ReadBuf};
use wire::exchange::{Advance, Event, Packet};

use super::client::Client;
use super::tracking::{ClientTracking, Hearing};
use super::withhold::Withhold;
use super::write::write_while_alive;
use crate::outgoing::{Expected, Purpose};
use crate::pool::{Connection, ConnectionEnd};
use crate::sessions::SessionHandle;
use crate::worker::Worker;

/// How long the next bytes of a reply are waited for when the client has closed its side. It may have closed only its
/// sending one.
const LEFT_WAIT: Duration = Duration::from_secs(10);
/// Why a session stops waiting for a server that the view calls down.
pub const GIVEN_UP: &str = "the server does not answer and was given up";
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
    pub pending: &'a mut VecDeque<Expected>,
    /// The part of session tracking that the client wants to hear.
    pub tracking: &'a ClientTracking,
    /// Errors that are not for the client.
    pub withhold: Withhold,
    /// The client's statement is one that sends a file.
    pub file_allowed: bool,
    /// The count of warnings to tell instead of the connection's own.
    pub warnings: Option<u16>,
    /// The changes that the client wants to hear of, for results in the old framing; without it, none.
    pub hearing: Option<Hearing<'a>>,
    /// The id that a client prepares under.
    pub prepare_as: u32,
    /// The end of the reply stays in the client's outbox: what it says must be noted before the client hears it.
    pub keeps_end: bool,
    /// The rows stay in a cursor that the client did not ask for ([`super::query::Query::rows_stay`]).
    pub rows_stay: bool,
    /// The client's own text and the one that was sent, if something was put in.
    pub texts: Option<Texts<'a>>,
    /// The outcome so far.
    pub outcome: &'a mut Outcome,
}

/// Bytes of one chunk on their way to the client: a single run is sent from where it was read.
#[derive(Debug, Default)]
struct Span {
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

    /// Takes a reply that is here as a whole.
    pub fn take_whole(&mut self, cx: &mut Context<'_>, reply: &[u8]) -> Result<(), RelayError> {
        let taken = self.take(cx, reply)?;
        self.outcome.reply_bytes += taken as u64;
        match self.pending.is_empty() && taken == reply.len() {
            true => Ok(()),
            false => Err(RelayError::Server("its reply is not whole".into())),
        }
    }

    /// Reads once, understands all that is there, sends once.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        let worker = self.worker;
        let mut scratch = worker.scratch.borrow_mut();
        let mut buffer = ReadBuf::new(&mut scratch);
        let is_given_up = self.handle.abandoned.load(Ordering::Relaxed);
        match Pin::new(&mut self.connection.stream).poll_read(cx, &mut buffer) {
            // That the connection has ended as well says more than that no session waits for it.
            Poll::Ready(Ok(())) if is_given_up && !buffer.filled().is_empty() => {
                return Poll::Ready(Err(RelayError::Server(GIVEN_UP.into())));
            }
            Poll::Pending if is_given_up => {
                self.outcome.end = ConnectionEnd::GivenUp;
                return Poll::Ready(Err(RelayError::Server(GIVEN_UP.into())));
            }
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => {
                self.outcome.end = ConnectionEnd::of(&error);
                return Poll::Ready(Err(RelayError::Server(error.to_string())));
            }
            // A client that has left is given a little time, not all that its statement may take.
            Poll::Pending => return self.client.poll_left(cx, &mut scratch).map(Ok),
        }
        worker.busy_poll.note();
        let chunk = buffer.filled();
        if chunk.is_empty() {
            self.outcome.end = ConnectionEnd::Closed;
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
        self.outcome.reply_bytes += taken as u64;
        if self.outcome.delivered && self.outcome.first_byte.is_none() && !self.pending.is_empty() {
            self.outcome.first_byte = Some(Instant::now());
        }
        Poll::Ready(Ok(()))
    }

    /// Understands and forwards `bytes`; gives how many were used up.
    fn take(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Result<usize, RelayError> {
        let mut run = Span::default();
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
                    if is_client || is_replay {
                        self.outcome.taps.came(&bytes[taken..taken + n]);
                    }
                    if is_client && self.outcome.taps.change.is_some() {
                        self.change(&bytes[taken..taken + n]);
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
                    if is_client || is_replay {
                        self.outcome.taps.packet_came(&packet.event);
                    }
                    if is_client && self.outcome.taps.change.is_some() {
                        self.end_change(&mut packet, &mut run, bytes);
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
    fn send_run(&mut self, cx: &mut Context<'_>, mut run: Span, bytes: &[u8]) -> Result<(), RelayError> {
        if self.keeps_end && self.pending.is_empty() {
            self.put_run(&mut run, bytes);
        } else if run.end > run.start || self.client.has_unsent() {
            self.outcome.delivered |= run.end > run.start;
            self.outcome.taps.goes(&bytes[run.start..run.end]);
            if let Poll::Ready(Err(error)) = self.client.poll_send(cx, &bytes[run.start..run.end]) {
                return Err(RelayError::Client(error));
            }
        }
        Ok(())
    }

    fn pass(&mut self, run: &mut Span, bytes: &[u8], start: usize, end: usize) {
        if run.start == run.end {
            *run = Span { start, end };
        } else if run.end == start {
            run.end = end;
        } else {
            self.put_run(run, bytes);
            *run = Span { start, end };
        }
    }

    /// Lets the change of the result take these bytes. It may give up, and give them back.
    fn change(&mut self, bytes: &[u8]) {
        let Some(change) = &mut self.outcome.taps.change else { return };
        if !change.take(bytes)
            && let Some(change) = self.outcome.taps.change.take()
        {
            self.client.put(&change.give_up());
            self.outcome.delivered = true;
        }
    }

    /// Gives the client the changed columns and rows that are ahead of this packet.
    fn end_change(&mut self, packet: &mut Packet<'_>, run: &mut Span, bytes: &[u8]) {
        let Some(change) = &mut self.outcome.taps.change else { return };
        let is_end = matches!(packet.event, Event::RowsEnd(_) | Event::Eof(_)) && packet.over;
        let changed = change.give(is_end);
        packet.sequence = change.sequence_for(packet.sequence);
        self.put_run(run, bytes);
        self.client.put(&changed);
        self.outcome.delivered |= !changed.is_empty();
    }

    fn put_run(&mut self, run: &mut Span, bytes: &[u8]) {
        if run.end > run.start {
            self.client.put(&bytes[run.start..run.end]);
            self.outcome.taps.goes(&bytes[run.start..run.end]);
            self.outcome.delivered = true;
        }
        *run = Span::default();
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
