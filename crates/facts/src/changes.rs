//! Changes of the servers' data, told in the order of their commits to the listener that keeps results of reads.
//!
//! The control plane follows the primary's binary log as long as somebody listens
//! ([`crate::published::Published::follow_changes`]).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

pub use wire::binlog::changes::Gtid;
pub use wire::binlog::{Key, KeyPart};

/// A transaction's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its name.
    pub gtid: Gtid,
    /// The changes.
    pub what: What,
}

/// The changes of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// These tables. What a log does not hold is not here: rows that foreign keys change in other tables (`ON DELETE CASCADE`),
    /// and of a statement that was logged as text what its triggers do. [`crate::tables::TableCatalog::written_by`] knows that.
    Tables(Vec<TableChange>),
    /// Nobody knows, so anything; and why, for logs.
    Everything(&'static str),
}

/// A table that was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableChange {
    /// Its schema, as the server writes it.
    pub schema: Box<str>,
    /// Its name, as the server writes it.
    pub table: Box<str>,
    /// The primary keys of all rows that were changed, as they were and as they are; `None`: any row.
    pub keys: Option<BTreeSet<Key>>,
    /// It was made, altered, renamed or dropped: what was known of it is no longer so, nor of views that read it.
    pub defined: bool,
}

/// A message to a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A transaction was logged. Sessions on the primary may not see it yet: the log is written before the engine commits. They do
    /// when it is told as [`Told::Visible`].
    Change(Change),
    /// So many more changes can be seen on the primary, the oldest first of those of which this was not told.
    Visible(usize),
    /// All that was committed before this moment, so that its writer was told, has been told.
    CaughtUp {
        /// The moment, by this process's clock; it never goes back but behind [`Told::Lost`].
        as_of: Instant,
    },
    /// The stream is lost: changes may be missing until the next [`Told::CaughtUp`]. Changes that were not visible are told again, where they
    /// are still in the log. Where the stream cannot go on from where it was, [`What::Everything`] stands in between.
    Lost {
        /// Why, for logs.
        why: String,
    },
}

/// Hears what changes. It is called on the control plane's thread and must not wait.
pub trait ChangeListener: Send + Sync {
    /// Hears the next thing, in order.
    fn told(&self, told: Told);

    /// How far the log may be behind for what is heard to be of use; for who looks at it.
    fn delay_max(&self) -> Option<Duration> {
        None
    }
}
