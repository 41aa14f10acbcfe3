//! A block: the lines of events that follow each other, as they go to sinks and to the spool.

use std::time::{Duration, SystemTime};

use crate::redaction::Literals;

/// Bytes of a block after which the next one begins. One event may go beyond.
pub(crate) const BLOCK_BYTES: usize = 256 << 10;
/// Bytes of a record ahead of its lines: two numbers, the class, three lengths.
const HEAD_BYTES: usize = 8 + 8 + 1 + 4 + 4 + 4;

/// The properties of an event that sinks choose by. None of them: a login, a gap, or a start, which all sinks take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Class(pub(crate) u8);

impl Class {
    /// A query.
    pub(crate) const QUERY: Class = Class(1);
    /// It ended in an error.
    pub(crate) const FAILED: Class = Class(2);
    /// It may have changed data.
    pub(crate) const WRITES: Class = Class(4);
    /// It took longer than the operator's bound.
    pub(crate) const SLOW: Class = Class(8);
    /// It becomes spans.
    pub(crate) const TRACED: Class = Class(16);

    /// Whether it has one of these properties.
    pub(crate) fn has(self, other: Class) -> bool {
        self.0 & other.0 != 0
    }

    /// This class, with a property if a condition holds.
    pub(crate) fn with(self, other: Class, holds: bool) -> Class {
        if holds { Class(self.0 | other.0) } else { self }
    }
}

/// One event. Lines end with a line feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// Its number.
    pub(crate) first: u64,
    /// The last number that it uses: a gap uses all that are lost.
    pub(crate) last: u64,
    /// Its properties.
    pub(crate) class: Class,
    /// Its lines.
    pub(crate) lines: Lines<'a>,
}

/// The lines of one event, one for each part of a client's text that a sink may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines<'a> {
    /// Without literals.
    pub(crate) form: &'a [u8],
    /// With hashed literals; empty if nobody wanted it.
    pub(crate) hashed: &'a [u8],
    /// With all literals; empty if nobody wanted it.
    pub(crate) text: &'a [u8],
}

impl<'a> Lines<'a> {
    /// The line for a sink. Without its own it gets the one that shows less.
    pub(crate) fn of(&self, literals: Literals) -> &'a [u8] {
        let own = match literals {
            Literals::None => self.form,
            Literals::Hashed => self.hashed,
            Literals::All => self.text,
        };
        if own.is_empty() { self.form } else { own }
    }
}

/// Records that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The number of its first event.
    pub(crate) first: u64,
    /// The last number that it uses.
    pub(crate) last: u64,
    /// When it was begun, in microseconds since 1970.
    pub(crate) at_us: u64,
    bytes: Vec<u8>,
}

impl Block {
    /// A block without an event; the first one has this number.
    pub(crate) fn begin(first: u64, at: SystemTime) -> Block {
        Block { first, last: first.saturating_sub(1), at_us: micros(at), bytes: Vec::new() }
    }

    /// A block of records that were read back.
    pub(crate) fn from_bytes(first: u64, last: u64, at_us: u64, bytes: Vec<u8>) -> Block {
        Block { first, last, at_us, bytes }
    }

    /// Adds an event, which uses the numbers behind the last one up to `last`.
    pub(crate) fn put(&mut self, last: u64, class: Class, lines: Lines<'_>) {
        let Lines { form, hashed, text } = lines;
        let first = self.last + 1;
        let length = |line: &[u8]| u32::try_from(line.len()).unwrap_or(0).to_le_bytes();
        self.bytes.extend_from_slice(&first.to_le_bytes());
        self.bytes.extend_from_slice(&last.to_le_bytes());
        self.bytes.push(class.0);
        for line in [form, hashed, text] {
            self.bytes.extend_from_slice(&length(line));
        }
        for line in [form, hashed, text] {
            self.bytes.extend_from_slice(line);
        }
        self.last = last;
    }

    /// Whether it has no event.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes of its records.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its records. Bytes that are none end them.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let mut rest = &*self.bytes;
        std::iter::from_fn(move || {
            let (record, behind) = read(rest)?;
            rest = behind;
            Some(record)
        })
    }
}

fn read(bytes: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
    let number = |at: usize| head.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let length = |at: usize| head.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let (form, rest) = rest.split_at_checked(length(17)? as usize)?;
    let (hashed, rest) = rest.split_at_checked(length(21)? as usize)?;
    let (text, rest) = rest.split_at_checked(length(25)? as usize)?;
    let lines = Lines { form, hashed, text };
    Some((Record { first: number(0)?, last: number(8)?, class: Class(head[16]), lines }, rest))
}

/// Microseconds since 1970.
pub(crate) fn micros(at: SystemTime) -> u64 {
    micros_of(at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO))
}

/// Microseconds of a time.
pub(crate) fn micros_of(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_cut_bytes_end_them() {
        let mut block = Block::begin(7, SystemTime::now());
        let lines = Lines { form: b"form\n", hashed: b"", text: b"text\n" };
        block.put(7, Class::QUERY.with(Class::SLOW, true), lines);
        block.put(11, Class::default(), Lines { form: b"gap\n", ..Lines::default() });
        let read: Vec<_> = block.records().map(|record| (record.first, record.last, record.lines.form)).collect();
        let first = block.records().next().map(|record| record.lines);
        let shown = [Literals::None, Literals::Hashed, Literals::All].map(|literals| first.unwrap().of(literals));
        assert_eq!(shown, [&b"form\n"[..], b"form\n", b"text\n"], "a line that is not there shows less, never more");
        assert_eq!(read, [(7, 7, &b"form\n"[..]), (8, 11, b"gap\n")]);
        assert_eq!((block.first, block.last), (7, 11));
        for cut in 0..block.bytes().len() {
            let torn = Block { bytes: block.bytes()[..cut].to_vec(), ..block.clone() };
            assert_eq!(torn.records().count(), usize::from(cut >= HEAD_BYTES + 10), "{cut}");
        }
    }
}
