//! Failed logins in the log: the names that clients send forge no lines there, and a storm of failures does not fill it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines in a period.
const LINES_MAX: u32 = 20;
/// After it lines are written again.
const PERIOD: Duration = Duration::from_secs(10);
/// Characters of a user's name.
const USER_CHARS_MAX: usize = 80;
/// Characters of a reason.
pub const REASON_CHARS_MAX: usize = 400;

/// Which failed logins are logged, and which sessions that `init_connect` ended.
#[derive(Debug, Default)]
pub struct LoginLog {
    refused: Lines,
    ended: Lines,
}

/// Lines of one kind.
#[derive(Debug, Default)]
struct Lines(Mutex<Period>);

#[derive(Debug, Default)]
struct Period {
    began: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl LoginLog {
    /// A client was refused.
    pub fn refused(&self, cluster: &str, client: &str, user: &[u8], reason: &str) {
        let Some(left_out) = self.refused.take(Instant::now()) else { return };
        let (user, reason) = (cut(user, USER_CHARS_MAX), cut(reason.as_bytes(), REASON_CHARS_MAX));
        tracing::warn!(cluster, client, user, reason, "login refused");
        if left_out > 0 {
            tracing::warn!(cluster, logins = left_out, "more logins were refused and not logged");
        }
    }

    /// `init_connect` failed, so a session ended right behind its login.
    pub fn init_connect_failed(&self, cluster: &str, client: &str, user: &str, reason: &str) {
        let Some(left_out) = self.ended.take(Instant::now()) else { return };
        let (user, reason) = (cut(user.as_bytes(), USER_CHARS_MAX), cut(reason.as_bytes(), REASON_CHARS_MAX));
        tracing::warn!(cluster, client, user, reason, "init_connect failed, so the session ends");
        if left_out > 0 {
            tracing::warn!(cluster, sessions = left_out, "more sessions ended so and were not logged");
        }
    }
}

impl Lines {
    /// Whether a line may be written now, and how many were left out since the last one.
    fn take(&self, now: Instant) -> Option<u64> {
        let mut period = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if period.began.is_none_or(|began| now.saturating_duration_since(began) >= PERIOD) {
            *period = Period { began: Some(now), lines: 0, left_out: period.left_out };
        }
        if period.lines >= LINES_MAX {
            period.left_out += 1;
            return None;
        }
        period.lines += 1;
        Some(std::mem::take(&mut period.left_out))
    }
}

/// Text cut at so many characters. Values of fields are written with quotes, and with escapes for what would end or turn a line.
pub fn cut(bytes: &[u8], chars_max: usize) -> String {
    let text = String::from_utf8_lossy(bytes.get(..chars_max * 4).unwrap_or(bytes));
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut() {
        assert_eq!(cut("Jürgen".as_bytes(), 80), "Jürgen");
        assert_eq!(cut("Jürgen".as_bytes(), 2), "Jü…");
        assert_eq!(cut(&[b'a'; 1000], 3), "aaa…");
    }

    #[test]
    fn a_storm_is_counted_and_not_logged() {
        let (log, now) = (Lines::default(), Instant::now());
        let lines = (0..1000).filter(|_| log.take(now).is_some()).count();
        assert_eq!(lines, LINES_MAX as usize);
        assert_eq!(log.take(now + PERIOD), Some(1000 - u64::from(LINES_MAX)));
        assert_eq!(log.take(now + PERIOD), Some(0));
    }
}
