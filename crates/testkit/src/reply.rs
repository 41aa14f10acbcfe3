//! Replies, packet by packet.

use wire::codec::Write;
use wire::packet;
use wire::reply::{EOF, Eof, OK, Ok, ServerError};
use wire::{Capabilities, Status};

/// A reply that is being made for a client with these capabilities.
#[derive(Clone, Debug)]
pub struct ReplyBuilder {
    /// Its bytes so far.
    pub bytes: Vec<u8>,
    capabilities: Capabilities,
    sequence: u8,
}

impl ReplyBuilder {
    /// An empty one.
    pub fn new(capabilities: Capabilities) -> ReplyBuilder {
        ReplyBuilder { bytes: Vec::new(), capabilities, sequence: 1 }
    }

    /// The next packet goes by another number than the next one.
    #[must_use]
    pub fn numbered(mut self, sequence: u8) -> ReplyBuilder {
        self.sequence = sequence;
        self
    }

    /// A packet with this payload.
    #[must_use]
    pub fn packet(mut self, payload: &[u8]) -> ReplyBuilder {
        self.sequence = packet::append(&mut self.bytes, self.sequence, payload);
        self
    }

    /// Bytes that are no packet.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> ReplyBuilder {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// An OK packet.
    #[must_use]
    pub fn ok(self) -> ReplyBuilder {
        let capabilities = self.capabilities;
        let mut payload = Vec::new();
        Ok { status: Status::AUTOCOMMIT, ..Ok::default() }.write(&mut payload, OK, capabilities);
        self.packet(&payload)
    }

    /// An error.
    #[must_use]
    pub fn error(self, code: u16, sqlstate: [u8; 5], message: &[u8]) -> ReplyBuilder {
        let mut payload = Vec::new();
        ServerError { code, sqlstate, message }.write(&mut payload);
        self.packet(&payload)
    }

    /// The head of a result: how many columns, the columns, and an EOF packet for clients that want one.
    #[must_use]
    pub fn columns<'a>(self, names: impl ExactSizeIterator<Item = &'a str>) -> ReplyBuilder {
        let mut count = Vec::new();
        count.put_lenenc(names.len() as u64);
        let mut reply = self.packet(&count);
        for name in names {
            reply = reply.column(name);
        }
        if reply.capabilities.contains(Capabilities::DEPRECATE_EOF) { reply } else { reply.eof() }
    }

    /// One column: a string in utf8mb4.
    #[must_use]
    pub fn column(self, name: &str) -> ReplyBuilder {
        let mut payload = Vec::new();
        for part in ["def", "", "", "", name, ""] {
            payload.put_lenenc_bytes(part.as_bytes());
        }
        payload.extend_from_slice(&[0x0c, 45, 0, 0xff, 0, 0, 0, 0xfd, 0, 0, 0, 0, 0]);
        self.packet(&payload)
    }

    /// A row of texts.
    #[must_use]
    pub fn row<'a>(self, values: impl Iterator<Item = &'a [u8]>) -> ReplyBuilder {
        let mut payload = Vec::new();
        values.for_each(|value| payload.put_lenenc_bytes(value));
        self.packet(&payload)
    }

    /// An EOF packet.
    #[must_use]
    pub fn eof(self) -> ReplyBuilder {
        let mut payload = Vec::new();
        Eof { status: Status::AUTOCOMMIT, warnings: 0 }.write(&mut payload);
        self.packet(&payload)
    }

    /// The packet that ends rows.
    #[must_use]
    pub fn end(self) -> ReplyBuilder {
        if !self.capabilities.contains(Capabilities::DEPRECATE_EOF) {
            return self.eof();
        }
        let capabilities = self.capabilities;
        let mut payload = Vec::new();
        Ok { status: Status::AUTOCOMMIT, ..Ok::default() }.write(&mut payload, EOF, capabilities);
        self.packet(&payload)
    }

    /// A whole result.
    #[must_use]
    pub fn table(self, columns: &[&str], rows: &[&[&str]]) -> ReplyBuilder {
        let mut reply = self.columns(columns.iter().copied());
        for row in rows {
            reply = reply.row(row.iter().map(|value| value.as_bytes()));
        }
        reply.end()
    }
}
