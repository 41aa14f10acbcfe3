//! The last lines, for those who look on.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::condition::Condition;

/// Most bytes of lines that are kept.
const BYTES_MAX: usize = 4 << 20;

/// The last lines, bounded by their bytes.
#[derive(Debug, Default)]
pub struct Recent(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    lines: VecDeque<(u64, Box<str>)>,
    bytes: usize,
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
    /// Keeps the lines of this text; each uses the numbers up to the one beside it.
    pub(crate) fn keep(&self, lines: impl Iterator<Item = (u64, Box<str>)>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, line) in lines {
            kept.bytes += line.len();
            kept.lines.push_back((number, line));
        }
        while kept.bytes > BYTES_MAX && kept.lines.len() > 1 {
            let Some((_, gone)) = kept.lines.pop_front() else { break };
            kept.bytes -= gone.len();
        }
    }

    /// The newest lines for which a condition holds, at most `limit` of them; with `after`, the oldest ones behind that number.
    pub fn tail(&self, after: Option<u64>, limit: usize, condition: &Condition) -> Tail {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = kept.lines.back().map_or(0, |(number, _)| *number);
        let Some(after) = after else {
            let fitting = kept.lines.iter().rev().filter(|(_, line)| condition.holds(line));
            let mut lines: Vec<Box<str>> = fitting.take(limit).map(|(_, line)| line.clone()).collect();
            lines.reverse();
            return Tail { lines, newest, missed: 0 };
        };
        let first = kept.lines.front().map_or(newest, |(number, _)| *number);
        let missed = first.saturating_sub(after.saturating_add(1));
        let begin = kept.lines.partition_point(|(number, _)| *number <= after);
        let (mut lines, mut told) = (Vec::new(), newest.max(after));
        for (number, line) in kept.lines.range(begin..) {
            if lines.len() == limit {
                told = *number - 1;
                break;
            }
            if condition.holds(line) {
                lines.push(line.clone());
            }
        }
        Tail { lines, newest: told, missed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recent(numbers: std::ops::Range<u64>) -> Recent {
        let recent = Recent::default();
        recent.keep(numbers.map(|number| (number, format!("{{\"seq\":{number}}}").into())));
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
    fn bytes_are_bounded() {
        let recent = Recent::default();
        recent.keep((0..10).map(|number| (number, "x".repeat(1 << 20).into())));
        assert_eq!(recent.tail(None, 99, &Condition::default()).lines.len(), 4);
    }
}
