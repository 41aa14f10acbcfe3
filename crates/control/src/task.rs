//! Tasks of the control thread that end with their owners.

use tokio::task::JoinHandle;

/// A task that ends with its owner.
pub(crate) struct Owned(JoinHandle<()>);

impl Owned {
    /// Waits until the task has ended by itself, or by a panic.
    pub(crate) async fn ended(mut self) {
        let _ = (&mut self.0).await;
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts a task. Must be called within a `LocalSet`.
pub(crate) fn own(task: impl Future<Output = ()> + 'static) -> Owned {
    Owned(tokio::task::spawn_local(task))
}
