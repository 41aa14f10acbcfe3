//! `[history]`

use std::path::PathBuf;
use std::time::Duration;

/// `[history]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The path of the file.
    pub path: PathBuf,
    /// Most bytes of the file.
    pub size_max: u64,
    /// A replica explains one digest in this time; zero is never.
    pub explain_every: Duration,
}
