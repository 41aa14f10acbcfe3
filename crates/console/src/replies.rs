//! Replies to commands, as packets.
//!
//! Source: MariaDB's documentation "Result set packets". `DEPRECATE_EOF` is not offered, so that columns and rows end with EOF.

use wire::codec::{Reader, Write};
use wire::packet;
use wire::reply::{Eof, Ok};
use wire::{Capabilities, Status};

use crate::columns::{Column, ColumnKind};
use crate::error::SqlError;

/// The status of every reply.
pub(crate) const STATUS: Status = Status::AUTOCOMMIT;

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResultColumn {
    pub(crate) name: String,
    /// As declared; a computed column has the kind of its values.
    pub(crate) kind: Option<ColumnKind>,
}

/// Rows of a result, as the payloads of their packets.
#[derive(Debug, Default)]
pub(crate) struct ResultRows {
    columns: Vec<ResultColumn>,
    /// The kind of the values of each column.
    found: Vec<Option<ColumnKind>>,
    payloads: Vec<u8>,
    /// Where each payload begins.
    begins: Vec<usize>,
}

impl ResultRows {
    pub(crate) fn new(columns: Vec<ResultColumn>) -> ResultRows {
        let found = vec![None; columns.len()];
        ResultRows { columns, found, ..ResultRows::default() }
    }

    pub(crate) fn begin_row(&mut self) {
        self.begins.push(self.payloads.len());
    }

    pub(crate) fn null(&mut self) {
        self.payloads.push(0xfb);
    }

    pub(crate) fn integer(&mut self, column: usize, value: i64) {
        self.find(column, ColumnKind::Integer);
        self.payloads.put_lenenc_bytes(value.to_string().as_bytes());
    }

    pub(crate) fn real(&mut self, column: usize, value: f64) {
        self.find(column, ColumnKind::Real);
        self.payloads.put_lenenc_bytes(value.to_string().as_bytes());
    }

    pub(crate) fn bytes(&mut self, column: usize, value: &[u8]) {
        self.find(column, ColumnKind::Text);
        self.payloads.put_lenenc_bytes(value);
    }

    /// Numbers of both kinds are doubles; with a text among them all are texts.
    fn find(&mut self, column: usize, kind: ColumnKind) {
        let Some(found) = self.found.get_mut(column) else { return };
        *found = match *found {
            None => Some(kind),
            Some(known) if known == kind => Some(kind),
            Some(ColumnKind::Text) => Some(ColumnKind::Text),
            Some(_) if kind == ColumnKind::Text => Some(ColumnKind::Text),
            Some(_) => Some(ColumnKind::Real),
        };
    }

    /// How many rows.
    pub(crate) fn len(&self) -> usize {
        self.begins.len()
    }

    /// How many bytes they take.
    pub(crate) fn bytes_len(&self) -> usize {
        self.payloads.len() + self.begins.len() * packet::HEADER_BYTES
    }

    /// The kind that each column is described with.
    fn kinds(&self) -> Vec<ColumnKind> {
        // A column of integers may hold a text all the same: SQLite's types belong to values.
        let kind = |(column, found): (&ResultColumn, &Option<ColumnKind>)| match (column.kind, found) {
            (Some(ColumnKind::Integer | ColumnKind::Real), Some(ColumnKind::Text)) => ColumnKind::Text,
            (Some(ColumnKind::Integer), Some(ColumnKind::Real)) => ColumnKind::Real,
            (Some(kind), _) => kind,
            (None, found) => found.unwrap_or(ColumnKind::Text),
        };
        self.columns.iter().zip(&self.found).map(kind).collect()
    }

    /// Appends the whole reply, to a query or to an execution, whose rows are binary.
    pub(crate) fn write(&self, out: &mut Vec<u8>, is_binary: bool) {
        let mut sequence = send(out, 1, |payload| payload.put_lenenc(self.columns.len() as u64));
        let kinds = self.kinds();
        for (column, kind) in self.columns.iter().zip(&kinds) {
            sequence = send(out, sequence, |payload| definition(payload, &column.name, *kind));
        }
        sequence = eof(out, sequence);
        out.reserve(self.bytes_len());
        let ends = self.begins.iter().skip(1).copied().chain([self.payloads.len()]);
        for (begin, end) in self.begins.iter().zip(ends) {
            let payload = self.payloads.get(*begin..end).unwrap_or_default();
            sequence = match is_binary {
                false => packet::append(out, sequence, payload),
                true => send(out, sequence, |out| binary(out, payload, &kinds)),
            };
        }
        eof(out, sequence);
    }
}

/// A row of the binary protocol with the values of a row of texts.
fn binary(out: &mut Vec<u8>, row: &[u8], kinds: &[ColumnKind]) {
    out.push(0);
    let nulls = out.len();
    // The bitmap's first two bits belong to the header.
    out.resize(nulls + (kinds.len() + 2).div_ceil(8), 0);
    let mut reader = Reader::new(row);
    for (at, kind) in kinds.iter().enumerate() {
        // The row was made here: it is whole.
        let Ok(Some(value)) = reader.text_value("value") else {
            out[nulls + (at + 2) / 8] |= 1 << ((at + 2) % 8);
            continue;
        };
        let text = || std::str::from_utf8(value).unwrap_or_default();
        match kind {
            ColumnKind::Text => out.put_lenenc_bytes(value),
            ColumnKind::Integer => out.extend_from_slice(&text().parse::<i64>().unwrap_or(0).to_le_bytes()),
            ColumnKind::Real => out.extend_from_slice(&text().parse::<f64>().unwrap_or(0.0).to_le_bytes()),
        }
    }
}

/// Appends the reply to COM_FIELD_LIST: columns with their default values, which are NULL.
pub(crate) fn fields(columns: &[Column], out: &mut Vec<u8>) {
    let mut sequence = 1;
    for column in columns {
        sequence = send(out, sequence, |payload| {
            definition(payload, column.name, column.kind);
            payload.push(0xfb);
        });
    }
    eof(out, sequence);
}

/// Appends an OK packet.
pub(crate) fn ok(out: &mut Vec<u8>) {
    send(out, 1, |payload| {
        Ok { status: STATUS, ..Ok::default() }.write(payload, wire::reply::OK, Capabilities::empty());
    });
}

/// Appends an EOF packet, which answers COM_SET_OPTION.
pub(crate) fn only_eof(out: &mut Vec<u8>) {
    eof(out, 1);
}

/// Appends an ERR packet.
pub(crate) fn error(error: &SqlError, out: &mut Vec<u8>) {
    send(out, 1, |payload| error.write(payload));
}

/// Appends an EOF packet; gives the next sequence number.
pub(crate) fn eof(out: &mut Vec<u8>, sequence: u8) -> u8 {
    send(out, sequence, |payload| Eof { status: STATUS, warnings: 0 }.write(payload))
}

/// Appends a packet; gives the next sequence number.
pub(crate) fn send(out: &mut Vec<u8>, sequence: u8, write: impl FnOnce(&mut Vec<u8>)) -> u8 {
    let begun = packet::begin(out);
    write(out);
    begun.end(out, sequence)
}

/// The payload that describes a column.
pub(crate) fn definition(payload: &mut Vec<u8>, name: &str, kind: ColumnKind) {
    /// `utf8mb4_bin`, and `binary` for numbers.
    const UTF8MB4: u16 = 46;
    const BINARY: u16 = 63;
    /// `NUM_FLAG`, which is the client's, with `BINARY_FLAG`.
    const NUMBER: u16 = 0x8080;
    let (charset, length, code, flags, decimals) = match kind {
        ColumnKind::Text => (UTF8MB4, 4 * 65_535, 0xfd, 0, 0),
        ColumnKind::Integer => (BINARY, 20, 0x08, NUMBER, 0),
        ColumnKind::Real => (BINARY, 22, 0x05, NUMBER, 31),
    };
    for part in ["def", "", "", "", name, name] {
        payload.put_lenenc_bytes(part.as_bytes());
    }
    payload.push(0x0c);
    payload.put_u16(charset);
    payload.put_u32(length);
    payload.push(code);
    payload.put_u16(flags);
    payload.extend_from_slice(&[decimals, 0, 0]);
}
