//! Times of statements by size, as few numbers: the bound of each size that came, and how often it came.

/// How many statements took at most so long, and longer than the size below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times(Vec<(u64, u64)>);

impl Times {
    /// Of bounds in microseconds with their counts. Bounds grow.
    pub fn of(sizes: impl IntoIterator<Item = (u64, u64)>) -> Times {
        Times(sizes.into_iter().filter(|(_, count)| *count > 0).collect())
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// Adds others.
    pub fn add(&mut self, other: &Times) {
        for (bound, count) in &other.0 {
            match self.0.binary_search_by_key(bound, |(bound, _)| *bound) {
                Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(*count),
                Err(at) => self.0.insert(at, (*bound, *count)),
            }
        }
    }

    /// Those that came since `earlier`, an older state of the same.
    pub fn since(&self, earlier: &Times) -> Times {
        let before = |bound: u64| {
            let found = earlier.0.binary_search_by_key(&bound, |(bound, _)| *bound);
            found.map_or(0, |at| earlier.0[at].1)
        };
        Times::of(self.0.iter().map(|(bound, count)| (*bound, count.saturating_sub(before(*bound)))))
    }

    /// The bound that a share (0 to 1) of the statements did not exceed; `None` without any.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let all = self.count();
        let rank = ((all as f64 * share).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        self.0.iter().find_map(|(bound, count)| {
            seen += count;
            (seen >= rank).then_some(*bound)
        })
    }

    /// As bytes for the file: LEB128 numbers, each bound less the one before, and its count.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * 4);
        let mut last = 0;
        for (bound, count) in &self.0 {
            put(&mut bytes, bound - last);
            put(&mut bytes, *count);
            last = *bound;
        }
        bytes
    }

    /// From the bytes of the file; what is no number ends it.
    pub(crate) fn decode(mut bytes: &[u8]) -> Times {
        let mut sizes: Vec<(u64, u64)> = Vec::new();
        let mut last = 0_u64;
        while let (Some(step), Some(count)) = (take(&mut bytes), take(&mut bytes)) {
            last = last.saturating_add(step);
            match sizes.last_mut() {
                Some((bound, known)) if *bound == last => *known = known.saturating_add(count),
                _ => sizes.push((last, count)),
            }
        }
        Times(sizes)
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_differences_and_quantiles() {
        let mut times = Times::of([(10, 90), (20, 0), (5_000, 10)]);
        assert_eq!((times.quantile(0.5), times.quantile(0.95), times.count()), (Some(10), Some(5_000), 100));
        let earlier = times.clone();
        times.add(&Times::of([(7, 5), (10, 5), (90_000, 1)]));
        assert_eq!(times.since(&earlier), Times::of([(7, 5), (10, 5), (90_000, 1)]));
        assert_eq!(Times::default().quantile(0.5), None);
    }

    #[test]
    fn the_bytes_of_the_file_are_read_again_and_odd_ones_are_no_danger() {
        let times = Times::of([(0, 3), (200, 129), (68_719_476_735, u64::from(u32::MAX))]);
        assert_eq!(Times::decode(&times.encode()), times);
        for odd in [&[0xff; 40][..], &[0x80], &[1], &[0, 1, 0, 1]] {
            let _ = Times::decode(odd).quantile(0.5);
        }
    }
}
