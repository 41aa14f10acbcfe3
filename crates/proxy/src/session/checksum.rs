//! The checksum of a reply, by which a replay knows whether a statement has the same one again.
//!
//! Columns and rows count as they are on the wire, in whatever chunks they come; of what ends a result only what a client
//! acts on: rows changed, warnings, the words of an UPDATE, the code of an error. Left out is what may be another one on
//! another server: status flags, reports of the session, the text of errors, and the AUTO_INCREMENT value, which is
//! compared by itself.

use wire::exchange::Event;

/// Odd, with half of its bits set: the fraction of the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const WORD_BYTES: usize = 8;

/// The checksum of a reply as far as it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum {
    state: u64,
    /// Bytes that do not fill a word yet, from the lowest one on.
    carry: u64,
    length: u64,
}

impl Checksum {
    /// Columns and rows.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let held = (self.length % WORD_BYTES as u64) as usize;
        self.length = self.length.wrapping_add(bytes.len() as u64);
        let mut rest = bytes;
        if held > 0 {
            let (first, behind) = rest.split_at(rest.len().min(WORD_BYTES - held));
            self.carry |= little(first) << (8 * held);
            rest = behind;
            if held + first.len() < WORD_BYTES {
                return;
            }
            self.word(self.carry);
            self.carry = 0;
        }
        let (words, last) = rest.as_chunks::<WORD_BYTES>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        self.carry |= little(last);
    }

    /// An event that ends a result, or stands in the place of one.
    pub fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Ok(ok) | Event::RowsEnd(ok) => {
                self.mark(1, ok.warnings);
                self.word(ok.affected_rows);
                if !ok.info.is_empty() {
                    self.bytes(ok.info);
                }
            }
            Event::ColumnsEnd(eof) | Event::Eof(eof) => self.mark(2, eof.warnings),
            Event::Error(error) => self.mark(3, error.code),
            Event::Prepared(_) | Event::Infile(_) | Event::Progress | Event::Text(_) => {}
        }
    }

    /// The number that equal replies have in common.
    pub fn value(mut self) -> u64 {
        self.word(self.carry);
        self.word(self.length);
        self.state
    }

    /// An event of this kind, and its number, behind so many bytes. Bytes that do not fill a word yet count later: how many they are
    /// does not depend on the chunks.
    fn mark(&mut self, kind: u64, number: u16) {
        self.word((kind << 56 | u64::from(number) << 40) ^ self.length);
    }

    #[inline]
    fn word(&mut self, word: u64) {
        let product = u128::from(self.state ^ word ^ FACTOR) * u128::from(FACTOR);
        self.state = (product as u64) ^ (product >> 64) as u64 ^ self.state.rotate_left(32);
    }
}

/// Up to eight bytes as a number, the first one lowest.
fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use wire::Status;
    use wire::reply::{Ok, ServerError};

    use super::*;

    fn of(chunks: &[&[u8]]) -> u64 {
        let mut sum = Checksum::default();
        chunks.iter().for_each(|chunk| sum.bytes(chunk));
        sum.value()
    }

    #[test]
    fn chunks_do_not_matter_and_bytes_do() {
        let text: Vec<u8> = (0..200).map(|n| (n * 7) as u8).collect();
        for at in 0..text.len() {
            for length in [0, 1, 3, 8, 17] {
                let end = (at + length).min(text.len());
                assert_eq!(of(&[&text[..at], &text[at..end], &text[end..]]), of(&[&text]), "{at} {length}");
            }
            let mut other = text.clone();
            other[at] ^= 1;
            assert_ne!(of(&[&other]), of(&[&text]), "{at}");
            assert_ne!(of(&[&text[..at]]), of(&[&text]), "{at}");
        }
        assert_ne!(of(&[b""]), of(&[b"\0"]));
        assert_ne!(of(&[&[0; 8]]), of(&[&[0; 16]]));
    }

    #[test]
    fn what_may_differ_between_servers_is_left_out() {
        let sum = |event: Event<'_>| {
            let mut sum = Checksum::default();
            sum.event(&event);
            sum.value()
        };
        let ok = Ok { affected_rows: 2, warnings: 1, insert_id: 7, info: b"Rows matched: 2", ..Ok::default() };
        let same = Ok { insert_id: 8, status: Status::AUTOCOMMIT, session_state: b"\x02\x01\x31", ..ok };
        assert_eq!(sum(Event::Ok(ok)), sum(Event::Ok(same)));
        assert_ne!(sum(Event::Ok(ok)), sum(Event::Ok(Ok { affected_rows: 3, ..ok })));
        assert_ne!(sum(Event::Ok(ok)), sum(Event::Ok(Ok { warnings: 0, ..ok })));
        let error = |code, message| Event::Error(ServerError { code, sqlstate: *b"23000", message });
        assert_eq!(sum(error(1062, b"Duplicate entry '7'")), sum(error(1062, b"Duplicate entry '8'")));
        assert_ne!(sum(error(1062, b"")), sum(error(1452, b"")));
    }
}
