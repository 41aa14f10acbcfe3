//! SHOW PROCESSLIST, with the ids that clients know.
//!
//! Servers list backend connections by ids of their own. A client takes an id that it reads there for one that KILL takes
//! and CONNECTION_ID() answers; so the ids of connections that serve a session now become that session's.

use std::collections::HashMap;

use cluster::view::ServerId;
use wire::codec::{Malformed, Reader, Write};
use wire::packet::{self, HEADER_BYTES, Header};

use crate::sessions::Sessions;

/// Longer lists pass as they are.
const BYTES_MAX: usize = 16 << 20;

/// Puts other ids into the rows of one result.
#[derive(Debug)]
pub struct Renumber {
    /// Sessions by the server's id of their backend connection.
    sessions: HashMap<u64, u32>,
    /// Packets of columns that are still to come; `None` before their number.
    columns_left: Option<u64>,
    held: Vec<u8>,
}

impl Renumber {
    /// For a list of this server's connections.
    pub fn of(sessions: &Sessions, server: ServerId) -> Renumber {
        let all = sessions.all();
        let here = all.iter().filter_map(|session| Some((session.runs_on(server)?, session.id)));
        Renumber { sessions: here.collect(), columns_left: None, held: Vec::new() }
    }

    /// Takes columns and rows, perhaps cut; gives false when there are too many, and all of them back by
    /// [`Renumber::give_up`].
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        self.held.extend_from_slice(bytes);
        self.held.len() <= BYTES_MAX
    }

    /// What was taken, as it came.
    pub fn give_up(self) -> Vec<u8> {
        self.held
    }

    /// What was taken, whole packets by now, with other ids.
    pub fn give(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        let mut out = Vec::with_capacity(held.len());
        let mut rest = &held[..];
        while let Some(header) = Header::read(rest) {
            let end = (HEADER_BYTES + header.length).min(rest.len());
            let (packet, behind) = rest.split_at(end);
            rest = behind;
            let payload = &packet[HEADER_BYTES..];
            match self.columns_left {
                None => self.columns_left = Reader::new(payload).lenenc("column count").ok(),
                Some(left @ 1..) => self.columns_left = Some(left - 1),
                Some(0) if !header.is_continued() => {
                    if let Ok(Some(row)) = self.row(payload) {
                        packet::append(&mut out, header.sequence, &row);
                        continue;
                    }
                }
                Some(0) => {}
            }
            out.extend_from_slice(packet);
        }
        out
    }

    /// The row with another id, if the connection is one of a session's.
    fn row(&self, payload: &[u8]) -> Result<Option<Vec<u8>>, Malformed> {
        let mut reader = Reader::new(payload);
        let id = reader.text_value("process id")?.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        let Some(session) = id.and_then(|id: u64| self.sessions.get(&id)) else { return Ok(None) };
        let mut row = Vec::with_capacity(payload.len() + 8);
        row.put_lenenc_bytes(session.to_string().as_bytes());
        row.extend_from_slice(reader.remaining());
        Ok(Some(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_of_known_connections_change() {
        let mut renumber = Renumber { sessions: HashMap::from([(7, 1000)]), columns_left: None, held: Vec::new() };
        let mut bytes = Vec::new();
        for (sequence, payload) in
            [&b"\x01"[..], b"\x017 a column", b"\x017\x03app", b"\x018\x03app"].iter().enumerate()
        {
            packet::append(&mut bytes, sequence as u8 + 1, payload);
        }
        for part in bytes.chunks(3) {
            assert!(renumber.take(part));
        }
        let mut expected = bytes.clone();
        let at = bytes.windows(6).position(|part| part == b"\x017\x03app").unwrap();
        expected.splice(at - 4..at + 2, *b"\x09\0\0\x03\x041000");
        assert_eq!(renumber.give(), expected);
        assert!(renumber.take(&[0; 100]));
        assert!(!renumber.take(&vec![0; BYTES_MAX]));
    }
}
