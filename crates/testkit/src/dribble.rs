//! A way on which bytes come one at a time.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// Bytes of a read that go on one by one; the rest of it goes in pieces of growing size, so that long replies end.
const SINGLE_BYTES: usize = 600;

/// A relay in front of a server that sends each byte of both directions by itself, as long as a burst is short. It ends when
/// it is dropped.
#[derive(Debug)]
pub struct Dribble {
    address: SocketAddr,
    task: AbortHandle,
}

impl Dribble {
    /// Starts a relay to `server`. Must be called on a runtime.
    pub async fn start(server: SocketAddr) -> Dribble {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(server).await else { continue };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(dribble(from_client, to_server));
                tokio::spawn(dribble(from_server, to_client));
            }
        });
        Dribble { address, task: task.abort_handle() }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Dribble {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn dribble(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    // Without it the kernel would gather the bytes again.
    let _ = to.as_ref().set_nodelay(true);
    let mut buffer = [0; 8192];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let (mut at, mut piece) = (0, 1);
        while at < length {
            let end = (at + piece).min(length);
            if to.write_all(&buffer[at..end]).await.is_err() {
                return;
            }
            at = end;
            if at > SINGLE_BYTES {
                piece = piece * 2 + 1;
            }
            // The reader gets its turn between two bytes.
            tokio::task::yield_now().await;
        }
    }
    let _ = to.shutdown().await;
}
