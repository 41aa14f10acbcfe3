//! Writing: figures as they come, their means for the coarser resolutions, and the end of what is too old.

use std::collections::HashMap;

use rusqlite::{Connection, Transaction, params};

use crate::times::Times;
use crate::{
    DIGESTS_KEPT, HistoryError, MARK_CHARS_MAX, MARKS_MAX, PACE_S, RESOLUTIONS, SERIES_MAX, SeenPlan, keep, plans,
    windows,
};

/// One figure at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its series, as `/metrics` names it, labels included.
    pub series: String,
    /// The meaning of the value.
    pub kind: FigureKind,
    /// The value.
    pub value: f64,
}

/// The meaning of a figure's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureKind {
    /// It counts up: history has how much it grows in a second.
    Counter,
    /// It is what it is.
    Gauge,
}

/// The figures of a digest: counters since the start of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestFigures {
    /// Its hash, as the API shows it.
    pub hash: String,
    /// The statement without its literals.
    pub text: String,
    /// The user.
    pub user: String,
    /// The schema; empty is none.
    pub schema: String,
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
    /// When it was counted first, in seconds since 1970.
    pub first_seen_s: u64,
}

/// Hash, user and schema of a digest.
pub type DigestKey = (String, String, String);

impl DigestFigures {
    /// Its key.
    pub fn key(&self) -> DigestKey {
        (self.hash.clone(), self.user.clone(), self.schema.clone())
    }
}

/// The growth of digests since the last look at them, which no window has yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grown {
    /// When the last look was, in seconds since 1970; `None` if there was none.
    pub since_s: Option<u64>,
    /// When this one is.
    pub now_s: u64,
    /// The growth of each digest that ran.
    pub digests: Vec<DigestFigures>,
}

/// Writes the file. It is told the time.
#[derive(Debug)]
pub struct Recorder {
    connection: Connection,
    bytes_max: u64,
    series: HashMap<String, i64>,
    left_out: u64,
    /// The step of the last figures.
    last_at: Option<u64>,
    /// The counters of the last time, and when that was.
    counters: HashMap<String, (u64, f64)>,
    /// The digests of the last look, and when that was.
    digests: Option<(u64, HashMap<DigestKey, DigestFigures>)>,
}

impl Recorder {
    pub(crate) fn new(connection: Connection, bytes_max: u64) -> Result<Recorder, HistoryError> {
        let series = {
            let mut known = connection.prepare("SELECT name, id FROM series")?;
            known.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?
        };
        Ok(Recorder {
            connection,
            bytes_max,
            series,
            left_out: 0,
            last_at: None,
            counters: HashMap::new(),
            digests: None,
        })
    }

    /// Figures that had no room: there are [`SERIES_MAX`] series.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Takes the figures of this second since 1970; all of one moment become one point of each series. A counter has its first
    /// point when it is told a second time, and none for a time in which it began anew.
    ///
    /// # Errors
    /// The disk is full, or the file is gone: the figures are lost, and the next ones are tried again.
    pub fn figures(&mut self, now_s: u64, figures: &[Figure]) -> Result<(), HistoryError> {
        let at = now_s - now_s % PACE_S;
        let mut points = Vec::with_capacity(figures.len());
        for figure in figures.iter().filter(|figure| figure.value.is_finite()) {
            let value = match figure.kind {
                FigureKind::Gauge => Some(figure.value),
                FigureKind::Counter => self.rate(&figure.series, now_s, figure.value),
            };
            points.extend(value.map(|value| (&*figure.series, value)));
        }
        let transaction = self.connection.transaction()?;
        for (name, value) in points {
            let Some(series) = series_of(&transaction, &mut self.series, name)? else {
                self.left_out += 1;
                continue;
            };
            let mut insert = transaction.prepare_cached("INSERT OR REPLACE INTO points_10s VALUES (?, ?, ?)")?;
            insert.execute(params![series, at, value])?;
        }
        let [fine, coarser @ ..] = keep::POINTS;
        fine.note(&transaction, at)?;
        // A look may come a little late, and leave a step out, and the clock may jump either way: a coarser step ends when another one
        // begins.
        let last_at = self.last_at.replace(at);
        let passed = |step_s: u64| last_at.is_none_or(|last| last / step_s != at / step_s);
        for (pair, kept) in RESOLUTIONS.windows(2).zip(coarser) {
            let step_s = pair[1].step_s;
            if passed(step_s) {
                let ended = last_at.unwrap_or_else(|| at.saturating_sub(step_s));
                let ended = ended - ended % step_s;
                if condense(&transaction, pair[0].table, pair[1].table, ended, step_s)? > 0 {
                    kept.note(&transaction, ended)?;
                }
            }
        }
        if passed(600) {
            keep::POINTS.into_iter().try_for_each(|kept| kept.expire(&transaction, now_s))?;
        }
        transaction.commit()?;
        self.keep_bound(now_s)
    }

    /// The clock jumped: nothing is known of the time since the last look. Counters and digests begin anew.
    pub fn clock_jumped(&mut self) {
        self.counters.clear();
        self.digests = None;
    }

    /// The growth of a counter in a second.
    fn rate(&mut self, series: &str, now_s: u64, value: f64) -> Option<f64> {
        let (before_s, before) = match self.counters.get_mut(series) {
            Some(known) => std::mem::replace(known, (now_s, value)),
            None => {
                self.counters.insert(series.to_owned(), (now_s, value));
                return None;
            }
        };
        let passed_s = now_s.checked_sub(before_s).filter(|passed| *passed > 0)?;
        (value >= before).then(|| (value - before) / passed_s as f64)
    }

    /// The growth of digests since the last look.
    pub fn grown(&self, now_s: u64, digests: &[DigestFigures]) -> Grown {
        // A clock that was set back says nothing of the time since the last look.
        let Some((since_s, before)) = self.digests.as_ref().filter(|(since_s, _)| *since_s <= now_s) else {
            return Grown { now_s, ..Grown::default() };
        };
        let grown = digests.iter().filter_map(|digest| since(digest, before.get(&digest.key())));
        Grown { since_s: Some(*since_s), now_s, digests: grown.collect() }
    }

    /// Takes the figures of all digests, once a minute and with each mark; those that took the most time since the last call are
    /// kept. A second call in one second does nothing.
    ///
    /// # Errors
    /// As [`Recorder::figures`].
    pub fn digests(&mut self, now_s: u64, digests: Vec<DigestFigures>) -> Result<(), HistoryError> {
        let Grown { since_s, digests: mut grown, .. } = self.grown(now_s, &digests);
        if since_s == Some(now_s) {
            return Ok(());
        }
        self.digests = Some((now_s, digests.into_iter().map(|digest| (digest.key(), digest)).collect()));
        // The first look has the figures of all time before it, which belong to no minute; so has one behind a clock that was set
        // back.
        let Some(since_s) = since_s else { return Ok(()) };
        grown.sort_by_key(|digest| (std::cmp::Reverse(digest.time_us), std::cmp::Reverse(digest.statements)));
        grown.truncate(windows::WINDOW_DIGESTS_KEPT);
        let transaction = self.connection.transaction()?;
        for digest in &grown {
            transaction
                .prepare_cached("INSERT OR IGNORE INTO texts (digest, text) VALUES (?, ?)")?
                .execute(params![digest.hash, digest.text])?;
        }
        for digest in grown.iter().take(DIGESTS_KEPT) {
            keep_digest(&transaction, now_s, digest)?;
        }
        windows::write(&transaction, (since_s, now_s), &grown)?;
        keep::DIGESTS.note(&transaction, now_s)?;
        keep::DIGESTS.expire(&transaction, now_s)?;
        if now_s % 3600 < 60 {
            transaction.execute(
                "DELETE FROM texts WHERE id NOT IN (SELECT text FROM digests UNION ALL SELECT text FROM window_digests)",
                [],
            )?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// Writes a mark: a deploy, a decision, whatever an operator wants to find beside the figures. Gives its number.
    ///
    /// # Errors
    /// The text is empty or too long, or as [`Recorder::figures`].
    pub fn mark(&mut self, at_s: u64, author: &str, text: &str) -> Result<i64, HistoryError> {
        if !(1..=MARK_CHARS_MAX).contains(&text.trim().chars().count()) {
            return Err(HistoryError::MarkText);
        }
        self.connection
            .execute("INSERT INTO marks (at, author, text) VALUES (?, ?, ?)", params![at_s, author, text])?;
        let id = self.connection.last_insert_rowid();
        self.connection.execute(
            "DELETE FROM marks WHERE id <= (SELECT id FROM marks ORDER BY id DESC LIMIT 1 OFFSET ?)",
            [MARKS_MAX],
        )?;
        Ok(id)
    }

    /// Keeps the plan of a digest that a server has explained in this second since 1970.
    ///
    /// # Errors
    /// As [`Recorder::figures`].
    pub fn plan(&self, now_s: u64, seen: &SeenPlan) -> Result<(), HistoryError> {
        Ok(plans::keep(&self.connection, now_s, seen)?)
    }

    /// The bytes of the file, without its write-ahead log.
    ///
    /// # Errors
    /// As [`Recorder::figures`].
    pub fn bytes(&self) -> Result<u64, HistoryError> {
        let pragma = |name| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        Ok((pragma("page_count")? * pragma("page_size")?).unsigned_abs())
    }

    /// Gives up a tenth of the oldest fine points while the file is larger than it may be.
    fn keep_bound(&mut self, now_s: u64) -> Result<(), HistoryError> {
        for kept in keep::POINTS.into_iter().chain([keep::COARSE]) {
            if self.bytes()? <= self.bytes_max {
                return Ok(());
            }
            kept.give_up_some(&self.connection, now_s)?;
            self.connection.execute_batch("PRAGMA incremental_vacuum")?;
        }
        Ok(())
    }
}

fn keep_digest(transaction: &Transaction<'_>, now_s: u64, digest: &DigestFigures) -> rusqlite::Result<()> {
    let text = "INSERT OR REPLACE INTO digests SELECT ?, id, ?, ?, ?, ?, ?, ? FROM texts WHERE digest = ?";
    let DigestFigures { user, schema, statements, errors, rows, time_us, hash, .. } = digest;
    transaction.prepare_cached(text)?.execute(params![now_s, user, schema, statements, errors, rows, time_us, hash])?;
    Ok(())
}

/// The number of a series; `None` if there is no room for another one.
fn series_of(
    transaction: &Transaction<'_>,
    known: &mut HashMap<String, i64>,
    name: &str,
) -> Result<Option<i64>, rusqlite::Error> {
    if let Some(id) = known.get(name) {
        return Ok(Some(*id));
    }
    if known.len() >= SERIES_MAX {
        return Ok(None);
    }
    transaction.execute("INSERT OR IGNORE INTO series (name) VALUES (?)", [name])?;
    let id = transaction.query_row("SELECT id FROM series WHERE name = ?", [name], |row| row.get(0))?;
    known.insert(name.to_owned(), id);
    Ok(Some(id))
}

/// Puts the means of the step that begins at `at` into the coarser table, and gives how many there are.
fn condense(transaction: &Transaction<'_>, from: &str, to: &str, at: u64, step_s: u64) -> rusqlite::Result<usize> {
    let text = format!(
        "INSERT OR REPLACE INTO {to} SELECT series, ?1, AVG(value) FROM {from} WHERE series IN (SELECT id FROM series)
         AND at >= ?1 AND at < ?2 GROUP BY series"
    );
    transaction.prepare_cached(&text)?.execute(params![at, at + step_s])
}

/// The growth of a digest's figures; `None` if it did not run. A table of digests forgets, and begins anew.
fn since(now: &DigestFigures, before: Option<&DigestFigures>) -> Option<DigestFigures> {
    let grown = match before.filter(|before| before.statements <= now.statements) {
        Some(before) => DigestFigures {
            statements: now.statements - before.statements,
            errors: now.errors.saturating_sub(before.errors),
            rows: now.rows.saturating_sub(before.rows),
            time_us: now.time_us.saturating_sub(before.time_us),
            times: now.times.since(&before.times),
            ..now.clone()
        },
        None => now.clone(),
    };
    (grown.statements > 0).then_some(grown)
}

#[cfg(test)]
mod tests;
