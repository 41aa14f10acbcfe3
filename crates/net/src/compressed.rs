//! A connection whose packets travel in compressed frames.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use wire::compress::{Codec, Compression, Contexts, Side};

use crate::Stream;

/// Bytes that are read from the connection below at a time.
const SCRATCH_BYTES: usize = 64 * 1024;

thread_local! {
    /// State that the connections of a thread share: compression takes a few hundred kilobytes, and only one frame is
    /// in work.
    static SHARED: RefCell<Shared> = RefCell::new(Shared::default());
}

#[derive(Default)]
struct Shared {
    contexts: Contexts,
    scratch: Vec<u8>,
}

/// A connection in the compressed protocol. Idle, it holds no buffers.
#[derive(Debug)]
pub struct Compressed {
    inner: Stream,
    codec: Codec,
    side: Side,
    /// Bytes that came and are not decompressed yet, and how many of them are used up.
    unread: Vec<u8>,
    used: usize,
    /// Frames that the connection below has not taken yet, and how much of them it has.
    unsent: Vec<u8>,
    sent: usize,
}

impl Compressed {
    pub(crate) fn new(inner: Stream, compression: Compression, side: Side) -> Compressed {
        Compressed::with(inner, Codec::new(compression, side), side)
    }

    pub(crate) fn with(inner: Stream, codec: Codec, side: Side) -> Compressed {
        Compressed { inner, codec, side, unread: Vec::new(), used: 0, unsent: Vec::new(), sent: 0 }
    }

    pub(crate) fn inner(&self) -> &Stream {
        &self.inner
    }

    /// How it is compressed.
    pub(crate) fn compression(&self) -> Compression {
        self.codec.compression()
    }

    /// The connection below and what is known of its frames; it stays whole while a frame is in work.
    pub(crate) fn take_apart(self: Box<Self>) -> Result<(Stream, Codec, Side), Box<Compressed>> {
        match self.unread.is_empty() && self.unsent.is_empty() && self.codec.is_between_frames() {
            true => Ok((self.inner, self.codec, self.side)),
            false => Err(self),
        }
    }

    /// Decompresses from `input` what there is room for; gives how many bytes were taken. Towards clients it stops behind a
    /// frame: the next may begin another command, and frames of the reply must be numbered before it is looked at.
    fn decode(&mut self, contexts: &mut Contexts, input: &[u8], buffer: &mut ReadBuf<'_>) -> io::Result<usize> {
        let mut taken = 0;
        while buffer.remaining() > 0 {
            let decoded = self.codec.decode(contexts, &input[taken..], buffer.initialize_unfilled());
            let decoded = decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            buffer.advance(decoded.made);
            taken += decoded.taken;
            let stuck = decoded.taken == 0 && decoded.made == 0;
            if stuck || (self.side == Side::Server && decoded.made > 0) {
                break;
            }
        }
        Ok(taken)
    }

    fn fill(&mut self, shared: &mut Shared, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if !self.unread.is_empty() || !self.codec.is_between_frames() {
            let unread = std::mem::take(&mut self.unread);
            self.used += self.decode(&mut shared.contexts, &unread[self.used..], buffer)?;
            if self.used < unread.len() {
                self.unread = unread;
            } else {
                self.used = 0;
            }
        }
        shared.scratch.resize(SCRATCH_BYTES, 0);
        while buffer.filled().len() == before {
            let mut raw = ReadBuf::new(&mut shared.scratch);
            ready!(Pin::new(&mut self.inner).poll_read(cx, &mut raw))?;
            let raw = raw.filled();
            if raw.is_empty() {
                return Poll::Ready(match self.codec.is_between_frames() {
                    true => Ok(()),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                });
            }
            let taken = self.decode(&mut shared.contexts, raw, buffer)?;
            self.unread.extend_from_slice(&raw[taken..]);
        }
        Poll::Ready(Ok(()))
    }

    /// Hands frames to the connection below.
    fn drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.unsent.len() {
            let n = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.unsent[self.sent..]))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += n;
        }
        self.sent = 0;
        self.unsent = Vec::new();
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Compressed {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        SHARED.with_borrow_mut(|shared| this.fill(shared, cx, buffer))
    }
}

impl AsyncWrite for Compressed {
    /// Takes bytes of whole packets; those that the connection below does not take at once go with the next flush.
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.drain(cx))?;
        let taken = SHARED.with_borrow_mut(|shared| this.codec.encode(&mut shared.contexts, bytes, &mut this.unsent));
        match this.drain(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(taken)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.drain(cx))?;
        Pin::new(&mut this.inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.drain(cx))?;
        Pin::new(&mut this.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use wire::packet;

    use super::*;
    use crate::socket::sockets;
    use crate::tls::{ClientTls, ClientTlsOptions, ServerTls, ServerTlsMode};

    fn packets(number: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        packet::append(&mut out, number, payload);
        out
    }

    async fn send(from: &mut Stream, to: &mut Stream, sent: &[u8]) {
        let mut came = vec![0; sent.len()];
        let sending = async {
            from.write_all(sent).await?;
            from.flush().await
        };
        let (sending, reading) = tokio::join!(sending, to.read_exact(&mut came));
        sending.unwrap();
        reading.unwrap();
        assert!(came == sent, "{} bytes", sent.len());
    }

    /// A command and its reply; both come as they were sent.
    async fn talk(client: &mut Stream, server: &mut Stream, bytes: usize) {
        send(client, server, &packets(0, &vec![b'c'; bytes])).await;
        send(server, client, &packets(1, &vec![b'r'; bytes])).await;
    }

    #[tokio::test]
    async fn plain_and_encrypted_connections_are_compressed_alike() {
        let tls = ServerTls::self_made(&[]).unwrap();
        let options = ClientTlsOptions { mode: ServerTlsMode::Required, ..ClientTlsOptions::default() };
        let trusting = ClientTls::new(&options).unwrap();
        for encrypted in [false, true] {
            let (left, right) = sockets().await;
            let (client, server): (Stream, Stream) = match encrypted {
                false => (left.into(), right.into()),
                true => {
                    let (left, right) = tokio::join!(trusting.connect(left, "localhost"), tls.accept(right.into()));
                    (left.unwrap(), right.unwrap())
                }
            };
            let mut client = client.compressed(Compression::ZLIB, Side::Client);
            let mut server = server.compressed(Compression::ZLIB, Side::Server);
            assert_eq!((client.is_tls(), client.is_secure()), (encrypted, encrypted));
            assert!(client.is_buffered() && client.tcp().is_some());
            for bytes in [1, 49, 100, 70_000, 3_000_000] {
                talk(&mut client, &mut server, bytes).await;
            }
            // Idle, it keeps nothing, and may leave its thread.
            let detached = client.detach().unwrap();
            let elsewhere = std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let mut client = Stream::attach(detached).unwrap();
                    client.write_all(&packets(0, b"moved")).await.unwrap();
                    client.flush().await.unwrap();
                    client.shutdown().await.unwrap();
                });
            });
            let mut came = [0; 9];
            server.read_exact(&mut came).await.unwrap();
            assert_eq!(&came[4..], b"moved");
            elsewhere.join().unwrap();
            assert_eq!(server.read(&mut came).await.unwrap(), 0, "the end between frames");
        }
    }

    #[tokio::test]
    async fn an_end_inside_a_frame_and_a_broken_frame_are_errors() {
        let mut frames = Vec::new();
        Codec::new(Compression::ZLIB, Side::Client).encode(
            &mut Contexts::default(),
            &packets(0, &[7; 500]),
            &mut frames,
        );
        for cut in 1..frames.len() {
            let (mut left, right) = sockets().await;
            let mut server = Stream::from(right).compressed(Compression::ZLIB, Side::Server);
            left.write_all(&frames[..cut]).await.unwrap();
            drop(left);
            let error = server.read_to_end(&mut Vec::new()).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "cut at {cut}");
        }
        frames[10] ^= 0xff;
        let (mut left, right) = sockets().await;
        let mut server = Stream::from(right).compressed(Compression::ZLIB, Side::Server);
        left.write_all(&frames).await.unwrap();
        let error = server.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    }
}
