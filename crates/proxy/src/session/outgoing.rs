//! The bytes on their way to a server, and the replies that they will have.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::task::Poll;

use tokio::io::AsyncWriteExt;
use wire::command::{Command, begin_query};
use wire::exchange::{Exchange, Expect};
use wire::packet;

use super::ids::Columns;
use super::relay::{Expected, GIVEN_UP, Purpose, RelayError};
use crate::pool::Connection;
use crate::sessions::SessionHandle;
use crate::worker::Worker;

/// How many [`Outgoing`] a worker keeps for the next statements.
const KEPT_MAX: usize = 64;
/// Larger ones are not kept.
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// Bytes for a server, and the replies that they will have.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// The bytes to write.
    pub(super) bytes: Vec<u8>,
    /// Replies that are outstanding, in order.
    pub pending: VecDeque<Expected>,
    /// All of it was written.
    pub(super) sent: bool,
    /// How the columns of the client's result are described, if not as they come.
    pub(super) columns: Option<Box<Columns>>,
}

impl Outgoing {
    /// An empty one, with the memory of one that was used before.
    pub(super) fn of(worker: &Worker) -> Outgoing {
        worker.outgoing.borrow_mut().pop().unwrap_or_default()
    }

    /// Its memory may serve the next statement.
    pub fn keep(mut self, worker: &Worker) {
        let mut kept = worker.outgoing.borrow_mut();
        if kept.len() < KEPT_MAX && self.bytes.capacity() <= KEPT_BYTES_MAX {
            self.bytes.clear();
            self.pending.clear();
            self.sent = false;
            self.columns = None;
            kept.push(self);
        }
    }

    pub(super) fn command(
        &mut self,
        connection: &Connection,
        command: Command,
        arguments: &[u8],
        purpose: Purpose,
        expect: Expect,
    ) {
        self.packet(|out| {
            match command {
                Command::Query => begin_query(out, connection.origin.capabilities),
                command => out.push(command.byte()),
            }
            out.extend_from_slice(arguments);
        });
        self.expect(connection, expect, purpose);
    }

    pub(super) fn packet(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let begun = packet::begin(&mut self.bytes);
        write(&mut self.bytes);
        begun.end(&mut self.bytes, 0);
    }

    pub(super) fn expect(&mut self, connection: &Connection, expect: Expect, purpose: Purpose) {
        if expect != Expect::Nothing {
            let exchange = Exchange::new(expect, connection.origin.capabilities);
            self.pending.push_back(Expected { exchange, purpose });
        }
    }
}

/// Writes to a server until it has taken all, or is given up.
pub(super) async fn write_while_alive(
    handle: &SessionHandle,
    stream: &mut net::Stream,
    bytes: &[u8],
) -> Result<(), RelayError> {
    let work = async {
        stream.write_all(bytes).await?;
        if stream.is_buffered() { stream.flush().await } else { Ok(()) }
    };
    tokio::pin!(work);
    std::future::poll_fn(|cx| {
        if handle.abandoned.load(Ordering::Relaxed) {
            return Poll::Ready(Err(RelayError::Server(GIVEN_UP.into())));
        }
        work.as_mut().poll(cx).map_err(|error| RelayError::Server(error.to_string()))
    })
    .await
}

/// Writes to a server.
pub(super) async fn write(connection: &mut Connection, bytes: &[u8]) -> Result<(), RelayError> {
    let lost = |error: std::io::Error| RelayError::Server(error.to_string());
    connection.stream.write_all(bytes).await.map_err(lost)?;
    connection.stream.flush().await.map_err(lost)
}
