//! The client's side of a session: its socket, and the commands that are read from it.

mod long_command;
mod outbox;

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use net::Stream;
use stats::ListenerStats;
use tokio::io::{AsyncRead, AsyncWriteExt as _, ReadBuf};
use wire::packet::{self, First};
use wire::{Capabilities, errno};

use crate::error::{Refusal, SessionEnd};
use crate::sessions::SessionHandle;
use crate::worker::Worker;
use long_command::LongCommand;

/// Buffers larger than this are given back when a session waits for its client.
const BUFFER_KEPT_BYTES: usize = 1024;
/// No listener's limit is lower: shorter commands are taken without a look at it.
const SHORT_BYTES: usize = 64 * 1024;
/// Bytes of commands that a client has sent ahead; beyond them nothing is read while a statement runs.
const AHEAD_BYTES_MAX: usize = 64 * 1024;
/// Longest that the bytes of a command that was refused for its length are thrown away.
const HEARS_ERROR_WAIT: Duration = Duration::from_secs(2);

/// The client's connection.
#[derive(Debug)]
pub struct Client {
    /// The socket.
    pub stream: Stream,
    /// The capabilities that the client and Sqluice agreed on.
    pub capabilities: Capabilities,
    inbox: Vec<u8>,
    /// How much of the inbox has been taken; all of it never is.
    used: usize,
    outbox: Vec<u8>,
    /// How much of the outbox has been sent.
    sent: usize,
    /// The stream has taken bytes that the socket has not.
    unflushed: bool,
    /// Where its bytes are counted; those of a client that is not there are not.
    counted: Option<CountedBytes>,
    /// It has closed its side while a statement ran.
    left: bool,
}

/// The places where a client's bytes are counted: its session's and its listener's.
#[derive(Debug)]
pub struct CountedBytes {
    /// The session, as others see it.
    pub handle: Arc<SessionHandle>,
    /// The listener's counts of the session's worker.
    pub of_listener: Arc<ListenerStats>,
}

impl CountedBytes {
    #[inline]
    fn received(&self, bytes: usize) {
        self.handle.activity.received(bytes as u64);
        self.of_listener.received_bytes.add(bytes as u64);
    }

    #[inline]
    fn sent(&self, bytes: usize) {
        self.handle.activity.sent(bytes as u64);
        self.of_listener.sent_bytes.add(bytes as u64);
    }
}

/// One command of the client, as it came.
#[derive(Debug)]
pub struct Request {
    /// The packets, headers included.
    pub packets: Vec<u8>,
    /// The joined payload, if it came in several packets.
    joined: Option<Vec<u8>>,
    /// Sequence number of the last packet; the reply goes on from there.
    pub sequence: u8,
    /// Its part of the memory for long commands.
    _long: Option<Box<LongCommand>>,
}

impl Request {
    /// A request whose packets were kept, the last one with this sequence number.
    pub fn again(packets: &[u8], sequence: u8) -> Request {
        let is_split = packet::Header::read(packets).is_some_and(packet::Header::is_continued);
        let joined = is_split.then(|| packet::join(packets));
        Request { packets: packets.to_vec(), joined, sequence, _long: None }
    }

    /// The payload, command byte included.
    pub fn payload(&self) -> &[u8] {
        match &self.joined {
            Some(joined) => joined,
            None => self.packets.get(packet::HEADER_BYTES..).unwrap_or_default(),
        }
    }
}

impl Client {
    /// The client of this session, whose login is over.
    pub fn new(stream: Stream, capabilities: Capabilities, counted: CountedBytes) -> Client {
        Client { counted: Some(counted), ..Client::nobody(stream, capabilities) }
    }

    /// A client that is not there.
    pub(super) fn nobody(stream: Stream, capabilities: Capabilities) -> Client {
        Client {
            stream,
            capabilities,
            inbox: Vec::new(),
            used: 0,
            outbox: Vec::new(),
            sent: 0,
            unflushed: false,
            counted: None,
            left: false,
        }
    }

    /// Nothing of the client's is waiting to be handled.
    pub fn is_idle(&self) -> bool {
        self.inbox.is_empty()
    }

    /// Nothing of it is waiting to be handled or sent, and it is there.
    pub fn is_at_rest(&self) -> bool {
        self.is_idle() && !self.has_unsent() && !self.left
    }

    /// The next command if it is one like nearly all: short, in one packet, and read in one piece or with others. `None` if something
    /// else is there; [`Client::next_request`] takes that. Nothing may be unsent that the client waits for.
    #[inline]
    pub fn poll_short(&mut self, cx: &mut Context<'_>, worker: &Worker) -> Poll<Result<Option<Request>, SessionEnd>> {
        loop {
            match packet::first(self.unused(), SHORT_BYTES) {
                First::Whole { sequence: 0, taken, .. } => return Poll::Ready(Ok(Some(self.take(taken, 0, false)))),
                First::Needs(_) if self.inbox.is_empty() => {
                    match ready!(self.poll_fill(cx, worker)).map_err(SessionEnd::ClientLost) {
                        Ok(0) => return Poll::Ready(Err(SessionEnd::ClientLeft)),
                        Ok(_) => {}
                        Err(end) => return Poll::Ready(Err(end)),
                    }
                }
                _ => return Poll::Ready(Ok(None)),
            }
        }
    }

    /// The next command, of which some is here already. Commands that came together are given one by one.
    /// `max_bytes` tells the listener's limit, which is asked for commands only that are not short.
    /// The servers refuse a command of `refused_bytes`.
    pub async fn next_request(
        &mut self,
        worker: &Worker,
        max_bytes: impl Fn() -> usize,
        refused_bytes: u64,
    ) -> Result<Request, SessionEnd> {
        let mut long = None;
        loop {
            let first = match packet::first(self.unused(), SHORT_BYTES) {
                First::TooLong => packet::first(self.unused(), max_bytes()),
                first => first,
            };
            match first {
                First::Whole { sequence: 0, taken, .. } => {
                    return Ok(Request { _long: long, ..self.take(taken, 0, false) });
                }
                First::Split { sequence, taken, .. } if packet::in_order(&self.unused()[..taken]) => {
                    return Ok(Request { _long: long, ..self.take(taken, sequence, true) });
                }
                First::Whole { .. } | First::Split { .. } => {
                    // Servers say it in these words and leave; one of ours would be lost if it got such packets.
                    let message = "Got packets out of order".to_owned();
                    self.put_error(0, &Refusal::like_server(errno::ER_NET_PACKETS_OUT_OF_ORDER, b"08S01", message));
                    // The connection is of no use afterwards, so whether the client hears it does not matter.
                    let _ = self.flush().await;
                    return Err(SessionEnd::ClientMisbehaved("packets out of order".into()));
                }
                First::TooLong => {
                    let max = max_bytes();
                    let why = format_args!("got a packet bigger than {max} bytes (listener max_packet)");
                    let refusal = Refusal::own(errno::ER_NET_PACKET_TOO_LARGE, b"08S01", why);
                    return Err(self.too_long(refusal, worker).await);
                }
                // Servers refuse it by its header; memory for all of it would be of no use.
                First::Needs(bytes) if holds_payload(bytes, refused_bytes) => {
                    return Err(self.too_long(Refusal::packet_too_large(), worker).await);
                }
                // A client that waits for answers may not ask on before they come.
                First::Needs(_) if self.has_unsent() => self.flush().await.map_err(SessionEnd::ClientLost)?,
                First::Needs(bytes) => {
                    // Room is made as bytes come: a header alone must not cost memory.
                    self.make_room(bytes);
                    if let Some(refusal) = self.count_long(&mut long, worker) {
                        return Err(self.too_long(refusal, worker).await);
                    }
                    self.fill_more(worker, long.as_deref()).await.map_err(SessionEnd::ClientLost)?;
                }
            }
        }
    }

    /// Counts what is there of a command that is long. The error if all long commands together have no more room.
    fn count_long(&self, long: &mut Option<Box<LongCommand>>, worker: &Worker) -> Option<Refusal> {
        let there = self.unused().len();
        if there <= SHORT_BYTES {
            return None;
        }
        let max = worker.shared.config.load().proxy.command_memory_max;
        // Several packets are joined into one text.
        let bytes = if there >= packet::PAYLOAD_BYTES_MAX { 2 * there } else { there } as u64;
        let long = long.get_or_insert_with(|| Box::new(LongCommand::new(&worker.shared.command_bytes)));
        (!long.has(there, bytes, max)).then(|| Refusal::no_command_memory(max))
    }

    /// Reads more of a command. A long one must go on, as on servers: a client that stops in its middle would keep its memory from
    /// others.
    async fn fill_more(&mut self, worker: &Worker, long: Option<&LongCommand>) -> io::Result<()> {
        let fill = poll_fn(|cx| self.poll_fill(cx, worker));
        let n = match long {
            Some(long) => tokio::time::timeout_at(long.due(), fill).await??,
            None => fill.await?,
        };
        if n == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    /// Says why a command is not taken, which ends the session. A socket that is closed while bytes are unread resets the
    /// connection, and a client that still sends may not hear the error: its bytes are thrown away until it closes.
    pub(super) async fn too_long(&mut self, refusal: Refusal, worker: &Worker) -> SessionEnd {
        self.put_error(1, &refusal);
        let reported = async {
            self.flush().await?;
            self.stream.shutdown().await?;
            while poll_fn(|cx| self.poll_fill(cx, worker)).await? > 0 {
                self.take_inbox();
            }
            io::Result::Ok(())
        };
        // The session ends in any case.
        let _ = tokio::time::timeout(HEARS_ERROR_WAIT, reported).await;
        SessionEnd::ClientMisbehaved(refusal.message)
    }

    fn take(&mut self, taken: usize, sequence: u8, split: bool) -> Request {
        let packets = self.take_bytes(taken);
        let joined = split.then(|| packet::join(&packets));
        Request { packets, joined, sequence, _long: None }
    }

    /// The bytes that were read and not taken yet.
    #[inline]
    fn unused(&self) -> &[u8] {
        &self.inbox[self.used..]
    }

    /// Takes so many bytes of the inbox. The rest stays where it is: with thousands of commands in one read, moving it
    /// each time would take most of the time.
    #[inline]
    fn take_bytes(&mut self, taken: usize) -> Vec<u8> {
        if self.used == 0 && taken == self.inbox.len() {
            return std::mem::take(&mut self.inbox);
        }
        self.take_some(taken)
    }

    #[inline(never)]
    fn take_some(&mut self, taken: usize) -> Vec<u8> {
        let bytes = self.inbox[self.used..self.used + taken].to_vec();
        self.used += taken;
        if self.used == self.inbox.len() {
            self.used = 0;
            self.inbox.clear();
            self.inbox.shrink_to(BUFFER_KEPT_BYTES);
        }
        bytes
    }

    /// Puts bytes that were read behind those that are there.
    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        if self.used > 0 {
            self.move_up();
        }
        self.inbox.extend_from_slice(bytes);
    }

    /// Moves what was not taken to the front, once that is the smaller part.
    #[inline(never)]
    fn move_up(&mut self) {
        if 2 * self.used >= self.inbox.len() {
            self.inbox.drain(..self.used);
            self.used = 0;
        }
    }

    /// Makes room for a command of so many bytes, but for no more than twice what came of it.
    fn make_room(&mut self, bytes: usize) {
        let there = self.inbox.len() - self.used;
        self.inbox.reserve(bytes.min(2 * there + 64).saturating_sub(there));
    }

    /// Gives a request's buffer back, so that the next one needs no allocation.
    pub fn reuse(&mut self, request: Request) {
        let mut packets = request.packets;
        if self.inbox.capacity() == 0 && packets.capacity() <= BUFFER_KEPT_BYTES {
            packets.clear();
            self.inbox = packets;
        }
    }

    /// Reads what the client has sent into the inbox; 0 is its end.
    #[inline]
    fn poll_fill(&mut self, cx: &mut Context<'_>, worker: &Worker) -> Poll<io::Result<usize>> {
        ready!(worker.poll_turn(cx));
        let mut scratch = worker.scratch.borrow_mut();
        let mut buffer = ReadBuf::new(&mut scratch);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
        worker.busy_poll.note();
        worker.spend_bytes(buffer.filled().len());
        self.note_received(buffer.filled().len());
        self.append(buffer.filled());
        Poll::Ready(Ok(buffer.filled().len()))
    }

    #[inline]
    fn note_received(&self, bytes: usize) {
        if let Some(counted) = &self.counted {
            counted.received(bytes);
        }
    }

    /// Takes what is there of the local file that a server asked for: raw packets up to and with an empty one. A packet
    /// need not be whole; `packet_left` counts what of it is still to come. Gives the bytes and whether they are the last.
    pub async fn next_file_part(&mut self, worker: &Worker, packet_left: &mut usize) -> io::Result<(Vec<u8>, bool)> {
        loop {
            let unused = self.unused();
            let (mut end, mut is_last) = ((*packet_left).min(unused.len()), false);
            *packet_left -= end;
            while *packet_left == 0 && !is_last {
                let Some(header) = packet::Header::read(&unused[end..]) else { break };
                end += packet::HEADER_BYTES;
                is_last = header.length == 0;
                let there = header.length.min(unused.len() - end);
                end += there;
                *packet_left = header.length - there;
            }
            if end > 0 {
                return Ok((self.take_bytes(end), is_last));
            }
            if poll_fn(|cx| self.poll_fill(cx, worker)).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// The client has closed its side while a statement ran.
    pub fn has_left(&self) -> bool {
        self.left
    }

    /// Looks whether the client is still there while its server works: ready once, when it has left. Commands that it
    /// sends ahead wait in the inbox. Costs no system call while nothing comes.
    pub fn poll_left(&mut self, cx: &mut Context<'_>, scratch: &mut [u8]) -> Poll<()> {
        while !self.left && self.unused().len() < AHEAD_BYTES_MAX {
            let mut buffer = ReadBuf::new(scratch);
            if let Stream::Compressed(_) = &self.stream {
                // A frame must not be taken before the reply to the one before is numbered.
                let Some(tcp) = self.stream.tcp() else { return Poll::Pending };
                let peeked = ready!(tcp.poll_peek(cx, &mut buffer));
                if peeked.is_ok_and(|bytes| bytes > 0) {
                    return Poll::Pending;
                }
                self.left = true;
            } else {
                let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer));
                self.left = read.is_err() || buffer.filled().is_empty();
                self.note_received(buffer.filled().len());
                self.append(buffer.filled());
            }
            if self.left {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    /// Takes the bytes that were read and not yet used; the next ones are on the stream.
    pub fn take_inbox(&mut self) -> Vec<u8> {
        let inbox = std::mem::take(&mut self.inbox);
        match std::mem::take(&mut self.used) {
            0 => inbox,
            used => inbox[used..].to_vec(),
        }
    }
}

/// Whether the packets of the command that needs `bytes` of inbox hold so many bytes, or more.
fn holds_payload(bytes: usize, payload: u64) -> bool {
    let headers = bytes.div_ceil(packet::PAYLOAD_BYTES_MAX + packet::HEADER_BYTES) * packet::HEADER_BYTES;
    bytes.saturating_sub(headers) as u64 >= payload
}
