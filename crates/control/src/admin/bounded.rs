//! Limits that the HTTP server does not set by itself: how many connections there are, and how long one may be silent.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// Connections at a time; further ones wait in the system's queue.
pub(super) const CONNECTIONS_MAX: usize = 64;
/// Longest silence; more than the minute between two scrapes that share a connection.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(75);

/// A listener with limits.
pub(super) struct Bounded<L> {
    inner: L,
    free: Arc<Semaphore>,
    silence_max: Duration,
}

impl<L> Bounded<L> {
    pub(super) fn new(inner: L, connections_max: usize, silence_max: Duration) -> Bounded<L> {
        Bounded { inner, free: Arc::new(Semaphore::new(connections_max)), silence_max }
    }
}

impl<L: Listener> Listener for Bounded<L> {
    type Io = Guarded<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        // The semaphore is never closed; without a permit the connection would merely not be counted.
        let permit = self.free.clone().acquire_owned().await.ok();
        let (io, address) = self.inner.accept().await;
        let guarded =
            Guarded { io, silence: Box::pin(sleep(self.silence_max)), silence_max: self.silence_max, _permit: permit };
        (guarded, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.inner.local_addr()
    }
}

/// A connection that fails when nothing was read or written for too long.
pub(super) struct Guarded<T> {
    io: T,
    silence: Pin<Box<Sleep>>,
    silence_max: Duration,
    _permit: Option<OwnedSemaphorePermit>,
}

impl<T> Guarded<T> {
    /// Counts silence anew after progress, and turns waiting for too long into an error.
    fn watch<V>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<V>>) -> Poll<io::Result<V>> {
        if result.is_ready() {
            self.silence.as_mut().reset(Instant::now() + self.silence_max);
            return result;
        }
        self.silence.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Guarded<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.io).poll_read(cx, buf);
        self.watch(cx, result)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Guarded<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write(cx, buf);
        self.watch(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.watch(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.io).poll_flush(cx);
        self.watch(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.io).poll_shutdown(cx);
        self.watch(cx, result)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    #[test]
    fn silence_ends_a_connection_and_talk_does_not() {
        block_on(async {
            let (mut client, server) = duplex(64);
            let silence_max = Duration::from_millis(20);
            let mut server = Guarded { io: server, silence: Box::pin(sleep(silence_max)), silence_max, _permit: None };
            let mut byte = [0];
            client.write_all(b"x").await.unwrap();
            server.read_exact(&mut byte).await.unwrap();
            let begin = Instant::now();
            let error = server.read_exact(&mut byte).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(begin.elapsed() >= Duration::from_millis(10));
        });
    }

    #[test]
    fn connections_are_counted() {
        block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let mut bounded = Bounded::new(listener, 1, SILENCE_MAX);
            let _clients = (TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap());
            let (first, _) = bounded.accept().await;
            let waits = tokio::time::timeout(Duration::from_millis(20), bounded.accept()).await;
            assert!(waits.is_err(), "the second must wait for the first");
            drop(first);
            bounded.accept().await;
        });
    }
}
