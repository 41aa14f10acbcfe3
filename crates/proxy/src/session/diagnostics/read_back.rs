//! Asking the server for the values of user variables that a statement computed, so that they do not pin the session.
//!
//! The values come back in the text protocol; the column's type and collation say how to write each as a literal that
//! makes the same value, of the same type, on another connection.

use crate::session::belief::Belief;
use crate::session::environment::Environment;
use std::cmp::Ordering;

use wire::Capabilities;
use wire::codec::{Malformed, Reader, Write};
use wire::packet::{self, First, HEADER_BYTES, Header};

use super::literals::{ReportedVariable, is_wide, literal};
use crate::pool::NO_MESSAGES;
use crate::session::relay::RelayError;
use crate::session::reset::ask;
use crate::session::{Doubt, Held, Past, Session};
use route::{Pin, UnsureLocks};

/// A row's values; `None` is NULL.
pub(in crate::session) type Row = Vec<Option<Vec<u8>>>;

/// More variables than this stay on their connection.
const VARIABLES_MAX: usize = 16;
/// Longer values stay on their connection.
const REPLY_BYTES_MAX: usize = 64 * 1024;

/// Lists the user variables of the very connection, and whether each is as Sqluice leaves one that a session before this one had:
/// NULL, of type BINARY. There may be one more than can be kept, and all that a connection remembers of earlier sessions.
const LIST_OF_MARIADB: &str = "SELECT VARIABLE_NAME, \
    VARIABLE_VALUE IS NULL AND VARIABLE_TYPE='VARCHAR' AND CHARACTER_SET_NAME='binary' \
    FROM information_schema.USER_VARIABLES LIMIT 82";
/// The same; a NULL does not show its type. Users need SELECT on the table.
const LIST_OF_MYSQL: &str = "SELECT VARIABLE_NAME, VARIABLE_VALUE IS NULL \
    FROM performance_schema.user_variables_by_thread WHERE THREAD_ID = PS_CURRENT_THREAD_ID() LIMIT 82";

impl Past {
    /// Whether SHOW WARNINGS would say something.
    pub(in crate::session) fn has_messages(&self) -> bool {
        self.error.is_some() || self.warning_count > 0
    }

    /// Whether it is known that SHOW WARNINGS would say nothing.
    pub(super) fn surely_has_no_messages(&self) -> bool {
        !self.has_messages() && !self.messages_unread && !self.messages_unsure
    }
}

impl Session {
    /// Reads back the user variables that alone pin the session. Gives whether the connection is still good; when a value
    /// cannot be read, the pin stays.
    pub(in crate::session) async fn read_back(&mut self, held: &mut Held) -> bool {
        let mut names = self.belief.pins.user_variables();
        let hidden = self.belief.pins.has_hidden_user_variables();
        if hidden {
            match self.env.list_variables(held).await {
                Ok(Some(listed)) => names.extend(listed),
                Ok(None) => {
                    self.keep_for_hidden_variables();
                    return true;
                }
                Err(_) => return false,
            }
            names.extend(self.belief.state.user_variables().map(str::to_owned));
            names.sort_unstable();
            names.dedup();
            if names.len() > VARIABLES_MAX {
                self.keep_for_hidden_variables();
                return true;
            }
            if names.is_empty() {
                self.belief.pins.hidden_user_variables(false);
                self.env.show_pins(self.belief.pins.bits());
                return true;
            }
        }
        if names.is_empty() || names.len() > VARIABLES_MAX {
            return true;
        }
        let question = question(&names);
        let capabilities = held.lease.origin.capabilities;
        let Ok(reply) = ask(&mut held.lease, &question, &self.env.worker).await else { return false };
        let Some(literals) = reply.and_then(|reply| literals(&reply, names.len(), capabilities).ok()) else {
            if hidden {
                self.keep_for_hidden_variables();
            }
            return true;
        };
        let state = std::sync::Arc::make_mut(&mut self.belief.state);
        for (name, found) in names.iter().zip(literals) {
            match found {
                ReportedVariable::Value(literal) => state.set_user_variable(name, &literal),
                // A session before left it there. A statement that may assign NULL does not find such variables.
                ReportedVariable::Null(_)
                    if held.lease.origin.once_set.contains(name) && !state.has_user_variable(name) => {}
                ReportedVariable::Null(of_its_type) => {
                    state.set_user_variable(name, &of_its_type);
                    state.set_user_variable(name, "NULL");
                }
                ReportedVariable::Nothing => state.remove_user_variable(name),
            }
            self.belief.pins.user_variable_known(name);
        }
        self.belief.pins.hidden_user_variables(false);
        held.lease.origin.state = self.belief.state.clone();
        self.env.show_pins(self.belief.pins.bits());
        true
    }

    /// The session keeps its connection for good, since its state there is unknown.
    fn keep_for_hidden_variables(&mut self) {
        self.belief.past.is_here();
        self.belief.pins.hidden_user_variables(false);
        self.belief.pins.put(Pin::Opaque, true);
        self.env.show_pins(self.belief.pins.bits());
    }

    /// Asks what LAST_INSERT_ID() is. Gives whether the connection is still good.
    pub(in crate::session) async fn read_insert_id(&mut self, held: &mut Held) -> bool {
        let capabilities = held.lease.origin.capabilities;
        // The question counts.
        self.belief.past.is_here();
        match ask(&mut held.lease, "SELECT LAST_INSERT_ID()", &self.env.worker).await {
            Ok(reply) => {
                let rows = reply.and_then(|reply| rows(&reply, 1, capabilities).ok()).unwrap_or_default();
                let id = rows.first().and_then(|row| std::str::from_utf8(row.first()?.as_deref()?).ok()?.parse().ok());
                let known = held.lease.origin.insert_id;
                held.lease.origin.insert_id = id;
                match (self.belief.past.doubt.take(), id) {
                    (Some(Doubt::Any), Some(id)) => self.belief.past.insert_id = id,
                    (Some(Doubt::Given(reported)), Some(id))
                        if id == reported || known.is_some_and(|known| known != id) =>
                    {
                        self.belief.past.insert_id = id;
                    }
                    (Some(Doubt::Made), Some(id)) if known.is_some_and(|known| known != id) => {
                        self.belief.past.insert_id = id
                    }
                    // It stands as another session left it, so this session's has not changed either.
                    _ => {}
                }
                true
            }
            Err(_) => false,
        }
    }

    /// Asks whether the messages of a statement before are still there. Gives whether the connection is still good.
    pub(in crate::session) async fn count_messages(&mut self, held: &mut Held) -> bool {
        let capabilities = held.lease.origin.capabilities;
        let Ok(reply) = ask(&mut held.lease, "SHOW COUNT(*) WARNINGS", &self.env.worker).await else { return false };
        let rows = reply.and_then(|reply| rows(&reply, 1, capabilities).ok()).unwrap_or_default();
        self.belief.past.messages_unsure = false;
        if rows.first().and_then(|row| row.first()?.as_deref()) == Some(b"0") {
            (self.belief.past.error, self.belief.past.warnings, self.belief.past.warning_count) = (None, None, 0);
            // Other connections may still have them.
            self.belief.past.messages = self.belief.past.messages.wrapping_add(1);
            (held.lease.origin.messages, held.lease.origin.stands_in) = (Some(NO_MESSAGES), false);
        }
        true
    }

    /// Asks what FOUND_ROWS() is. Gives whether the connection is still good.
    pub(in crate::session) async fn read_found_rows(&mut self, held: &mut Held) -> bool {
        let capabilities = held.lease.origin.capabilities;
        let Ok(reply) = ask(&mut held.lease, "SELECT FOUND_ROWS()", &self.env.worker).await else { return false };
        let rows = reply.and_then(|reply| rows(&reply, 1, capabilities).ok()).unwrap_or_default();
        let found = rows.first().and_then(|row| std::str::from_utf8(row.first()?.as_deref()?).ok()?.parse().ok());
        let stood_in = std::mem::take(&mut self.belief.past.found_rows_stand_in);
        let found = found.filter(|found| !(stood_in && *found == 0));
        // Any other count is one that an earlier statement has left, perhaps another session's.
        if self.belief.past.found_rows_own.is_none_or(|own| found == Some(own)) {
            self.belief.past.found_rows = found.or(self.belief.past.found_rows);
        }
        true
    }

    /// Asks which user locks the session still holds: servers count how often each was taken, and only the result of
    /// GET_LOCK() and RELEASE_LOCK() tells whether they were. Gives whether the connection is still good.
    pub(in crate::session) async fn ask_user_locks(&mut self, held: &mut Held) -> bool {
        let Some(unsure) = self.belief.pins.unsure_user_locks() else { return true };
        let connection = &mut *held.lease;
        let capabilities = connection.origin.capabilities;
        let names = match unsure {
            UnsureLocks::Released => {
                // The statement has released all, so this releases nothing; if it ran otherwise than its text says, it does.
                let Ok(reply) = ask(connection, "DO RELEASE_ALL_LOCKS()", &self.env.worker).await else { return false };
                if reply.is_some() {
                    self.belief.pins.user_locks_are(&[]);
                }
                self.env.show_pins(self.belief.pins.bits());
                return true;
            }
            // In these a name is made of other bytes than it was when the lock was taken under another one.
            UnsureLocks::Named(_)
                if self.belief.state.connection_collation(&self.belief.catalog).is_some_and(is_wide) =>
            {
                return true;
            }
            // CONNECTION_ID() gives this one, IS_USED_LOCK() the thread's own.
            UnsureLocks::Named(_) if self.belief.state.variable("pseudo_thread_id").is_some() => return true,
            UnsureLocks::Named(names) => names,
        };
        let columns: Vec<String> =
            names.iter().map(|name| format!("IS_USED_LOCK('{name}')<=>CONNECTION_ID()")).collect();
        let question = format!("SELECT {}", columns.join(","));
        let Ok(reply) = ask(connection, &question, &self.env.worker).await else { return false };
        let rows = reply.and_then(|reply| rows(&reply, names.len(), capabilities).ok());
        if let Some([row]) = rows.as_deref() {
            let is_held = |(name, value): (String, &Option<Vec<u8>>)| (value.as_deref() != Some(b"0")).then_some(name);
            let held: Vec<String> = names.into_iter().zip(row).filter_map(is_held).collect();
            self.belief.pins.user_locks_are(&held);
            self.env.show_pins(self.belief.pins.bits());
        }
        true
    }
}

impl Environment {
    /// The user variables that this session has on the connection, in lower case: all but those that earlier ones have left there. `None`
    /// when the server does not tell, they are too many, or their names are none that can be asked for whatever the character set.
    async fn list_variables(&mut self, held: &mut Held) -> Result<Option<Vec<String>>, RelayError> {
        let connection = &mut *held.lease;
        let capabilities = connection.origin.capabilities;
        // It has messages of its own.
        connection.origin.messages = None;
        let list = if connection.origin.mariadb { LIST_OF_MARIADB } else { LIST_OF_MYSQL };
        let reply = ask(connection, list, &self.worker).await?;
        let rows = reply.and_then(|reply| rows(&reply, 2, capabilities).ok());
        let once_set = &connection.origin.once_set;
        Ok(rows.and_then(|rows| {
            let names: Option<Vec<(String, bool)>> = rows.into_iter().map(name_and_is_null).collect();
            let own = names?.into_iter().filter(|(name, is_null)| !(*is_null && once_set.contains(name)));
            let own: Vec<String> = own.map(|(name, _)| name).collect();
            (own.len() <= VARIABLES_MAX).then_some(own)
        }))
    }
}

/// A row of the list of user variables. `None` if the name is none that can be asked for.
fn name_and_is_null(row: Row) -> Option<(String, bool)> {
    let mut values = row.into_iter();
    let name = String::from_utf8(values.next()??).ok()?;
    let is_null = values.next()?? == b"1";
    name.is_ascii().then(|| (name.to_ascii_lowercase(), is_null))
}

impl Belief {
    /// Nothing but user variables with unknown values pins the session.
    pub(in crate::session) fn only_user_variables_pin(&self) -> bool {
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

/// The values of `count` variables, from the reply to [`question`].
fn literals(reply: &[u8], count: usize, capabilities: Capabilities) -> Result<Vec<ReportedVariable>, Malformed> {
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
            match kind {
                Some(kind) => literal(kind, value?, hex?, collation?),
                None => Ok(ReportedVariable::Nothing),
            }
        })
        .collect()
}

/// The rows of a text reply with this many columns.
pub(in crate::session) fn rows(
    reply: &[u8],
    columns: usize,
    capabilities: Capabilities,
) -> Result<Vec<Row>, Malformed> {
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

/// A text reply with one more row at its end; `None` when it is no whole reply.
pub(in crate::session) fn with_row(mut reply: Vec<u8>, values: &[&[u8]]) -> Option<Vec<u8>> {
    let mut last = 0;
    let end = loop {
        let header = Header::read(reply.get(last..)?)?;
        let next = last + HEADER_BYTES + header.length;
        match next.cmp(&reply.len()) {
            Ordering::Less => last = next,
            Ordering::Equal => break header,
            Ordering::Greater => return None,
        }
    };
    let payload = reply.split_off(last).split_off(HEADER_BYTES);
    let mut row = Vec::new();
    values.iter().for_each(|value| row.put_lenenc_bytes(value));
    let sequence = packet::append(&mut reply, end.sequence, &row);
    packet::append(&mut reply, sequence, &payload);
    Some(reply)
}

/// A reply to SHOW WARNINGS in which one message has taken the place of another; `None` when it is no whole reply.
pub(in crate::session) fn with_message(reply: &[u8], before: &str, message: &str) -> Option<Vec<u8>> {
    let (mut rest, mut out) = (reply, Vec::with_capacity(reply.len()));
    while let First::Whole { payload, taken, .. } = packet::first(rest, usize::MAX) {
        let sequence = Header::read(rest)?.sequence;
        rest = &rest[taken..];
        let mut reader = Reader::new(payload);
        let values = [(); super::messages::COLUMNS].map(|()| reader.text_value("message").ok().flatten());
        match values {
            [Some(level), Some(code), Some(text)] if text == before.as_bytes() => {
                let mut row = Vec::new();
                [level, code, message.as_bytes()].iter().for_each(|value| row.put_lenenc_bytes(value));
                packet::append(&mut out, sequence, &row);
            }
            _ => {
                packet::append(&mut out, sequence, payload);
            }
        }
    }
    rest.is_empty().then_some(out)
}

/// A column's type, and whether it is unsigned; `None` for a variable that was never set.
fn column_kind(payload: &[u8], capabilities: Capabilities) -> Result<Option<(u8, bool)>, Malformed> {
    const UNSIGNED: u16 = 1 << 5;
    /// MySQL gives this type to nothing else.
    const VAR_STRING: u8 = 0xfd;
    /// MariaDB gives a binary column of this type and length to nothing else: that of a NULL is one byte shorter (10.11, 11.8).
    const LONG_BLOB: u8 = 0xfb;
    const NEVER_SET_BYTES: u32 = 1 << 24;
    const BINARY: u16 = 63;

    let mut reader = Reader::new(payload);
    for _ in 0..6 {
        reader.lenenc_bytes("column: names")?;
    }
    if capabilities.contains(Capabilities::EXTENDED_METADATA) {
        reader.lenenc_bytes("column: extended metadata")?;
    }
    reader.lenenc("column: fixed part")?;
    let (collation, length) = (reader.u16("column: collation")?, reader.u32("column: length")?);
    let kind = reader.u8("column: type")?;
    let never_set = kind == VAR_STRING || (kind, collation, length) == (LONG_BLOB, BINARY, NEVER_SET_BYTES);
    Ok((!never_set).then_some((kind, reader.u16("column: flags")? & UNSIGNED != 0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::packets;

    #[test]
    fn a_reply_takes_one_more_row() {
        let reply = packets(&[b"\x01", b"a column", b"\x01a", b"\xfe\0\0\x02\0"]);
        assert_eq!(with_row(reply[..reply.len() - 1].to_vec(), &[b"b"]), None, "cut off");
        let longer = with_row(reply, &[b"b"]).unwrap();
        let capabilities = Capabilities::DEPRECATE_EOF;
        assert_eq!(rows(&longer, 1, capabilities), Ok(vec![vec![Some(b"a".to_vec())], vec![Some(b"b".to_vec())]]));
        assert_eq!(longer.last_chunk(), Some(b"\x05\0\0\x05\xfe\0\0\x02\0"));
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
