//! How often the very same question was asked: what a cache of answers could have saved, without keeping any.
//!
//! Time is cut into windows of a TTL's length, and the different pairs of question and window are counted. A cache with this TTL asks a
//! server at most once for such a pair: hits are at least statements less pairs. Pairs are counted by HyperLogLog, in 256 bytes for each
//! TTL. Those of several workers are put together by their maxima, so that a pair that two of them saw counts once.
//!
//! Looking at a question costs as much as all else that is counted of a statement, so it is done for one minute of eight.

use std::time::Duration;

/// The TTLs that are looked at.
pub const TTLS: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(10), Duration::from_secs(60)];

/// A minute is looked at, the longest of the windows, and then as many are not as make up so many.
const MINUTES: u64 = 8;

/// Registers of one count: the standard error is 6.5 %.
const REGISTERS: usize = 256;
const STANDARD_ERROR: f64 = 1.04 / 16.0;

/// The questions of one form of statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Questions {
    /// Statements that were looked at.
    asked: u64,
    registers: [[u8; REGISTERS]; TTLS.len()],
}

impl Default for Questions {
    fn default() -> Questions {
        Questions { asked: 0, registers: [[0; REGISTERS]; TTLS.len()] }
    }
}

impl Questions {
    /// Whether questions of this second, counted from a moment that all workers have in common, are looked at.
    #[inline]
    pub fn are_looked_at(second: u64) -> bool {
        (second / 60).is_multiple_of(MINUTES)
    }

    /// A question with this hash was asked in this second, counted from a moment that all workers have in common.
    #[inline]
    pub fn ask(&mut self, question: u64, second: u64) {
        self.asked += 1;
        for (registers, (ttl, place)) in self.registers.iter_mut().zip(TTLS.iter().zip(1_u64..)) {
            let hash = mix(question ^ mix((second / ttl.as_secs()).wrapping_mul(TTLS.len() as u64 + 1) + place));
            let register = &mut registers[(hash >> 56) as usize];
            let rank = ((hash << 8) | 1).leading_zeros() as u8 + 1;
            *register = rank.max(*register);
        }
    }

    /// Adds what another worker saw.
    pub fn add(&mut self, other: &Questions) {
        self.asked += other.asked;
        for (mine, theirs) in self.registers.iter_mut().flatten().zip(other.registers.iter().flatten()) {
            *mine = (*mine).max(*theirs);
        }
    }

    /// Statements that were looked at.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// How many of them a cache with each of [`TTLS`] would have answered, had nothing been written: rather too few than too many.
    pub fn hits(&self) -> [u64; TTLS.len()] {
        let pairs = self.registers.each_ref().map(pairs);
        pairs.map(|pairs| self.asked.saturating_sub((pairs * (1.0 + STANDARD_ERROR)).ceil() as u64))
    }
}

/// How many different pairs the registers have seen, about.
fn pairs(registers: &[u8; REGISTERS]) -> f64 {
    let count = REGISTERS as f64;
    let sum: f64 = registers.iter().map(|rank| 0.5_f64.powi(i32::from(*rank))).sum();
    let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / sum;
    let empty = registers.iter().filter(|rank| **rank == 0).count();
    // Few of them are counted better by how many registers none has met.
    if raw <= 2.5 * count && empty > 0 { count * (count / empty as f64).ln() } else { raw }
}

/// Spreads a number over all bits.
#[inline]
fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let number = (number ^ number >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    number ^ number >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many statements, one each 10 ms, of so many questions in turn.
    fn played(statements: u64, questions: u64) -> Questions {
        let mut all = Questions::default();
        for n in 0..statements {
            all.ask(mix(n % questions + 1), n / 100);
        }
        all
    }

    /// The hits of a cache with these TTLs.
    fn real(statements: u64, questions: u64) -> [u64; 3] {
        TTLS.map(|ttl| {
            let mut known = std::collections::HashMap::new();
            let mut hits = 0;
            for n in 0..statements {
                let at = Duration::from_millis(n * 10);
                match known.get(&(n % questions)) {
                    Some(asked) if at - *asked <= ttl => hits += 1,
                    _ => drop(known.insert(n % questions, at)),
                }
            }
            hits
        })
    }

    #[test]
    fn the_hits_are_about_those_of_a_cache_and_rather_fewer() {
        for (statements, questions) in [(50_000, 1), (50_000, 20), (50_000, 400), (50_000, 3_000), (50_000, 50_000)] {
            let (reported, real) = (played(statements, questions).hits(), real(statements, questions));
            for (reported, real) in reported.into_iter().zip(real) {
                let (share, real_share) = (reported as f64 / statements as f64, real as f64 / statements as f64);
                assert!(share <= real_share + 0.05, "{questions} questions: {reported}, really {real}");
                // Windows are not the cache's: at worst half of what it asks for counts twice.
                assert!(share >= 1.0 - 2.3 * (1.0 - real_share), "{questions} questions: {reported}, really {real}");
            }
        }
    }

    #[test]
    fn one_minute_of_eight_is_looked_at() {
        let looked_at: Vec<u64> = (0..1_000).filter(|second| Questions::are_looked_at(*second)).collect();
        let expected: Vec<u64> = (0..60).chain(480..540).chain(960..1_000).collect();
        assert_eq!(looked_at, expected);
    }

    #[test]
    fn what_never_comes_again_saves_nothing() {
        assert_eq!(played(3, 3).hits(), [0; 3]);
        let hits = played(100_000, 100_000).hits();
        assert!(hits.iter().all(|hits| *hits < 10_000), "{hits:?}");
    }

    #[test]
    fn a_question_of_two_workers_is_one_question() {
        let (mut one, two) = (played(1_000, 1), played(1_000, 1));
        let alone = one.hits();
        one.add(&two);
        assert_eq!(one.asked(), 2_000);
        let both = one.hits();
        assert!(both.iter().zip(alone).all(|(both, alone)| *both == alone + 1_000), "{both:?} {alone:?}");
    }
}
