//! `[events]`

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

words! {
    /// The queries that become events.
    EventQueries {
        /// None.
        Off = "off",
        /// Those that end in an error.
        Errors = "errors",
        /// The same, and those that may change data.
        Writes = "writes",
        /// All.
        All = "all",
    }
}

words! {
    /// The part of a statement's text that a file of events has.
    EventText {
        /// Its form, without literals.
        Form = "form",
        /// All of it.
        Text = "text",
    }
}

/// `[events]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Events {
    /// The queries that become events.
    pub queries: EventQueries,
    /// Queries of this length become events, too; zero: none.
    pub slow: Duration,
    /// Queries of one session in so many.
    pub sample: u32,
    /// The name of this process; `None` is the machine's.
    pub node: Option<Arc<str>>,
    /// The file.
    pub file: Option<EventFile>,
}

/// `[events.file]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFile {
    /// Its path.
    pub path: PathBuf,
    /// The part of a statement's text in it.
    pub text: EventText,
    /// Bytes after which it gets another name; 0: never.
    pub rotate_size: u64,
    /// Time after which it gets another name; zero: never.
    pub rotate: Duration,
    /// Files with other names that stay.
    pub keep: usize,
    /// Whether they are compressed.
    pub compress: bool,
}
