//! The state of the tier, for metrics and the API: connection, members, counters.

use std::sync::atomic::{AtomicU64, Ordering};

/// How the tier is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// It cannot be reached, or this process is no member: sessions do not ask it.
    Away,
    /// It does not answer in time: sessions do not ask it until it has answered all.
    Slow,
    /// It is asked.
    Serves,
}

impl State {
    /// All of them, with their words.
    pub const ALL: [(State, &'static str); 3] =
        [(State::Away, "away"), (State::Slow, "slow"), (State::Serves, "serves")];

    /// Its word.
    pub fn word(self) -> &'static str {
        State::ALL[self as usize].1
    }
}

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters.
        #[derive(Debug, Default)]
        pub struct Counts {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        /// The same at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counted {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            pub(crate) fn read(&self) -> Counted {
                Counted { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Answers that were found there.
    found,
    /// Answers in this process's memory that the tier has called good.
    good,
    /// Questions to which there was no good answer.
    missed,
    /// Questions that came while a member was missing.
    closed,
    /// Questions that were not asked because the tier was away or slow, or too much waited for it.
    unasked,
    /// Questions without an answer in time.
    timeouts,
    /// Errors that the tier said.
    errors,
    /// Answers that were put there.
    puts,
    /// Answers that were not, because too much waited.
    unput,
    /// Commands that reported writes.
    reports,
    /// Writes that could not be reported to the tier: their clients waited until no client could get an older result.
    unreported,
    /// Connections that were made.
    connects,
}

/// The state of the tier, for metrics and the API.
#[derive(Clone, Debug)]
pub struct Status {
    /// How it is.
    pub state: State,
    /// Why it is so, if it does not serve.
    pub trouble: Option<String>,
    /// The names of the members.
    pub members: Vec<String>,
    /// The server's own name and version.
    pub server: Option<String>,
    /// Counts.
    pub counts: Counted,
}
