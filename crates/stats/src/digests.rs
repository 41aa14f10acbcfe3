//! The cost of the statements of one digest: a table of bounded size for each worker, and the sum of all workers'
//! tables.
//!
//! A worker writes to its own [`DigestTable`] and nobody else does: there is no lock and no atomic. Readers ask the worker
//! for a [`DigestReport`] ([`DigestSource`]) and [`merge`] them.
//!
//! The table keeps what takes the most time, in the manner of the space-saving algorithm: when it is full, what weighs
//! least makes room, and who takes its place begins with its weight, so that what was heavy once and is idle now sinks.
//! So that a flood of forms that never come again makes no work, a form is taken in at its second statement, or when its
//! first one alone weighs more than what it replaces. All that has no entry is counted together as "others".

mod cached;
mod merge;
mod questions;
mod spread;
mod table;

use std::sync::Arc;
use std::time::{Instant, SystemTime};

pub use cached::{CacheSaid, CachedFigures};
pub use merge::{Order, merge, merge_by_cluster};
pub use questions::{Questions, TTLS};
pub use spread::Spread;
pub use table::DigestTable;

/// The figures of one digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DigestFigures {
    /// Statements run.
    pub statements: u64,
    /// Those that ended in an error.
    pub errors: u64,
    /// Rows sent to clients.
    pub rows_sent: u64,
    /// Rows that servers said were changed.
    pub rows_affected: u64,
    /// Statements that the primary ran, as far as a server ran them.
    pub on_primary: u64,
    /// Statements that other servers ran.
    pub on_replicas: u64,
    /// Those that shared a connection with reads of other sessions.
    pub pipelined: u64,
    /// Bytes of replies.
    pub reply_bytes: u64,
    /// Microseconds of waiting for a server or a connection, of all statements.
    pub wait_us: u64,
    /// Microseconds from sent to answered, of all statements.
    pub time_us: u64,
    /// The part of it until the first bytes of the reply came.
    pub server_us: u64,
    /// The least of one statement; `None` before the first.
    pub time_us_min: Option<u64>,
    /// The most of one statement.
    pub time_us_max: u64,
}

impl DigestFigures {
    /// Adds other statements.
    pub fn add(&mut self, other: &DigestFigures) {
        self.statements += other.statements;
        self.errors += other.errors;
        self.rows_sent = self.rows_sent.saturating_add(other.rows_sent);
        self.rows_affected = self.rows_affected.saturating_add(other.rows_affected);
        self.on_primary += other.on_primary;
        self.on_replicas += other.on_replicas;
        self.pipelined += other.pipelined;
        self.reply_bytes = self.reply_bytes.saturating_add(other.reply_bytes);
        self.wait_us = self.wait_us.saturating_add(other.wait_us);
        self.time_us = self.time_us.saturating_add(other.time_us);
        self.server_us = self.server_us.saturating_add(other.server_us);
        self.time_us_min = match (self.time_us_min, other.time_us_min) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        self.time_us_max = self.time_us_max.max(other.time_us_max);
    }
}

/// One statement that was run.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// The code of the error that it ended in; 0 if that is not known.
    pub error: Option<u16>,
    /// Rows sent to the client.
    pub rows_sent: u64,
    /// Rows that the server said were changed.
    pub rows_affected: u64,
    /// Bytes of the reply.
    pub reply_bytes: u64,
    /// The runner of the statement.
    pub by: RanBy,
    /// It shared a connection with reads of other sessions.
    pub pipelined: bool,
    /// Microseconds of waiting for a server or a connection.
    pub wait_us: u64,
    /// Microseconds from sent to answered.
    pub time_us: u64,
    /// The part of it until the first bytes of the reply came.
    pub server_us: u64,
    /// When it was answered.
    pub at: Instant,
    /// The hash of the very text with all its values, of a read that a server ran; 0 is none.
    pub question: u64,
}

impl Ran {
    /// A statement that no server ran to its end: no time, no rows.
    pub fn unserved(error: Option<u16>, at: Instant) -> Ran {
        Ran {
            error,
            rows_sent: 0,
            rows_affected: 0,
            reply_bytes: 0,
            by: RanBy::Nobody,
            pipelined: false,
            wait_us: 0,
            time_us: 0,
            server_us: 0,
            at,
            question: 0,
        }
    }
}

/// The runner of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RanBy {
    /// The primary.
    Primary,
    /// Another server.
    Replica,
    /// None to its end, as far as is known: it has no time.
    Nobody,
    /// The result cache: it has no time, and saved so much.
    Cache {
        /// Microseconds that a server took for the answer.
        saved_us: u64,
        /// Bytes of the reply.
        bytes: u64,
    },
}

/// The name of a digest: hash, text, user, schema and cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestName {
    /// The hash of the digest: equal for every user and schema.
    pub hash: u64,
    /// The statement without its literals, perhaps cut.
    pub text: Arc<str>,
    /// The user.
    pub user: Arc<str>,
    /// The session's schema; empty is none.
    pub schema: Arc<str>,
    /// The cluster whose servers ran it.
    pub cluster: Arc<str>,
}

/// One entry of a table, as it was when it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestRow {
    /// The digest's name.
    pub name: Arc<DigestName>,
    /// Further clusters whose servers ran it: only a sum over clusters has them.
    pub other_clusters: Vec<Arc<str>>,
    /// The digest's figures.
    pub figures: DigestFigures,
    /// The effect of the result cache.
    pub cached: CachedFigures,
    /// The questions to servers, if their statements only read.
    pub questions: Option<Box<Questions>>,
    /// Times by size, and errors by code.
    pub spread: Box<Spread>,
    /// The text of a slow statement with its literals, if one is kept. It is for servers alone: no reply and no log has it.
    pub sample: Option<Sample>,
    /// When the first statement was answered that counts here.
    pub first_seen: SystemTime,
    /// When the last one was.
    pub last_seen: SystemTime,
}

impl DigestRow {
    /// The clusters that ran it, by name.
    pub fn clusters(&self) -> Vec<&str> {
        let others = self.other_clusters.iter();
        let mut clusters: Vec<&str> = std::iter::once(&self.name.cluster).chain(others).map(|name| &**name).collect();
        clusters.sort_unstable();
        clusters
    }
}

/// A table, or the sum of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DigestReport {
    /// The entries, in no order until they are sorted.
    pub rows: Vec<DigestRow>,
    /// All that has no entry.
    pub others: DigestFigures,
    /// The effect of the result cache on those.
    pub others_cached: CachedFigures,
}

/// The longest text of a sample, in bytes.
pub const SAMPLE_BYTES_MAX: usize = 8 << 10;

/// The text of a statement with its literals. Its `Debug` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Sample(pub Arc<[u8]>);

impl std::fmt::Debug for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sample({} bytes)", self.0.len())
    }
}

/// The place of a statement in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// It has no entry: [`DigestTable::admit`] decides.
    Missing,
    /// It is counted.
    Done,
    /// It is counted, and slower than the sample: [`DigestTable::sample`] takes its text.
    Slower,
}

/// Takes the report of one worker.
pub type Deliver = Box<dyn FnOnce(DigestReport) + Send>;

/// A source of digests: the workers.
pub trait DigestSource: Send + Sync {
    /// Asks every worker for its table, which is emptied then if `reset` says so; `deliver` makes for each what takes its
    /// report. A worker that has ended drops it.
    fn ask(&self, reset: bool, deliver: &mut dyn FnMut() -> Deliver);
}

/// Asks every worker for its table, and hands each report to `take`.
pub fn ask_each(source: &dyn DigestSource, reset: bool, take: impl Fn(DigestReport) + Clone + Send + 'static) {
    source.ask(reset, &mut || Box::new(take.clone()));
}

/// Has none.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDigests;

impl DigestSource for NoDigests {
    fn ask(&self, _: bool, _: &mut dyn FnMut() -> Deliver) {}
}
