//! The last bytes on a connection whose receiver does not acknowledge. If the connection ends they may not have been read, and are
//! sent again.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// A message that was sent so long before the end of a connection counts as received.
const AGE_MAX: Duration = Duration::from_secs(5);
/// Most bytes that are kept.
const BYTES_MAX: usize = 4 << 20;

/// The last bytes of a connection.
#[derive(Debug, Default)]
pub(super) struct Resent {
    sent: VecDeque<(Instant, Box<[u8]>)>,
    bytes: usize,
    lost: bool,
}

impl Resent {
    /// Keeps what was sent.
    pub(super) fn keep(&mut self, frame: &[u8], now: Instant) {
        self.bytes += frame.len();
        self.sent.push_back((now, frame.into()));
        self.trim(now);
    }

    /// The connection has ended.
    pub(super) fn lost(&mut self, now: Instant) {
        if !self.lost {
            self.trim(now);
        }
        self.lost = !self.sent.is_empty();
    }

    /// Whether something has to be sent again.
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Sends it again on a new connection.
    pub(super) fn send(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.lost {
            self.sent.iter().try_for_each(|(_, frame)| out.write_all(frame))?;
            let now = Instant::now();
            self.sent.iter_mut().for_each(|(at, _)| *at = now);
            self.lost = false;
        }
        Ok(())
    }

    fn trim(&mut self, now: Instant) {
        while let Some((at, frame)) = self.sent.front() {
            if now.saturating_duration_since(*at) <= AGE_MAX && self.bytes <= BYTES_MAX {
                break;
            }
            self.bytes -= frame.len();
            self.sent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_seconds_are_sent_again_until_they_are_through() {
        let (mut resent, begun) = (Resent::default(), Instant::now());
        resent.keep(b"old", begun);
        resent.keep(b"new", begun + Duration::from_secs(4));
        resent.lost(begun + Duration::from_secs(6));
        // An outage makes nothing old.
        resent.lost(begun + Duration::from_secs(600));
        let mut full = [0; 2];
        assert!(resent.send(&mut &mut full[..]).is_err());
        let mut out = Vec::new();
        resent.send(&mut out).unwrap();
        assert_eq!(out, b"new");
        resent.send(&mut out).unwrap();
        assert_eq!(out, b"new");
    }

    #[test]
    fn the_kept_bytes_are_bounded() {
        let (mut resent, now) = (Resent::default(), Instant::now());
        (0..10).for_each(|_| resent.keep(&[0; 1 << 20], now));
        assert_eq!(resent.sent.len(), 4);
    }
}
