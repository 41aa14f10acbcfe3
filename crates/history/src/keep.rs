//! The end of rows: each table keeps so many steps, whatever the clock says.
//!
//! A clock may be wrong by a year for an hour, before NTP corrects it or after a virtual machine was resumed. If rows ended by their
//! age alone, that hour would delete a year. So a row ends when there are enough newer ones: a step ends for each new one. Downtime
//! has no steps, so that rows from before it are kept for longer.

use rusqlite::{Connection, params};

use crate::{DIGESTS_KEEP_S, DIGESTS_PACE_S, RESOLUTIONS, windows};

/// Rows up to this far ahead of the clock may be right: small corrections of the clock are usual. Each table keeps more than that.
const AHEAD_S: u64 = 3600;

pub(crate) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS steps (kept TEXT, at INTEGER, PRIMARY KEY (kept, at)) WITHOUT ROWID;
";

/// Rows that end together: those of one step of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    name: &'static str,
    tables: &'static [&'static str],
    condition: &'static str,
    step_s: u64,
    steps_max: u64,
}

/// The points of each resolution.
pub(crate) const POINTS: [Kept; 3] = [points("points_10s", 0), points("points_1min", 1), points("points_10min", 2)];
/// The heaviest digests of each minute.
pub(crate) const DIGESTS: Kept = Kept {
    name: "digests",
    tables: &["digests"],
    condition: "TRUE",
    step_s: DIGESTS_PACE_S,
    steps_max: DIGESTS_KEEP_S / DIGESTS_PACE_S + 1,
};
/// Fine windows end by coarse ones, so that a coarse one has all of its fine ones or none.
pub(crate) const FINE: Kept = Kept {
    name: "fine_windows",
    tables: &["windows", "window_digests"],
    condition: "step = 0",
    step_s: windows::COARSE_S,
    steps_max: windows::FINE_KEEP_S / windows::COARSE_S,
};
/// Coarse windows.
pub(crate) const COARSE: Kept = Kept {
    name: "coarse_windows",
    tables: &["windows", "window_digests"],
    condition: "step = 600",
    step_s: windows::COARSE_S,
    steps_max: windows::COARSE_KEEP_S / windows::COARSE_S,
};

const fn points(name: &'static str, place: usize) -> Kept {
    let resolution = RESOLUTIONS[place];
    let steps_max = resolution.keep_s / resolution.step_s + 1;
    // The table has the same name: one that is not in a list of names would be no constant.
    let tables: &'static [&'static str] = match place {
        0 => &["points_10s"],
        1 => &["points_1min"],
        _ => &["points_10min"],
    };
    Kept { name, tables, condition: "TRUE", step_s: resolution.step_s, steps_max }
}

impl Kept {
    /// There are rows of this moment.
    pub(crate) fn note(self, connection: &Connection, at_s: u64) -> rusqlite::Result<()> {
        let at_s = at_s - at_s % self.step_s;
        connection.prepare_cached("INSERT OR IGNORE INTO steps VALUES (?, ?)")?.execute(params![self.name, at_s])?;
        Ok(())
    }

    /// Deletes the rows of steps beyond those that are kept.
    pub(crate) fn expire(self, connection: &Connection, now_s: u64) -> rusqlite::Result<()> {
        match self.steps(connection)?.saturating_sub(self.steps_max) {
            0 => Ok(()),
            surplus => self.delete(connection, surplus, now_s),
        }
    }

    /// Deletes a tenth of the steps, for room.
    pub(crate) fn give_up_some(self, connection: &Connection, now_s: u64) -> rusqlite::Result<()> {
        match self.steps(connection)? {
            0 => Ok(()),
            steps => self.delete(connection, steps.div_ceil(10), now_s),
        }
    }

    fn steps(self, connection: &Connection) -> rusqlite::Result<u64> {
        let text = "SELECT COUNT(*) FROM steps WHERE kept = ?";
        connection.prepare_cached(text)?.query_row([self.name], |row| row.get(0))
    }

    /// Deletes so many steps. Those far ahead of the clock go first: either they are wrong, or the clock is, and then they go one by
    /// one as new rows come. Of the others, and among themselves, the oldest go first.
    fn delete(self, connection: &Connection, steps: u64, now_s: u64) -> rusqlite::Result<()> {
        let ahead_s = now_s.saturating_add(AHEAD_S);
        let mut left = steps;
        for (from_s, until_s) in [(ahead_s, i64::MAX.unsigned_abs()), (0, ahead_s)] {
            let (count, first, last): (u64, Option<u64>, Option<u64>) = connection
                .prepare_cached(
                    "SELECT COUNT(*), MIN(at), MAX(at) FROM (SELECT at FROM steps WHERE kept = ? AND at >= ? AND at < ?
                     ORDER BY at LIMIT ?)",
                )?
                .query_row(params![self.name, from_s, until_s, left], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })?;
            let (Some(first), Some(last)) = (first, last) else { continue };
            let end = last.saturating_add(self.step_s);
            for table in self.tables {
                let text = format!("DELETE FROM {table} WHERE {} AND at >= ? AND at < ?", self.condition);
                connection.execute(&text, [first, end])?;
            }
            connection
                .execute("DELETE FROM steps WHERE kept = ? AND at >= ? AND at < ?", params![self.name, first, end])?;
            left -= count;
        }
        Ok(())
    }

    /// Notes the steps of a file that an older version wrote.
    fn adopt(self, connection: &Connection) -> rusqlite::Result<()> {
        if self.steps(connection)? > 0 {
            return Ok(());
        }
        let text = format!(
            "INSERT OR IGNORE INTO steps SELECT ?, at - at % ? FROM {} WHERE {}",
            self.tables[0], self.condition
        );
        connection.execute(&text, params![self.name, self.step_s])?;
        Ok(())
    }
}

/// Notes all steps of a file that an older version wrote.
pub(crate) fn adopt(connection: &Connection) -> rusqlite::Result<()> {
    POINTS.into_iter().chain([DIGESTS, FINE, COARSE]).try_for_each(|kept| kept.adopt(connection))
}
