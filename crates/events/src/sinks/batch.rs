//! A batch: the lines that a sink writes together. It tries the same batch again until it is written.

use std::time::SystemTime;

use crate::block::{Block, Class, Record, micros};
use crate::line;
use crate::masks::Masks;
use crate::queue::Item;
use crate::redaction::Literals;

/// Events and bytes after which a batch takes no further block.
const EVENTS_MAX: usize = 4_096;
const BYTES_MAX: usize = 1 << 20;

/// The queries that a sink takes. Logins, gaps and starts it takes always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Takes {
    /// None.
    Off,
    /// Those that ended in an error.
    Errors,
    /// The same, and slow ones.
    Slow,
    /// Those that ended in an error, and those that may have changed data.
    Writes,
    /// All that are events.
    #[default]
    All,
}

impl Takes {
    pub(crate) fn takes(self, class: Class) -> bool {
        let wanted = match self {
            Takes::All => return true,
            Takes::Off => Class::default(),
            Takes::Errors => Class::FAILED,
            Takes::Slow => Class::FAILED.with(Class::SLOW, true),
            Takes::Writes => Class::FAILED.with(Class::WRITES, true),
        };
        !class.has(Class::QUERY) || class.has(wanted)
    }
}

/// The choice of a sink, for each batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice<'a> {
    pub(crate) takes: Takes,
    pub(crate) literals: Literals,
    pub(crate) masks: &'a Masks,
    /// The name of the process.
    pub(crate) node: &'a str,
}

/// One line of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Where it ends, with its line feed.
    end: usize,
    /// The numbers that it uses.
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) class: Class,
}

/// Lines that are written together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    lines: Vec<u8>,
    rows: Vec<Row>,
    /// The number behind the last one of the batch, whether a line has that number or the sink leaves it out.
    pub(crate) next: u64,
    /// When its first event was, in microseconds since 1970; 0 if there is none.
    pub(crate) at_us: u64,
    /// Numbers of events that this sink lacks.
    pub(crate) dropped: u64,
}

impl Batch {
    /// An empty batch, for events from this number on.
    pub(crate) fn from(next: u64) -> Batch {
        Batch { next, ..Batch::default() }
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether it takes no more.
    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= EVENTS_MAX || self.lines.len() >= BYTES_MAX
    }

    /// All lines.
    pub(crate) fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Each line without its line feed.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (Row, &[u8])> {
        let begins = std::iter::once(0).chain(self.rows.iter().map(|row| row.end));
        self.rows.iter().zip(begins).map(|(row, begin)| {
            let line = self.lines.get(begin..row.end.saturating_sub(1)).unwrap_or_default();
            (*row, line)
        })
    }

    /// The number of lines.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Begins anew.
    pub(crate) fn clear(&mut self) {
        self.lines.clear();
        self.rows.clear();
        (self.at_us, self.dropped) = (0, 0);
    }

    /// Takes what waited.
    pub(crate) fn take(&mut self, item: &Item, choice: Choice<'_>) {
        match item {
            Item::Block(block) => self.take_next(block, choice),
            Item::Gap { first, last } => self.take_gap(*first, *last, choice.node),
        }
    }

    /// Takes the next block. Numbers that lie before it and never came here become a gap.
    pub(crate) fn take_next(&mut self, block: &Block, choice: Choice<'_>) {
        if block.first > self.next {
            self.take_gap(self.next, block.first - 1, choice.node);
        }
        self.take_block(block, choice);
    }

    /// Takes the events of a block that the sink wants.
    pub(crate) fn take_block(&mut self, block: &Block, choice: Choice<'_>) {
        let next = self.next;
        for record in block.records().filter(|record| record.first >= next && choice.takes.takes(record.class)) {
            self.put(&record, choice);
        }
        self.note(block.at_us);
        self.next = block.last.saturating_add(1);
    }

    /// Takes a gap: the sink lacks these numbers.
    pub(crate) fn take_gap(&mut self, first: u64, last: u64, node: &str) {
        let lost = last.saturating_sub(first).saturating_add(1);
        let now = SystemTime::now();
        line::gap(first, lost, node, now, &mut self.lines);
        self.rows.push(Row { end: self.lines.len(), first, last, class: Class::default() });
        self.dropped = self.dropped.saturating_add(lost);
        self.note(micros(now));
        self.next = last.saturating_add(1);
    }

    fn put(&mut self, record: &Record<'_>, choice: Choice<'_>) {
        let line = record.lines.of(choice.literals);
        match choice.masks.is_empty() {
            true => self.lines.extend_from_slice(line),
            false => choice.masks.put(line, &mut self.lines),
        }
        let Record { first, last, class, .. } = *record;
        self.rows.push(Row { end: self.lines.len(), first, last, class });
    }

    fn note(&mut self, at_us: u64) {
        if self.at_us == 0 {
            self.at_us = at_us;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Lines;

    fn block() -> Block {
        let mut block = Block::begin(5, SystemTime::now());
        let form = |form| Lines { form, ..Lines::default() };
        block.put(5, Class::default(), form(b"login\n"));
        block.put(6, Class::QUERY, Lines { form: b"read\n", hashed: b"read hash\n", text: b"read text\n" });
        block.put(7, Class::QUERY.with(Class::WRITES, true), form(b"write\n"));
        block.put(8, Class::QUERY.with(Class::FAILED, true), form(b"error\n"));
        block.put(9, Class::QUERY.with(Class::SLOW, true), form(b"slow\n"));
        block
    }

    fn lines(takes: Takes, literals: Literals, next: u64) -> String {
        let mut batch = Batch::from(next);
        batch.take_block(&block(), Choice { takes, literals, masks: &Masks::default(), node: "n1" });
        assert_eq!(batch.next, 10);
        batch.rows().map(|(_, line)| str::from_utf8(line).unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_sink_takes_what_it_wants() {
        assert_eq!(lines(Takes::Off, Literals::None, 0), "login");
        assert_eq!(lines(Takes::Errors, Literals::None, 0), "login error");
        assert_eq!(lines(Takes::Slow, Literals::None, 0), "login error slow");
        assert_eq!(lines(Takes::Writes, Literals::None, 0), "login write error");
        assert_eq!(lines(Takes::All, Literals::All, 0), "login read text write error slow");
        assert_eq!(lines(Takes::All, Literals::Hashed, 0), "login read hash write error slow");
    }

    #[test]
    fn events_that_were_written_are_passed_over() {
        assert_eq!(lines(Takes::All, Literals::None, 8), "error slow");
    }
}
