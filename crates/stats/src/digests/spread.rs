//! The spread of a digest's statements: their times by size, and their errors by code.

use crate::histogram::{BUCKETS, Snapshot, bucket_of, upper_bound};

/// Codes of errors that are counted apart; those of rarer ones count as 0.
const CODES_MAX: usize = 8;

/// Times by size, and errors by code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// How many statements took so long: eight buckets for each power of two microseconds.
    times: [u32; BUCKETS],
    codes: Vec<(u16, u64)>,
}

impl Default for Spread {
    fn default() -> Spread {
        Spread { times: [0; BUCKETS], codes: Vec::new() }
    }
}

impl Spread {
    /// Counts the time of a statement.
    #[inline]
    pub fn time(&mut self, time_us: u64) {
        let bucket = &mut self.times[bucket_of(time_us)];
        *bucket = bucket.saturating_add(1);
    }

    /// Counts an error.
    #[cold]
    pub fn error(&mut self, code: u16) {
        self.add_errors(code, 1);
    }

    /// Adds another worker's.
    pub fn add(&mut self, other: &Spread) {
        for (mine, theirs) in self.times.iter_mut().zip(&other.times) {
            *mine = mine.saturating_add(*theirs);
        }
        other.codes.iter().for_each(|(code, count)| self.add_errors(*code, *count));
    }

    fn add_errors(&mut self, code: u16, count: u64) {
        let has_room = self.codes.len() < CODES_MAX;
        match self.codes.iter_mut().find(|(known, _)| *known == code) {
            Some((_, known)) => *known += count,
            None if has_room || code == 0 => self.codes.push((code, count)),
            None => self.add_errors(0, count),
        }
    }

    /// The time in microseconds that a share (0 to 1) of the statements did not exceed, at most an eighth more than it is; `None`
    /// without any.
    pub fn quantile_us(&self, share: f64) -> Option<u64> {
        self.times().quantile(share)
    }

    /// The times, to count with.
    pub fn times(&self) -> Snapshot {
        Snapshot::of(self.times.iter().map(|count| u64::from(*count)).collect())
    }

    /// The sizes that came: the largest time in microseconds of each, and how many statements.
    pub fn sizes(&self) -> impl Iterator<Item = (u64, u64)> {
        let sizes = self.times.iter().enumerate().filter(|(_, count)| **count > 0);
        sizes.map(|(bucket, count)| (upper_bound(bucket), u64::from(*count)))
    }

    /// Errors by code, the most frequent first; 0 stands for codes that are not known, and for rare ones.
    pub fn errors(&self) -> Vec<(u16, u64)> {
        let mut errors = self.codes.clone();
        errors.sort_by_key(|(code, count)| (std::cmp::Reverse(*count), *code));
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_several_workers_are_close_above_the_times() {
        let (mut one, mut other) = (Spread::default(), Spread::default());
        assert_eq!(one.quantile_us(0.5), None);
        (1..=500).for_each(|time| one.time(time));
        (501..=1000).for_each(|time| other.time(time));
        one.add(&other);
        for (share, exact) in [(0.5, 500), (0.95, 950), (0.99, 990)] {
            let found = one.quantile_us(share).unwrap();
            assert!((exact..=exact + exact / 8).contains(&found), "{share}: {found}");
        }
        assert_eq!(one.sizes().map(|(_, count)| count).sum::<u64>(), 1000);
        assert!(one.sizes().is_sorted_by(|(one, _), (other, _)| one < other));
    }

    #[test]
    fn rare_codes_are_counted_together() {
        let mut spread = Spread::default();
        (1..=12).for_each(|code| spread.error(code));
        spread.error(3);
        let errors = spread.errors();
        assert_eq!((errors[0], errors.len()), ((0, 4), CODES_MAX + 1));
        assert_eq!((errors[1], errors.iter().map(|(_, count)| count).sum::<u64>()), ((3, 2), 13));
    }
}
