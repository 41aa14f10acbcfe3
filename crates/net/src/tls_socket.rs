//! The socket below TLS, which may leave its runtime while the TLS state above it stays as it is.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A TCP socket that a TLS stream owns.
#[derive(Debug)]
pub struct TlsSocket(State);

#[derive(Debug)]
enum State {
    /// A runtime has it.
    Attached(TcpStream),
    /// No runtime has it.
    Detached(std::net::TcpStream),
    /// The system refused to take it from its runtime, or to give it to one.
    Lost,
}

impl From<TcpStream> for TlsSocket {
    fn from(tcp: TcpStream) -> TlsSocket {
        TlsSocket(State::Attached(tcp))
    }
}

impl TlsSocket {
    /// The socket, while a runtime has it.
    pub fn tcp(&self) -> Option<&TcpStream> {
        match &self.0 {
            State::Attached(tcp) => Some(tcp),
            State::Detached(_) | State::Lost => None,
        }
    }

    /// Takes the socket from its runtime.
    pub(crate) fn detach(&mut self) -> io::Result<()> {
        if let State::Attached(tcp) = std::mem::replace(&mut self.0, State::Lost) {
            self.0 = State::Detached(tcp.into_std()?);
        }
        Ok(())
    }

    /// Gives the socket to the current runtime.
    pub(crate) fn attach(&mut self) -> io::Result<()> {
        if let State::Detached(tcp) = std::mem::replace(&mut self.0, State::Lost) {
            self.0 = State::Attached(TcpStream::from_std(tcp)?);
        }
        Ok(())
    }

    /// The peer's address, whether or not a runtime has the socket.
    pub(crate) fn peer_addr(&self) -> io::Result<std::net::SocketAddr> {
        match &self.0 {
            State::Attached(tcp) => tcp.peer_addr(),
            State::Detached(tcp) => tcp.peer_addr(),
            State::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn attached(self: Pin<&mut Self>) -> io::Result<Pin<&mut TcpStream>> {
        match &mut self.get_mut().0 {
            State::Attached(tcp) => Ok(Pin::new(tcp)),
            State::Detached(_) | State::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl AsyncRead for TlsSocket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.attached()?.poll_read(cx, buffer)
    }
}

impl AsyncWrite for TlsSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.attached()?.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.attached()?.poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.attached()?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.attached()?.poll_shutdown(cx)
    }
}
