//! Errors of starting the control plane.

/// The control plane could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The admin address cannot be listened on.
    #[error("cannot listen on {address} (key admin.address): {cause}")]
    AdminAddress {
        /// As configured.
        address: String,
        /// The system's error.
        #[source]
        cause: std::io::Error,
    },
    /// No thread or no runtime could be made.
    #[error("cannot start the control thread: {0}")]
    Thread(#[source] std::io::Error),
}
