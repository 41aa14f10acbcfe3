//! How long a contender is warmed up.

/// Seconds of the next slice, after slices that had these shares of hits, in percent; `None` when the warm-up is over, because a
/// slice raised the share by no more than `rise` percent of all queries. Slices have `slice` seconds, the last one what is left of
/// `most`.
pub(super) fn next_slice(slice: u32, most: u32, rise: f64, shares: &[f64]) -> Option<u32> {
    let asked = slice.saturating_mul(u32::try_from(shares.len()).unwrap_or(u32::MAX));
    let left = most.saturating_sub(asked);
    // An empty cache has no hits.
    let rises = match shares {
        [] => true,
        [first] => *first > rise,
        [.., before, last] => last - before > rise,
    };
    (left > 0 && rises).then_some(left.min(slice))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RISE: f64 = 0.3;

    /// Slices of a warm-up whose shares would be these.
    fn slices(slice: u32, most: u32, shares: &[f64]) -> Vec<u32> {
        (0..shares.len()).map_while(|count| next_slice(slice, most, RISE, &shares[..count])).collect()
    }

    const RISING: [f64; 9] = [72.0, 83.0, 87.0, 89.0, 91.0, 92.5, 92.7, 95.0, 97.0];

    #[test]
    fn it_goes_on_while_the_share_rises() {
        // The seventh slice raised it by 0.2; what would be behind it is not asked.
        assert_eq!(slices(10, 120, &RISING), [10; 7]);
    }

    #[test]
    fn the_bound_ends_it_to_the_second() {
        assert_eq!(slices(10, 25, &RISING), [10, 10, 5]);
        assert_eq!(slices(10, 30, &RISING), [10; 3]);
        assert_eq!(slices(10, 6, &RISING), [6]);
        assert_eq!(next_slice(10, 0, RISE, &[]), None);
    }

    #[test]
    fn without_a_cache_one_slice_is_enough() {
        assert_eq!(slices(10, 120, &[0.0, 0.0, 0.0]), [10]);
    }

    #[test]
    fn a_little_is_no_rise_and_neither_is_a_fall() {
        assert_eq!(next_slice(10, 120, RISE, &[90.0, 90.25]), None);
        assert_eq!(next_slice(10, 120, RISE, &[90.0, 90.5]), Some(10));
        assert_eq!(next_slice(10, 120, 0.1, &[90.0, 90.25]), Some(10));
        assert_eq!(next_slice(10, 120, RISE, &[90.0, 88.0]), None);
    }
}
