//! Errors of starting the control plane.

/// The control plane could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No thread or no runtime could be made.
    #[error("cannot start the control thread: {0}")]
    Thread(#[source] std::io::Error),
}
