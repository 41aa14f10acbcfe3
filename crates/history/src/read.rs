//! Reading: series of a time, the digests of a time, and marks.

use std::path::{Path, PathBuf};

use rusqlite::params;

use crate::{HistoryError, RESOLUTIONS, Resolution, file};

/// Most points of one series in an answer; a coarser resolution is taken rather than more.
const POINTS_MAX: u64 = 2_500;

/// A time to look at, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// It begins here.
    pub from_s: u64,
    /// It ends ahead of this.
    pub until_s: u64,
}

impl Range {
    /// The finest resolution that has this time, seen from `now_s`, in a reasonable number of points.
    pub fn resolution(self, now_s: u64) -> Resolution {
        let fits = |resolution: &&Resolution| {
            let is_kept = now_s.saturating_sub(self.from_s) <= resolution.keep_s;
            is_kept && self.until_s.saturating_sub(self.from_s) / resolution.step_s <= POINTS_MAX
        };
        let [.., coarsest] = RESOLUTIONS;
        RESOLUTIONS.iter().find(fits).copied().unwrap_or(coarsest)
    }
}

/// The points of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name, as `/metrics` has it.
    pub name: String,
    /// Second since 1970, and value: of a counter its growth in a second.
    pub points: Vec<(u64, f64)>,
}

/// A digest's sum over a time, of the minutes in which it was among those that took the most time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestSum {
    /// Its hash.
    pub hash: String,
    /// The statement without its literals.
    pub text: String,
    /// The user.
    pub user: String,
    /// The schema.
    pub schema: String,
    /// Statements.
    pub statements: u64,
    /// Those that ended in an error.
    pub errors: u64,
    /// Rows sent, or changed.
    pub rows: u64,
    /// Microseconds that servers took.
    pub time_us: u64,
    /// The first and the last minute.
    pub seen_s: (u64, u64),
}

/// A mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its number.
    pub id: i64,
    /// When it was set, in seconds since 1970.
    pub at_s: u64,
    /// By whom.
    pub author: String,
    /// Its text.
    pub text: String,
}

/// Reads the file, while another thread writes it.
#[derive(Clone, Debug)]
pub struct History {
    pub(crate) path: PathBuf,
}

impl History {
    /// The history in this file.
    pub fn of(path: &Path) -> History {
        History { path: path.to_owned() }
    }

    /// The names of all series, in their order.
    ///
    /// # Errors
    /// The file is gone, or cannot be read.
    pub fn names(&self) -> Result<Vec<String>, HistoryError> {
        let connection = file::open_to_read(&self.path)?;
        let mut names = connection.prepare("SELECT name FROM series ORDER BY name")?;
        Ok(names.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
    }

    /// The series whose names begin so, at most `series_max` of them, in a resolution. A series without points in that time is left out.
    ///
    /// # Errors
    /// As [`History::names`].
    pub fn series(
        &self,
        prefixes: &[String],
        range: Range,
        resolution: Resolution,
        series_max: usize,
    ) -> Result<Vec<Series>, HistoryError> {
        let connection = file::open_to_read(&self.path)?;
        let mut names = connection.prepare("SELECT id, name FROM series ORDER BY name")?;
        let all = names.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
        let text =
            format!("SELECT at, value FROM {} WHERE series = ? AND at >= ? AND at < ? ORDER BY at", resolution.table);
        let mut points = connection.prepare(&text)?;
        let mut found = Vec::new();
        for series in all {
            let (id, name) = series?;
            if found.len() >= series_max || !prefixes.iter().any(|prefix| name.starts_with(&**prefix)) {
                continue;
            }
            let rows =
                points.query_map(params![id, range.from_s, range.until_s], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let points: Vec<(u64, f64)> = rows.collect::<Result<_, _>>()?;
            if !points.is_empty() {
                found.push(Series { name, points });
            }
        }
        Ok(found)
    }

    /// The digests that took the most time in a time, the heaviest first.
    ///
    /// # Errors
    /// As [`History::names`].
    pub fn digests(&self, range: Range, limit: usize) -> Result<Vec<DigestSum>, HistoryError> {
        let connection = file::open_to_read(&self.path)?;
        let mut sums = connection.prepare(
            "SELECT t.digest, t.text, d.user, d.schema, SUM(d.statements), SUM(d.errors), SUM(d.rows), SUM(d.time_us),
                    MIN(d.at), MAX(d.at)
             FROM digests d JOIN texts t ON t.id = d.text WHERE d.at >= ? AND d.at < ?
             GROUP BY d.text, d.user, d.schema ORDER BY SUM(d.time_us) DESC, t.digest LIMIT ?",
        )?;
        let rows = sums.query_map(params![range.from_s, range.until_s, limit], |row| {
            Ok(DigestSum {
                hash: row.get(0)?,
                text: row.get(1)?,
                user: row.get(2)?,
                schema: row.get(3)?,
                statements: row.get(4)?,
                errors: row.get(5)?,
                rows: row.get(6)?,
                time_us: row.get(7)?,
                seen_s: (row.get(8)?, row.get(9)?),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The marks of a time, the newest first.
    ///
    /// # Errors
    /// As [`History::names`].
    pub fn marks(&self, range: Range, limit: usize) -> Result<Vec<Mark>, HistoryError> {
        let connection = file::open_to_read(&self.path)?;
        let mut marks = connection.prepare(
            "SELECT id, at, author, text FROM marks WHERE at >= ? AND at < ? ORDER BY at DESC, id DESC LIMIT ?",
        )?;
        let rows = marks.query_map(params![range.from_s, range.until_s, limit], |row| {
            Ok(Mark { id: row.get(0)?, at_s: row.get(1)?, author: row.get(2)?, text: row.get(3)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}
