//! A connection of any kind.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use wire::compress::{Codec, Compression, Side};
use wire::handshake::Channel;

use crate::compressed::Compressed;
use crate::socket;
use crate::tls_socket::TlsSocket;

/// A connection to a client or a server.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Plain(TcpStream),
    /// A local socket.
    Unix(UnixStream),
    /// TLS over TCP, as either side.
    Tls(Box<tokio_rustls::TlsStream<TlsSocket>>),
    /// One of the others, in the compressed protocol.
    Compressed(Box<Compressed>),
}

/// A connection that belongs to no runtime; it may be sent to another thread.
#[derive(Debug)]
pub struct Detached {
    socket: Socket,
    /// The compressed protocol is spoken.
    codec: Option<Box<(Codec, Side)>>,
}

#[derive(Debug)]
enum Socket {
    Plain(std::net::TcpStream),
    Unix(StdUnixStream),
    Tls(Box<tokio_rustls::TlsStream<TlsSocket>>),
}

impl From<std::net::TcpStream> for Detached {
    fn from(tcp: std::net::TcpStream) -> Detached {
        Detached { socket: Socket::Plain(tcp), codec: None }
    }
}

impl From<StdUnixStream> for Detached {
    fn from(unix: StdUnixStream) -> Detached {
        Detached { socket: Socket::Unix(unix), codec: None }
    }
}

impl Detached {
    /// The peer's address; `None` for local sockets and when the connection is gone already.
    pub fn peer_ip(&self) -> Option<std::net::IpAddr> {
        match &self.socket {
            Socket::Plain(tcp) => tcp.peer_addr().ok().map(|address| address.ip().to_canonical()),
            Socket::Tls(tls) => tls.get_ref().0.peer_addr().ok().map(|address| address.ip().to_canonical()),
            Socket::Unix(_) => None,
        }
    }

    /// Writes as much as the socket takes at once, for a last word.
    ///
    /// # Errors
    /// The socket takes nothing, or is closed.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.socket {
            Socket::Plain(tcp) => io::Write::write(tcp, bytes),
            Socket::Unix(unix) => io::Write::write(unix, bytes),
            // It would have to be encrypted.
            Socket::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Why a connection stays with its runtime.
#[derive(Debug, thiserror::Error)]
pub enum DetachError {
    /// A compressed frame that is in work belongs to its thread; here the connection is back.
    #[error("the connection cannot leave its runtime")]
    Stays(Box<Stream>),
    /// The system refused; the connection is lost.
    #[error("the connection could not be taken from its runtime: {0}")]
    Io(#[from] io::Error),
}

/// How a TCP connection finds out that its peer is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence before the first probe; zero sends none.
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Unanswered probes until the connection is dead.
    pub probes: u32,
    /// How long sent bytes may stay unacknowledged (Linux); zero is the system's own limit.
    pub unacknowledged_max: Duration,
}

impl Keepalive {
    /// A peer that vanished is noticed after twice this silence, or after this time of unanswered writes.
    pub fn after(idle: Duration, unacknowledged_max: Duration) -> Keepalive {
        let interval = (idle / 3).max(Duration::from_secs(1));
        Keepalive { idle, interval, probes: 3, unacknowledged_max }
    }
}

impl Default for Keepalive {
    /// A peer that vanished is noticed after half a minute of silence or of unanswered writes.
    fn default() -> Keepalive {
        Keepalive::after(Duration::from_secs(15), Duration::from_secs(30))
    }
}

impl Stream {
    /// Whether others can read the connection.
    pub fn channel(&self) -> Channel {
        if self.is_secure() { Channel::Secure } else { Channel::Open }
    }

    /// TLS or a local socket: a password may pass as it is.
    pub fn is_secure(&self) -> bool {
        !matches!(self.below(), Stream::Plain(_))
    }

    /// TLS.
    pub fn is_tls(&self) -> bool {
        matches!(self.below(), Stream::Tls(_))
    }

    /// Bytes that were written may wait inside: only a flush sends all of them.
    #[inline]
    pub fn is_buffered(&self) -> bool {
        matches!(self, Stream::Tls(_) | Stream::Compressed(_))
    }

    /// Goes on in the compressed protocol, as `side`.
    #[must_use]
    pub fn compressed(self, compression: Compression, side: Side) -> Stream {
        Stream::Compressed(Box::new(Compressed::new(self, compression, side)))
    }

    /// How it is compressed.
    pub fn compression(&self) -> Option<Compression> {
        match self {
            Stream::Compressed(compressed) => Some(compressed.compression()),
            _ => None,
        }
    }

    /// The stream below compression.
    fn below(&self) -> &Stream {
        match self {
            Stream::Compressed(compressed) => compressed.inner(),
            other => other,
        }
    }

    /// The certificate that the peer showed, as DER; `None` without TLS, and when it showed none.
    pub fn peer_certificate(&self) -> Option<&[u8]> {
        Some(self.tls()?.peer_certificates()?.first()?.as_ref())
    }

    /// The TLS cipher suite by the name that servers show and accounts require (`Ssl_cipher`, `REQUIRE CIPHER`): OpenSSL's.
    pub fn tls_cipher(&self) -> Option<&'static str> {
        Some(crate::tls::openssl_name(self.tls()?.negotiated_cipher_suite()?.suite()))
    }

    fn tls(&self) -> Option<&rustls::CommonState> {
        match self.below() {
            Stream::Tls(tls) => Some(tls.get_ref().1),
            _ => None,
        }
    }

    /// The peer's address and port; `None` for local sockets and when the connection is gone already.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.tcp()?.peer_addr().ok()
    }

    /// The TCP socket below, for options; never read or write through it.
    pub fn tcp(&self) -> Option<&TcpStream> {
        match self.below() {
            Stream::Plain(tcp) => Some(tcp),
            Stream::Tls(tls) => tls.get_ref().0.tcp(),
            Stream::Unix(_) | Stream::Compressed(_) => None,
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
        if !keepalive.idle.is_zero() {
            let probing = TcpKeepalive::new()
                .with_time(keepalive.idle)
                .with_interval(keepalive.interval)
                .with_retries(keepalive.probes);
            socket.set_tcp_keepalive(&probing)?;
        }
        #[cfg(target_os = "linux")]
        if !keepalive.unacknowledged_max.is_zero() {
            socket.set_tcp_user_timeout(Some(keepalive.unacknowledged_max))?;
        }
        Ok(())
    }

    /// Whether the peer has neither said anything nor closed the connection, as far as the event loop knows. Bytes that have come are
    /// lost by this. Costs no system call while nothing came.
    pub fn is_quiet(&mut self) -> bool {
        if let Stream::Plain(tcp) = self {
            return socket::is_quiet(tcp);
        }
        let mut context = Context::from_waker(Waker::noop());
        Pin::new(self).poll_read(&mut context, &mut ReadBuf::new(&mut [0])).is_pending()
    }

    /// Takes the connection from its runtime.
    ///
    /// # Errors
    /// [`DetachError::Stays`] gives a connection back unharmed.
    pub fn detach(self) -> Result<Detached, DetachError> {
        match self {
            Stream::Plain(tcp) => Ok(tcp.into_std()?.into()),
            Stream::Unix(unix) => Ok(unix.into_std()?.into()),
            Stream::Tls(mut tls) => {
                tls.get_mut().0.detach()?;
                Ok(Detached { socket: Socket::Tls(tls), codec: None })
            }
            Stream::Compressed(compressed) => match compressed.take_apart() {
                Ok((inner, codec, side)) => match inner.detach() {
                    Ok(detached) => Ok(Detached { codec: Some(Box::new((codec, side))), ..detached }),
                    Err(DetachError::Stays(inner)) => {
                        let back = Compressed::with(*inner, codec, side);
                        Err(DetachError::Stays(Box::new(Stream::Compressed(Box::new(back)))))
                    }
                    Err(error) => Err(error),
                },
                Err(back) => Err(DetachError::Stays(Box::new(Stream::Compressed(back)))),
            },
        }
    }

    /// Gives a connection to the current runtime.
    ///
    /// # Errors
    /// The system refused.
    pub fn attach(detached: Detached) -> io::Result<Stream> {
        let stream = match detached.socket {
            Socket::Plain(tcp) => {
                tcp.set_nonblocking(true)?;
                Stream::Plain(TcpStream::from_std(tcp)?)
            }
            Socket::Unix(unix) => {
                unix.set_nonblocking(true)?;
                Stream::Unix(UnixStream::from_std(unix)?)
            }
            Socket::Tls(mut tls) => {
                tls.get_mut().0.attach()?;
                Stream::Tls(tls)
            }
        };
        Ok(match detached.codec {
            Some(codec) => Stream::Compressed(Box::new(Compressed::with(stream, codec.0, codec.1))),
            None => stream,
        })
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

// Apart from the plain sockets' way, which is short enough to be put where it is used.
impl Stream {
    #[inline(never)]
    fn poll_read_otherwise(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(tcp) => socket::poll_read(tcp, cx, buffer),
            Stream::Unix(unix) => Pin::new(unix).poll_read(cx, buffer),
            Stream::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
            Stream::Compressed(compressed) => Pin::new(compressed).poll_read(cx, buffer),
        }
    }

    #[inline(never)]
    fn poll_write_otherwise(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Stream::Unix(unix) => Pin::new(unix).poll_write(cx, bytes),
            Stream::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
            Stream::Compressed(compressed) => Pin::new(compressed).poll_write(cx, bytes),
        }
    }
}

impl AsyncRead for Stream {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => socket::poll_read(tcp, cx, buffer),
            other => other.poll_read_otherwise(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // A socket nearly always has room: only one that has none needs to know whom to wake.
        if let Stream::Plain(tcp) = &*self {
            match socket::try_write(tcp, bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
        self.get_mut().poll_write_otherwise(cx, bytes)
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
            Stream::Compressed(compressed) => Pin::new(compressed).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(tcp) => tcp.is_write_vectored(),
            Stream::Unix(unix) => unix.is_write_vectored(),
            Stream::Tls(tls) => tls.is_write_vectored(),
            Stream::Compressed(_) => false,
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Stream::Unix(unix) => Pin::new(unix).poll_flush(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_flush(cx),
            Stream::Compressed(compressed) => Pin::new(compressed).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Stream::Unix(unix) => Pin::new(unix).poll_shutdown(cx),
            Stream::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
            Stream::Compressed(compressed) => Pin::new(compressed).poll_shutdown(cx),
        }
    }
}
