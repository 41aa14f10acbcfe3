//! Changes of the servers' data, reported in the order of their commits to the listener that keeps results of reads.
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
    pub what: ChangeScope,
}

/// The changes of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeScope {
    /// These tables. Changes that are not in the binary log are not here: rows that foreign keys change in other
    /// tables (`ON DELETE CASCADE`), and the work of triggers of a statement that was logged as text. For these see
    /// [`crate::tables::TableCatalog::written_by`].
    Tables(Vec<TableChange>),
    /// The tables are not known: any may have changed. The text is the reason, for logs.
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

/// A message of the stream of changes to its listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeMessage {
    /// A transaction is in the binary log. Sessions on the primary may not see it yet: a server writes the log before the
    /// engine commits. They see it after [`ChangeMessage::Visible`].
    Change(Change),
    /// So many more changes are visible on the primary: the oldest ones that were not visible yet.
    Visible(usize),
    /// The listener has every change that was committed, and confirmed to its client, before this moment.
    CaughtUp {
        /// The moment, by this process's clock; it goes back only after [`ChangeMessage::Lost`].
        as_of: Instant,
    },
    /// The stream is lost: changes may be missing until the next [`ChangeMessage::CaughtUp`]. Changes that were not
    /// visible come again, if they are still in the log. If the stream cannot continue at its position,
    /// [`ChangeScope::Everything`] comes in between.
    Lost {
        /// Why, for logs.
        why: String,
    },
}

/// The receiver of a cluster's changes. The control plane's thread calls it, and it must not wait.
pub trait ChangeListener: Send + Sync {
    /// Takes the next message, in order.
    fn receive(&self, message: ChangeMessage);

    /// How far the log may be behind for what is heard to be of use; for who looks at it.
    fn delay_max(&self) -> Option<Duration> {
        None
    }
}
