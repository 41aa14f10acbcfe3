//! Asking the server for the values of user variables that a statement computed, so that they do not pin the session.
//!
//! The values come back in the text protocol; the column's type and collation say how to write each as a literal that
//! makes the same value, of the same type, on another connection.

use wire::Capabilities;
use wire::codec::{Malformed, Reader};
use wire::command::begin_query;
use wire::exchange::{Exchange, Expect};
use wire::packet::{self, First};

use super::relay::RelayError;
use super::send::write;
use super::{Doubt, Held, Session};
use crate::route::Pin;

/// A row's values; `None` is NULL.
pub(super) type Row = Vec<Option<Vec<u8>>>;

/// More variables than this stay on their connection.
const VARIABLES_MAX: usize = 16;
/// Longer values stay on their connection.
const REPLY_BYTES_MAX: usize = 64 * 1024;

/// Lists the user variables of the very connection, one more than can be kept, without those that a session before this one
/// had: they are NULLs of type BINARY.
const LIST_OF_MARIADB: &[u8] = b"SELECT VARIABLE_NAME FROM information_schema.USER_VARIABLES \
    WHERE VARIABLE_VALUE IS NOT NULL OR VARIABLE_TYPE<>'VARCHAR' OR CHARACTER_SET_NAME<>'binary' LIMIT 17";
/// The same; users need SELECT on the table.
const LIST_OF_MYSQL: &[u8] = b"SELECT VARIABLE_NAME FROM performance_schema.user_variables_by_thread \
    WHERE THREAD_ID = PS_CURRENT_THREAD_ID() AND VARIABLE_VALUE IS NOT NULL LIMIT 17";

/// Types of `enum_field_types` that user variables have; all others are strings.
const LONGLONG: u8 = 0x08;
const DOUBLE: u8 = 0x05;
const NEWDECIMAL: u8 = 0xf6;

impl Session {
    /// Reads back the user variables that alone pin the session. Gives whether the connection is still good; when a value
    /// cannot be read, the pin stays.
    pub(super) async fn read_back(&mut self, held: &mut Held) -> bool {
        let mut names = self.pins.user_variables();
        let hidden = self.pins.has_hidden_user_variables();
        if hidden {
            match self.list_variables(held).await {
                Ok(Some(listed)) => names.extend(listed),
                Ok(None) => {
                    self.keep_for_hidden_variables();
                    return true;
                }
                Err(_) => return false,
            }
            names.extend(self.state.user_variables().map(str::to_owned));
            names.sort_unstable();
            names.dedup();
            if names.len() > VARIABLES_MAX {
                self.keep_for_hidden_variables();
                return true;
            }
            if names.is_empty() {
                self.pins.hidden_user_variables(false);
                self.show_pins(self.pins.bits());
                return true;
            }
        }
        if names.is_empty() || names.len() > VARIABLES_MAX {
            return true;
        }
        let question = question(&names);
        let connection = &mut *held.lease;
        let mut bytes = Vec::new();
        let begun = packet::begin(&mut bytes);
        begin_query(&mut bytes, connection.origin.capabilities);
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
            if hidden {
                self.keep_for_hidden_variables();
            }
            return true;
        };
        let state = std::sync::Arc::make_mut(&mut self.state);
        for (name, literal) in names.iter().zip(literals) {
            state.set_user_variable(name, &literal);
            self.pins.user_variable_known(name);
        }
        self.pins.hidden_user_variables(false);
        held.lease.origin.state = self.state.clone();
        self.show_pins(self.pins.bits());
        true
    }

    /// The user variables that have a value on this connection, in lower case. `None` when the server does not tell, they are
    /// too many, or their names are none that can be asked for whatever the character set.
    async fn list_variables(&mut self, held: &mut Held) -> Result<Option<Vec<String>>, RelayError> {
        let connection = &mut *held.lease;
        let mut bytes = Vec::new();
        let begun = packet::begin(&mut bytes);
        begin_query(&mut bytes, connection.origin.capabilities);
        bytes.extend_from_slice(if connection.origin.mariadb { LIST_OF_MARIADB } else { LIST_OF_MYSQL });
        begun.end(&mut bytes, 0);
        // It has messages of its own.
        connection.origin.messages = None;
        write(connection, &bytes).await?;
        let capabilities = connection.origin.capabilities;
        let mut exchange = Exchange::new(Expect::Results, capabilities);
        let reply = super::reset::read_reply(connection, &mut exchange, &self.worker, REPLY_BYTES_MAX).await?;
        let rows = reply.and_then(|reply| rows(&reply, 1, capabilities).ok());
        Ok(rows.filter(|rows| rows.len() <= VARIABLES_MAX).and_then(|rows| {
            let names = rows.into_iter().map(|row| {
                let name = String::from_utf8(row.into_iter().next()??).ok()?;
                name.is_ascii().then(|| name.to_ascii_lowercase())
            });
            names.collect()
        }))
    }

    /// The session keeps its connection for good, since nobody can say what it has there.
    fn keep_for_hidden_variables(&mut self) {
        self.pins.hidden_user_variables(false);
        self.pins.put(Pin::Opaque, true);
        self.show_pins(self.pins.bits());
    }

    /// Asks what LAST_INSERT_ID() is. Gives whether the connection is still good.
    pub(super) async fn read_insert_id(&mut self, held: &mut Held) -> bool {
        let connection = &mut *held.lease;
        let mut bytes = Vec::new();
        let begun = packet::begin(&mut bytes);
        begin_query(&mut bytes, connection.origin.capabilities);
        bytes.extend_from_slice(b"SELECT LAST_INSERT_ID()");
        begun.end(&mut bytes, 0);
        if write(connection, &bytes).await.is_err() {
            return false;
        }
        let capabilities = connection.origin.capabilities;
        let mut exchange = Exchange::new(Expect::Results, capabilities);
        match super::reset::read_reply(connection, &mut exchange, &self.worker, REPLY_BYTES_MAX).await {
            Ok(reply) => {
                let rows = reply.and_then(|reply| rows(&reply, 1, capabilities).ok()).unwrap_or_default();
                let id = rows.first().and_then(|row| std::str::from_utf8(row.first()?.as_deref()?).ok()?.parse().ok());
                let known = held.lease.origin.insert_id;
                held.lease.origin.insert_id = id;
                match (self.past.doubt.take(), id) {
                    (Some(Doubt::Any), Some(id)) => self.past.insert_id = id,
                    (Some(Doubt::Given(told)), Some(id)) if id == told || known.is_some_and(|known| known != id) => {
                        self.past.insert_id = id;
                    }
                    // It stands as another session left it, so this session's has not changed either.
                    _ => {}
                }
                true
            }
            Err(_) => false,
        }
    }

    /// Asks for the connection's collation. Gives whether the connection is still good.
    pub(super) async fn read_collation(&mut self, held: &mut Held) -> bool {
        let connection = &mut *held.lease;
        let mut bytes = Vec::new();
        let begun = packet::begin(&mut bytes);
        begin_query(&mut bytes, connection.origin.capabilities);
        bytes.extend_from_slice(b"SELECT @@collation_connection");
        begun.end(&mut bytes, 0);
        if write(connection, &bytes).await.is_err() {
            return false;
        }
        let capabilities = connection.origin.capabilities;
        let mut exchange = Exchange::new(Expect::Results, capabilities);
        let Ok(reply) = super::reset::read_reply(connection, &mut exchange, &self.worker, REPLY_BYTES_MAX).await else {
            return false;
        };
        let rows = reply.and_then(|reply| rows(&reply, 1, capabilities).ok()).unwrap_or_default();
        let name = rows.first().and_then(|row| std::str::from_utf8(row.first()?.as_deref()?).ok());
        if let Some(name) = name.filter(|name| is_word(name)) {
            std::sync::Arc::make_mut(&mut self.state).set_variable("collation_connection", name);
            held.lease.origin.state = self.state.clone();
        }
        self.past.collation_unsure = false;
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
        let kind = column_kind(next()?, capabilities)?;
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

/// The rows of a text reply with this many columns.
pub(super) fn rows(reply: &[u8], columns: usize, capabilities: Capabilities) -> Result<Vec<Row>, Malformed> {
    let mut rest = reply;
    let mut next = || match packet::first(rest, REPLY_BYTES_MAX) {
        First::Whole { payload, taken, .. } => {
            rest = &rest[taken..];
            Ok(payload)
        }
        _ => Err(Malformed("a packet of a reply")),
    };
    if Reader::new(next()?).lenenc("column count")? != columns as u64 {
        return Err(Malformed("columns of a reply"));
    }
    let skipped = columns + usize::from(!capabilities.contains(Capabilities::DEPRECATE_EOF));
    (0..skipped).try_for_each(|_| next().map(drop))?;
    let mut rows = Vec::new();
    loop {
        let payload = next()?;
        if payload.first() == Some(&wire::reply::EOF) {
            return Ok(rows);
        }
        let mut reader = Reader::new(payload);
        let row: Result<Row, _> = (0..columns).map(|_| Ok(reader.text_value("value")?.map(<[u8]>::to_vec))).collect();
        rows.push(row?);
    }
}

/// A column's type, and whether it is unsigned.
fn column_kind(payload: &[u8], capabilities: Capabilities) -> Result<(u8, bool), Malformed> {
    const UNSIGNED: u16 = 1 << 5;

    let mut reader = Reader::new(payload);
    for _ in 0..6 {
        reader.lenenc_bytes("column: names")?;
    }
    if capabilities.contains(Capabilities::EXTENDED_METADATA) {
        reader.lenenc_bytes("column: extended metadata")?;
    }
    reader.lenenc("column: fixed part")?;
    reader.u16("column: collation")?;
    reader.u32("column: length")?;
    Ok((reader.u8("column: type")?, reader.u16("column: flags")? & UNSIGNED != 0))
}

fn is_word(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn literal(
    (kind, unsigned): (u8, bool),
    value: Option<&[u8]>,
    hex: Option<&[u8]>,
    collation: Option<&[u8]>,
) -> Result<String, Malformed> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| Malformed("user variable: text"));
    // A NULL has a type, too.
    let Some(value) = value else {
        let collation = text(collation.unwrap_or_default())?;
        return Ok(match (kind, collation.split_once('_')) {
            (LONGLONG, _) => format!("CAST(NULL AS {}SIGNED)", if unsigned { "UN" } else { "" }),
            (DOUBLE, _) => "CAST(NULL AS DOUBLE)".into(),
            (NEWDECIMAL, _) => "CAST(NULL AS DECIMAL(65,30))".into(),
            (_, Some((charset, _))) if is_word(&collation) => {
                format!("CAST(NULL AS CHAR CHARACTER SET {charset}) COLLATE {collation}")
            }
            _ => "NULL".into(),
        });
    };
    match kind {
        LONGLONG if unsigned => Ok(format!("CAST({} AS UNSIGNED)", text(value)?)),
        LONGLONG => text(value),
        NEWDECIMAL if !value.contains(&b'.') => Ok(format!("{}.", text(value)?)),
        NEWDECIMAL => text(value),
        DOUBLE if value.iter().any(|byte| matches!(byte, b'e' | b'E')) => text(value),
        DOUBLE => Ok(format!("{}e0", text(value)?)),
        _ => {
            let (hex, collation) = (text(hex.unwrap_or_default())?, text(collation.unwrap_or_default())?);
            let charset = collation.split('_').next().unwrap_or_default();
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
            let read = literal((kind, false), Some(value.as_bytes()), Some(hex.as_bytes()), Some(collation.as_bytes()));
            assert_eq!(read.as_deref(), Ok(expected));
        }
        let unsigned = literal((LONGLONG, true), Some(b"5"), Some(b"5"), Some(b"latin1_swedish_ci"));
        assert_eq!(unsigned.as_deref(), Ok("CAST(5 AS UNSIGNED)"));
        assert_eq!(literal((0xfd, false), None, None, None).as_deref(), Ok("NULL"));
        assert!(literal((0xfd, false), Some(b"x"), Some(b"78"), Some(b"x';--")).is_err());
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
