//! `[history]`

use std::path::PathBuf;

/// `[history]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The path of the file.
    pub path: PathBuf,
    /// Most bytes of the file.
    pub size_max: u64,
}
