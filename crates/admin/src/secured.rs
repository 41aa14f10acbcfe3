//! TLS on the admin listener. Each connection finds out by its first byte what its client speaks, when it is read for the first time: a
//! client that says nothing delays nobody.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use net::Stream;
use net::tls::ServerTls;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// The first byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;
/// Longest time until a client's TLS handshake is over.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// Bytes of a plain request that are read before it is refused, so that its client gets the refusal and no reset.
const UNREAD_BYTES_MAX: usize = 16 << 10;

const PLAIN_REFUSED: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 39\r\nConnection: close\r\n\r\nThis address speaks TLS: use https://.\n";

/// The TLS of the admin listener and of the SQL console.
#[derive(Clone, Debug, Default)]
pub struct AdminTls {
    /// `None` is plain.
    pub tls: Option<ServerTls>,
    /// A client without TLS is refused.
    pub is_required: bool,
}

/// The TLS for the connections to come; a reload replaces it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsNow(Arc<RwLock<AdminTls>>);

impl TlsNow {
    pub(crate) fn set(&self, tls: AdminTls) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tls;
    }

    fn get(&self) -> AdminTls {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A listener whose connections may speak TLS.
pub(crate) struct SecuredListener<L> {
    inner: L,
    tls: TlsNow,
}

impl<L> SecuredListener<L> {
    pub(crate) fn new(inner: L, tls: TlsNow) -> SecuredListener<L> {
        SecuredListener { inner, tls }
    }
}

impl<L: Listener<Io = TcpStream>> Listener for SecuredListener<L> {
    type Io = Secured;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Secured, L::Addr) {
        let (tcp, address) = self.inner.accept().await;
        (Secured::new(tcp, self.tls.get()), address)
    }

    fn local_addr(&self) -> io::Result<L::Addr> {
        self.inner.local_addr()
    }
}

type Handshake = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

enum State {
    /// The client has said nothing.
    Silent(TcpStream, AdminTls),
    /// TLS begins.
    Shaking(Handshake),
    /// Plain, or encrypted.
    Ready(Stream),
    /// The handshake failed.
    Failed,
}

/// A connection of the admin listener.
pub(crate) struct Secured {
    state: State,
    deadline: Pin<Box<Sleep>>,
    is_tls: Arc<AtomicBool>,
}

impl Secured {
    fn new(tcp: TcpStream, tls: AdminTls) -> Secured {
        let state = match tls.tls {
            Some(_) => State::Silent(tcp, tls),
            None => State::Ready(tcp.into()),
        };
        Secured { state, deadline: Box::pin(sleep(HANDSHAKE_MAX)), is_tls: Arc::default() }
    }

    /// Becomes true when the client speaks TLS.
    pub(crate) fn is_tls(&self) -> Arc<AtomicBool> {
        self.is_tls.clone()
    }

    /// The stream, once it is known what the client speaks.
    fn poll_stream(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut Stream>>> {
        loop {
            let next = match &mut self.state {
                State::Ready(_) => break,
                State::Failed => return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into())),
                // A connection that was opened ahead of its use may stay silent: the listener's own limit ends it.
                State::Silent(tcp, tls) => {
                    let mut first = [0];
                    let count = ready!(tcp.poll_peek(cx, &mut ReadBuf::new(&mut first)))?;
                    let speaks_tls = count > 0 && first == [TLS_HANDSHAKE];
                    if !speaks_tls && count > 0 && tls.is_required {
                        refuse_plain(tcp);
                        self.state = State::Failed;
                        continue;
                    }
                    let tls = tls.tls.take().filter(|_| speaks_tls);
                    self.deadline.as_mut().reset(tokio::time::Instant::now() + HANDSHAKE_MAX);
                    tls
                }
                State::Shaking(handshake) => {
                    if self.deadline.as_mut().poll(cx).is_ready() {
                        self.state = State::Failed;
                        return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                    }
                    match ready!(handshake.as_mut().poll(cx)) {
                        Ok(stream) => {
                            self.is_tls.store(true, Ordering::Relaxed);
                            self.state = State::Ready(stream);
                        }
                        Err(error) => {
                            tracing::debug!(%error, "a TLS handshake on the admin listener failed");
                            self.state = State::Failed;
                        }
                    }
                    continue;
                }
            };
            self.begin(next);
        }
        match &mut self.state {
            State::Ready(stream) => Poll::Ready(Ok(Pin::new(stream))),
            State::Silent(..) | State::Shaking(_) | State::Failed => Poll::Pending,
        }
    }

    /// The client has spoken: TLS, or plain.
    fn begin(&mut self, tls: Option<ServerTls>) {
        let State::Silent(tcp, _) = std::mem::replace(&mut self.state, State::Failed) else { return };
        self.state = match tls {
            Some(tls) => State::Shaking(Box::pin(async move { tls.accept(tcp.into()).await })),
            None => State::Ready(tcp.into()),
        };
    }
}

/// Says what is wrong, as far as the socket takes it at once.
fn refuse_plain(tcp: &TcpStream) {
    let mut unread = vec![0; UNREAD_BYTES_MAX];
    // The client may have gone.
    let _ = tcp.try_read(&mut unread);
    let _ = tcp.try_write(PLAIN_REFUSED);
}

impl AsyncRead for Secured {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_stream(cx))?.poll_read(cx, buf)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_stream(cx))?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_stream(cx))?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        matches!(&self.state, State::Ready(stream) if stream.is_write_vectored())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Ready(stream) => Pin::new(stream).poll_flush(cx),
            // Nothing was written.
            State::Silent(..) | State::Shaking(_) | State::Failed => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            State::Ready(stream) => Pin::new(stream).poll_shutdown(cx),
            // The socket is closed when this is dropped.
            State::Silent(..) | State::Shaking(_) | State::Failed => Poll::Ready(Ok(())),
        }
    }
}
