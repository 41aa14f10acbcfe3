//! Figures of following the log.

use std::time::{Duration, Instant};

/// Figures of the stream that one cluster follows.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeFigures {
    /// Changes committed before this time have been told; `None` while the stream is lost.
    pub(crate) as_of: Option<Instant>,
    /// Where in the log it was then, by GTID.
    pub(crate) position: String,
    /// How far the log may be behind for answers to be given.
    pub(crate) delay_max: Option<Duration>,
    /// Transactions that changed tables which are known.
    pub(crate) tables: u64,
    /// Transactions of which nobody knows what they changed, and gaps.
    pub(crate) everything: u64,
    /// Streams that were lost.
    pub(crate) losses: u64,
}
