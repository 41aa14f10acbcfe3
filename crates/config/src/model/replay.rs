//! The replay of transactions whose server is lost.

use std::time::Duration;

words! {
    /// Which interrupted transactions are run again on the new primary.
    ReplayMode {
        /// Those whose statements give the same each time.
        On = "on",
        /// Also those that write what NOW(), UUID() and the like give.
        Any = "any",
        /// None: the session ends with its server.
        Off = "off",
    }
}

/// The replay of interrupted transactions: `replay…` of `[listener.NAME]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Which transactions.
    pub mode: ReplayMode,
    /// Longest transaction, in bytes of its statements.
    pub bytes_max: u64,
    /// Longest transaction, in statements.
    pub statements_max: u32,
    /// How often it is tried for one interruption.
    pub attempts_max: u32,
    /// How long it may take, the wait for a primary included; none: as long as a statement is held.
    pub time: Option<Duration>,
}
