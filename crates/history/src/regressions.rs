//! Regressions: digests that are new since a moment, or slower, more frequent, larger or more often wrong than they were.
//!
//! A digest is compared with the hour before that moment, and with the same time of a day and of a week before. The
//! worst of these counts: a batch that runs each night is no regression.

use rusqlite::{Connection, OptionalExtension};

use crate::plans::{self, PlanChange};
use crate::record::{DigestKey, Grown};
use crate::windows::{self, WindowSum, Windows};
use crate::{History, HistoryError, file};

const HOUR_S: u64 = 3600;
const DAY_S: u64 = 24 * HOUR_S;
/// Statements that are slower than before, and still faster than this, are no trouble.
const SLOW_US: u64 = 1_000;
/// A new digest that takes less time and has few statements is left out.
const NEW_TIME_US: u64 = 1_000_000;
/// Rows of each statement below this are no trouble.
const ROWS_MIN: f64 = 10.0;
/// An error rate counts as at least this.
const ERRORS_MIN: f64 = 0.01;

/// The bounds of a regression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// So many times as much as before.
    pub factor: f64,
    /// Statements that a comparison needs on either side.
    pub samples: u64,
    /// Most digests of the result.
    pub limit: usize,
}

/// The change of a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegressionKind {
    /// It was never seen before.
    New,
    /// It was not among those that took the most time before.
    Risen,
    /// Its 95th percentile is higher.
    Slower,
    /// There are more statements in a second.
    Frequent,
    /// Each statement sends or changes more rows.
    Rows,
    /// More of its statements end in an error.
    Errors,
}

impl RegressionKind {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            RegressionKind::New => "new",
            RegressionKind::Risen => "risen",
            RegressionKind::Slower => "slower",
            RegressionKind::Frequent => "frequent",
            RegressionKind::Rows => "rows",
            RegressionKind::Errors => "errors",
        }
    }
}

/// The figures of a digest in a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Change {
    /// Statements.
    pub statements: u64,
    /// Statements in a second.
    pub per_second: f64,
    /// Microseconds that 95 of 100 statements did not exceed; 0 if no server ran one.
    pub p95_us: u64,
    /// Microseconds of each statement.
    pub mean_us: f64,
    /// Rows of each statement.
    pub rows_each: f64,
    /// The share of statements that ended in an error.
    pub error_share: f64,
}

/// A digest that has changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Compared {
    /// Hash, user and schema.
    pub key: DigestKey,
    /// The statement without its literals.
    pub text: String,
    /// The changes, each with the factor where there is one.
    pub kinds: Vec<(RegressionKind, Option<f64>)>,
    /// The figures before: of each the worst of the times that it is compared with. `None` if it was in none.
    pub before: Option<Change>,
    /// The figures since.
    pub after: Change,
    /// Microseconds of server time that it took more than before.
    pub extra_us: u64,
    /// Its plan since, if a server has explained it since.
    pub plan: Option<PlanChange>,
}

/// The digests that have changed since a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Regressions {
    /// The time since: it begins with the window in which the moment was.
    pub after: (u64, u64),
    /// The times that it is compared with, as far as Sqluice looked then.
    pub before: Vec<(u64, u64)>,
    /// Those that took the most additional time first.
    pub digests: Vec<Compared>,
}

impl History {
    /// Compares the time since a moment with the time before; `grown` has the part that is in no window yet.
    ///
    /// # Errors
    /// As [`History::names`].
    pub fn regressions(&self, since_s: u64, grown: &Grown, limits: Limits) -> Result<Regressions, HistoryError> {
        let connection = file::open_to_read(&self.path)?;
        let last_look_s = grown.since_s.unwrap_or(grown.now_s);
        let beginning = windows::beginning(&connection, since_s)?.unwrap_or(last_look_s);
        let from_s = if since_s >= last_look_s { last_look_s } else { beginning };
        let mut after = windows::read(&connection, from_s, last_look_s)?;
        after.add(grown.now_s.saturating_sub(last_look_s), &grown.digests);
        let length_s = grown.now_s.saturating_sub(from_s).max(HOUR_S);
        let back = |before_s: u64, length_s: u64| {
            let from_s = from_s.saturating_sub(before_s);
            (from_s, from_s + length_s)
        };
        let times = [back(HOUR_S, HOUR_S), back(DAY_S, length_s.min(DAY_S)), back(7 * DAY_S, length_s.min(DAY_S))];
        let mut before = Vec::new();
        for time in times {
            let windows = windows::read(&connection, time.0, time.1.min(from_s))?;
            before.extend((windows.seconds > 0).then_some((time, windows)));
        }
        let compare =
            Compare { connection: &connection, grown, before: &before, from_s, seconds: after.seconds, limits };
        let mut digests = Vec::new();
        for (key, sum) in &after.digests {
            digests.extend(compare.digest(key, sum)?);
        }
        digests.sort_by(|one: &Compared, other| (other.extra_us, &one.key).cmp(&(one.extra_us, &other.key)));
        digests.truncate(limits.limit);
        for digest in &mut digests {
            digest.plan = plans::change(&connection, &digest.key, from_s)?;
        }
        let before = before.into_iter().map(|(time, _)| time).collect();
        Ok(Regressions { after: (from_s, grown.now_s), before, digests })
    }

    /// The moment of a mark, in seconds since 1970; `None` if there is no such mark.
    ///
    /// # Errors
    /// As [`History::names`].
    pub fn mark_at(&self, id: i64) -> Result<Option<u64>, HistoryError> {
        let connection = file::open_to_read(&self.path)?;
        Ok(connection.query_row("SELECT at FROM marks WHERE id = ?", [id], |row| row.get(0)).optional()?)
    }
}

type Times = (u64, u64);

struct Compare<'a> {
    connection: &'a Connection,
    grown: &'a Grown,
    before: &'a [(Times, Windows)],
    from_s: u64,
    /// Seconds of the time since.
    seconds: u64,
    limits: Limits,
}

impl Compare<'_> {
    /// The changes of a digest; `None` if there is none.
    fn digest(&self, key: &DigestKey, sum: &WindowSum) -> rusqlite::Result<Option<Compared>> {
        let after = change(sum, self.seconds);
        let before: Vec<Change> = self
            .before
            .iter()
            .filter_map(|(_, windows)| Some(change(windows.digests.get(key)?, windows.seconds)))
            .collect();
        let kinds = match before.is_empty() {
            true => self.without_past(key, sum)?.into_iter().map(|kind| (kind, None)).collect(),
            false => self.kinds(&before, &after, sum),
        };
        if kinds.is_empty() {
            return Ok(None);
        }
        let usual_us = |(_, windows): &(Times, Windows)| {
            let time_us = windows.digests.get(key).map_or(0, |sum| sum.time_us);
            time_us as f64 / windows.seconds.max(1) as f64 * self.seconds as f64
        };
        let usual_us = self.before.iter().map(usual_us).fold(0.0, f64::max) as u64;
        Ok(Some(Compared {
            key: key.clone(),
            text: self.text(key)?,
            kinds,
            before: before.into_iter().reduce(worst),
            after,
            extra_us: sum.time_us.saturating_sub(usual_us),
            plan: None,
        }))
    }

    /// A digest that was in none of the times before is new, or was lighter than all that is kept.
    fn without_past(&self, key: &DigestKey, sum: &WindowSum) -> rusqlite::Result<Option<RegressionKind>> {
        let is_seldom = sum.statements < self.limits.samples && sum.time_us < NEW_TIME_US;
        // Without a past all would be new.
        if self.before.is_empty() || is_seldom {
            return Ok(None);
        }
        let found = self.grown.digests.iter().find(|digest| digest.key() == *key);
        let is_older = found.is_some_and(|digest| digest.first_seen_s < self.from_s);
        let is_known = is_older || windows::was_there(self.connection, key, self.from_s)?;
        Ok(Some(if is_known { RegressionKind::Risen } else { RegressionKind::New }))
    }

    fn kinds(&self, before: &[Change], after: &Change, sum: &WindowSum) -> Vec<(RegressionKind, Option<f64>)> {
        let Limits { factor, samples, .. } = self.limits;
        let usual = before.iter().copied().reduce(worst).unwrap_or_default();
        // Few statements say little of a percentile and of a share, and much of a rate.
        let has_samples = after.statements >= samples && before.iter().any(|before| before.statements >= samples);
        let errors = (after.error_share * after.statements as f64).round() as u64;
        let all = [
            (
                RegressionKind::Slower,
                has_samples && after.p95_us >= SLOW_US,
                after.p95_us as f64,
                usual.p95_us.max(1) as f64,
            ),
            (RegressionKind::Frequent, sum.statements >= samples * 5, after.per_second, usual.per_second),
            (
                RegressionKind::Rows,
                has_samples && after.rows_each >= ROWS_MIN,
                after.rows_each,
                usual.rows_each.max(1.0),
            ),
            (RegressionKind::Errors, errors >= samples, after.error_share, usual.error_share.max(ERRORS_MIN)),
        ];
        let changed = all.into_iter().filter(|(_, may_be, after, usual)| *may_be && *after >= *usual * factor);
        changed.map(|(kind, _, after, usual)| (kind, Some(after / usual.max(f64::MIN_POSITIVE)))).collect()
    }

    fn text(&self, key: &DigestKey) -> rusqlite::Result<String> {
        if let Some(digest) = self.grown.digests.iter().find(|digest| digest.hash == key.0) {
            return Ok(digest.text.clone());
        }
        let text = self.connection.query_row("SELECT text FROM texts WHERE digest = ?", [&key.0], |row| row.get(0));
        Ok(text.optional()?.unwrap_or_default())
    }
}

fn change(sum: &WindowSum, seconds: u64) -> Change {
    let each = |total: u64| total as f64 / sum.statements.max(1) as f64;
    Change {
        statements: sum.statements,
        per_second: sum.statements as f64 / seconds.max(1) as f64,
        p95_us: sum.times.quantile(0.95).unwrap_or(0),
        mean_us: each(sum.time_us),
        rows_each: each(sum.rows),
        error_share: each(sum.errors),
    }
}

fn worst(one: Change, other: Change) -> Change {
    Change {
        statements: one.statements.max(other.statements),
        per_second: one.per_second.max(other.per_second),
        p95_us: one.p95_us.max(other.p95_us),
        mean_us: one.mean_us.max(other.mean_us),
        rows_each: one.rows_each.max(other.rows_each),
        error_share: one.error_share.max(other.error_share),
    }
}

#[cfg(test)]
mod tests;
