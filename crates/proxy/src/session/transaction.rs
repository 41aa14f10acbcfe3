//! The open transaction of a session. Each COMMIT and ROLLBACK ends it, whichever way the client hears of that.

use ::facts::tables::TableScope;

use super::cache::TransactionReads;
use super::transaction_log::TransactionLog;

/// The open transaction, or the statement that is one by itself.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// Its statements, so that it can be run again elsewhere.
    pub log: Option<Box<TransactionLog>>,
    /// Its reads, for the result cache.
    pub reads: TransactionReads,
    /// The tables that it may have written.
    pub written: Option<TableScope>,
    /// Something may have been written in it.
    pub writes_open: bool,
}
