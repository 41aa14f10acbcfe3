//! In which order contenders take their turns.

/// The order of a round: A B C, then B C A, then C A B, … so that no contender always follows the same one, and what
/// happens to the machine in a while meets all of them.
pub(crate) fn rotated(contenders: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..contenders).map(move |turn| (turn + round) % contenders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_has_every_turn_once() {
        let rounds: Vec<Vec<usize>> = (0..3).map(|round| rotated(3, round).collect()).collect();
        assert_eq!(rounds, [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
        assert_eq!(rotated(3, 3).collect::<Vec<_>>(), rounds[0]);
        assert_eq!(rotated(0, 1).count(), 0);
    }
}
