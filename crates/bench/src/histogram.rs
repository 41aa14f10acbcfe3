//! How long many things took, in little memory.

/// Each power of two is cut into so many parts: a value is known to better than one percent.
const PARTS_BITS: u32 = 7;
const PARTS: u64 = 1 << PARTS_BITS;

/// Counts of values, by their size.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    /// Counts a value.
    pub(crate) fn record(&mut self, value: u64) {
        let slot = slot(value);
        if slot >= self.counts.len() {
            self.counts.resize(slot + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(slot) {
            *count += 1;
        }
        self.total += 1;
    }

    /// Adds another one's counts.
    pub(crate) fn add(&mut self, other: &Histogram) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, others)| *own += others);
        self.total += other.total;
    }

    /// The smallest value that so many of a thousand do not exceed; `None` when nothing was counted.
    pub(crate) fn per_mille(&self, share: u64) -> Option<u64> {
        let rank = (self.total * share).div_ceil(1000).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.filter(|_| self.total > 0).map(middle)
    }
}

/// Small values have a slot of their own; of larger ones the upper bits count.
fn slot(value: u64) -> usize {
    let shift = (64 - value.leading_zeros()).saturating_sub(PARTS_BITS + 1);
    (u64::from(shift) * PARTS + (value >> shift)) as usize
}

/// The middle of the values that a slot counts.
fn middle(slot: usize) -> u64 {
    let slot = slot as u64;
    if slot < 2 * PARTS {
        return slot;
    }
    let shift = slot / PARTS - 1;
    ((slot - shift * PARTS) << shift) + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_found_again_within_a_percent() {
        for value in (0..1000).chain([4_095, 4_096, 1_000_000, 123_456_789, u64::from(u32::MAX), 1 << 50]) {
            let found = middle(slot(value));
            assert!(found.abs_diff(value) <= value / 100, "{value} became {found}");
        }
    }

    #[test]
    fn percentiles_of_a_thousand_values() {
        let (mut one, mut other) = (Histogram::default(), Histogram::default());
        (1..=500).for_each(|value| one.record(value * 1000));
        (501..=1000).for_each(|value| other.record(value * 1000));
        one.add(&other);
        for (share, expected) in [(500, 500_000), (990, 990_000), (999, 999_000), (1000, 1_000_000)] {
            let found = one.per_mille(share).unwrap();
            assert!(found.abs_diff(expected) <= expected / 100, "{share}: {found}");
        }
        assert_eq!(Histogram::default().per_mille(500), None);
    }
}
