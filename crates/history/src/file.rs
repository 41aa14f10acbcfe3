//! The file: its tables, and a damaged one that is set aside.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use crate::{HistoryError, keep, plans, windows};

/// The number of the tables' form; a file with another one is set aside.
const FORM: i64 = 1;
/// Longest wait for a reader that holds the file.
const BUSY_WAIT: Duration = Duration::from_secs(2);

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS series (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS points_10s (series INTEGER, at INTEGER, value REAL, PRIMARY KEY (series, at)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS points_1min (series INTEGER, at INTEGER, value REAL, PRIMARY KEY (series, at)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS points_10min (series INTEGER, at INTEGER, value REAL, PRIMARY KEY (series, at)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS texts (id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS digests (
    at INTEGER, text INTEGER, user TEXT, schema TEXT, statements INTEGER, errors INTEGER, rows INTEGER, time_us INTEGER,
    PRIMARY KEY (at, text, user, schema)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS marks (id INTEGER PRIMARY KEY, at INTEGER NOT NULL, author TEXT NOT NULL, text TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS marks_by_time ON marks (at);
";

/// How a file was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// It was there, and whole; or there was none.
    Whole,
    /// It was damaged, and has this name now.
    SetAside(PathBuf),
}

/// Opens the file for writing.
pub(crate) fn open(path: &Path) -> Result<(Connection, Opened), HistoryError> {
    match attempt(path) {
        Ok(connection) => Ok((connection, Opened::Whole)),
        // A device is not damaged: it stays where it is.
        Err(error) if is_damage(&error) && path.is_file() => {
            let aside = set_aside(path)?;
            Ok((attempt(path)?, Opened::SetAside(aside)))
        }
        Err(error) => Err(error.into()),
    }
}

fn attempt(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_WAIT)?;
    // Space that is given up goes back to the file system in small parts.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // With the write-ahead log a crash of the machine may cost the last seconds, and never the file.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    let form: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let check: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
    if check != "ok" || form != 0 && form != FORM {
        return Err(damaged());
    }
    connection.execute_batch(TABLES)?;
    connection.execute_batch(windows::TABLES)?;
    connection.execute_batch(plans::TABLES)?;
    connection.execute_batch(keep::TABLES)?;
    keep::adopt(&connection)?;
    connection.pragma_update(None, "user_version", FORM)?;
    Ok(connection)
}

fn damaged() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT), None)
}

fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase))
}

/// Gives a file, with its write-ahead log, another name. An older one of that name is lost.
fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    let with = |end: &str| PathBuf::from([path.as_os_str(), end.as_ref()].join("".as_ref()));
    let aside = with(".damaged");
    std::fs::rename(path, &aside)?;
    for log in ["-wal", "-shm"] {
        match std::fs::rename(with(log), with(&format!(".damaged{log}"))) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(aside)
}

/// Opens the file for reading.
pub(crate) fn open_to_read(path: &Path) -> rusqlite::Result<Connection> {
    use rusqlite::OpenFlags;
    let connection =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_WAIT)?;
    Ok(connection)
}
