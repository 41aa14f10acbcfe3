//! Commands of an operator to the clusters: a trait that the control plane implements.

use facts::command::{Accepted, Command, Refused};
use tokio::sync::oneshot;

/// Takes an operator's commands.
pub trait Steering: Send + Sync {
    /// Gives a command to a cluster. The answer does not wait for servers; what was accepted is done afterwards.
    ///
    /// # Errors
    /// Too many commands wait already, or the cluster is no longer watched.
    fn command(&self, cluster: &str, command: Command) -> Result<oneshot::Receiver<Answer>, Busy>;
}

/// The answer to a command.
pub type Answer = Result<Accepted, Refused>;

/// The cluster takes no command now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;
