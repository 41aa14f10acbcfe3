//! A connection of any kind.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use wire::handshake::Channel;

/// A connection to a client or a server.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Plain(TcpStream),
    /// A local socket.
    Unix(UnixStream),
    /// TLS over TCP, as either side.
    Tls(Box<tokio_rustls::TlsStream<TcpStream>>),
}

/// A connection that belongs to no runtime; it may be sent to another thread.
#[derive(Debug)]
pub enum Detached {
    /// TCP.
    Plain(std::net::TcpStream),
    /// A local socket.
    Unix(StdUnixStream),
}

/// Why a connection stays with its runtime.
#[derive(Debug, thiserror::Error)]
pub enum DetachError {
    /// TLS streams are bound to their runtime's socket; here it is back.
    #[error("a TLS connection cannot leave its runtime")]
    Tls(Box<Stream>),
    /// The system refused; the connection is lost.
    #[error("the connection could not be taken from its runtime: {0}")]
    Io(#[from] io::Error),
}

/// How a TCP connection finds out that its peer is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Unanswered probes until the connection is dead.
    pub probes: u32,
    /// How long sent bytes may stay unacknowledged (Linux).
    pub unacknowledged_max: Duration,
}

impl Default for Keepalive {
    /// A peer that vanished is noticed after half a minute of silence or of unanswered writes.
    fn default() -> Keepalive {
        Keepalive {
            idle: Duration::from_secs(15),
            interval: Duration::from_secs(5),
            probes: 3,
            unacknowledged_max: Duration::from_secs(30),
        }
    }
}

impl Stream {
    /// What others can read of it.
    pub fn channel(&self) -> Channel {
        if self.is_secure() { Channel::Secure } else { Channel::Open }
    }

    /// TLS or a local socket: a password may pass as it is.
    pub fn is_secure(&self) -> bool {
        !matches!(self, Stream::Plain(_))
    }

    /// TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }

    /// The TLS version and cipher suite, in words.
    pub fn tls_description(&self) -> Option<String> {
        let Stream::Tls(tls) = self else { return None };
        let (_, connection) = tls.get_ref();
        let version = connection.protocol_version()?;
        let suite = connection.negotiated_cipher_suite()?.suite();
        Some(format!("{} {}", version.as_str().unwrap_or("TLS"), suite.as_str().unwrap_or("unknown suite")))
    }

    /// The peer's address; `None` for local sockets and when the connection is gone already.
    pub fn peer_ip(&self) -> Option<IpAddr> {
        self.peer_addr().map(|address| address.ip().to_canonical())
    }

    /// The peer's address and port; `None` for local sockets and when the connection is gone already.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.tcp()?.peer_addr().ok()
    }

    /// The TCP socket below, for options; never read or write through it.
    pub fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Stream::Plain(tcp) => Some(tcp),
            Stream::Unix(_) => None,
            Stream::Tls(tls) => Some(tls.get_ref().0),
        }
    }

    /// Sends small packets at once. Local sockets always do.
    ///
    /// # Errors
    /// The system refused.
    pub fn set_nodelay(&self) -> io::Result<()> {
        self.tcp().map_or(Ok(()), |tcp| tcp.set_nodelay(true))
    }

    /// Notices a peer that vanished without a word. Local sockets need none of it.
    ///
    /// # Errors
    /// The system refused.
    pub fn set_keepalive(&self, keepalive: &Keepalive) -> io::Result<()> {
        let Some(tcp) = self.tcp() else { return Ok(()) };
        let socket = SockRef::from(tcp);
        let probing = TcpKeepalive::new()
            .with_time(keepalive.idle)
            .with_interval(keepalive.interval)
            .with_retries(keepalive.probes);
        socket.set_tcp_keepalive(&probing)?;
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(keepalive.unacknowledged_max))?;
        Ok(())
    }

    /// Takes the connection from its runtime.
    ///
    /// # Errors
    /// [`DetachError::Tls`] gives a TLS connection back unharmed.
    pub fn detach(self) -> Result<Detached, DetachError> {
        match self {
            Stream::Plain(tcp) => Ok(Detached::Plain(tcp.into_std()?)),
            Stream::Unix(unix) => Ok(Detached::Unix(unix.into_std()?)),
            Stream::Tls(_) => Err(DetachError::Tls(Box::new(self))),
        }
    }

    /// Gives a connection to the current runtime.
    ///
    /// # Errors
    /// The system refused.
    pub fn attach(detached: Detached) -> io::Result<Stream> {
        match detached {
            Detached::Plain(tcp) => {
                tcp.set_nonblocking(true)?;
                TcpStream::from_std(tcp).map(Stream::Plain)
            }
            Detached::Unix(unix) => {
                unix.set_nonblocking(true)?;
                UnixStream::from_std(unix).map(Stream::Unix)
            }
        }
    }
}

impl From<TcpStream> for Stream {
    fn from(tcp: TcpStream) -> Stream {
        Stream::Plain(tcp)
    }
}

impl From<UnixStream> for Stream {
    fn from(unix: UnixStream) -> Stream {
        Stream::Unix(unix)
    }
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Stream::Unix(unix) => Pin::new(unix).poll_read(cx, buffer),
            Stream::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Stream::Unix(unix) => Pin::new(unix).poll_write(cx, bytes),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, slices),
            Stream::Unix(unix) => Pin::new(unix).poll_write_vectored(cx, slices),
            Stream::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(tcp) => tcp.is_write_vectored(),
            Stream::Unix(unix) => unix.is_write_vectored(),
            Stream::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Stream::Unix(unix) => Pin::new(unix).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Unix(unix) => Pin::new(unix).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}
