//! Asking the server for the values of user variables that a statement computed, so that they do not pin the session.
//!
//! The values come back in the text protocol; the column's type and collation say how to write each as a literal that
//! makes the same value, of the same type, on another connection.

use wire::Capabilities;
use wire::codec::{Malformed, Reader};
use wire::command::Command;
use wire::exchange::{Exchange, Expect};
use wire::packet::{self, First};

use super::send::write;
use super::{Held, Session};
use crate::route::Pin;

/// More variables than this stay on their connection.
const VARIABLES_MAX: usize = 16;
/// Longer values stay on their connection.
const REPLY_BYTES_MAX: usize = 64 * 1024;

/// Types of `enum_field_types` that user variables have; all others are strings.
const LONGLONG: u8 = 0x08;
const DOUBLE: u8 = 0x05;
const NEWDECIMAL: u8 = 0xf6;

impl Session {
    /// Reads back the user variables that alone pin the session. Gives whether the connection is still good; when a value
    /// cannot be read, the pin stays.
    pub(super) async fn read_back(&mut self, held: &mut Held) -> bool {
        let names = self.pins.user_variables();
        if names.is_empty() || names.len() > VARIABLES_MAX {
            return true;
        }
        let question = question(&names);
        let connection = &mut *held.lease;
        let mut bytes = Vec::new();
        let begun = packet::begin(&mut bytes);
        bytes.push(Command::Query.byte());
        bytes.extend_from_slice(question.as_bytes());
        begun.end(&mut bytes, 0);
        if write(connection, &bytes).await.is_err() {
            return false;
        }
        let capabilities = connection.origin.capabilities;
        let mut exchange = Exchange::new(Expect::Results, capabilities);
        let reply = match super::reset::read_reply(connection, &mut exchange, &self.worker, REPLY_BYTES_MAX).await {
            Ok(reply) => reply,
            Err(_) => return false,
        };
        let Some(literals) = reply.and_then(|reply| literals(&reply, names.len(), capabilities).ok()) else {
            return true;
        };
        let state = std::sync::Arc::make_mut(&mut self.state);
        for (name, literal) in names.iter().zip(literals) {
            state.set_user_variable(name, &literal);
            self.pins.user_variable_known(name);
        }
        held.lease.origin.state = self.state.clone();
        self.show_pins(self.pins.bits());
        true
    }

    /// Nothing but user variables with unknown values pins the session.
    pub(super) fn only_user_variables_pin(&self) -> bool {
        self.pins.bits() == 1 << Pin::UserVariable as u8
    }
}

fn question(names: &[String]) -> String {
    let columns = names.iter().map(|name| {
        let variable = format!("@{}", sql::text::quote_identifier(name));
        format!("{variable},HEX({variable}),COLLATION({variable})")
    });
    format!("SELECT {}", columns.collect::<Vec<_>>().join(","))
}

/// The literals of `count` variables from the reply to [`question`].
fn literals(reply: &[u8], count: usize, capabilities: Capabilities) -> Result<Vec<String>, Malformed> {
    let mut rest = reply;
    let mut next = || match packet::first(rest, REPLY_BYTES_MAX) {
        First::Whole { payload, taken, .. } => {
            rest = &rest[taken..];
            Ok(payload)
        }
        _ => Err(Malformed("a packet of user variables")),
    };
    let columns = Reader::new(next()?).lenenc("column count")?;
    if columns != 3 * count as u64 {
        return Err(Malformed("columns of user variables"));
    }
    let mut kinds = Vec::with_capacity(count);
    for index in 0..3 * count {
        let kind = column_kind(next()?)?;
        if index % 3 == 0 {
            kinds.push(kind);
        }
    }
    if !capabilities.contains(Capabilities::DEPRECATE_EOF) {
        next()?;
    }
    let mut row = Reader::new(next()?);
    kinds
        .into_iter()
        .map(|kind| {
            let [value, hex, collation] = [(); 3].map(|()| row.text_value("user variable"));
            literal(kind, value?, hex?, collation?)
        })
        .collect()
}

fn column_kind(payload: &[u8]) -> Result<u8, Malformed> {
    let mut reader = Reader::new(payload);
    for _ in 0..6 {
        reader.lenenc_bytes("column: names")?;
    }
    reader.lenenc("column: fixed part")?;
    reader.u16("column: collation")?;
    reader.u32("column: length")?;
    reader.u8("column: type")
}

fn literal(kind: u8, value: Option<&[u8]>, hex: Option<&[u8]>, collation: Option<&[u8]>) -> Result<String, Malformed> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("user variable: text"));
    let Some(value) = value else { return Ok("NULL".into()) };
    match kind {
        LONGLONG => text(value),
        NEWDECIMAL if !value.contains(&b'.') => Ok(format!("{}.", text(value)?)),
        NEWDECIMAL => text(value),
        DOUBLE if value.iter().any(|byte| matches!(byte, b'e' | b'E')) => text(value),
        DOUBLE => Ok(format!("{}e0", text(value)?)),
        _ => {
            let (hex, collation) = (text(hex.unwrap_or_default())?, text(collation.unwrap_or_default())?);
            let charset = collation.split('_').next().unwrap_or_default();
            let is_word = |word: &str| word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            match charset {
                "binary" | "" => Ok(format!("X'{hex}'")),
                _ if is_word(&collation) => Ok(format!("_{charset} X'{hex}' COLLATE {collation}")),
                _ => Err(Malformed("user variable: collation")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_is_written_so_that_it_comes_back_as_itself() {
        for (kind, value, hex, collation, expected) in [
            (LONGLONG, "-5", "FB", "latin1_swedish_ci", "-5"),
            (NEWDECIMAL, "1.50", "2", "latin1_swedish_ci", "1.50"),
            (NEWDECIMAL, "7", "7", "latin1_swedish_ci", "7."),
            (DOUBLE, "1.5", "2", "latin1_swedish_ci", "1.5e0"),
            (DOUBLE, "1e300", "0", "latin1_swedish_ci", "1e300"),
            (0xfd, "é", "C3A9", "utf8mb4_bin", "_utf8mb4 X'C3A9' COLLATE utf8mb4_bin"),
            (0xfd, "x", "78", "binary", "X'78'"),
        ] {
            let read = literal(kind, Some(value.as_bytes()), Some(hex.as_bytes()), Some(collation.as_bytes()));
            assert_eq!(read.as_deref(), Ok(expected));
        }
        assert_eq!(literal(0xfd, None, None, None).as_deref(), Ok("NULL"));
        assert!(literal(0xfd, Some(b"x"), Some(b"78"), Some(b"x';--")).is_err());
    }

    #[test]
    fn replies_of_other_shapes_are_refused() {
        let mut reply = Vec::new();
        packet::append(&mut reply, 1, &[3]);
        for cut in 0..=reply.len() {
            assert!(literals(&reply[..cut], 1, Capabilities::empty()).is_err());
        }
    }
}
