//! Keeps automatic failover from running in circles.

use std::time::{Duration, Instant};

use crate::settings::Failover;

/// First wait after an attempt that failed; each further one doubles it.
const PAUSE: Duration = Duration::from_millis(500);
/// Longest of these waits.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Wait after an attempt that ended because there was no reason for it any more.
const RELOOK: Duration = Duration::from_millis(200);

/// The attempts, and their times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard {
    promoted: Option<Instant>,
    failures: u32,
    not_before: Option<Instant>,
}

impl Guard {
    /// Why nothing is tried now; `None`: go on.
    pub(crate) fn forbids(&self, now: Instant, bounds: &Failover) -> Option<String> {
        if self.has_stopped(bounds) {
            return Some(format!(
                "{} attempts failed; look at the journal, then acknowledge or order a failover",
                self.failures
            ));
        }
        let since = now.saturating_duration_since(self.promoted?);
        (since < bounds.cooldown).then(|| {
            let cooldown = bounds.cooldown.as_secs();
            format!("the last promotion was less than {cooldown} s ago; acknowledge it, or order a failover")
        })
    }

    /// The end of the time without automatic failover, if a promotion has begun one that is not over.
    pub(crate) fn cooldown_until(&self, now: Instant, bounds: &Failover) -> Option<Instant> {
        self.promoted.map(|promoted| promoted + bounds.cooldown).filter(|until| now < *until)
    }

    /// So many attempts have failed that nothing is tried again until an operator acknowledges.
    pub(crate) fn has_stopped(&self, bounds: &Failover) -> bool {
        self.failures >= bounds.attempts_max.max(1)
    }

    /// When a server was promoted, and how many attempts have failed since, for the next process.
    pub(crate) fn memory(&self) -> (Option<Instant>, u32) {
        (self.promoted, self.failures)
    }

    /// Goes on from what an earlier process knew.
    pub(crate) fn recall(&mut self, promoted: Option<Instant>, failures: u32) {
        (self.promoted, self.failures) = (promoted, failures);
    }

    /// A pause between attempts is not over.
    pub(crate) fn pauses(&self, now: Instant) -> bool {
        self.not_before.is_some_and(|at| now < at)
    }

    /// A server was promoted.
    pub(crate) fn promoted(&mut self, now: Instant) {
        *self = Guard { promoted: Some(now), ..Guard::default() };
    }

    /// An attempt failed.
    pub(crate) fn failed(&mut self, now: Instant) {
        self.not_before = Some(now + (PAUSE * 2u32.pow(self.failures.min(6))).min(PAUSE_MAX));
        self.failures = self.failures.saturating_add(1);
    }

    /// An attempt turned out to be needless or not possible yet.
    pub(crate) fn needless(&mut self, now: Instant) {
        self.not_before = Some(now + RELOOK);
    }

    /// An operator has seen it.
    pub(crate) fn acknowledge(&mut self) {
        *self = Guard::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::script::start;

    #[test]
    fn a_promotion_is_followed_by_a_pause_that_an_operator_ends() {
        let (begin, bounds) = (start(), Failover::default());
        let mut guard = Guard::default();
        assert_eq!(guard.forbids(begin, &bounds), None);
        guard.promoted(begin);
        let words = guard.forbids(begin + Duration::from_secs(299), &bounds).unwrap();
        assert!(words.contains("less than 300 s ago"), "{words}");
        assert_eq!(guard.forbids(begin + Duration::from_secs(300), &bounds), None);
        guard.acknowledge();
        assert_eq!(guard.forbids(begin, &bounds), None);
    }

    #[test]
    fn attempts_that_fail_wait_longer_and_end() {
        let (begin, bounds) = (start(), Failover { attempts_max: 2, ..Failover::default() });
        let mut guard = Guard::default();
        guard.failed(begin);
        assert!(guard.pauses(begin + Duration::from_millis(499)) && !guard.pauses(begin + Duration::from_millis(500)));
        guard.failed(begin);
        assert!(guard.pauses(begin + Duration::from_millis(999)) && !guard.pauses(begin + Duration::from_secs(1)));
        assert!(guard.forbids(begin, &bounds).is_some());
        guard.acknowledge();
        assert!(guard.forbids(begin, &bounds).is_none() && !guard.pauses(begin));
    }
}
