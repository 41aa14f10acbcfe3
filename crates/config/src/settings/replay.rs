//! The settings of `[listener.NAME]` for the replay of transactions whose server is lost.

use super::{Kind, Setting, Unit, Word, count, live, whole};
use crate::ReplayMode;

/// `replay`
pub static MODE: Setting = live(
    "replay",
    Kind::Choice {
        default: Some(ReplayMode::On.word()),
        words: &[
            Word::new(ReplayMode::On.word(), "if its statements give the same result each time"),
            Word::new(ReplayMode::Any.word(), "also if it writes values of `NOW()`, `UUID()` and similar functions"),
            Word::new(ReplayMode::Off.word(), "never: the session ends with its server"),
        ],
    },
    "Sqluice runs a transaction again on the new primary if its server is lost. The transaction continues if every \
     statement has the same reply as before. Otherwise Sqluice rolls it back, and the client gets an error.",
);
/// `replay_bytes_max`
pub static BYTES_MAX: Setting = live(
    "replay_bytes_max",
    Kind::Size { default: 1 << 20, min: 1 << 10, max: 1 << 30 },
    "Sqluice does not replay a transaction whose statements are longer than this together. Each open transaction may \
     take this much memory.",
);
/// `replay_statements_max`
pub static STATEMENTS_MAX: Setting = count(
    "replay_statements_max",
    1_000,
    1,
    100_000,
    "Sqluice does not replay a transaction with more statements \
         than this.",
);
/// `replay_attempts_max`
pub static ATTEMPTS_MAX: Setting = count(
    "replay_attempts_max",
    3,
    1,
    100,
    "Most attempts of a replay. Each deadlock, and each loss of the new primary, begins another one.",
);
/// `replay_time_ms`
pub static TIME: Setting = whole(
    "replay_time_ms",
    Unit::Millis,
    0,
    0,
    600_000,
    Some("as long as `hold_ms`"),
    "Longest time of a replay, with the wait for a primary.",
);
