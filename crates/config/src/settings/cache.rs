//! `[cache]`

use super::{Form, Kind, Section, Setting, live, millis};

/// `[cache]`
pub static CACHE: Section = Section {
    key: "cache",
    form: Form::Single,
    doc: "The result cache (docs/guides/cache.md). It answers the statements for which a rule has `cache`. Without \
         such a rule it takes no memory and costs nothing.",
    settings: &[&MEMORY_MAX, &ENTRY_MAX, &FILL_WAIT, &FOLLOW_DELAY_MAX],
    sections: &[&super::tier::TIER],
};

/// `memory_max`
pub static MEMORY_MAX: Setting = live(
    "memory_max",
    Kind::Size { default: 64 << 20, min: 1 << 20, max: 1 << 40 },
    "Memory of all cached results of all clusters, with their keys. If it is full, results that were not read \
     lately make room.",
)
.restart();
/// `entry_max`
pub static ENTRY_MAX: Setting = live(
    "entry_max",
    Kind::Size { default: 1 << 20, min: 1 << 10, max: 1 << 30 },
    "Sqluice does not cache a reply larger than this; it only streams to its client. At most a quarter of \
     `memory_max`.",
)
.restart();
/// `fill_wait_ms`
pub static FILL_WAIT: Setting = millis(
    "fill_wait_ms",
    1_000,
    0,
    60_000,
    "While one session reads a missing result from a server, other sessions with the same question wait this long \
     for it. After that they read it from a server themselves.",
)
.restart();
/// `follow_delay_max_ms`
pub static FOLLOW_DELAY_MAX: Setting = millis(
    "follow_delay_max_ms",
    2_000,
    100,
    3_600_000,
    "With `cache_freshness = \"follow\"`: Sqluice uses cached results only while it knows all changes up to this \
     long ago. Otherwise servers answer.",
)
.restart();
