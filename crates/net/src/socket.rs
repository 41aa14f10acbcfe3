//! Reads and writes of a TCP socket, with as few instructions as there can be.
//!
//! A statement reads and writes a socket four times. The standard library goes through libc's functions, which are points where a
//! thread may be cancelled: that costs several times what the call itself does. These are the bare system calls.

use std::io;
use std::task::{Context, Poll, ready};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::{Interest, ReadBuf};
use tokio::net::TcpStream;

/// Reads what has come.
#[inline(always)]
pub(crate) fn poll_read(tcp: &TcpStream, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
    loop {
        ready!(tcp.poll_read_ready(cx))?;
        match read(tcp, buffer.initialize_unfilled()) {
            Ok(read) => {
                buffer.advance(read);
                return Poll::Ready(Ok(()));
            }
            // The event loop knows it now, and wakes the task when something has come.
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Poll::Ready(Err(error.into())),
        }
    }
}

/// Whether nothing has come, as far as the event loop knows. A byte that has come is lost by this.
#[inline]
pub(crate) fn is_quiet(tcp: &TcpStream) -> bool {
    read(tcp, &mut [0]) == Err(Errno::WOULDBLOCK)
}

/// Reads what has come, if the event loop has heard of something, and tells it when there is no more.
#[inline(never)]
fn read(tcp: &TcpStream, room: &mut [u8]) -> Result<usize, Errno> {
    let most = room.len();
    let mut outcome = Err(Errno::WOULDBLOCK);
    // Its own outcome is for the event loop alone.
    let _ = tcp.try_io(Interest::READABLE, || {
        outcome = rustix::net::recv(tcp, room, RecvFlags::empty()).map(|(_, read)| read);
        let has_more = match outcome {
            // Less than there was room for: the socket has no more. That saves the call that would only say so.
            Ok(read) => read == 0 || read == most,
            Err(error) => error != Errno::WOULDBLOCK,
        };
        if has_more { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    });
    outcome
}

/// Writes as much as the socket has room for.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] when it has none, which the event loop knows then, and what the system says.
#[inline]
pub(crate) fn try_write(tcp: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    match send(tcp, bytes) {
        // Asked once more where the event loop listens: what it hears in between is not lost.
        Err(Errno::WOULDBLOCK) => tcp.try_io(Interest::WRITABLE, || Ok(send(tcp, bytes)?)),
        written => Ok(written?),
    }
}

/// One call. A peer that is gone is an error and no signal.
#[inline(always)]
fn send(tcp: &TcpStream, bytes: &[u8]) -> Result<usize, Errno> {
    rustix::net::send(tcp, bytes, SendFlags::NOSIGNAL)
}

/// The two ends of a connection.
#[cfg(test)]
pub(crate) async fn sockets() -> (TcpStream, TcpStream) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap().0)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Reads once, into so much room.
    async fn next(tcp: &TcpStream, room: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; room];
        let mut buffer = ReadBuf::new(&mut bytes);
        poll_fn(|cx| poll_read(tcp, cx, &mut buffer)).await?;
        Ok(buffer.filled().to_vec())
    }

    #[tokio::test]
    async fn reads_come_as_they_were_written_up_to_the_end() {
        let (mut one, other) = sockets().await;
        assert!(is_quiet(&other));
        for text in [&b"four"[..], b"a text that is longer than the room", b"x"] {
            // The reader waits before the writer has written.
            let reads = async {
                let mut all = Vec::new();
                while all.len() < text.len() {
                    all.extend(next(&other, 7).await.unwrap());
                }
                all
            };
            let writes = async {
                tokio::task::yield_now().await;
                one.write_all(text).await.unwrap();
            };
            assert_eq!(tokio::join!(reads, writes).0, text);
            assert!(is_quiet(&other), "all of it was read");
        }
        drop(one);
        assert_eq!(next(&other, 7).await.unwrap(), b"");
        assert!(!is_quiet(&other), "it was closed");
        assert_eq!(next(&other, 7).await.unwrap(), b"", "and stays so");
    }

    #[tokio::test]
    async fn a_socket_without_room_says_so_and_one_that_was_reset_as_well() {
        let (one, other) = sockets().await;
        one.writable().await.unwrap();
        let chunk = [7; 1 << 16];
        let error = loop {
            if let Err(error) = try_write(&one, &chunk) {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let called = one.try_io(Interest::WRITABLE, || Ok(()));
        assert!(called.is_err(), "the event loop knows it: another try makes no system call");
        // Its end is a reset, for it leaves bytes unread.
        drop(other);
        assert_eq!(next(&one, 7).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        let error = try_write(&one, &chunk).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "and no signal ends the process");
    }

    #[tokio::test]
    async fn a_writer_goes_on_when_there_is_room_again() {
        const MUCH: usize = 24 << 20;
        let (one, mut other) = sockets().await;
        let mut one = crate::stream::Stream::from(one);
        let writes = async {
            one.write_all(&vec![7; MUCH]).await.unwrap();
            drop(one);
        };
        let reads = async {
            let (mut all, mut part) = (0, vec![0; 1 << 20]);
            loop {
                match other.read(&mut part).await.unwrap() {
                    0 => break all,
                    read => all += read,
                }
            }
        };
        assert_eq!(tokio::join!(writes, reads).1, MUCH);
    }
}
