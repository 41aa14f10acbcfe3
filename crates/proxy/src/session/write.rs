//! Writing to a server.

use std::sync::atomic::Ordering;
use std::task::Poll;

use tokio::io::AsyncWriteExt;

use super::relay::{GIVEN_UP, RelayError};
use crate::pool::Connection;
use crate::sessions::SessionHandle;

/// Writes to a server until it has taken all, or is given up.
pub(super) async fn write_while_alive(
    handle: &SessionHandle,
    stream: &mut net::Stream,
    bytes: &[u8],
) -> Result<(), RelayError> {
    let work = async {
        stream.write_all(bytes).await?;
        if stream.is_buffered() { stream.flush().await } else { Ok(()) }
    };
    tokio::pin!(work);
    std::future::poll_fn(|cx| {
        if handle.abandoned.load(Ordering::Relaxed) {
            return Poll::Ready(Err(RelayError::Server(GIVEN_UP.into())));
        }
        work.as_mut().poll(cx).map_err(|error| RelayError::Server(error.to_string()))
    })
    .await
}

/// Writes to a server.
pub(super) async fn write(connection: &mut Connection, bytes: &[u8]) -> Result<(), RelayError> {
    let lost = |error: std::io::Error| RelayError::Server(error.to_string());
    connection.stream.write_all(bytes).await.map_err(lost)?;
    connection.stream.flush().await.map_err(lost)
}
