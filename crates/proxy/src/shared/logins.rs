//! The order of logins, and of changes of accounts: connections of before are not for clients that came later.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use facts::view::ServerId;

/// Counts the clients that log in to a cluster, COM_CHANGE_USER included.
///
/// Servers read an account's rights, roles and lock when it logs in, and keep them for the connection. A session gets a
/// connection that has logged in after its client began to: its number is not above the connection's. So a session has
/// what a login of its own would have had, whoever changed the account, and wherever.
#[derive(Debug, Default)]
pub struct Logins(AtomicU64);

impl Logins {
    /// A client begins to log in; its number.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The number of a connection that logs in from now on.
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A change of accounts that was made through here.
#[derive(Clone, Copy, Debug)]
pub struct AccountChange {
    /// Where.
    pub server: ServerId,
    /// When its reply was over.
    pub at: Instant,
    /// The last client that had begun to log in by then.
    pub login: u64,
}
