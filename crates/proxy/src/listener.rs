//! Accepting clients, and giving each to the worker with the fewest sessions.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use net::Address;
use net::stream::Detached;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;

use crate::error::Refusal;
use crate::shared::{Counted, ListenerShared, Mail, Mailboxes, NewClient, Shared};

/// Clients that may wait in the kernel to be accepted.
const BACKLOG: u32 = 4096;
/// Pause after an accept that failed, so that a lack of file descriptors does not become a busy loop.
const PAUSE: Duration = Duration::from_millis(20);

/// A bound socket.
#[derive(Debug)]
pub enum Bound {
    /// TCP.
    Tcp(TcpListener),
    /// A local socket, and its file, which goes with it.
    Unix(UnixListener, PathBuf),
}

impl Bound {
    /// Binds an address. Must be called on a runtime.
    ///
    /// # Errors
    /// The system refused: the address is in use, forbidden or does not exist here.
    pub async fn bind(address: &Address) -> io::Result<Bound> {
        match address {
            Address::Tcp { host, port } => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                for address in tokio::net::lookup_host((host.as_str(), *port)).await? {
                    match bind_tcp(address) {
                        Ok(listener) => return Ok(Bound::Tcp(listener)),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
            Address::Unix(path) => {
                // A socket that a stopped process left behind would be in the way for ever.
                if std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
                    && std::os::unix::net::UnixStream::connect(path).is_err()
                {
                    std::fs::remove_file(path)?;
                }
                Ok(Bound::Unix(UnixListener::bind(path)?, path.clone()))
            }
        }
    }

    /// Where clients reach it.
    pub fn address(&self) -> io::Result<String> {
        match self {
            Bound::Tcp(listener) => Ok(listener.local_addr()?.to_string()),
            Bound::Unix(_, path) => Ok(format!("unix:{}", path.display())),
        }
    }

    async fn accept(&self) -> io::Result<Detached> {
        match self {
            Bound::Tcp(listener) => Ok(Detached::Plain(listener.accept().await?.0.into_std()?)),
            Bound::Unix(listener, _) => Ok(Detached::Unix(listener.accept().await?.0.into_std()?)),
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Bound::Unix(_, path) = self {
            // The file is of no use without its listener.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn bind_tcp(address: std::net::SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { tokio::net::TcpSocket::new_v4()? } else { tokio::net::TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts clients until `stop` says so.
pub async fn run(
    bound: Bound,
    listener: Arc<ListenerShared>,
    shared: Arc<Shared>,
    mailboxes: Mailboxes,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = bound.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        match accepted {
            Ok(socket) => dispatch(socket, &listener, &shared, &mailboxes),
            Err(error) => {
                tracing::warn!(listener = %listener.name, %error, "a client could not be accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

fn dispatch(socket: Detached, listener: &Arc<ListenerShared>, shared: &Shared, mailboxes: &Mailboxes) {
    let max = listener.settings.load().max_sessions;
    let Some(counted) = Counted::begin(&listener.sessions, max) else {
        let refusal = Refusal::own(
            1040,
            b"08004",
            format_args!("Too many connections: listener '{}' has {max} sessions (max_sessions)", listener.name),
        );
        return turn_away(socket, &refusal);
    };
    let load = |worker: &usize| shared.worker_clients[*worker].load(Ordering::Relaxed);
    let Some(worker) = (0..mailboxes.len()).min_by_key(load) else { return };
    let of_worker = Counted::begin(&shared.worker_clients[worker], u32::MAX);
    let client = NewClient { socket, listener: listener.clone(), counted, of_worker };
    // A worker that is gone has dropped its mailbox: the client is closed with the mail.
    let _ = mailboxes[worker].send(Mail::Client(Box::new(client)));
}

/// Says why there is no place, as far as the socket takes it at once.
fn turn_away(socket: Detached, refusal: &Refusal) {
    let mut out = Vec::new();
    let begun = wire::packet::begin(&mut out);
    refusal.as_packet().write(&mut out);
    begun.end(&mut out, 0);
    let written = match socket {
        Detached::Plain(mut tcp) => io::Write::write(&mut tcp, &out),
        Detached::Unix(mut unix) => io::Write::write(&mut unix, &out),
    };
    if let Err(error) = written {
        tracing::debug!(%error, "a client left before it was told that there is no place");
    }
}
