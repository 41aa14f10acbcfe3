//! Clients that have come and wait for their worker to begin with them.
//!
//! Accepting is cheap, a greeting is not: clients that come by the thousand would stand before the statements of sessions. So a
//! worker begins with a few of them, then does what its sessions have ready, and goes on with the next ones.

use std::collections::VecDeque;

use crate::shared::NewClient;

/// Clients that a worker begins with before its sessions have their turn. The event loop does 61 pieces of work in a turn, and
/// a client that leaves again at once takes three: its greeting, its end, and the message of its coming.
const BEGUN_AT_ONCE: usize = 16;

/// The clients of one worker that it has not begun with. The memory for logins bounds their number.
#[derive(Debug, Default)]
pub struct Newcomers(VecDeque<Box<NewClient>>);

impl Newcomers {
    /// A client has come.
    pub fn push(&mut self, client: Box<NewClient>) {
        self.0.push_back(client);
    }

    /// Some wait.
    pub fn is_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Those to begin with in this turn, in the order in which they came.
    pub fn next(&mut self) -> impl Iterator<Item = NewClient> + '_ {
        let some = self.0.len().min(BEGUN_AT_ONCE);
        self.0.drain(..some).map(|client| *client)
    }
}
