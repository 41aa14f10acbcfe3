//! Errors of starting the admin listener.

/// The admin listener could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address} (key admin.address): {cause}")]
    Address {
        /// As configured.
        address: String,
        /// The system's error.
        #[source]
        cause: std::io::Error,
    },
    /// No thread or no runtime could be made.
    #[error("cannot start the admin thread: {0}")]
    Thread(#[source] std::io::Error),
}
