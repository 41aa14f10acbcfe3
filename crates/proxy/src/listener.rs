//! Accepting clients, and giving each to the worker with the fewest sessions.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use net::Address;
use net::stream::Detached;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use wire::errno;

use crate::error::Refusal;
use crate::shared::{Counted, ListenerShared, Mail, Mailboxes, NewClient, Shared};
use crate::turned_away::TurnedAway;

/// Pause after an accept that failed, so that a lack of file descriptors does not become a busy loop.
const PAUSE: Duration = Duration::from_millis(20);

/// Why a client is turned away: places in [`stats::REFUSED_CLIENTS`].
pub const MAX_SESSIONS: usize = 0;
/// The process has no more files for clients.
pub const OPEN_FILES: usize = 1;
/// There is no more memory for clients that have not logged in.
pub const LOGIN_MEMORY: usize = 2;
/// The client's address has as many connections or sessions as it may have.
pub const ADDRESS: usize = 3;

/// A bound socket.
#[derive(Debug)]
pub enum Bound {
    /// TCP.
    Tcp(TcpListener),
    /// A local socket, and its file, which goes with it.
    Unix(UnixListener, SocketFile),
}

/// The file of a local socket.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and number: the file at `path` may be another process's by now.
    identity: Option<(u64, u64)>,
}

impl Bound {
    /// Binds an address. Must be called on a runtime.
    ///
    /// # Errors
    /// The system refused: the address is in use, forbidden or does not exist here.
    pub async fn bind(address: &Address, settings: &config::Listener) -> io::Result<Bound> {
        match address {
            Address::Tcp { host, port } => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                for address in tokio::net::lookup_host((host.as_str(), *port)).await? {
                    match bind_tcp(address, settings.backlog) {
                        Ok(listener) => return Ok(Bound::Tcp(listener)),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
            Address::Unix(path) => bind_unix(path, settings),
        }
    }

    /// Where clients reach it.
    pub fn address(&self) -> io::Result<String> {
        match self {
            Bound::Tcp(listener) => Ok(listener.local_addr()?.to_string()),
            Bound::Unix(_, file) => Ok(format!("unix:{}", file.path.display())),
        }
    }

    async fn accept(&self) -> io::Result<Detached> {
        match self {
            Bound::Tcp(listener) => Ok(listener.accept().await?.0.into_std()?.into()),
            Bound::Unix(listener, _) => Ok(listener.accept().await?.0.into_std()?.into()),
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            // The file is of no use without its listener.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The device and number of a socket's file; `None` when there is none or it is something else.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let file = std::fs::symlink_metadata(path).ok().filter(|file| file.file_type().is_socket())?;
    Some((file.dev(), file.ino()))
}

fn bind_unix(path: &Path, settings: &config::Listener) -> io::Result<Bound> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    let address = SockAddr::unix(path)?;
    // A socket that a stopped process left behind would be in the way for ever. Only a refusal proves that no process listens.
    if identity(path).is_some() {
        let asking = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        asking.set_nonblocking(true)?;
        if asking.connect(&address).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
            std::fs::remove_file(path)?;
        }
    }
    socket.bind(&address)?;
    // From here on the file goes with this value. Until its mode is set no socket listens.
    let file = SocketFile { path: path.to_owned(), identity: identity(path) };
    std::fs::set_permissions(path, Permissions::from_mode(settings.socket_mode))?;
    socket.listen(i32::try_from(settings.backlog).unwrap_or(i32::MAX))?;
    Ok(Bound::Unix(UnixListener::from_std(socket.into())?, file))
}

fn bind_tcp(address: std::net::SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { tokio::net::TcpSocket::new_v4()? } else { tokio::net::TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(backlog)
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
    let files = shared.files.load();
    let Some(of_process) = Counted::begin(&shared.clients, files.clients_max) else {
        let why = format_args!(
            "Too many connections: this process may open {} files, which is enough for {} clients (LimitNOFILE of the systemd \
             unit, ulimit -n)",
            files.open_files, files.clients_max
        );
        let refusal = Refusal::own(errno::ER_CON_COUNT_ERROR, b"08004", why);
        return turn_away(socket, refusal, OPEN_FILES, listener, mailboxes);
    };
    let max = listener.settings.load().max_sessions;
    let Some(counted) = Counted::begin(&listener.sessions, max) else {
        let refusal = Refusal::own(
            errno::ER_CON_COUNT_ERROR,
            b"08004",
            format_args!("Too many connections: listener '{}' has {max} sessions (max_sessions)", listener.name),
        );
        return turn_away(socket, refusal, MAX_SESSIONS, listener, mailboxes);
    };
    let Some(memory) = shared.login_memory.admit() else {
        let why =
            "Too many connections: all memory for clients that have not logged in is in use (proxy.login_memory_max)";
        let refusal = Refusal::own(errno::ER_CON_COUNT_ERROR, b"08004", why);
        return turn_away(socket, refusal, LOGIN_MEMORY, listener, mailboxes);
    };
    let load = |worker: &usize| shared.worker_clients[*worker].load(Ordering::Relaxed);
    let Some(worker) = (0..mailboxes.len()).min_by_key(load) else { return };
    let of_worker = Counted::begin(&shared.worker_clients[worker], u32::MAX);
    let client = NewClient { socket, listener: listener.clone(), counted, of_process, of_worker, memory };
    // A worker that is gone has dropped its mailbox: the client is closed with the mail.
    let _ = mailboxes[worker].send(Mail::Client(Box::new(client)));
}

/// Says why there is no place, as far as the socket takes it at once.
fn turn_away(
    mut socket: Detached,
    refusal: Refusal,
    reason: usize,
    listener: &Arc<ListenerShared>,
    mailboxes: &Mailboxes,
) {
    let mut out = Vec::new();
    let begun = wire::packet::begin(&mut out);
    refusal.as_packet().write(&mut out);
    begun.end(&mut out, 0);
    if let Err(error) = socket.write(&out) {
        tracing::debug!(%error, "a client left before it got the error of a full process");
    }
    if let Some(first) = mailboxes.first() {
        let address = socket.peer_ip();
        let (listener, cluster) = (listener.name.clone(), listener.cluster.name.clone());
        let Refusal { code, message, .. } = refusal;
        let client = TurnedAway { reason, code, message, listener, cluster, address };
        // A worker that is gone counts no more.
        let _ = first.send(Mail::Refused(Box::new(client)));
    }
}
