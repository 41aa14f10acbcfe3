//! Whether a server lives, with hysteresis: one bad sign makes it suspect, several in a row make it down, and a server
//! that is down must answer several times before it counts again.

use std::time::{Duration, Instant};

use facts::view::Health;

/// The numbers that health depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) down_after: u32,
    pub(crate) up_after: u32,
    pub(crate) interval: Duration,
}

/// One server's health.
#[derive(Clone, Debug)]
pub(crate) struct HealthState {
    health: Health,
    /// Whether any probe ended yet, well or badly.
    seen: bool,
    failures: u32,
    successes: u32,
    /// Evidence made it suspect, and no probe has ended since.
    doubted: bool,
    /// Evidence is not heard until then, since a probe has just contradicted it.
    deaf_until: Option<Instant>,
}

impl HealthState {
    pub(crate) fn new() -> HealthState {
        HealthState { health: Health::Down, seen: false, failures: 0, successes: 0, doubted: false, deaf_until: None }
    }

    pub(crate) fn health(&self) -> Health {
        self.health
    }

    pub(crate) fn seen(&self) -> bool {
        self.seen
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    pub(crate) fn successes(&self) -> u32 {
        self.successes
    }

    pub(crate) fn doubted(&self) -> bool {
        self.doubted
    }

    /// A probe was answered, be it with a refusal.
    pub(crate) fn answered(&mut self, now: Instant, limits: &Limits) {
        self.failures = 0;
        self.successes = self.successes.saturating_add(1);
        if self.doubted {
            self.doubted = false;
            self.deaf_until = Some(now + limits.interval);
        }
        let back = self.successes >= limits.up_after;
        match self.health {
            Health::Down if self.seen && !back => {}
            _ => self.health = Health::Up,
        }
        self.seen = true;
    }

    /// A probe got no answer.
    pub(crate) fn failed(&mut self, limits: &Limits) {
        self.successes = 0;
        self.failures = self.failures.saturating_add(1);
        self.doubted = false;
        self.seen = true;
        self.health = match self.health {
            Health::Down => Health::Down,
            _ if self.failures >= limits.down_after => Health::Down,
            _ => Health::Suspect,
        };
    }

    /// A session could not use the server. Says whether a probe should look at once.
    pub(crate) fn doubt(&mut self, now: Instant) -> bool {
        if self.health == Health::Down || self.doubted || self.is_deaf(now) {
            return false;
        }
        self.doubted = true;
        self.health = Health::Suspect;
        true
    }

    fn is_deaf(&self, now: Instant) -> bool {
        self.deaf_until.is_some_and(|until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::script::start;

    const LIMITS: Limits = Limits { down_after: 3, up_after: 2, interval: Duration::from_millis(500) };

    fn up(now: Instant) -> HealthState {
        let mut state = HealthState::new();
        state.answered(now, &LIMITS);
        assert_eq!(state.health(), Health::Up);
        state
    }

    #[test]
    fn one_failure_is_suspect_and_several_are_down() {
        let mut state = up(start());
        let mut seen = vec![];
        for _ in 0..4 {
            state.failed(&LIMITS);
            seen.push(state.health());
        }
        assert_eq!(seen, [Health::Suspect, Health::Suspect, Health::Down, Health::Down]);
    }

    #[test]
    fn a_down_server_must_answer_several_times_in_a_row() {
        let now = start();
        let mut state = up(now);
        (0..3).for_each(|_| state.failed(&LIMITS));
        state.answered(now, &LIMITS);
        assert_eq!(state.health(), Health::Down);
        state.failed(&LIMITS);
        state.answered(now, &LIMITS);
        assert_eq!(state.health(), Health::Down);
        state.answered(now, &LIMITS);
        assert_eq!(state.health(), Health::Up);
    }

    #[test]
    fn every_other_probe_failing_never_makes_it_down() {
        let now = start();
        let mut state = up(now);
        for _ in 0..20 {
            state.failed(&LIMITS);
            assert_eq!(state.health(), Health::Suspect);
            state.answered(now, &LIMITS);
            assert_eq!(state.health(), Health::Up);
        }
    }

    #[test]
    fn evidence_makes_suspect_until_a_probe_contradicts_it_and_is_not_heard_right_after() {
        let begin = start();
        let mut state = up(begin);
        assert!(state.doubt(begin));
        assert_eq!(state.health(), Health::Suspect);
        assert!(!state.doubt(begin), "one probe is enough");
        state.answered(begin, &LIMITS);
        assert_eq!(state.health(), Health::Up);
        assert!(!state.doubt(begin + Duration::from_millis(499)));
        assert_eq!(state.health(), Health::Up);
        assert!(state.doubt(begin + Duration::from_millis(500)));
    }

    #[test]
    fn evidence_alone_never_makes_down() {
        let begin = start();
        let mut state = up(begin);
        for second in 0..100 {
            state.doubt(begin + Duration::from_secs(second));
            assert_eq!(state.health(), Health::Suspect);
        }
        let mut never_seen = HealthState::new();
        assert!(!never_seen.doubt(begin));
        assert_eq!(never_seen.health(), Health::Down);
    }
}
