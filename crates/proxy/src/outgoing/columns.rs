//! How the columns of a result are described: as those of the client's own text.

use std::ops::Range;

use wire::codec::{Reader, Write};
use wire::packet::{self, HEADER_BYTES, Header};

/// Descriptions of columns are longer only for results that no list of connections has.
pub const COLUMNS_BYTES_MAX: usize = 1 << 20;

/// The form in which a result comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Values are texts, whatever type their definition tells.
    Text,
    /// Values are binary: their type must stand in the definition as it comes.
    Binary,
    /// It comes from a cursor, so the server describes the columns of a table that it keeps the rows in.
    Cursor,
}

/// Puts other descriptions of columns into a result, and lets the rest pass.
#[derive(Debug)]
pub struct Columns {
    descriptions: Vec<Vec<u8>>,
    form: Form,
    held: Vec<u8>,
    is_over: bool,
}

impl Columns {
    /// Columns with these descriptions, in order.
    pub fn new(descriptions: Vec<Vec<u8>>, form: Form) -> Columns {
        Columns { descriptions, form, held: Vec::new(), is_over: false }
    }

    /// Takes bytes of the result; true when the descriptions of all columns are there, and [`Columns::give`] is due.
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        self.held.extend_from_slice(bytes);
        if self.is_over {
            return true;
        }
        let mut rest = &self.held[..];
        for _ in 0..=self.descriptions.len() {
            match Header::read(rest) {
                Some(header) if rest.len() >= HEADER_BYTES + header.length => {
                    rest = &rest[HEADER_BYTES + header.length..]
                }
                _ => return self.held.len() > COLUMNS_BYTES_MAX,
            }
        }
        true
    }

    /// Gives the bytes that were taken, with the other descriptions.
    pub fn give(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        if std::mem::replace(&mut self.is_over, true) {
            return held;
        }
        let mut out = Vec::with_capacity(held.len());
        let mut rest = &held[..];
        let mut wanted = None;
        while let Some(header) = Header::read(rest) {
            let end = (HEADER_BYTES + header.length).min(rest.len());
            let (packet, behind) = rest.split_at(end);
            let payload = &packet[HEADER_BYTES..];
            match &mut wanted {
                None => {
                    let columns = Reader::new(payload).lenenc("column count").ok();
                    let is_same = columns == u64::try_from(self.descriptions.len()).ok();
                    wanted = Some(if is_same { self.descriptions.iter() } else { [].iter() });
                    out.extend_from_slice(packet);
                }
                Some(descriptions) => match descriptions.next() {
                    Some(description) => {
                        packet::append(&mut out, header.sequence, &merged(description, payload, self.form));
                    }
                    None => break,
                },
            }
            rest = behind;
        }
        out.extend_from_slice(rest);
        out
    }
}

// Behind the names: the length of what follows, character set, length of values, type.
const LENGTH: Range<usize> = 3..7;
const TYPE_AT: usize = 7;

/// Where the part behind the names begins in a description.
fn fixed_at(column: &[u8]) -> Option<usize> {
    let mut reader = Reader::new(column);
    (0..6).try_for_each(|_| reader.lenenc_bytes("column: names").map(drop)).ok()?;
    Some(column.len() - reader.remaining().len())
}

/// The type that a description of a column tells.
pub fn kind_of(column: &[u8]) -> Option<u8> {
    column.get(fixed_at(column)? + TYPE_AT).copied()
}

/// A description, with that part of the one that comes which must stay.
fn merged(description: &[u8], came: &[u8], form: Form) -> Vec<u8> {
    let is_same = || kind_of(description) == kind_of(came);
    let merged = match form {
        Form::Binary if !is_same() => typed(description, came),
        Form::Cursor => named(description, came),
        Form::Text | Form::Binary => Some(description.to_vec()),
    };
    merged.unwrap_or_else(|| came.to_vec())
}

/// A description with the type of the one that comes.
fn typed(description: &[u8], came: &[u8]) -> Option<Vec<u8>> {
    Some([&description[..fixed_at(description)?], &came[fixed_at(came)?..]].concat())
}

/// The description that comes, with the name in the other one, and its length if the type is the same. In the table that a server
/// keeps for a cursor, a column of no other table has its name for an origin, too.
fn named(description: &[u8], came: &[u8]) -> Option<Vec<u8>> {
    let [.., name, _] = names(description)?;
    let [origin @ .., shown, of_table] = names(came)?;
    let of_table = if of_table == shown { name } else { of_table };
    let mut named = Vec::with_capacity(came.len());
    origin.iter().chain([&name, &of_table]).for_each(|text| named.put_lenenc_bytes(text));
    let fixed = named.len();
    named.extend_from_slice(&came[fixed_at(came)?..]);
    if kind_of(description) == kind_of(came) {
        let length = description.get(fixed_at(description)?..)?.get(LENGTH)?;
        named.get_mut(fixed..)?.get_mut(LENGTH)?.copy_from_slice(length);
    }
    Some(named)
}

/// The names with which a description begins.
fn names(column: &[u8]) -> Option<[&[u8]; 6]> {
    let mut reader = Reader::new(column);
    let mut names = [&[][..]; 6];
    for name in &mut names {
        *name = reader.lenenc_bytes("column: names").ok()?;
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::packets;

    fn column(name: &str, kind: u8) -> Vec<u8> {
        let mut payload = Vec::new();
        for text in ["def", "", "", "", name, ""] {
            wire::codec::Write::put_lenenc_bytes(&mut payload, text.as_bytes());
        }
        payload.extend_from_slice(&[12, 63, 0, 10, 0, 0, 0, kind, 0, 0, 0, 0, 0]);
        payload
    }

    #[test]
    fn columns_are_described_as_those_of_the_clients_text() {
        let (spelt, sent) = (column("CONNECTION_ID()+1", 8), column("CAST(7 AS UNSIGNED)+1", 3));
        let typed = column("CONNECTION_ID()+1", 3);
        for (form, expected) in [(Form::Text, spelt.clone()), (Form::Binary, typed.clone()), (Form::Cursor, typed)] {
            let mut columns = Columns::new(vec![spelt.clone()], form);
            let bytes = packets(&[b"\x01", &sent, b"\x018"]);
            let (first, rest) = bytes.split_at(20);
            assert!(!columns.take(first) && columns.take(rest));
            assert_eq!(columns.give(), packets(&[b"\x01", &expected, b"\x018"]));
        }
        let mut others = Columns::new(vec![spelt.clone(), spelt.clone()], Form::Text);
        let bytes = packets(&[b"\x01", &sent, b"\x018"]);
        assert!(others.take(&bytes));
        assert_eq!(others.give(), bytes);
    }
}
