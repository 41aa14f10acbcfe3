//! The client's outbox: bytes that are to be sent to the client.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;
use wire::packet;
use wire::reply::{self, Eof, Ok};
use wire::{Capabilities, Status};

use super::{BUFFER_KEPT_BYTES, Client};
use crate::error::Refusal;

/// Answers that wait for those to further commands; what is more is sent at once.
const GATHERED_BYTES_MAX: usize = 16 * 1024;

impl Client {
    /// Bytes for the client, sent by the next flush.
    pub fn put(&mut self, bytes: &[u8]) {
        self.outbox.extend_from_slice(bytes);
    }

    /// One packet for the client.
    pub fn put_packet(&mut self, sequence: u8, write: impl FnOnce(&mut Vec<u8>)) -> u8 {
        let begun = packet::begin(&mut self.outbox);
        write(&mut self.outbox);
        begun.end(&mut self.outbox, sequence)
    }

    /// An OK packet of Sqluice's own.
    pub fn put_ok(&mut self, sequence: u8, ok: &Ok<'_>) {
        let capabilities = self.capabilities;
        self.put_packet(sequence, |out| ok.write(out, reply::OK, capabilities));
    }

    /// An EOF packet of Sqluice's own, in the form that the client wants.
    pub fn put_eof(&mut self, sequence: u8, status: Status, warnings: u16) {
        let capabilities = self.capabilities;
        self.put_packet(sequence, |out| {
            if capabilities.contains(Capabilities::DEPRECATE_EOF) {
                Ok { status, warnings, ..Ok::default() }.write(out, reply::EOF, capabilities);
            } else {
                Eof { warnings, status }.write(out);
            }
        });
    }

    /// An ERR packet of Sqluice's own.
    pub fn put_error(&mut self, sequence: u8, refusal: &Refusal) {
        self.put_packet(sequence, |out| refusal.as_packet().write(out));
    }

    #[inline]
    fn note_sent(&self, bytes: usize) {
        if let Some(counted) = &self.counted {
            counted.sent(bytes);
        }
    }

    /// Bytes that were sent since the login, or are still to be sent.
    pub fn given_bytes(&self) -> u64 {
        let sent = self.counted.as_ref().map_or(0, |counted| counted.handle.activity.bytes().1);
        sent + (self.outbox.len() - self.sent) as u64
    }

    /// Something is still to be sent.
    pub fn has_unsent(&self) -> bool {
        self.sent < self.outbox.len() || self.unflushed
    }

    /// Sends all that is to be sent.
    pub async fn flush(&mut self) -> io::Result<()> {
        if !self.has_unsent() {
            return Ok(());
        }
        poll_fn(|cx| self.poll_flush(cx)).await
    }

    /// Sends an answer as [`Client::poll_send`] does, but lets it wait for those to further commands that are here already, as
    /// long as they are few bytes: they go out together.
    #[inline]
    pub fn poll_answer(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<()>> {
        if !self.inbox.is_empty() && self.outbox.len() + bytes.len() <= GATHERED_BYTES_MAX {
            self.outbox.extend_from_slice(bytes);
            return Poll::Ready(Ok(()));
        }
        self.poll_send(cx, bytes)
    }

    /// Something is to be sent before more is done for the client: nothing that it has sent already adds to it.
    pub fn must_flush(&self) -> bool {
        self.has_unsent() && (self.inbox.is_empty() || self.outbox.len() >= GATHERED_BYTES_MAX)
    }

    /// Sends what waits in the outbox and then `bytes`, as far as the socket takes them at once; the rest waits in the
    /// outbox. Never pending: who has more to send must flush first.
    #[inline]
    pub fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<()>> {
        let mut rest = bytes;
        if !self.has_unsent() && !self.stream.is_buffered() {
            match Pin::new(&mut self.stream).poll_write(cx, bytes) {
                // Nearly always.
                Poll::Ready(Ok(n)) => {
                    self.note_sent(n);
                    if n == bytes.len() {
                        return Poll::Ready(Ok(()));
                    }
                    rest = &bytes[n..];
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
        }
        self.poll_send_rest(cx, rest)
    }

    /// The same, where the socket does not take all at once, or others write to it.
    #[inline(never)]
    fn poll_send_rest(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<()>> {
        if self.has_unsent() {
            self.outbox.extend_from_slice(bytes);
            return match self.poll_flush(cx) {
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                _ => Poll::Ready(Ok(())),
            };
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => {
                    self.note_sent(n);
                    rest = &rest[n..];
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => break,
            }
        }
        self.outbox.extend_from_slice(rest);
        if self.stream.is_buffered() {
            match Pin::new(&mut self.stream).poll_flush(cx) {
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => self.unflushed = false,
                Poll::Pending => self.unflushed = true,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.outbox.len() {
            let n = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.outbox[self.sent..]))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += n;
            self.note_sent(n);
        }
        self.sent = 0;
        if self.outbox.capacity() > BUFFER_KEPT_BYTES {
            self.outbox = Vec::new();
        } else {
            self.outbox.clear();
        }
        self.unflushed = true;
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.unflushed = false;
        Poll::Ready(Ok(()))
    }
}
