//! One time for clients, harm and journals.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The start of a round. Times of a round are milliseconds since then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
    began_at: SystemTime,
}

impl Clock {
    pub(crate) fn start() -> Clock {
        Clock { began: Instant::now(), began_at: SystemTime::now() }
    }

    /// Milliseconds since the start.
    pub(crate) fn now_ms(&self) -> f64 {
        ms(self.began.elapsed())
    }

    /// A wall clock's milliseconds since 1970, as journals have them, on this clock.
    pub(crate) fn at_unix_ms(&self, unix_ms: u64) -> f64 {
        let began = self.began_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        unix_ms as f64 - ms(began)
    }
}

/// Milliseconds with their fraction.
pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_agree() {
        let clock = Clock::start();
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let difference = clock.at_unix_ms(u64::try_from(unix).unwrap()) - clock.now_ms();
        assert!(difference.abs() < 1_000.0, "{difference}");
    }
}
