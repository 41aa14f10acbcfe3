//! The state that should outlive the process.

use std::sync::Arc;
use std::time::Instant;

/// The state that a driver needs from the time before it was started; see [`crate::driver::Driver::recall`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The epoch of the last view.
    pub epoch: u64,
    /// The number of the last run.
    pub runs: u64,
    /// When a failover promoted a server last, unless an operator has acknowledged it.
    pub promoted: Option<Instant>,
    /// Attempts that failed in a row, unless an operator has acknowledged them.
    pub failures: u32,
    /// Servers by name that an operator has taken out.
    pub uses: Vec<(Arc<str>, ServerUse)>,
}

/// The use of a server that an operator wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerUse {
    /// It is used as it can be.
    #[default]
    Normal,
    /// It finishes what it has and gets nothing new.
    Draining,
    /// It is left alone: no traffic, no promotion, no repair, no vote.
    Maintenance,
}

impl ServerUse {
    /// The word that users meet.
    pub fn word(self) -> &'static str {
        match self {
            ServerUse::Normal => "normal",
            ServerUse::Draining => "draining",
            ServerUse::Maintenance => "maintenance",
        }
    }

    /// The use with this word.
    pub fn named(word: &str) -> Option<ServerUse> {
        [ServerUse::Normal, ServerUse::Draining, ServerUse::Maintenance].into_iter().find(|known| known.word() == word)
    }
}
