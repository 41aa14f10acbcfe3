//! The files that the process may open, shared out among clients and backend connections.

use std::collections::BTreeMap;
use std::sync::Arc;

/// How the files that the process may open are shared out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileShares {
    /// How many files the process may open.
    pub open_files: u64,
    /// Most clients.
    pub clients_max: u32,
    /// Most backend connections of each cluster.
    pub backends_max: BTreeMap<Arc<str>, u32>,
}

impl Default for FileShares {
    /// No limit.
    fn default() -> FileShares {
        FileShares { open_files: u64::MAX, clients_max: u32::MAX, backends_max: BTreeMap::new() }
    }
}
