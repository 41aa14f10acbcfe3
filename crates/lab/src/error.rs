//! Errors of the lab.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a server could not be started, asked or stopped. The text says what to do where that is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A program that the lab needs is not on this machine.
    #[error("{what} not found; {remedy}")]
    Missing {
        /// The program, and where it was looked for.
        what: String,
        /// The package or command that brings it.
        remedy: String,
    },
    /// The operating system refused something.
    #[error("cannot {doing}: {source}")]
    Io {
        /// The attempt.
        doing: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A datadir could not be initialised.
    #[error("cannot initialise a datadir with {program}:\n{output}")]
    Initialise {
        /// The program that failed.
        program: PathBuf,
        /// The end of what it printed.
        output: String,
    },
    /// The server ended, or did not get ready in time.
    #[error("server on port {port} {what}; the end of its log:\n{log}")]
    Start {
        /// The port it was to listen on.
        port: u16,
        /// The outcome instead.
        what: String,
        /// The end of its log.
        log: String,
    },
    /// The server refused a statement, or the client could not connect.
    #[error("server on port {port} refused: {message}")]
    Sql {
        /// The port of the server.
        port: u16,
        /// The client's error text.
        message: String,
    },
    /// Something took longer than it may.
    #[error("{what} took longer than {limit:?}")]
    Timeout {
        /// The event that did not come.
        what: String,
        /// The limit.
        limit: Duration,
    },
    /// The server is not running.
    #[error("server on port {port} is not running")]
    NotRunning {
        /// The port it listens on when it runs.
        port: u16,
    },
    /// A path that a server would have to use is longer than the system allows for a socket.
    #[error("socket path {} is longer than {limit} bytes; set TMPDIR to a shorter folder", path.display())]
    SocketPath {
        /// The path.
        path: PathBuf,
        /// The longest that works, in bytes.
        limit: usize,
    },
}

impl LabError {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> LabError {
        let doing = doing.into();
        move |source| LabError::Io { doing, source }
    }

    pub(crate) fn file(doing: &str, path: &Path) -> impl FnOnce(std::io::Error) -> LabError + use<> {
        LabError::io(format!("{doing} {}", path.display()))
    }
}
