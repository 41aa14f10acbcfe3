//! SQLite, in memory, for one statement: the views that it names become tables, and it runs on them, read-only, with limits.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Statement, params_from_iter};
use wire::errno;

use crate::cells::{Row, Value};
use crate::columns::ColumnKind;
use crate::error::SqlError;
use crate::functions::{self, Asker};
use crate::plan::Query;
use crate::replies::{ResultColumn, ResultRows};
use crate::variables::STATEMENT_BYTES_MAX;
use crate::views::gather::Gathered;
use crate::views::{INFORMATION, Rows, View};

/// Longest time that a statement runs, once its views are gathered.
pub(crate) const RUN_MAX: Duration = Duration::from_secs(5);
/// Bytes that SQLite may have in this process: the history's few, and those of [`crate::session::STATEMENTS_MAX`] statements.
const MEMORY_BYTES_MAX: u64 = 128 << 20;
/// The longest value. Some of SQLite's functions take a time that grows with the product of two lengths, and nothing ends them.
const VALUE_BYTES_MAX: i32 = 512 << 10;
/// Rows and bytes of a result.
const ROWS_MAX: usize = 100_000;
const RESULT_BYTES_MAX: usize = 8 << 20;
/// SQLite's instructions between two looks at the clock.
const PACE: i32 = 10_000;

/// The needs of a statement that runs.
pub(crate) struct Run {
    pub(crate) query: Query,
    /// The values of its parameters.
    pub(crate) parameters: Vec<Value>,
    pub(crate) gathered: Gathered,
    pub(crate) asker: Asker,
    /// Set by KILL QUERY.
    pub(crate) is_cancelled: Arc<AtomicBool>,
}

impl Run {
    /// Runs the statement to its end. It blocks.
    ///
    /// # Errors
    /// SQLite's, or a limit.
    pub(crate) fn run(self) -> Result<ResultRows, SqlError> {
        let deadline = Instant::now() + RUN_MAX;
        let timed_out = Arc::new(AtomicBool::new(false));
        let interrupted = timed_out.clone();
        let reported = |error: rusqlite::Error| {
            let words = format!("Query execution was interrupted: it ran longer than {} s", RUN_MAX.as_secs());
            SqlError::of_sqlite(&error, interrupted.load(Ordering::Relaxed).then_some(&*words))
        };
        let mut connection = open().map_err(reported)?;
        let is_cancelled = self.is_cancelled.clone();
        let is_late = move || {
            timed_out.store(Instant::now() >= deadline, Ordering::Relaxed);
            timed_out.load(Ordering::Relaxed) || is_cancelled.load(Ordering::Relaxed)
        };
        connection.progress_handler(PACE, Some(is_late)).map_err(reported)?;
        self.prepare(&mut connection, &reported)?;
        let mut statement = connection.prepare(&self.query.sql).map_err(reported)?;
        if !statement.readonly() {
            return Err(SqlError::read_only("statements that change something"));
        }
        if statement.parameter_count() != self.parameters.len() {
            return Err(SqlError::syntax("a statement with parameters is to be prepared"));
        }
        collect(&mut statement, self.parameters, reported)
    }

    /// Makes the tables and functions that the statement may use, and nothing else.
    fn prepare(
        &self,
        connection: &mut Connection,
        reported: &dyn Fn(rusqlite::Error) -> SqlError,
    ) -> Result<(), SqlError> {
        functions::add(connection, &self.asker).map_err(reported)?;
        self.fill(connection).map_err(|error| match error {
            FillError::Sqlite(error) => reported(error),
            FillError::History(words) => SqlError::new(errno::ER_UNKNOWN_ERROR, words),
        })?;
        connection.authorizer(Some(may_read)).map_err(reported)
    }

    /// The columns of the statement's result, and how many parameters it has. It is not run.
    ///
    /// # Errors
    /// SQLite's.
    pub(crate) fn describe(self) -> Result<(Vec<ResultColumn>, usize), SqlError> {
        let reported = |error: rusqlite::Error| SqlError::of_sqlite(&error, None);
        let mut connection = open().map_err(reported)?;
        self.prepare(&mut connection, &reported)?;
        let statement = connection.prepare(&self.query.sql).map_err(reported)?;
        Ok((columns_of(&statement), statement.parameter_count()))
    }

    /// Makes a table of each view.
    fn fill(&self, connection: &Connection) -> Result<(), FillError> {
        connection.execute_batch("CREATE TABLE dual (dummy VARCHAR); INSERT INTO dual VALUES ('X')")?;
        let views = &self.query.views;
        if views.iter().any(|view| view.is_in(INFORMATION)) {
            connection.execute_batch(&format!("ATTACH DATABASE ':memory:' AS {INFORMATION}"))?;
        }
        if views.iter().any(|view| matches!(view.rows, Rows::History)) {
            attach_history(connection, self.gathered.settings.history())?;
        }
        for view in views {
            match view.rows {
                Rows::Of(rows) => insert(connection, view, rows(&self.gathered))?,
                Rows::Compared(rows) => {
                    insert(connection, view, rows(&self.gathered).map_err(FillError::History)?)?;
                }
                Rows::History => {}
            }
        }
        Ok(())
    }
}

enum FillError {
    Sqlite(rusqlite::Error),
    History(String),
}

impl From<rusqlite::Error> for FillError {
    fn from(error: rusqlite::Error) -> FillError {
        FillError::Sqlite(error)
    }
}

fn attach_history(connection: &Connection, path: Option<PathBuf>) -> Result<(), FillError> {
    let path = path.ok_or_else(|| FillError::History("there is no history: set path in [history]".into()))?;
    history::attach(connection, &path).map_err(|error| FillError::History(error.to_string()))
}

fn open() -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_in_memory_with_flags(flags)?;
    // For the whole process, and always the same. Sorted rows stay in memory, so that the limit holds for them, too.
    connection.pragma_update(None, "hard_heap_limit", MEMORY_BYTES_MAX)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX),
        // A rewritten statement is a little longer than the client's.
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 2 * STATEMENT_BYTES_MAX as i32),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 100),
        // Of GLOB; LIKE is ours.
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 32),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, value)?;
    }
    Ok(connection)
}

fn insert(connection: &Connection, view: &View, rows: Vec<Row>) -> rusqlite::Result<()> {
    let schema = if view.is_in(INFORMATION) { INFORMATION } else { "main" };
    let columns: Vec<String> =
        view.columns.iter().map(|column| format!("\"{}\" {}", column.name, column.kind.word())).collect();
    connection.execute_batch(&format!("CREATE TABLE {schema}.\"{}\" ({}); BEGIN", view.name, columns.join(", ")))?;
    let places = vec!["?"; view.columns.len()].join(", ");
    let mut insert = connection.prepare(&format!("INSERT INTO {schema}.\"{}\" VALUES ({places})", view.name))?;
    for row in rows {
        insert.execute(params_from_iter(row))?;
    }
    connection.execute_batch("COMMIT")
}

/// Reading is all that a statement may do. Functions that reach outside are not compiled in or not let in.
fn may_read(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Function { function_name } if function_name.eq_ignore_ascii_case("load_extension") => {
            Authorization::Deny
        }
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Function { .. } | AuthAction::Recursive => {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }
}

fn columns_of(statement: &Statement<'_>) -> Vec<ResultColumn> {
    let columns = statement.columns();
    columns
        .into_iter()
        .map(|column| ResultColumn {
            name: column.name().to_owned(),
            kind: column.decl_type().map(ColumnKind::of_word),
        })
        .collect()
}

fn collect(
    statement: &mut Statement<'_>,
    parameters: Vec<Value>,
    reported: impl Fn(rusqlite::Error) -> SqlError,
) -> Result<ResultRows, SqlError> {
    let columns = columns_of(statement);
    let count = columns.len();
    let mut result = ResultRows::new(columns);
    let mut rows = statement.query(params_from_iter(parameters)).map_err(&reported)?;
    while let Some(row) = rows.next().map_err(&reported)? {
        result.begin_row();
        for index in 0..count {
            let value = row.get_ref(index).map_err(&reported)?;
            match value {
                ValueRef::Null => result.null(),
                ValueRef::Integer(number) => result.integer(index, number),
                ValueRef::Real(number) => result.real(index, number),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => result.bytes(index, bytes),
            }
        }
        if result.len() > ROWS_MAX || result.bytes_len() > RESULT_BYTES_MAX {
            let text = format!(
                "the result has more than {ROWS_MAX} rows or {} MiB: add a condition or LIMIT",
                RESULT_BYTES_MAX >> 20
            );
            return Err(SqlError::new(errno::ER_TOO_BIG_SELECT, text));
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests;
