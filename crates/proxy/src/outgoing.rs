//! The bytes on their way to a server, and the replies that they will have.

mod columns;

use std::cell::RefCell;
use std::collections::VecDeque;

use wire::command::{Command, begin_query};
use wire::exchange::{Exchange, Expect};
use wire::packet;

pub use columns::{COLUMNS_BYTES_MAX, Columns, Form, kind_of};

use crate::pool::{Connection, StatementKey};

/// How many [`Outgoing`] a worker keeps for the next statements.
const KEPT_MAX: usize = 64;
/// Larger ones are not kept.
const KEPT_BYTES_MAX: usize = 16 * 1024;

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

/// Bytes for a server, and the replies that they will have.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// The bytes to write.
    pub bytes: Vec<u8>,
    /// Replies that are outstanding, in order.
    pub pending: VecDeque<Expected>,
    /// All of it was written.
    pub sent: bool,
    /// How the columns of the client's result are described, if not as they come.
    pub columns: Option<Box<Columns>>,
}

impl Outgoing {
    /// A command and its reply.
    pub fn command(
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

    /// One packet, with the payload that is written here.
    pub fn packet(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let begun = packet::begin(&mut self.bytes);
        write(&mut self.bytes);
        begun.end(&mut self.bytes, 0);
    }

    /// A reply of this kind is outstanding.
    pub fn expect(&mut self, connection: &Connection, expect: Expect, purpose: Purpose) {
        if expect != Expect::Nothing {
            let exchange = Exchange::new(expect, connection.origin.capabilities);
            self.pending.push_back(Expected { exchange, purpose });
        }
    }
}

/// The memory of some [`Outgoing`] that were sent, for the next statements of a worker.
#[derive(Debug, Default)]
pub struct Kept(RefCell<Vec<Outgoing>>);

impl Kept {
    /// An empty one, with the memory of one that was used before.
    pub fn take(&self) -> Outgoing {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// The memory of this one may serve the next statement.
    pub fn keep(&self, mut outgoing: Outgoing) {
        let mut kept = self.0.borrow_mut();
        if kept.len() < KEPT_MAX && outgoing.bytes.capacity() <= KEPT_BYTES_MAX {
            outgoing.bytes.clear();
            outgoing.pending.clear();
            outgoing.sent = false;
            outgoing.columns = None;
            kept.push(outgoing);
        }
    }
}
