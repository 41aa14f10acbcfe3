//! Reading packets one by one, never a byte beyond: after an SSLRequest the next byte belongs to TLS, after a login to
//! the session. For logins and small talk; sessions frame in their own buffers.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};
use wire::handshake::Received;
use wire::packet::{HEADER_BYTES, Header};
use zeroize::Zeroizing;

/// A payload is only given memory as its bytes arrive, this many at first.
const FIRST_BYTES: usize = 4 * 1024;

/// Why no packet could be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The peer closed the connection between packets.
    #[error("the peer closed the connection")]
    Closed,
    /// The connection broke, or ended inside a packet.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The payload is longer than allowed.
    #[error("the packet is longer than {limit} bytes")]
    TooLong {
        /// Allowed length in bytes.
        limit: usize,
    },
    /// Split packets do not count up.
    #[error("packets out of order")]
    OutOfOrder,
}

/// A packet; its payload is wiped when dropped, since it may hold a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Packet {
    /// Sequence number; of the last packet if the payload was split.
    pub sequence: u8,
    /// Payload, joined if it was split.
    pub payload: Zeroizing<Vec<u8>>,
}

impl Packet {
    /// The packet as the state machines of login take it.
    pub fn received(&self) -> Received<'_> {
        Received { sequence: self.sequence, payload: &self.payload }
    }
}

impl std::fmt::Debug for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packet(sequence {}, {} bytes)", self.sequence, self.payload.len())
    }
}

/// Reads one packet with a payload of at most `limit` bytes. Has no time limit of its own, and a dropped call loses what
/// it had read.
///
/// # Errors
/// See [`ReadError`]; the connection is then of no use.
pub async fn read<S: AsyncRead + Unpin>(stream: &mut S, limit: usize) -> Result<Packet, ReadError> {
    let header = read_header(stream, true).await?;
    read_behind(stream, header, limit).await
}

/// Like [`read`], where the first header was read already.
///
/// # Errors
/// See [`ReadError`]; the connection is then of no use.
pub async fn read_behind<S: AsyncRead + Unpin>(
    stream: &mut S,
    first: Header,
    limit: usize,
) -> Result<Packet, ReadError> {
    let mut payload = Zeroizing::new(Vec::new());
    let mut expected = None;
    loop {
        let header = if expected.is_none() { first } else { read_header(stream, false).await? };
        if expected.is_some_and(|sequence| sequence != header.sequence) {
            return Err(ReadError::OutOfOrder);
        }
        if header.length > limit - payload.len() {
            return Err(ReadError::TooLong { limit });
        }
        read_payload(stream, &mut payload, header.length).await?;
        if !header.is_continued() {
            return Ok(Packet { sequence: header.sequence, payload });
        }
        expected = Some(header.sequence.wrapping_add(1));
    }
}

/// Appends so many bytes. Never is more memory taken than twice what came, nor more than all will need.
async fn read_payload<S: AsyncRead + Unpin>(stream: &mut S, payload: &mut Vec<u8>, length: usize) -> io::Result<()> {
    let end = payload.len() + length;
    while payload.len() < end {
        if payload.len() == payload.capacity() {
            payload.reserve_exact((end - payload.len()).min(payload.len().max(FIRST_BYTES)));
        }
        let left = (end - payload.len()) as u64;
        if (&mut *stream).take(left).read_buf(payload).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// Reads the header of a packet, for [`read_behind`] to go on.
///
/// # Errors
/// See [`ReadError`]; the connection is then of no use.
pub async fn header<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Header, ReadError> {
    read_header(stream, true).await
}

async fn read_header<S: AsyncRead + Unpin>(stream: &mut S, may_end: bool) -> Result<Header, ReadError> {
    let mut bytes = [0; HEADER_BYTES];
    let first = stream.read(&mut bytes).await?;
    if first == 0 && may_end {
        return Err(ReadError::Closed);
    }
    stream.read_exact(&mut bytes[first..]).await?;
    Header::read(&bytes).ok_or(ReadError::Closed)
}

#[cfg(test)]
mod tests {
    use wire::packet::append;

    use super::*;

    #[tokio::test]
    async fn not_a_byte_is_read_beyond_the_packet() {
        let mut bytes = Vec::new();
        append(&mut bytes, 1, b"one");
        bytes.extend_from_slice(b"tls");
        let mut stream = &bytes[..];
        let packet = read(&mut stream, 10).await.unwrap();
        assert_eq!((packet.sequence, packet.payload.as_slice()), (1, &b"one"[..]));
        assert_eq!(stream, b"tls");
    }

    #[tokio::test]
    async fn split_payloads_are_joined_and_limited() {
        let payload = vec![7; wire::packet::PAYLOAD_BYTES_MAX + 3];
        let mut bytes = Vec::new();
        append(&mut bytes, 255, &payload);
        let packet = read(&mut &bytes[..], payload.len()).await.unwrap();
        assert_eq!((packet.sequence, packet.payload.len()), (0, payload.len()));
        let short = read(&mut &bytes[..], payload.len() - 1).await;
        assert!(matches!(short, Err(ReadError::TooLong { .. })), "{short:?}");
        bytes[HEADER_BYTES + wire::packet::PAYLOAD_BYTES_MAX + 3] = 9;
        assert!(matches!(read(&mut &bytes[..], payload.len()).await, Err(ReadError::OutOfOrder)));
    }

    #[tokio::test]
    async fn an_end_between_packets_is_told_from_one_inside() {
        let mut bytes = Vec::new();
        append(&mut bytes, 0, b"one");
        assert!(matches!(read(&mut &bytes[..0], 10).await, Err(ReadError::Closed)));
        for cut in 1..bytes.len() {
            assert!(matches!(read(&mut &bytes[..cut], 10).await, Err(ReadError::Io(_))), "cut at {cut}");
        }
    }
}
