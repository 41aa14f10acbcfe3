//! Figures of several rounds.

/// The middle value; the mean of the two in the middle when their number is even. `None` of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => sorted.get(middle).copied(),
        _ => Some((sorted.get(middle - 1)? + sorted.get(middle)?) / 2.0),
    }
}

/// The lowest value.
pub(crate) fn lowest(values: &[f64]) -> Option<f64> {
    values.iter().copied().filter(|value| value.is_finite()).min_by(f64::total_cmp)
}

/// The highest value.
pub(crate) fn highest(values: &[f64]) -> Option<f64> {
    values.iter().copied().filter(|value| value.is_finite()).max_by(f64::total_cmp)
}

/// A ratio that was taken in each round for itself: what disturbs a whole round cancels out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ratio {
    /// The median of the rounds' ratios.
    pub(crate) median: f64,
    /// The lowest of them.
    pub(crate) lowest: f64,
    /// The highest of them.
    pub(crate) highest: f64,
}

/// The ratio of two contenders over the rounds that both have; `None` when there is no such round.
pub(crate) fn ratio(values: &[Option<f64>], base: &[Option<f64>]) -> Option<Ratio> {
    let pair = |(value, base): (&Option<f64>, &Option<f64>)| Some(((*value)?, (*base)?));
    let ratios: Vec<f64> = values
        .iter()
        .zip(base)
        .filter_map(pair)
        .filter(|(_, base)| *base > 0.0)
        .map(|(value, base)| value / base)
        .collect();
    Some(Ratio { median: median(&ratios)?, lowest: lowest(&ratios)?, highest: highest(&ratios)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_numbers() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[f64::NAN, 7.0]), Some(7.0));
        assert_eq!((lowest(&[2.0, 1.0]), highest(&[2.0, 1.0])), (Some(1.0), Some(2.0)));
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        // The second round was disturbed, for both in the same way.
        let found = ratio(&[Some(10.0), Some(100.0), Some(12.0)], &[Some(20.0), Some(200.0), Some(20.0)]);
        assert_eq!(found, Some(Ratio { median: 0.5, lowest: 0.5, highest: 0.6 }));
        assert_eq!(ratio(&[None, Some(3.0)], &[Some(1.0), Some(2.0)]).map(|ratio| ratio.median), Some(1.5));
        assert_eq!(ratio(&[Some(1.0)], &[Some(0.0)]), None);
        assert_eq!(ratio(&[], &[]), None);
    }
}
