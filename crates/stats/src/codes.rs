//! Errors by code.

use std::sync::atomic::{AtomicU16, Ordering};

use crate::Counter;

/// Codes that are counted apart; those of further ones count as 0.
const CODES_MAX: usize = 128;

/// How often each error code came. Only the owning worker adds.
#[derive(Debug)]
pub struct ErrorCodes {
    /// Code 0: errors whose code is not known, and those of codes without a place.
    others: Counter,
    /// Codes in the order in which they came first; behind the last one 0.
    codes: Box<[(AtomicU16, Counter)]>,
}

impl Default for ErrorCodes {
    fn default() -> ErrorCodes {
        ErrorCodes { others: Counter::default(), codes: (0..CODES_MAX).map(|_| Default::default()).collect() }
    }
}

impl ErrorCodes {
    /// Counts one error. Code 0 stands for an error whose code is not known, as when a server is lost.
    #[cold]
    pub fn add_one(&self, code: u16) {
        let has_place = |known: &&(AtomicU16, Counter)| {
            let known = known.0.load(Ordering::Relaxed);
            known == code || known == 0
        };
        match self.codes.iter().find(has_place).filter(|_| code != 0) {
            Some((known, count)) => {
                count.add_one();
                known.store(code, Ordering::Relaxed);
            }
            None => self.others.add_one(),
        }
    }

    /// Each code that came, with its count.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> {
        let known = self.codes.iter().map(|(code, count)| (code.load(Ordering::Relaxed), count.get()));
        known.take_while(|(code, _)| *code != 0).chain([(0, self.others.get())]).filter(|(_, count)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_beyond_the_limit_count_as_0() {
        let codes = ErrorCodes::default();
        let many = u16::try_from(CODES_MAX).unwrap() + 3;
        (1..=many).for_each(|code| codes.add_one(code));
        codes.add_one(1);
        codes.add_one(0);
        let counts: Vec<(u16, u64)> = codes.iter().collect();
        assert_eq!(counts.len(), CODES_MAX + 1);
        assert!(counts.contains(&(1, 2)) && counts.contains(&(0, 4)));
        assert_eq!(counts.iter().map(|(_, count)| count).sum::<u64>(), u64::from(many) + 2);
    }
}
