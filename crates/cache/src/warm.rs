//! Filling the cache from files of statements: who can be asked to do so, and what came of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Runs the statements.
pub trait Warmer: Send + Sync {
    /// Begins to run all files, or those of one cluster. Gives for how many kinds of clients; 0 if none was seen yet.
    fn start(&self, cluster: Option<&str>) -> usize;

    /// The configuration of each file, and its last run.
    fn report(&self) -> Vec<WarmReport>;
}

/// One file of statements.
#[derive(Clone, Debug)]
pub struct WarmReport {
    /// Its name in the configuration.
    pub name: Arc<str>,
    /// The cluster.
    pub cluster: Arc<str>,
    /// The user whose clients shall find the answers.
    pub user: Arc<str>,
    /// The schema in which they are.
    pub schema: Option<Arc<str>>,
    /// Where the statements are.
    pub file: PathBuf,
    /// How many.
    pub statements: usize,
    /// Kinds of clients that were seen: each has answers of its own.
    pub kinds: usize,
    /// Runs that are under way.
    pub running: u32,
    /// Runs that are over.
    pub runs: u64,
    /// The last run.
    pub last: Option<WarmRun>,
    /// The statements of all of them, and of those that are under way.
    pub total: WarmCounts,
}

/// Statements that are done, by what came of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WarmCounts {
    /// Their answers were kept.
    pub kept: u64,
    /// Their answers were there already.
    pub there: u64,
    /// No rule asks the cache for them.
    pub without_rule: u64,
    /// Their answers were not kept.
    pub refused: u64,
    /// They failed.
    pub failed: u64,
}

/// The outcome of running a file.
#[derive(Clone, Debug, Default)]
pub struct WarmRun {
    /// Why it was run.
    pub why: &'static str,
    /// Its statements.
    pub counts: WarmCounts,
    /// Those whose answers were not kept, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// The first mistakes, with the lines of the file.
    pub mistakes: Vec<(u32, String)>,
    /// How long it took.
    pub took: Duration,
}
