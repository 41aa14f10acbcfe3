//! `[history]`

use super::{Form, Kind, Section, Setting, Unit, live, whole};

/// `[history]`
pub static HISTORY: Section = Section {
    key: "history",
    form: Form::Single,
    doc: "Figures of the past in one SQLite file: a day in steps of 10 seconds, a month in minutes, a year in steps of 10 \
          minutes, and the heaviest digests of each minute for a week (docs/guides/history.md). It needs `admin.address`. \
          Without `path` there is none.",
    settings: &[&PATH, &SIZE_MAX, &EXPLAIN_EVERY],
    sections: &[],
};

/// `path`
pub static PATH: Setting = live(
    "path",
    Kind::Path,
    "The file. The folder must be writable for Sqluice's user: SQLite keeps its log beside the file.",
)
.restart()
.example("\"/var/lib/sqluice/history.sqlite\"");
/// `size_max`
pub static SIZE_MAX: Setting = live(
    "size_max",
    Kind::Size { default: 512 << 20, min: 1 << 20, max: 1 << 40 },
    "The size of the file. If it is reached, the oldest of the finest figures go first.",
)
.restart();
/// `explain_every_s`
pub static EXPLAIN_EVERY: Setting = whole(
    "explain_every_s",
    Unit::Seconds,
    0,
    0,
    86_400,
    Some("off"),
    "A replica of each cluster explains one digest in this time: one that changed (docs/guides/regressions.md), or else a heavy one, so that \
     another plan shows. The monitor's account must read the tables.",
)
.restart();
