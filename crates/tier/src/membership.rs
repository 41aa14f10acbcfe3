//! The membership of a process: until when other processes may use results that a write of this one has to invalidate.
//!
//! Each process is a member of the shared cache until a time on the clock of the shared cache. Results are used only while no
//! membership has ended. A member that cannot report a write waits until its membership is over: from then on no process uses a
//! result, until the member is back and has reported its writes. So the membership must be over on the shared cache's clock when
//! it is over here, even if the message lies in a socket for minutes: the message has a moment, not a length.

use std::time::{Duration, Instant};

/// Clocks that run alike may be so far apart after some seconds.
pub(crate) const MARGIN: Duration = Duration::from_millis(5);

/// The time of the shared cache's clock, as this process knows it.
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
        for (took, later, membership) in [(0, 0, 1000), (1, 7, 1000), (300, 999, 200), (40, 100_000, 1000)] {
            let ms = Duration::from_millis;
            // It said its time when it was asked; the answer took a while.
            let clock = Clock::new(tier(start), start + ms(took));
            let until = start + ms(took + later + membership);
            assert!(clock.reached_by(until) <= tier(until), "{took} {later} {membership}");
            assert!(clock.reached_by(until) + took >= tier(until), "no earlier than the answer took");
        }
    }
}
