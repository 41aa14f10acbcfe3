//! A command that is longer than usual: the memory that it holds, and how fast the rest of it must come.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::SHORT_BYTES;
use crate::bytes_in_use::{BytesInUse, BytesShare};

/// Longest time in which [`SHORT_BYTES`] more of a long command come, or its end: the servers' own `net_read_timeout`.
const GOES_ON_WAIT: Duration = Duration::from_secs(30);

/// A command that holds memory for long ones, from its first bytes until it has run.
#[derive(Debug)]
pub(super) struct LongCommand {
    share: BytesShare,
    due: Instant,
    /// How much of it was there when `due` was set.
    there: usize,
}

impl LongCommand {
    /// One that begins now.
    pub(super) fn new(all: &Arc<BytesInUse>) -> LongCommand {
        LongCommand { share: BytesShare::new(all), due: Instant::now() + GOES_ON_WAIT, there: 0 }
    }

    /// When more of it must be there.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// So much of it is `there` now, which takes so many bytes of memory. False if all commands together have more than `max` then.
    pub(super) fn has(&mut self, there: usize, bytes: u64, max: u64) -> bool {
        self.goes_on(there, Instant::now());
        self.share.grow_to(bytes, max)
    }

    /// A client that sends a byte now and then wins no time by it.
    fn goes_on(&mut self, there: usize, now: Instant) {
        if there >= self.there + SHORT_BYTES {
            (self.there, self.due) = (there, now + GOES_ON_WAIT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_bytes_win_no_time() {
        let mut long = LongCommand::new(&Arc::default());
        let later = |seconds| Instant::now() + Duration::from_secs(seconds);
        long.goes_on(70_000, later(10));
        let due = long.due();
        assert!(due > later(39));
        long.goes_on(70_000 + SHORT_BYTES - 1, later(20));
        assert_eq!(long.due(), due);
        long.goes_on(70_000 + SHORT_BYTES, later(20));
        assert!(long.due() > due);
    }

    #[test]
    fn memory_is_free_again_at_its_end() {
        let all = Arc::new(BytesInUse::default());
        let mut long = LongCommand::new(&all);
        assert!(long.has(70_000, 70_000, 100_000) && long.has(90_000, 90_000, 100_000));
        assert_eq!(all.get(), 90_000);
        assert!(!LongCommand::new(&all).has(70_000, 70_000, 100_000));
        drop(long);
        assert_eq!(all.get(), 0);
    }
}
