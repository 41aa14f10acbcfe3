//! A histogram with a bounded relative error: eight buckets for each power of two.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets for each power of two; the relative error of a quantile is at most one in this many.
const STEPS: usize = 8;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Values of 2^36 µs (19 hours) and more share the last bucket.
pub(crate) const BUCKETS: usize = (36 - STEP_BITS as usize + 1) * STEPS;

/// Counts values by size; written by one worker, read by anyone.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[AtomicU64; BUCKETS]>,
    sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: Box::new([const { AtomicU64::new(0) }; BUCKETS]), sum: AtomicU64::new(0) }
    }
}

/// The bucket of a value.
#[inline]
pub(crate) fn bucket_of(value: u64) -> usize {
    if value < STEPS as u64 {
        return value as usize;
    }
    let power = 63 - value.leading_zeros();
    let step = (value >> (power - STEP_BITS)) as usize & (STEPS - 1);
    ((power - STEP_BITS + 1) as usize * STEPS + step).min(BUCKETS - 1)
}

/// The largest value that falls into a bucket.
pub(crate) fn upper_bound(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let shift = bucket / STEPS - 1;
    let step = bucket % STEPS;
    (((STEPS + step + 1) as u64) << shift) - 1
}

impl Histogram {
    /// Counts one value. Only the owning worker calls this.
    #[inline]
    pub fn record(&self, value: u64) {
        let bucket = &self.buckets[bucket_of(value)];
        bucket.store(bucket.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.sum.store(self.sum.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
    }

    /// A copy to compute with.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            buckets: self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect(),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

/// A histogram's counts at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    buckets: Vec<u64>,
    sum: u64,
}

impl Snapshot {
    /// Of counts by bucket.
    pub(crate) fn of(buckets: Vec<u64>) -> Snapshot {
        Snapshot { buckets, sum: 0 }
    }

    /// Adds another worker's counts.
    pub fn merge(&mut self, other: &Snapshot) {
        self.buckets.resize(self.buckets.len().max(other.buckets.len()), 0);
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// The values counted since `earlier`, an older snapshot of the same histogram.
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let before = earlier.buckets.iter().copied().chain(std::iter::repeat(0));
        Snapshot {
            buckets: self.buckets.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect(),
            sum: self.sum.wrapping_sub(earlier.sum),
        }
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Sum of the values.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// How many values are at most `bound` (counting a bucket only if all of it is).
    pub fn count_at_most(&self, bound: u64) -> u64 {
        self.buckets.iter().enumerate().take_while(|(index, _)| upper_bound(*index) <= bound).map(|(_, n)| n).sum()
    }

    /// The value that a share `q` (0 to 1) of the values does not exceed; `None` without values.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = ((count as f64 * q).ceil() as u64).clamp(1, count);
        let mut seen = 0;
        for (index, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return Some(upper_bound(index));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_falls_into_a_bucket_whose_bound_is_close_above() {
        for value in (0..2000).chain([1 << 20, (1 << 20) + 12345, (1 << 35) + 99]) {
            let bound = upper_bound(bucket_of(value));
            assert!(bound >= value && bound - value <= value / STEPS as u64, "{value} → {bound}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_within_the_promised_error() {
        let histogram = Histogram::default();
        (1..=1000).for_each(|value| histogram.record(value));
        let snapshot = histogram.snapshot();
        assert_eq!((snapshot.count(), snapshot.sum()), (1000, 500_500));
        for (q, exact) in [(0.5, 500), (0.99, 990), (1.0, 1000)] {
            let found = snapshot.quantile(q).unwrap();
            assert!((exact..=exact + exact / 8).contains(&found), "q{q}: {found}");
        }
        assert_eq!(Snapshot::default().quantile(0.5), None);
    }

    #[test]
    fn workers_add_up_and_differences_are_taken() {
        let (a, b) = (Histogram::default(), Histogram::default());
        a.record(10);
        let before = a.snapshot();
        a.record(20);
        b.record(30);
        let mut all = a.snapshot();
        all.merge(&b.snapshot());
        assert_eq!((all.count(), all.sum()), (3, 60));
        let later = a.snapshot().since(&before);
        assert_eq!((later.count(), later.sum()), (1, 20));
    }
}
