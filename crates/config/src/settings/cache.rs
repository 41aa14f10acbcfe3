//! `[cache]`

use super::{Form, Kind, Section, Setting, live, millis};

/// `[cache]`
pub static CACHE: Section = Section {
    key: "cache",
    form: Form::Single,
    doc: "The result cache (docs/guides/cache.md). Which statements it answers is said by `cache` of rules: without such a rule it takes no memory \
          and costs nothing.",
    settings: &[&MEMORY_MAX, &ENTRY_MAX, &FILL_WAIT, &FOLLOW_DELAY_MAX],
    sections: &[&super::tier::TIER],
};

/// `memory_max`
pub static MEMORY_MAX: Setting = live(
    "memory_max",
    Kind::Size { default: 64 << 20, min: 1 << 20, max: 1 << 40 },
    "Memory of all answers that are kept, of all clusters together, with their keys. What was not asked for lately makes room.",
)
.restart();
/// `entry_max`
pub static ENTRY_MAX: Setting = live(
    "entry_max",
    Kind::Size { default: 1 << 20, min: 1 << 10, max: 1 << 30 },
    "Replies beyond this are not kept; they stream to their clients as ever. Never more than a quarter of `memory_max`.",
)
.restart();
/// `fill_wait_ms`
pub static FILL_WAIT: Setting = millis(
    "fill_wait_ms",
    1_000,
    0,
    60_000,
    "While one session asks a server for an answer that is not kept, others with the same question wait so long for it; then they ask a \
     server themselves.",
)
.restart();
/// `follow_delay_max_ms`
pub static FOLLOW_DELAY_MAX: Setting = millis(
    "follow_delay_max_ms",
    2_000,
    100,
    3_600_000,
    "With `cache_freshness = \"follow\"`: while it is not known that all writes up to so long ago have ended answers, servers answer.",
)
.restart();
