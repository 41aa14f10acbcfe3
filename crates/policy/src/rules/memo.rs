//! A worker's memory of the rules: which one decides for a key. Bounded; outcomes that were not used for long make room.

use std::collections::HashMap;

/// Buckets of the table, each with [`WAYS`] outcomes: 16,384 outcomes in 256 KiB.
const BUCKETS: usize = 4_096;
/// Outcomes of a bucket: one cache line.
const WAYS: usize = 4;
/// Different lists of rules that wait for the text; beyond that all is forgotten.
const LISTS_MAX: usize = 4_096;
/// No rule, or no list.
const NONE: u32 = u32::MAX;

/// The remembered outcome for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The rule that fits, by its number.
    pub rule: Option<u32>,
    /// Rules before it that fit if the text does.
    pub waiting: Option<Waiting>,
}

/// A list of rules that wait for the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting(u32);

#[derive(Clone, Copy, Debug)]
struct MemoEntry {
    /// 0 is none.
    key: u64,
    rule: u32,
    waiting: u32,
}

const EMPTY: MemoEntry = MemoEntry { key: 0, rule: NONE, waiting: NONE };

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket([MemoEntry; WAYS]);

/// Outcomes by key.
#[derive(Debug)]
pub struct Memo {
    buckets: Box<[Bucket]>,
    lists: Vec<Box<[u32]>>,
    by_list: HashMap<Box<[u32]>, u32>,
}

impl Default for Memo {
    fn default() -> Memo {
        Memo { buckets: vec![Bucket([EMPTY; WAYS]); BUCKETS].into(), lists: Vec::new(), by_list: HashMap::new() }
    }
}

impl Memo {
    /// The remembered outcome for this key, whose bits are all well spread.
    #[inline]
    pub fn find(&self, key: u64) -> Option<Outcome> {
        let key = key.max(1);
        let entry = self.buckets[Memo::bucket(key)].0.iter().find(|entry| entry.key == key)?;
        let some = |number: u32| (number != NONE).then_some(number);
        Some(Outcome { rule: some(entry.rule), waiting: some(entry.waiting).map(Waiting) })
    }

    /// Remembers an outcome, and gives it. The oldest of its bucket is forgotten.
    pub fn insert(&mut self, key: u64, rule: Option<u32>, waiting: &[u32]) -> Outcome {
        let key = key.max(1);
        let waiting = if waiting.is_empty() { None } else { Some(self.list(waiting)) };
        let bucket = &mut self.buckets[Memo::bucket(key)].0;
        bucket.rotate_right(1);
        let list = waiting.map_or(NONE, |Waiting(list)| list);
        bucket[0] = MemoEntry { key, rule: rule.unwrap_or(NONE), waiting: list };
        Outcome { rule, waiting }
    }

    /// The rules of a list.
    pub fn waiting(&self, Waiting(list): Waiting) -> &[u32] {
        self.lists.get(list as usize).map(|list| &**list).unwrap_or_default()
    }

    fn list(&mut self, rules: &[u32]) -> Waiting {
        if let Some(list) = self.by_list.get(rules) {
            return Waiting(*list);
        }
        if self.lists.len() >= LISTS_MAX {
            *self = Memo::default();
        }
        let list = self.lists.len() as u32;
        self.lists.push(rules.into());
        self.by_list.insert(rules.into(), list);
        Waiting(list)
    }

    fn bucket(key: u64) -> usize {
        // Any bits will do.
        (key >> 32) as usize % BUCKETS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of one bucket.
    fn key(n: u64) -> u64 {
        7 << 32 | n
    }

    #[test]
    fn the_oldest_of_a_place_is_forgotten() {
        let mut memo = Memo::default();
        assert_eq!(memo.find(key(1)), None);
        for n in 1..=4 {
            memo.insert(key(n), Some(n as u32), &[]);
        }
        assert_eq!(memo.find(key(1)), Some(Outcome { rule: Some(1), waiting: None }));
        memo.insert(key(5), None, &[]);
        assert_eq!(memo.find(key(1)), None);
        assert_eq!(memo.find(key(5)), Some(Outcome { rule: None, waiting: None }));
        assert_eq!(memo.find(key(2)).unwrap().rule, Some(2));
        // No key is like no entry.
        assert_eq!(memo.find(0), None);
        memo.insert(0, Some(3), &[]);
        assert_eq!(memo.find(0).unwrap().rule, Some(3));
    }

    #[test]
    fn equal_lists_are_kept_once_and_never_too_many() {
        let mut memo = Memo::default();
        let one = memo.insert(key(1), None, &[4, 5]).waiting.unwrap();
        assert_eq!(memo.insert(key(2), Some(9), &[4, 5]).waiting, Some(one));
        assert_eq!(memo.waiting(one), [4, 5]);
        for n in 0..3 * LISTS_MAX as u32 {
            let outcome = memo.insert(u64::from(n) << 32, None, &[n]);
            assert_eq!(memo.waiting(outcome.waiting.unwrap()), [n]);
            assert!(memo.lists.len() <= LISTS_MAX && memo.by_list.len() <= LISTS_MAX);
        }
    }
}
