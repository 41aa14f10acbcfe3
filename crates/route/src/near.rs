//! Which replicas are near enough to the primary for a rule that bounds lag more narrowly than its cluster does.

use std::cell::RefCell;
use std::collections::HashSet;
use std::time::Duration;

use facts::lags::Lags;
use facts::view::ServerId;

/// Beyond so many refused pairs of bound and server all are judged anew: reloads may have left some behind.
const TOO_FAR_MAX: usize = 4096;

/// The bounds that servers have broken, as one worker has seen it.
#[derive(Debug, Default)]
pub struct LagBounds {
    too_far: RefCell<HashSet<(Duration, ServerId)>>,
}

/// A bound, and what it is held against.
#[derive(Clone, Copy, Debug)]
pub struct Near<'a> {
    /// How far a replica may be behind.
    pub max_lag: Duration,
    /// How far each is.
    pub lags: &'a Lags,
    /// Which were too far before.
    pub bounds: &'a LagBounds,
}

impl Near<'_> {
    /// Whether a replica is near enough. Unknown lag is not; one that was too far is near again from 80 % of the bound on, so
    /// that it does not come and go with each probe.
    pub fn has(&self, server: ServerId) -> bool {
        let mut too_far = self.bounds.too_far.borrow_mut();
        let pair = (self.max_lag, server);
        let limit = if too_far.contains(&pair) { self.max_lag * 4 / 5 } else { self.max_lag };
        let is_near = self.lags.of(server).is_some_and(|lag| lag <= limit);
        if is_near {
            too_far.remove(&pair);
        } else {
            if too_far.len() >= TOO_FAR_MAX {
                too_far.clear();
            }
            too_far.insert(pair);
        }
        is_near
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLICA: ServerId = ServerId(1);

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn one_that_was_too_far_has_to_come_nearer_than_the_bound() {
        let bounds = LagBounds::default();
        let judge = |max_lag, lag| {
            let mut lags = Lags::default();
            lags.note(REPLICA, lag);
            Near { max_lag, lags: &lags, bounds: &bounds }.has(REPLICA)
        };
        assert!(judge(ms(100), Some(ms(100))));
        assert!(!judge(ms(100), Some(ms(101))));
        assert!(!judge(ms(100), Some(ms(81))), "it was too far");
        assert!(judge(ms(90), Some(ms(81))), "another bound");
        assert!(judge(ms(100), Some(ms(80))) && judge(ms(100), Some(ms(99))));
        assert!(!judge(ms(100), None), "nothing is known of it");
        assert!(!judge(ms(100), Some(ms(81))) && judge(ms(100), Some(ms(0))));
    }
}
