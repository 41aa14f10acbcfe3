//! The file as tables of another SQLite connection, for statements that the operator writes.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::Connection;

use crate::{HistoryError, RESOLUTIONS};

/// The name of the attached file in the other connection.
const STORE: &str = "history_file";

/// Attaches the file for reading, and makes the temporary views `history`, `history_digests` and `marks`. The connection must know
/// URIs (`SQLITE_OPEN_URI`). SQLite takes conditions on `series`, `at` and `step_s` down to the keys of the file's tables.
///
/// # Errors
/// The file is gone, or cannot be read.
pub fn attach(connection: &Connection, path: &Path) -> Result<(), HistoryError> {
    connection.execute(&format!("ATTACH DATABASE ?1 AS {STORE}"), [uri(path)])?;
    // One half of a UNION ALL for each resolution: `step_s` is a constant there, so that SQLite can leave the others out.
    let points: Vec<String> = RESOLUTIONS
        .iter()
        .map(|resolution| {
            format!(
                "SELECT s.name AS series, p.at AS at, {} AS step_s, p.value AS value FROM {STORE}.series s CROSS JOIN {STORE}.{} p \
                 ON p.series = s.id",
                resolution.step_s, resolution.table
            )
        })
        .collect();
    let points = points.join(" UNION ALL ");
    connection.execute_batch(&format!(
        "CREATE TEMP VIEW history AS {points};
         CREATE TEMP VIEW history_digests AS
             SELECT d.at AS at, t.digest AS digest, t.text AS text, d.user AS user, d.schema AS schema,
                    d.statements AS statements, d.errors AS errors, d.rows AS rows, d.time_us AS time_us
             FROM {STORE}.digests d JOIN {STORE}.texts t ON t.id = d.text;
         CREATE TEMP VIEW marks AS SELECT id, at, author, text FROM {STORE}.marks;"
    ))?;
    Ok(())
}

/// The path as SQLite reads it: read-only, and no byte of it has another meaning.
fn uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => uri.push(char::from(*byte)),
            // Writing to a string cannot fail.
            other => drop(write!(uri, "%{other:02X}")),
        }
    }
    uri.push_str("?mode=ro");
    uri
}

#[cfg(test)]
mod tests {
    use rusqlite::OpenFlags;

    use super::*;
    use crate::{Figure, FigureKind};

    fn connection() -> Connection {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Connection::open_in_memory_with_flags(flags).unwrap()
    }

    #[test]
    fn the_file_is_read_by_any_statement_and_conditions_reach_its_keys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a %41?#.sqlite");
        let (mut recorder, _) = crate::open(&path, 8 << 20).unwrap();
        for at in 0..7_u64 {
            let figure = |series: &str| Figure { series: series.into(), kind: FigureKind::Gauge, value: at as f64 };
            recorder.figures(1_000 + at * 10, &[figure("a"), figure("b")]).unwrap();
        }
        recorder.mark(1_005, "ann", "deploy").unwrap();
        let connection = connection();
        attach(&connection, &path).unwrap();
        let text =
            "SELECT count(*), max(value) FROM history WHERE series = 'a' AND at >= 1020 AND at < 1050 AND step_s = 10";
        let found: (u64, f64) = connection.query_row(text, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(found, (3, 4.0));
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
        let steps: Vec<String> = plan.query_map([], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
        let by_key = "SEARCH p USING PRIMARY KEY (series=? AND at>? AND at<?)";
        assert!(steps.iter().any(|step| step.contains(by_key)), "{steps:?}");
        let author: String = connection.query_row("SELECT author FROM marks", [], |row| row.get(0)).unwrap();
        assert_eq!(author, "ann");
        assert!(connection.execute("DELETE FROM history_file.marks", []).is_err(), "it is for reading");
    }

    #[test]
    fn a_file_that_is_not_there_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none");
        assert!(attach(&connection(), &path).is_err());
        assert!(!path.exists());
    }
}
