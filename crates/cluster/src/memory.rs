//! What should outlive the process.

use std::time::Instant;

/// What a driver has to know of the time before it was started; see [`crate::driver::Driver::recall`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The epoch of the last view.
    pub epoch: u64,
    /// The number of the last run.
    pub runs: u64,
    /// When a failover promoted a server last, unless an operator has acknowledged it.
    pub promoted: Option<Instant>,
    /// Attempts that failed in a row, unless an operator has acknowledged them.
    pub failures: u32,
}
