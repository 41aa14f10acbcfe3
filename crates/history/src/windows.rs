//! Windows: pieces of time with the figures of the digests that took the most time in each. They show
//! which digests are slower or more frequent than they were.

use std::collections::HashMap;

use rusqlite::{Connection, Transaction, params};

use crate::keep;
use crate::record::{DigestFigures, DigestKey};
use crate::times::Times;

/// Digests that are kept of each window.
pub const WINDOW_DIGESTS_KEPT: usize = 200;
/// Seconds of a coarse window, to which fine ones are added up.
pub const COARSE_S: u64 = 600;
/// How long fine windows are kept: one ends with each look.
pub const FINE_KEEP_S: u64 = 2 * 3600;
/// How long coarse windows are kept: the same hour of the week before is there.
pub const COARSE_KEEP_S: u64 = 8 * 24 * 3600;

/// The step of windows that end with each look.
const FINE: u64 = 0;

pub(crate) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS windows (step INTEGER, at INTEGER, seconds INTEGER, PRIMARY KEY (step, at)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS window_digests (
    step INTEGER, at INTEGER, text INTEGER, user TEXT, schema TEXT, statements INTEGER, errors INTEGER, rows INTEGER,
    time_us INTEGER, times BLOB, PRIMARY KEY (step, at, text, user, schema)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS window_digests_by_text ON window_digests (text, user, schema, at);
";

/// A digest's sum over a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowSum {
    /// Statements.
    pub statements: u64,
    /// Those that ended in an error.
    pub errors: u64,
    /// Rows sent, or changed.
    pub rows: u64,
    /// Microseconds that servers took.
    pub time_us: u64,
    /// The times of those that a server ran.
    pub times: Times,
}

/// The digests of a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// Seconds in which Sqluice looked.
    pub seconds: u64,
    /// By hash, user and schema.
    pub digests: HashMap<DigestKey, WindowSum>,
}

impl WindowSum {
    fn add(&mut self, other: &WindowSum) {
        self.statements += other.statements;
        self.errors += other.errors;
        self.rows = self.rows.saturating_add(other.rows);
        self.time_us = self.time_us.saturating_add(other.time_us);
        self.times.add(&other.times);
    }

    /// That of a digest's growth.
    pub(crate) fn of(grown: &DigestFigures) -> WindowSum {
        let DigestFigures { statements, errors, rows, time_us, .. } = *grown;
        WindowSum { statements, errors, rows, time_us, times: grown.times.clone() }
    }
}

impl Windows {
    /// Adds the growth of digests in a time.
    pub(crate) fn add(&mut self, seconds: u64, grown: &[DigestFigures]) {
        self.seconds += seconds;
        for digest in grown {
            self.digests.entry(digest.key()).or_default().add(&WindowSum::of(digest));
        }
    }
}

/// Writes the window that ends at `until_s`: its digests, the heaviest first. Their texts are in the file.
pub(crate) fn write(
    transaction: &Transaction<'_>,
    (from_s, until_s): (u64, u64),
    grown: &[DigestFigures],
) -> rusqlite::Result<()> {
    transaction.execute("INSERT OR REPLACE INTO windows VALUES (?, ?, ?)", params![FINE, from_s, until_s - from_s])?;
    for digest in grown.iter().take(WINDOW_DIGESTS_KEPT) {
        insert(transaction, (FINE, from_s), &digest.key(), &WindowSum::of(digest))?;
    }
    keep::FINE.note(transaction, from_s)?;
    // The end of a coarse window was passed.
    if from_s / COARSE_S < until_s / COARSE_S {
        for at in passed(transaction, until_s - until_s % COARSE_S)? {
            condense(transaction, at)?;
            keep::COARSE.note(transaction, at)?;
        }
        keep::FINE.expire(transaction, until_s)?;
        keep::COARSE.expire(transaction, until_s)?;
    }
    Ok(())
}

fn insert(
    transaction: &Transaction<'_>,
    (step, at): (u64, u64),
    (hash, user, schema): &DigestKey,
    sum: &WindowSum,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT OR REPLACE INTO window_digests SELECT ?, ?, id, ?, ?, ?, ?, ?, ?, ? FROM texts WHERE digest = ?",
        )?
        .execute(params![
            step,
            at,
            user,
            schema,
            sum.statements,
            sum.errors,
            sum.rows,
            sum.time_us,
            sum.times.encode(),
            hash
        ])?;
    Ok(())
}

/// The coarse windows before a moment that are still to be made: a process may have ended within one.
fn passed(connection: &Connection, until_s: u64) -> rusqlite::Result<Vec<u64>> {
    let mut starts = connection.prepare(
        "SELECT DISTINCT at - at % ?1 AS start FROM windows WHERE step = ?2 AND at < ?3
         AND NOT EXISTS (SELECT 1 FROM windows made WHERE made.step = ?1 AND made.at = windows.at - windows.at % ?1)",
    )?;
    starts.query_map(params![COARSE_S, FINE, until_s], |row| row.get(0))?.collect()
}

/// Adds the fine windows that began in a coarse one up.
fn condense(transaction: &Transaction<'_>, at: u64) -> rusqlite::Result<()> {
    let mut sum = Windows::default();
    collect(transaction, FINE, (at, at + COARSE_S), &mut sum)?;
    transaction.execute("INSERT OR REPLACE INTO windows VALUES (?, ?, ?)", params![COARSE_S, at, sum.seconds])?;
    let mut digests: Vec<_> = sum.digests.into_iter().collect();
    digests.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.time_us));
    for (key, sum) in digests.iter().take(WINDOW_DIGESTS_KEPT) {
        insert(transaction, (COARSE_S, at), key, sum)?;
    }
    Ok(())
}

/// Adds up the windows of a step that began in a time.
fn collect(
    connection: &Connection,
    step: u64,
    (from_s, until_s): (u64, u64),
    sum: &mut Windows,
) -> rusqlite::Result<()> {
    let seconds: u64 = connection.query_row(
        "SELECT IFNULL(SUM(seconds), 0) FROM windows WHERE step = ? AND at >= ? AND at < ?",
        params![step, from_s, until_s],
        |row| row.get(0),
    )?;
    sum.seconds += seconds;
    let mut rows = connection.prepare_cached(
        "SELECT t.digest, d.user, d.schema, d.statements, d.errors, d.rows, d.time_us, d.times
         FROM window_digests d JOIN texts t ON t.id = d.text WHERE d.step = ? AND d.at >= ? AND d.at < ?",
    )?;
    let mut rows = rows.query(params![step, from_s, until_s])?;
    while let Some(row) = rows.next()? {
        let key = (row.get(0)?, row.get(1)?, row.get(2)?);
        let times = Times::decode(row.get_ref(7)?.as_blob().unwrap_or_default());
        let (statements, errors, rows, time_us) = (row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?);
        sum.digests.entry(key).or_default().add(&WindowSum { statements, errors, rows, time_us, times });
    }
    Ok(())
}

/// The windows that began in a time: coarse ones where there are no fine ones any more.
pub(crate) fn read(connection: &Connection, from_s: u64, until_s: u64) -> rusqlite::Result<Windows> {
    let mut sum = Windows::default();
    let fine_from_s = first(connection, FINE)?.unwrap_or(u64::MAX >> 1);
    // A coarse window has its fine ones in it.
    let coarse_until_s = until_s.min((fine_from_s + 1).saturating_sub(COARSE_S));
    collect(connection, COARSE_S, (from_s, coarse_until_s), &mut sum)?;
    collect(connection, FINE, (from_s, until_s), &mut sum)?;
    Ok(sum)
}

fn first(connection: &Connection, step: u64) -> rusqlite::Result<Option<u64>> {
    connection.query_row("SELECT MIN(at) FROM windows WHERE step = ?", [step], |row| row.get(0))
}

/// The beginning of the window in which a moment is, or of the first window behind it.
pub(crate) fn beginning(connection: &Connection, at_s: u64) -> rusqlite::Result<Option<u64>> {
    let fine_from_s = first(connection, FINE)?.unwrap_or(u64::MAX >> 1);
    connection.query_row(
        "SELECT IFNULL(
            (SELECT MAX(at) FROM windows WHERE at <= ?1 AND (step = ?2 OR at < ?3)),
            (SELECT MIN(at) FROM windows WHERE at > ?1))",
        params![at_s, FINE, fine_from_s],
        |row| row.get(0),
    )
}

/// Whether a digest was in a window before a moment.
pub(crate) fn was_there(
    connection: &Connection,
    (hash, user, schema): &DigestKey,
    at_s: u64,
) -> rusqlite::Result<bool> {
    connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM window_digests WHERE text = (SELECT id FROM texts WHERE digest = ?)
             AND user = ? AND schema = ? AND at < ?)",
        )?
        .query_row(params![hash, user, schema, at_s], |row| row.get(0))
}
