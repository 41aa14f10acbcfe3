//! The last lines, for those who look on.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::condition::Condition;

/// Most bytes of lines that are kept.
const BYTES_MAX: usize = 4 << 20;
/// Most bytes of lines of failures that are kept beyond.
const FAILURES_BYTES_MAX: usize = 512 << 10;
/// Parts of the lines of failed queries and of refused logins.
const FAILURES: [&str; 2] = ["\"error\":{", "\"ok\":false"];

/// The last lines, bounded by their bytes.
#[derive(Debug, Default)]
pub struct Recent(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    blocks: VecDeque<Block>,
    bytes: usize,
    /// Lines of failures from older blocks: who looks for one does not find it pushed out by queries that went well.
    failures: VecDeque<Box<str>>,
    failures_bytes: usize,
}

/// Lines that were written together.
#[derive(Debug)]
struct Block {
    /// The numbers that they use, all of them.
    first: u64,
    last: u64,
    lines: Box<[u8]>,
}

impl Block {
    /// Each line with the last number that it uses: a gap uses all that are lost.
    fn lines(&self) -> Vec<(u64, &str)> {
        let text = std::str::from_utf8(&self.lines).unwrap_or_default();
        let mut lines: Vec<(u64, &str)> = text.lines().map(|line| (number_of(line), line)).collect();
        let mut next = self.last.saturating_add(1);
        for (number, _) in lines.iter_mut().rev() {
            let first = std::mem::replace(number, next - 1);
            next = first;
        }
        lines
    }
}

/// The number of a line, which stands in its beginning.
fn number_of(line: &str) -> u64 {
    let digits = line.split_once("\"seq\":").map_or("", |(_, rest)| rest);
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}

/// Some of the last lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// The lines, the oldest first; each is a JSON object.
    pub lines: Vec<Box<str>>,
    /// The number of the newest event, whether it is among them or not.
    pub newest: u64,
    /// Events that came after the asked number and are no longer kept.
    pub missed: u64,
}

impl Recent {
    /// Keeps these lines, which use the numbers from `first` to `last`.
    pub(crate) fn keep(&self, first: u64, last: u64, lines: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += lines.len();
        kept.blocks.push_back(Block { first, last, lines: lines.into() });
        while kept.bytes > BYTES_MAX && kept.blocks.len() > 1 {
            let Some(gone) = kept.blocks.pop_front() else { break };
            kept.bytes -= gone.lines.len();
            kept.keep_failures(&gone);
        }
    }

    /// The newest lines for which a condition holds, at most `limit` of them; with `after`, the oldest ones behind that number.
    pub fn tail(&self, after: Option<u64>, limit: usize, condition: &Condition) -> Tail {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match after {
            None => kept.newest(limit, condition),
            Some(after) => kept.behind(after, limit, condition),
        }
    }
}

impl Kept {
    fn keep_failures(&mut self, gone: &Block) {
        let text = std::str::from_utf8(&gone.lines).unwrap_or_default();
        for line in text.lines().filter(|line| FAILURES.iter().any(|part| line.contains(part))) {
            self.failures_bytes += line.len();
            self.failures.push_back(line.into());
        }
        while self.failures_bytes > FAILURES_BYTES_MAX {
            let Some(line) = self.failures.pop_front() else { break };
            self.failures_bytes -= line.len();
        }
    }

    fn newest(&self, limit: usize, condition: &Condition) -> Tail {
        let mut lines: Vec<Box<str>> = Vec::new();
        for block in self.blocks.iter().rev() {
            let fitting = block.lines().into_iter().rev().filter(|(_, line)| condition.holds(line));
            lines.extend(fitting.take(limit - lines.len()).map(|(_, line)| Box::from(line)));
            if lines.len() == limit {
                break;
            }
        }
        let failures = self.failures.iter().rev().filter(|line| condition.holds(line));
        lines.extend(failures.take(limit - lines.len()).cloned());
        lines.reverse();
        Tail { lines, newest: self.blocks.back().map_or(0, |block| block.last), missed: 0 }
    }

    fn behind(&self, after: u64, limit: usize, condition: &Condition) -> Tail {
        let newest = self.blocks.back().map_or(after, |block| block.last.max(after));
        let first = self.blocks.front().map_or(newest, |block| block.first);
        let mut tail = Tail { newest, missed: first.saturating_sub(after.saturating_add(1)), ..Tail::default() };
        for block in self.blocks.iter().filter(|block| block.last > after) {
            for (number, line) in block.lines().into_iter().filter(|(number, _)| *number > after) {
                if condition.holds(line) {
                    tail.lines.push(line.into());
                }
                if tail.lines.len() == limit {
                    tail.newest = number;
                    return tail;
                }
            }
        }
        tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recent(numbers: std::ops::Range<u64>) -> Recent {
        let recent = Recent::default();
        // Three lines are written together.
        for first in numbers.clone().step_by(3) {
            let last = (first + 2).min(numbers.end - 1);
            let lines: String = (first..=last).map(|number| format!("{{\"seq\":{number}}}\n")).collect();
            recent.keep(first, last, lines.as_bytes());
        }
        recent
    }

    fn numbers(tail: &Tail) -> Vec<&str> {
        tail.lines.iter().map(|line| &line[7..line.len() - 1]).collect()
    }

    #[test]
    fn the_newest_lines_come_first_in_time_order() {
        let tail = recent(1..6).tail(None, 2, &Condition::default());
        assert_eq!(numbers(&tail), ["4", "5"]);
        assert_eq!(tail.newest, 5);
        let odd = Condition::parse("seq<=3").unwrap();
        assert_eq!(numbers(&recent(1..6).tail(None, 2, &odd)), ["2", "3"]);
    }

    #[test]
    fn who_follows_misses_no_line() {
        let recent = recent(1..6);
        let tail = recent.tail(Some(1), 2, &Condition::default());
        assert_eq!((numbers(&tail), tail.newest, tail.missed), (vec!["2", "3"], 3, 0));
        let tail = recent.tail(Some(tail.newest), 9, &Condition::default());
        assert_eq!((numbers(&tail), tail.newest, tail.missed), (vec!["4", "5"], 5, 0));
        assert_eq!(recent.tail(Some(5), 9, &Condition::default()), Tail { newest: 5, ..Tail::default() });
    }

    #[test]
    fn lines_that_are_gone_are_counted() {
        let recent = recent(8..10);
        assert_eq!(recent.tail(Some(2), 9, &Condition::default()).missed, 5);
    }

    #[test]
    fn a_gap_uses_all_its_numbers() {
        let recent = Recent::default();
        recent.keep(1, 9, b"{\"seq\":1}\n{\"seq\":2,\"to\":8}\n{\"seq\":9}\n");
        let tail = recent.tail(Some(1), 1, &Condition::default());
        assert_eq!((numbers(&tail), tail.newest), (vec!["2,\"to\":8"], 8));
        assert_eq!(numbers(&recent.tail(Some(8), 9, &Condition::default())), ["9"]);
    }

    #[test]
    fn failures_outlive_the_queries_after_them() {
        let recent = Recent::default();
        recent.keep(1, 3, b"{\"seq\":1}\n{\"seq\":2,\"error\":{\"code\":1062}}\n{\"seq\":3,\"ok\":false}\n");
        (4..10).for_each(|number| recent.keep(number, number, "x".repeat(1 << 20).as_bytes()));
        let failed = Condition::parse("error.code=1062").unwrap();
        assert_eq!(numbers(&recent.tail(None, 9, &failed)), ["2,\"error\":{\"code\":1062}"]);
        let refused = Condition::parse("ok=false").unwrap();
        assert_eq!(numbers(&recent.tail(None, 9, &refused)), ["3,\"ok\":false"]);
        assert_eq!(recent.tail(Some(3), 9, &failed).lines.len(), 0, "who follows gets no line twice");
        let long = format!("{{\"seq\":10,\"error\":{{\"text\":\"{}\"}}}}\n", "x".repeat(200 << 10));
        (10..13).for_each(|number| recent.keep(number, number, long.as_bytes()));
        (13..20).for_each(|number| recent.keep(number, number, "x".repeat(1 << 20).as_bytes()));
        let kept = recent.tail(None, 9, &Condition::parse("seq>0").unwrap());
        assert_eq!(kept.lines.len(), 2, "their bytes are bounded");
    }

    #[test]
    fn bytes_are_bounded() {
        let recent = Recent::default();
        (0..10).for_each(|number| recent.keep(number, number, "x".repeat(1 << 20).as_bytes()));
        assert_eq!(recent.tail(None, 99, &Condition::default()).lines.len(), 4);
    }
}
