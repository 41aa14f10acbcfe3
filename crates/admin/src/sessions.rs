//! Sessions of the data plane: a trait that the process implements.

use std::pin::Pin;

use facts::sessions::{Relieved, SessionFacts};

/// An answer that takes some time.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The sessions, for reading, for ending and for moving them.
pub trait Sessions: Send + Sync {
    /// All sessions, in the order of their ids.
    fn list(&self) -> Later<Vec<SessionFacts>>;

    /// All sessions, without the form of what runs and with times to the second: no session is asked, and nothing waits.
    fn glance(&self) -> Vec<SessionFacts>;

    /// Ends a session, or what it runs.
    fn kill(&self, kill: Kill) -> Later<Result<bool, String>>;

    /// Has a worker give sessions to another one. With `dry_run` only says to which, and how many.
    fn relieve(&self, worker: usize, dry_run: bool) -> Later<Result<Relieved, String>>;
}

/// A session that is to end, or its statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The session's id.
    pub id: u32,
    /// The statement alone.
    pub query_only: bool,
    /// Only while it still has a query, or none, and that digest: as it was when somebody looked.
    pub seen: Option<(bool, u64)>,
}
