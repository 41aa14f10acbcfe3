//! History: figures of the past in one SQLite file of bounded size, the digests that took the most time in each minute, and marks of what
//! happened.
//!
//! One thread writes: a [`Recorder`] is told the figures and the moment, and knows no clock, so that years can be tried in a test.
//! Readers open the file for themselves ([`History`]): SQLite's write-ahead log lets them read while the thread writes, and keeps the
//! file whole when the process is killed. A file that is damaged all the same is set aside, and a new one begins.

mod attach;
mod file;
mod keep;
mod plans;
mod read;
mod record;
mod regressions;
mod times;
mod windows;

use std::path::Path;

pub use attach::attach;
pub use file::Opened;
pub use plans::{KeptPlan, PlanChange, SeenPlan};
pub use read::{DigestSum, History, Mark, Range, Series};
pub use record::{DigestFigures, DigestKey, Figure, FigureKind, Grown, Recorder};
pub use regressions::{Change, Compared, Limits, RegressionKind, Regressions};
pub use times::Times;
pub use windows::{COARSE_KEEP_S, COARSE_S, FINE_KEEP_S, WINDOW_DIGESTS_KEPT, WindowSum, Windows};

/// The pace of figures.
pub const PACE_S: u64 = 10;
/// The pace of digests.
pub const DIGESTS_PACE_S: u64 = 60;
/// Digests that are kept of each minute.
pub const DIGESTS_KEPT: usize = 20;
/// Series that are kept; figures beyond are counted and left out.
pub const SERIES_MAX: usize = 2_000;
/// The longest text of a mark, in characters.
pub const MARK_CHARS_MAX: usize = 500;
/// Marks that are kept: the newest.
pub const MARKS_MAX: u32 = 10_000;

/// A resolution of figures: one point for so many seconds, kept for so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// Seconds between points.
    pub step_s: u64,
    /// Seconds for which points are kept.
    pub keep_s: u64,
    pub(crate) table: &'static str,
}

const DAY_S: u64 = 24 * 3600;

/// The resolutions, the finest first. A coarser one has the means of the finer one.
pub const RESOLUTIONS: [Resolution; 3] = [
    Resolution { step_s: PACE_S, keep_s: DAY_S, table: "points_10s" },
    Resolution { step_s: 60, keep_s: 30 * DAY_S, table: "points_1min" },
    Resolution { step_s: 600, keep_s: 366 * DAY_S, table: "points_10min" },
];
/// How long digests are kept.
pub const DIGESTS_KEEP_S: u64 = 7 * DAY_S;

/// Something went wrong with the file.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// SQLite's words.
    #[error("the file of history: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The file could not be set aside, or is a folder.
    #[error("the file of history: {0}")]
    Io(#[from] std::io::Error),
    /// The text of a mark is empty, or longer than [`MARK_CHARS_MAX`].
    #[error("the text of a mark has 1 to {MARK_CHARS_MAX} characters")]
    MarkText,
}

/// Opens a file of history for writing, or makes it.
///
/// # Errors
/// The folder is missing or cannot be written.
pub fn open(path: &Path, bytes_max: u64) -> Result<(Recorder, Opened), HistoryError> {
    let (connection, opened) = file::open(path)?;
    Ok((Recorder::new(connection, bytes_max)?, opened))
}
