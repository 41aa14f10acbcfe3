//! Writing to a server.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::relay::{GIVEN_UP, RelayError};
use crate::pool::Connection;
use crate::sessions::SessionHandle;

/// The most bytes that a session writes in a row: a server may take them as fast as they are written, and its worker has
/// other sessions.
const TURN_BYTES: usize = 256 * 1024;

/// Writes to a server until it has taken all, or is given up.
pub(super) async fn write_while_alive(
    handle: &SessionHandle,
    stream: &mut net::Stream,
    bytes: &[u8],
) -> Result<(), RelayError> {
    write_turns(&handle.abandoned, stream, bytes).await
}

/// Writes a turn at a time; behind each the worker looks for events of others.
async fn write_turns(abandoned: &AtomicBool, stream: &mut net::Stream, bytes: &[u8]) -> Result<(), RelayError> {
    let (mut sent, mut end) = (0, bytes.len().min(TURN_BYTES));
    // A task that only wakes itself runs dozens of times before its worker looks for events.
    let mut others_turn: Option<Pin<Box<dyn Future<Output = ()>>>> = None;
    poll_fn(|cx| {
        loop {
            if abandoned.load(Ordering::Relaxed) {
                return Poll::Ready(Err(RelayError::Server(GIVEN_UP.into())));
            }
            if let Some(turn) = &mut others_turn {
                ready!(turn.as_mut().poll(cx));
                others_turn = None;
            }
            let written = ready!(poll_write_all(stream, cx, &bytes[..end], &mut sent));
            written.map_err(|error| RelayError::Server(error.to_string()))?;
            if end == bytes.len() {
                return Poll::Ready(Ok(()));
            }
            end = bytes.len().min(end + TURN_BYTES);
            others_turn = Some(Box::pin(tokio::task::yield_now()));
        }
    })
    .await
}

/// Writes all of `bytes`, of which so many are `sent` already.
#[inline]
fn poll_write_all(
    stream: &mut net::Stream,
    cx: &mut Context<'_>,
    bytes: &[u8],
    sent: &mut usize,
) -> Poll<io::Result<()>> {
    while *sent < bytes.len() {
        match ready!(Pin::new(&mut *stream).poll_write(cx, &bytes[*sent..]))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            n => *sent += n,
        }
    }
    if stream.is_buffered() { Pin::new(stream).poll_flush(cx) } else { Poll::Ready(Ok(())) }
}

/// Writes to a server.
pub(super) async fn write(connection: &mut Connection, bytes: &[u8]) -> Result<(), RelayError> {
    let lost = |error: std::io::Error| RelayError::Server(error.to_string());
    connection.stream.write_all(bytes).await.map_err(lost)?;
    connection.stream.flush().await.map_err(lost)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream, UnixStream};

    use super::*;

    /// The peer reads as fast as it can. Whenever the writer has had its turn, the worker looks for events.
    #[tokio::test]
    async fn a_long_text_is_written_turn_by_turn() {
        const TURNS: usize = 64;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let server = listener.accept().await.unwrap().0.into_std().unwrap();
        server.set_nonblocking(false).unwrap();
        let reader = std::thread::spawn(move || std::io::copy(&mut { server }, &mut std::io::sink()).unwrap());
        // A neighbour's bytes come and go.
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let (answers, is_done) = (Cell::new(0), Cell::new(false));
        let neighbour = async {
            while !is_done.get() {
                near.write_all(b"?").await.unwrap();
                far.read_exact(&mut [0]).await.unwrap();
                answers.set(answers.get() + 1);
                tokio::task::yield_now().await;
            }
        };
        let mut stream = net::Stream::Plain(client);
        let bytes = vec![0; TURNS * TURN_BYTES];
        let writing = async {
            write_turns(&AtomicBool::new(false), &mut stream, &bytes).await.unwrap();
            is_done.set(true);
        };
        tokio::join!(writing, neighbour);
        drop(stream);
        assert_eq!(reader.join().unwrap(), bytes.len() as u64);
        assert!(answers.get() >= TURNS / 2, "{} answers in {TURNS} turns", answers.get());
    }
}
