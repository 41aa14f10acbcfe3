//! Errors of statements, as the client gets them.

use rusqlite::{Error, ErrorCode};
use wire::errno;
use wire::reply::ServerError;

/// An error with the code that drivers know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text} ({code})")]
pub(crate) struct SqlError {
    pub(crate) code: u16,
    pub(crate) text: String,
}

impl SqlError {
    pub(crate) fn new(code: u16, text: impl Into<String>) -> SqlError {
        SqlError { code, text: text.into() }
    }

    pub(crate) fn syntax(text: impl Into<String>) -> SqlError {
        SqlError::new(errno::ER_PARSE_ERROR, text)
    }

    pub(crate) fn read_only(word: &str) -> SqlError {
        let text = format!(
            "the SQL console is read-only: it does not run {word}. HELP lists what it runs; for other changes edit the configuration file and send SIGHUP, or use the API"
        );
        SqlError::new(errno::ER_OPTION_PREVENTS_STATEMENT, text)
    }

    pub(crate) fn no_table(name: &str) -> SqlError {
        SqlError::new(errno::ER_NO_SUCH_TABLE, format!("Table '{name}' doesn't exist; SHOW TABLES lists all"))
    }

    /// Of SQLite, which has run out of time if `timed_out`.
    pub(crate) fn of_sqlite(error: &Error, interrupted: Option<&str>) -> SqlError {
        let words = match error {
            Error::SqliteFailure(_, Some(words)) => words.clone(),
            Error::SqlInputError { msg, .. } => msg.clone(),
            Error::MultipleStatement => return SqlError::syntax("one statement at a time"),
            other => other.to_string(),
        };
        if let Some(name) = words.strip_prefix("no such table: ") {
            return SqlError::no_table(name);
        }
        let code = match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => {
                return match interrupted {
                    Some(words) => SqlError::new(errno::ER_QUERY_TIMEOUT, words),
                    None => SqlError::new(errno::ER_QUERY_INTERRUPTED, "Query execution was interrupted"),
                };
            }
            Some(ErrorCode::AuthorizationForStatementDenied | ErrorCode::ReadOnly) => {
                return SqlError::read_only("statements that change or open something");
            }
            Some(ErrorCode::OutOfMemory) => {
                return SqlError::new(ER_OUTOFMEMORY, "the statement needs more memory than the SQL console has");
            }
            _ if words.contains("not authorized") || words.contains("access to") && words.contains("is prohibited") => {
                return SqlError::read_only("statements that change or open something");
            }
            _ if words.contains("no such column") => errno::ER_BAD_FIELD_ERROR,
            _ if words.contains("no such function") => errno::ER_SP_DOES_NOT_EXIST,
            _ if words.contains("syntax error") || words.contains("incomplete input") => errno::ER_PARSE_ERROR,
            _ => errno::ER_UNKNOWN_ERROR,
        };
        SqlError::new(code, format!("{words} (the SQL of the console is SQLite's)"))
    }

    /// Appends the payload of an ERR packet.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let sqlstate = wire::sqlstate::sqlstate(self.code, false);
        ServerError { code: self.code, sqlstate, message: self.text.as_bytes() }.write(out);
    }
}

/// Not enough memory.
const ER_OUTOFMEMORY: u16 = 1037;
