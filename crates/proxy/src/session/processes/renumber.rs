//! The rows of one list of processes, or of variables, on their way to the client.

use std::sync::Arc;

use proof::mark;
use wire::codec::{Malformed, Reader, Write};
use wire::packet::{self, HEADER_BYTES, Header};

use super::Shown;
use super::idle_row::{LONG, LONGLONG, NULL, bitmap_bytes};
use crate::outgoing::kind_of;

/// Longer lists pass as they are.
const BYTES_MAX: usize = 16 << 20;
/// Columns that servers of either family show; what MariaDB shows besides is a number.
const COLUMNS_MIN: u64 = 8;
/// Type, name and status of an engine.
const STATUS_COLUMNS: u64 = 3;
/// Columns that are shown at most.
const COLUMNS_MAX: u64 = 16;

/// Changes the rows of one result.
#[derive(Debug)]
pub struct Renumber {
    shown: Shown,
    /// The user that asks.
    user: Arc<str>,
    columns: u64,
    /// The types of the columns so far.
    kinds: Vec<u8>,
    /// Rows are in the form of prepared statements.
    is_binary: bool,
    /// Packets of columns that are still to come; `None` before their number.
    columns_left: Option<u64>,
    held: Vec<u8>,
    /// Sequence number of the last packet.
    sequence: u8,
    /// It is a list of variables.
    own: Option<OwnVariables>,
}

/// Variables of a session whose values on its connection are others.
#[derive(Clone, Debug, Default)]
pub struct OwnVariables {
    /// The server's id of the connection, and the client's.
    pub ids: (u64, u64),
    /// The values of others, by lower-case name.
    pub values: Vec<(&'static str, String)>,
}

impl Renumber {
    /// For a list of these connections that this user asks for.
    pub fn of(shown: Shown, user: Arc<str>) -> Renumber {
        Renumber {
            shown,
            user,
            columns: 0,
            kinds: Vec::new(),
            is_binary: false,
            columns_left: None,
            held: Vec::new(),
            sequence: 0,
            own: None,
        }
    }

    /// The same for rows in the form of prepared statements.
    pub fn binary(self) -> Renumber {
        Renumber { is_binary: true, ..self }
    }

    /// For SHOW VARIABLES by a client that knows these.
    pub fn of_variables(own: OwnVariables) -> Renumber {
        Renumber { own: Some(own), ..Renumber::of(Shown::default(), Arc::default()) }
    }

    /// Takes columns and rows, perhaps cut; gives false when there are too many, and all of them back by
    /// [`Renumber::give_up`].
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        self.held.extend_from_slice(bytes);
        self.held.len() <= BYTES_MAX
    }

    /// Gives the bytes that were taken, as they came.
    pub fn give_up(self) -> Vec<u8> {
        self.held
    }

    /// Gives the packets that were taken, whole ones by now, as clients know them. `is_end`: the result is over, and its last packet
    /// follows.
    pub fn give(&mut self, is_end: bool) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        let mut out = Vec::with_capacity(held.len());
        let mut sees_others = false;
        let mut rest = &held[..];
        while let Some(header) = Header::read(rest) {
            let end = (HEADER_BYTES + header.length).min(rest.len());
            let (packet, behind) = rest.split_at(end);
            rest = behind;
            let payload = &packet[HEADER_BYTES..];
            match self.columns_left {
                None => {
                    self.columns_left = Reader::new(payload).lenenc("column count").ok();
                    self.columns = self.columns_left.unwrap_or(0);
                    self.sequence = header.sequence.wrapping_sub(1);
                }
                Some(left @ 1..) => {
                    self.columns_left = Some(left - 1);
                    self.kinds.push(kind_of(payload).unwrap_or(0));
                }
                Some(0) if !header.is_continued() => match self.changed(payload, &mut sees_others) {
                    Ok(Row::Hidden) => continue,
                    Ok(Row::Changed(row)) => {
                        packet::append(&mut out, self.next_sequence(), &row);
                        continue;
                    }
                    Ok(Row::Same) | Err(_) => {}
                },
                Some(0) => {}
            }
            let at = out.len();
            out.extend_from_slice(packet);
            if let Some(sequence) = out.get_mut(at + HEADER_BYTES - 1) {
                *sequence = self.next_sequence();
            }
        }
        if is_end && self.own.is_none() && (COLUMNS_MIN..=COLUMNS_MAX).contains(&self.columns) {
            self.put_elsewhere(sees_others, &mut out);
        }
        out
    }

    /// The sequence number of the packet behind those that were given: rows were left out or put in.
    pub fn sequence_for(&mut self, came_with: u8) -> u8 {
        if self.columns_left.is_none() { came_with } else { self.next_sequence() }
    }

    fn next_sequence(&mut self) -> u8 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// Sessions without a row. A server shows a user without the privilege PROCESS his own; it shows others the monitor, at least.
    fn put_elsewhere(&mut self, sees_others: bool, out: &mut Vec<u8>) {
        for session in std::mem::take(&mut self.shown.elsewhere) {
            let row = self.shown.idle_row(&session);
            if sees_others || row.user == self.user {
                let row = if self.is_binary { row.write_binary(&self.kinds) } else { row.write(self.kinds.len()) };
                packet::append(out, self.next_sequence(), &row);
            }
        }
    }

    fn changed(&self, payload: &[u8], sees_others: &mut bool) -> Result<Row, Malformed> {
        let Some(OwnVariables { ids: (thread_id, id), values }) = &self.own else {
            return if self.is_binary { self.binary_row(payload, sees_others) } else { self.row(payload, sees_others) };
        };
        let mut reader = Reader::new(payload);
        let name = reader.text_value("variable")?;
        let is_named = |wanted: &str| name.is_some_and(|name| name.eq_ignore_ascii_case(wanted.as_bytes()));
        let own = match values.iter().find(|(known, _)| is_named(known)) {
            Some((_, own)) => own.clone(),
            None if is_named("pseudo_thread_id")
                && reader.text_value("value")? == Some(thread_id.to_string().as_bytes()) =>
            {
                id.to_string()
            }
            None => return Ok(Row::Same),
        };
        let mut row = Vec::with_capacity(payload.len() + 8);
        row.put_lenenc_bytes(name.unwrap_or_default());
        row.put_lenenc_bytes(own.as_bytes());
        Ok(Row::Changed(row))
    }

    /// A row as clients know it.
    fn row(&self, payload: &[u8], sees_others: &mut bool) -> Result<Row, Malformed> {
        let mut reader = Reader::new(payload);
        let id = reader.text_value("process id")?.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        let user = reader.text_value("process user")?;
        if self.columns == STATUS_COLUMNS {
            return self.status_row(payload, reader.remaining());
        }
        *sees_others |= user.is_some_and(|user| *user != *self.user.as_bytes());
        let Some(id): Option<u64> = id else { return Ok(Row::Same) };
        if self.shown.hidden.contains(&id) {
            return Ok(Row::Hidden);
        }
        let Some(session) = self.shown.in_use.get(&id) else { return Ok(Row::Same) };
        reader.text_value("process host")?;
        let mut row = Vec::with_capacity(payload.len() + 8);
        row.put_lenenc_bytes(session.id.to_string().as_bytes());
        match user {
            Some(user) => row.put_lenenc_bytes(user),
            None => row.push(NULL),
        }
        row.put_lenenc_bytes(session.client().as_bytes());
        let rest = reader.remaining();
        row.extend_from_slice(&without_mark(rest).unwrap_or_else(|_| rest.to_vec()));
        Ok(Row::Changed(row))
    }
}

/// The bytes of a number of this type in a row of a prepared statement.
fn width_of(kind: u8) -> Option<usize> {
    match kind {
        LONGLONG => Some(8),
        LONG => Some(4),
        _ => None,
    }
}

/// The columns of a row behind the host, with the text that the connection runs as its client sent it.
fn without_mark(rest: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut reader = Reader::new(rest);
    for column in ["process schema", "process command", "process time", "process state"] {
        reader.text_value(column)?;
    }
    let behind = reader.remaining();
    let mut row = rest[..rest.len() - behind.len()].to_vec();
    let mut reader = Reader::new(behind);
    match reader.text_value("process text")? {
        Some(text) => row.put_lenenc_bytes(mark::without(text)),
        None => row.push(NULL),
    }
    row.extend_from_slice(reader.remaining());
    Ok(row)
}

/// The same of a row in the form of prepared statements, with its bitmap of columns that are NULL.
fn without_mark_binary(rest: &[u8], bitmap: &[u8], time_bytes: usize) -> Result<Vec<u8>, Malformed> {
    let [schema, state, text] = [3, 6, 7].map(|column: usize| {
        // Two bits of the bitmap go ahead of the first column's.
        bitmap.get((column + 2) / 8).is_some_and(|bits| bits >> ((column + 2) % 8) & 1 == 0)
    });
    let mut reader = Reader::new(rest);
    if schema {
        reader.lenenc_bytes("process schema")?;
    }
    reader.lenenc_bytes("process command")?;
    reader.bytes(time_bytes, "process time")?;
    if state {
        reader.lenenc_bytes("process state")?;
    }
    let behind = reader.remaining();
    let mut row = rest[..rest.len() - behind.len()].to_vec();
    let mut reader = Reader::new(behind);
    if text {
        row.put_lenenc_bytes(mark::without(reader.lenenc_bytes("process text")?));
    }
    row.extend_from_slice(reader.remaining());
    Ok(row)
}

impl Renumber {
    /// A row of SHOW ENGINE … STATUS, of which type and name were read.
    fn status_row(&self, payload: &[u8], rest: &[u8]) -> Result<Row, Malformed> {
        let Some(status) = Reader::new(rest).text_value("status")? else { return Ok(Row::Same) };
        let mut row = payload[..payload.len() - rest.len()].to_vec();
        row.put_lenenc_bytes(&self.reported(status));
        Ok(Row::Changed(row))
    }

    /// A text in which `thread id 17` is the session's id.
    fn reported(&self, text: &[u8]) -> Vec<u8> {
        let mut reported = Vec::with_capacity(text.len());
        let mut copied = 0;
        for at in memchr::memmem::find_iter(text, b"thread id ") {
            let start = at + b"thread id ".len();
            let digits = text[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let id = std::str::from_utf8(&text[start..start + digits]).ok().and_then(|digits| digits.parse().ok());
            if let Some(session) = id.and_then(|id: u64| self.shown.in_use.get(&id)) {
                reported.extend_from_slice(&text[copied..start]);
                reported.extend_from_slice(session.id.to_string().as_bytes());
                copied = start + digits;
            }
        }
        reported.extend_from_slice(&text[copied..]);
        reported
    }

    /// A row of a prepared statement, as clients know it.
    fn binary_row(&self, payload: &[u8], sees_others: &mut bool) -> Result<Row, Malformed> {
        // Id, user and host are never NULL.
        let id_at = 1 + bitmap_bytes(self.kinds.len());
        let Some(width) = self.kinds.first().and_then(|kind| width_of(*kind)) else { return Ok(Row::Same) };
        let mut reader = Reader::new(payload);
        reader.bytes(id_at, "bitmap")?;
        let id = reader.bytes(width, "process id")?.iter().rev().fold(0, |id, byte| id << 8 | u64::from(*byte));
        let user = reader.lenenc_bytes("process user")?;
        *sees_others |= *user != *self.user.as_bytes();
        if self.shown.hidden.contains(&id) {
            return Ok(Row::Hidden);
        }
        let Some(session) = self.shown.in_use.get(&id) else { return Ok(Row::Same) };
        reader.lenenc_bytes("process host")?;
        let mut row = payload[..id_at].to_vec();
        row.extend_from_slice(&u64::from(session.id).to_le_bytes()[..width]);
        row.put_lenenc_bytes(user);
        row.put_lenenc_bytes(session.client().as_bytes());
        let (rest, bitmap) = (reader.remaining(), payload.get(1..id_at).unwrap_or_default());
        let time = self.kinds.get(5).and_then(|kind| width_of(*kind));
        let unmarked = time.ok_or(Malformed("process time")).and_then(|time| without_mark_binary(rest, bitmap, time));
        row.extend_from_slice(&unmarked.unwrap_or_else(|_| rest.to_vec()));
        Ok(Row::Changed(row))
    }
}

/// The fate of a row.
#[derive(Debug)]
enum Row {
    Same,
    Changed(Vec<u8>),
    Hidden,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::Sessions;
    use crate::testing::packets;

    #[test]
    fn connections_of_sessions_are_shown_as_these() {
        let sessions = Sessions::default();
        let (busy, idle) = (sessions.register(None), sessions.register(None));
        idle.set_login(crate::testing::login("app"));
        let shown = Shown {
            in_use: std::collections::HashMap::from([(7, busy.clone())]),
            hidden: std::collections::HashSet::from([9]),
            elsewhere: vec![idle.clone()],
            now_s: 1,
        };
        let mut renumber = Renumber::of(shown, "app".into());
        let mut taken = vec![&b"\x08"[..]];
        taken.extend([&b"a column"[..]; 8]);
        let text = b"\x017\x03app\x04here\xfb\x05Query\x010\0\x12/*sq:1.1*/DELETE t";
        taken.extend([&text[..], b"\x018\x04root!", b"\x019\x03app!"]);
        for part in packets(&taken).chunks(3) {
            assert!(renumber.take(part));
        }
        let row = |id: u32, rest: &[u8]| [b"\x0a", id.to_string().as_bytes(), rest].concat();
        let rows = [
            row(busy.id, b"\x03app\x09localhost\xfb\x05Query\x010\0\x08DELETE t"),
            b"\x018\x04root!".to_vec(),
            row(idle.id, b"\x03app\x09localhost\xfb\x05Query\x010\0\xfb"),
        ];
        taken.truncate(9);
        taken.extend(rows.iter().map(Vec::as_slice));
        assert_eq!(renumber.give(true), packets(&taken));
        assert_eq!(renumber.sequence_for(13), 13);
        let in_use = std::collections::HashMap::from([(7, busy.clone())]);
        let mut status = Renumber::of(Shown { in_use, ..Shown::default() }, "app".into());
        let rows = [&b"\x03"[..], b"a", b"b", b"c", b"\x06InnoDB\x00\x22MySQL thread id 7, OS thread id 77"];
        assert!(status.take(&packets(&rows)));
        let reported = format!("\x06InnoDB\x00\x2bMySQL thread id {}, OS thread id 77", busy.id);
        assert_eq!(status.give(true), packets(&[rows[0], rows[1], rows[2], rows[3], reported.as_bytes()]));
        let own = OwnVariables { ids: (7, 1_073_741_830), values: vec![("max_allowed_packet", "4096".into())] };
        let mut variables = Renumber::of_variables(own);
        let limit = b"\x12max_allowed_packet\x0816777216";
        let rows = [&b"\x02"[..], b"a", b"b", b"\x10pseudo_thread_id\x017", b"\x04port\x017", limit];
        assert!(variables.take(&packets(&rows)));
        let limit = b"\x12max_allowed_packet\x044096";
        let expected = [rows[0], rows[1], rows[2], b"\x10pseudo_thread_id\x0a1073741830", rows[4], limit];
        assert_eq!(variables.give(true), packets(&expected));
        assert!(renumber.take(&[0; 100]));
        assert!(!renumber.take(&vec![0; BYTES_MAX]));
    }
}
