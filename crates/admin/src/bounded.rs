//! Limits that the HTTP server does not set by itself: how many connections there are, how long one may be silent, and how long the
//! head of a request may take.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

/// Connections at a time. One more takes the place of the one that was answered, or accepted, longest ago, and that waits for
/// no answer: connections that ask for nothing keep nobody out.
pub const CONNECTIONS_MAX: usize = 64;
/// Longest silence; more than the minute between two scrapes that share a connection.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(75);
/// Longest time from the first byte of a request to the end of its head.
const HEAD_MAX: Duration = Duration::from_secs(5);
/// In place of the time of the last answer: a whole request came and is being answered, perhaps for as long as a switchover
/// takes.
const BEING_ANSWERED: u64 = u64::MAX;
/// Behind this the head of a request is over.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// A listener with limits.
pub(crate) struct Bounded<L> {
    inner: L,
    seats: Arc<Seats>,
    connections_max: usize,
    limits: Limits,
}

#[derive(Clone, Copy)]
struct Limits {
    silence_max: Duration,
    head_max: Duration,
}

/// The connections that there are.
#[derive(Default)]
struct Seats {
    taken: Mutex<Vec<Seat>>,
    /// Grows with each answer and each connection: tells which was longest ago.
    clock: AtomicU64,
}

struct Seat {
    /// When it was answered last, by [`Seats::clock`], or accepted; or [`BEING_ANSWERED`].
    answered: Arc<AtomicU64>,
    /// Ends the connection.
    end: oneshot::Sender<()>,
}

impl Seats {
    fn taken(&self) -> MutexGuard<'_, Vec<Seat>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes a place, perhaps another's. Gives what tells of its answers, and what is ready when the place is lost.
    fn take(&self, connections_max: usize) -> (Arc<AtomicU64>, oneshot::Receiver<()>) {
        let (end, ended) = oneshot::channel();
        let answered = Arc::new(AtomicU64::new(self.now()));
        let mut taken = self.taken();
        if taken.len() >= connections_max {
            let last = |(_, seat): &(usize, &Seat)| seat.answered.load(Ordering::Relaxed);
            if let Some((oldest, _)) = taken.iter().enumerate().min_by_key(last) {
                // A connection that has ended by itself hears nothing.
                let _ = taken.swap_remove(oldest).end.send(());
            }
        }
        taken.push(Seat { answered: answered.clone(), end });
        (answered, ended)
    }

    fn leave(&self, answered: &Arc<AtomicU64>) {
        self.taken().retain(|seat| !Arc::ptr_eq(&seat.answered, answered));
    }
}

impl<L> Bounded<L> {
    pub(super) fn new(inner: L, connections_max: usize, silence_max: Duration) -> Bounded<L> {
        let limits = Limits { silence_max, head_max: HEAD_MAX };
        Bounded { inner, seats: Arc::default(), connections_max, limits }
    }
}

impl<L: Listener> Listener for Bounded<L> {
    type Io = Guarded<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (io, address) = self.inner.accept().await;
        (Guarded::new(io, self.seats.clone(), self.connections_max, self.limits), address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.inner.local_addr()
    }
}

/// How far the head of a request has come.
enum Head {
    /// Nothing of it has come.
    Awaited,
    /// So many bytes of [`HEAD_END`] came last; the rest must come by then.
    Coming(usize, Instant),
    /// All of it came; the answer has not gone out yet.
    Whole,
}

/// A connection that fails when nothing was read or written for too long, when the head of a request takes too long, or when its
/// place is another's.
pub(crate) struct Guarded<T> {
    io: T,
    timer: Pin<Box<Sleep>>,
    limits: Limits,
    /// When the last byte came or went.
    moved: Instant,
    head: Head,
    seats: Arc<Seats>,
    answered: Arc<AtomicU64>,
    ended: oneshot::Receiver<()>,
}

impl<T> Guarded<T> {
    fn new(io: T, seats: Arc<Seats>, connections_max: usize, limits: Limits) -> Guarded<T> {
        let (answered, ended) = seats.take(connections_max);
        let timer = Box::pin(sleep(limits.silence_max));
        Guarded { io, timer, limits, moved: Instant::now(), head: Head::Awaited, seats, answered, ended }
    }

    /// The connection below.
    pub(crate) fn inner(&self) -> &T {
        &self.io
    }

    /// An error if the connection may not go on.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        // A receiver that has told the end must not be asked again.
        if self.ended.is_terminated() || Pin::new(&mut self.ended).poll(cx).is_ready() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }

    /// Turns waiting for too long into an error.
    fn watch<V>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<V>>) -> Poll<io::Result<V>> {
        if result.is_ready() {
            self.moved = Instant::now();
            return result;
        }
        let silent = self.moved + self.limits.silence_max;
        let deadline = match self.head {
            Head::Coming(_, deadline) => deadline.min(silent),
            Head::Awaited | Head::Whole => silent,
        };
        self.timer.as_mut().reset(deadline);
        self.timer.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }

    fn has_read(&mut self, bytes: &[u8]) {
        let (mut matched, deadline) = match self.head {
            _ if bytes.is_empty() => return,
            Head::Whole => return,
            Head::Coming(matched, deadline) => (matched, deadline),
            Head::Awaited => (0, Instant::now() + self.limits.head_max),
        };
        for byte in bytes {
            matched = match *byte {
                byte if byte == HEAD_END[matched] => matched + 1,
                b'\r' => 1,
                _ => 0,
            };
            if matched == HEAD_END.len() {
                self.head = Head::Whole;
                self.answered.store(BEING_ANSWERED, Ordering::Relaxed);
                return;
            }
        }
        self.head = Head::Coming(matched, deadline);
    }

    fn has_written(&mut self) {
        self.head = Head::Awaited;
        self.answered.store(self.seats.now(), Ordering::Relaxed);
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        self.seats.leave(&self.answered);
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Guarded<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        let before = buf.filled().len();
        let result = Pin::new(&mut self.io).poll_read(cx, buf);
        self.has_read(&buf.filled()[before..]);
        self.watch(cx, result)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Guarded<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        let result = Pin::new(&mut self.io).poll_write(cx, buf);
        if result.is_ready() {
            self.has_written();
        }
        self.watch(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        let result = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        if result.is_ready() {
            self.has_written();
        }
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const LONG: Duration = Duration::from_secs(1000);

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    fn guarded(seats: &Arc<Seats>, limits: Limits) -> (DuplexStream, Guarded<DuplexStream>) {
        let (client, server) = duplex(256);
        (client, Guarded::new(server, seats.clone(), 2, limits))
    }

    #[test]
    fn silence_ends_a_connection_and_talk_does_not() {
        block_on(async {
            let limits = Limits { silence_max: Duration::from_millis(20), head_max: LONG };
            let (mut client, mut server) = guarded(&Arc::default(), limits);
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
    fn a_head_that_comes_byte_by_byte_ends_in_time_and_a_whole_one_may_be_answered_late() {
        block_on(async {
            let limits = Limits { silence_max: LONG, head_max: Duration::from_millis(30) };
            let seats = Arc::default();
            let (mut client, mut server) = guarded(&seats, limits);
            let sending = async {
                while client.write_all(b"x").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let reading = async {
                let error = server.read_to_end(&mut Vec::new()).await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::TimedOut);
                drop(server);
            };
            tokio::join!(sending, reading);
            let (mut client, mut server) = guarded(&seats, limits);
            client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
            server.read_exact(&mut [0; 18]).await.unwrap();
            let silent = tokio::time::timeout(Duration::from_millis(60), server.read(&mut [0])).await;
            assert!(silent.is_err(), "a request that is being answered has no deadline");
        });
    }

    #[test]
    fn a_request_that_is_being_answered_keeps_its_place() {
        block_on(async {
            let (seats, limits) = (Arc::default(), Limits { silence_max: LONG, head_max: LONG });
            let (mut client, mut asking) = guarded(&seats, limits);
            client.write_all(b"PUT / HTTP/1.1\r\n\r\n").await.unwrap();
            asking.read_exact(&mut [0; 18]).await.unwrap();
            for _ in 0..2 {
                let (_idle_client, mut idle) = guarded(&seats, limits);
                let (_other_client, _other) = guarded(&seats, limits);
                let error = idle.read(&mut [0]).await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
            }
            asking.write_all(b"an answer").await.unwrap();
            let (_third_client, _third) = guarded(&seats, limits);
            let (_fourth_client, _fourth) = guarded(&seats, limits);
            assert!(asking.read(&mut [0]).await.is_err(), "answered, it has a place like any other");
        });
    }

    #[test]
    fn one_more_connection_takes_the_place_of_the_one_answered_longest_ago() {
        block_on(async {
            let (seats, limits) = (Arc::default(), Limits { silence_max: LONG, head_max: LONG });
            let (_first_client, mut first) = guarded(&seats, limits);
            let (_second_client, mut second) = guarded(&seats, limits);
            first.write_all(b"an answer").await.unwrap();
            let (_third_client, third) = guarded(&seats, limits);
            let error = second.read(&mut [0]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
            let error = second.write_all(b"an answer").await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted, "it is asked again");
            first.write_all(b"another").await.unwrap();
            drop((first, third));
            assert_eq!(seats.taken().len(), 0);
            let (_client, mut fourth) = guarded(&seats, limits);
            fourth.write_all(b"an answer").await.unwrap();
        });
    }
}
