//! Until when other processes may be given answers that this one has to end when it writes.
//!
//! Each process is a member of the tier, with a time on the tier's clock until which it is there. Answers are given out only while all members are. A
//! member that cannot tell the tier of a write waits until its time is over: from then on nobody is given anything, until it has
//! come back and told what it wrote. So the time must be over on the tier's clock when it is over here, whatever becomes of
//! the message that carries it: a message may lie in a socket for minutes, so it carries a moment and no length.

use std::time::{Duration, Instant};

/// Clocks that run alike may be so far apart after some seconds.
pub(crate) const MARGIN: Duration = Duration::from_millis(5);

/// The known time of the tier's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The tier's time, in milliseconds.
    said: u64,
    /// When that had come here: it had said so before.
    heard: Instant,
}

impl Clock {
    pub(crate) fn new(said: u64, heard: Instant) -> Clock {
        Clock { said, heard }
    }

    /// A time that the tier's clock has reached by that moment here.
    pub(crate) fn reached_by(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.heard).as_millis();
        self.said.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tiers_time_is_over_when_the_own_one_is() {
        let start = Instant::now();
        let tier = |at: Instant| 1_000_000 + u64::try_from((at - start).as_millis()).unwrap();
        for (took, later, lease) in [(0, 0, 1000), (1, 7, 1000), (300, 999, 200), (40, 100_000, 1000)] {
            let ms = Duration::from_millis;
            // It said its time when it was asked; the answer took a while.
            let clock = Clock::new(tier(start), start + ms(took));
            let until = start + ms(took + later + lease);
            assert!(clock.reached_by(until) <= tier(until), "{took} {later} {lease}");
            assert!(clock.reached_by(until) + took >= tier(until), "no earlier than the answer took");
        }
    }
}
