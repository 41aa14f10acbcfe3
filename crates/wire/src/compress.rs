//! The compressed protocol: packets travel inside frames, which are compressed one by one.
//!
//! Source: MySQL's documentation "Compression" and "Compressed Packet". A frame has seven bytes of header: its length (3),
//! its number (1), and the length of its content before compression (3), which is 0 when the content is not compressed. Frames
//! know nothing of packets: a frame may hold several, and a packet may span several. Compression begins with the byte after
//! the login's OK packet.
//!
//! [`Codec`] is both directions of one connection: [`Codec::decode`] takes the peer's frames and gives packets,
//! [`Codec::encode`] takes packets and gives frames. It keeps no memory between frames; what compression needs is borrowed from
//! [`Contexts`], of which a thread has one.
//!
//! **Numbers.** Frames count up from 0 through a command and its reply, in both directions together, as packets do. Inside frames
//! servers set the packets' numbers to those of the frames now and then, and nobody who speaks the compressed protocol looks at
//! them; some clients number them wrongly. Those who get the same packets without compression do look. So the packets that
//! [`Codec::decode`] gives are numbered as they would be without compression.

mod frame;
mod numbers;
#[cfg(test)]
mod tests;

use crate::Capabilities;
use crate::packet::PAYLOAD_BYTES_MAX;
use frame::Decoder;
use numbers::{Bounds, Incoming, Outgoing};

pub use frame::{Contexts, FrameError};

/// Bytes before each frame's content.
pub const FRAME_HEADER_BYTES: usize = 7;
/// Content shorter than this is not worth compressing; servers and clients use the same limit (`MIN_COMPRESS_LENGTH`).
pub const COMPRESSED_FROM_BYTES: usize = 50;
/// Content from which on a frame is closed as soon as that may be. Longer frames compress little better.
pub const FRAME_CONTENT_BYTES: usize = 64 * 1024;
/// The longest content of a frame.
pub const FRAME_CONTENT_BYTES_MAX: usize = PAYLOAD_BYTES_MAX;

/// The level of zlib, where servers use 6: half the time for a twentieth more bytes.
const ZLIB_LEVEL: u8 = 3;
/// The level of zstd when a client names none.
pub const ZSTD_LEVEL_DEFAULT: u8 = 3;
/// The highest level of zstd that is used, whatever a client asks for: above it, time grows much faster than the gain.
pub const ZSTD_LEVEL_MAX: u8 = 9;

/// How content is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// The format of RFC 1950, in all servers.
    Zlib,
    /// The format of RFC 8878, in MySQL since 8.0.18.
    Zstd,
}

/// How content is compressed, and how hard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// The format.
    pub algorithm: Algorithm,
    /// The effort, in the algorithm's own scale. The peer needs not know it.
    pub level: u8,
}

impl Compression {
    /// zlib.
    pub const ZLIB: Compression = Compression { algorithm: Algorithm::Zlib, level: ZLIB_LEVEL };

    /// zstd, at the level that a client asks for, as far as that is sensible.
    pub fn zstd(level: Option<u8>) -> Compression {
        let level = level.unwrap_or(ZSTD_LEVEL_DEFAULT).clamp(1, ZSTD_LEVEL_MAX);
        Compression { algorithm: Algorithm::Zstd, level }
    }

    /// The compression of a login. With both bits set it is zlib, as MySQL's documentation says.
    pub fn agreed(capabilities: Capabilities, zstd_level: Option<u8>) -> Option<Compression> {
        if capabilities.contains(Capabilities::COMPRESS) {
            return Some(Compression::ZLIB);
        }
        capabilities.contains(Capabilities::ZSTD_COMPRESSION).then(|| Compression::zstd(zstd_level))
    }
}

/// Which side of a connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The peer is a client.
    Server,
    /// The peer is a server.
    Client,
}

/// Both directions of one compressed connection.
#[derive(Debug)]
pub struct Codec {
    compression: Compression,
    side: Side,
    decoder: Decoder,
    /// The number of the next frame, from whichever side.
    next_frame: u8,
    incoming: Incoming,
    outgoing: Outgoing,
    to_client: Bounds,
    /// Towards a server the beginning of a header, until the rest of it is there; towards a client the beginning of a packet.
    held: Vec<u8>,
}

/// How far [`Codec::decode`] came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of the input that were used up.
    pub taken: usize,
    /// Bytes that were written to the output.
    pub made: usize,
}

impl Codec {
    /// A connection right after its login.
    pub fn new(compression: Compression, side: Side) -> Codec {
        Codec {
            compression,
            side,
            decoder: Decoder::new(compression.algorithm),
            next_frame: 0,
            incoming: Incoming::default(),
            outgoing: Outgoing::default(),
            to_client: Bounds::default(),
            held: Vec::new(),
        }
    }

    /// How content is compressed.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// No frame of the peer is in work: nothing was read that was not given.
    pub fn is_between_frames(&self) -> bool {
        self.decoder.is_between_frames()
    }

    /// Takes bytes of the peer's frames and writes what was in them. Stops at the end of a frame that had content, at the
    /// end of the input, or when the output is full: call again while that brings something.
    ///
    /// # Errors
    /// A frame is not what its header says. The connection is of no further use.
    pub fn decode(&mut self, contexts: &mut Contexts, input: &[u8], output: &mut [u8]) -> Result<Decoded, FrameError> {
        let mut all = Decoded::default();
        loop {
            let step = self.decoder.decode(contexts, &input[all.taken..], &mut output[all.made..])?;
            if let Some(frame) = step.begun {
                let continues = frame == self.next_frame;
                self.next_frame = frame.wrapping_add(1);
                self.incoming.frame(self.side, frame, continues);
                self.outgoing.heard();
            }
            let content = &mut output[all.made..all.made + step.made];
            self.incoming.number(self.side, content, &mut self.outgoing);
            all.taken += step.taken;
            all.made += step.made;
            let stuck = step.taken == 0 && step.made == 0 && step.begun.is_none();
            if stuck || (self.decoder.is_between_frames() && all.made > 0) || all.taken == input.len() {
                return Ok(all);
            }
        }
    }

    /// Takes bytes of packets from the front of `bytes` and appends frames; gives how many bytes it took, which is at least one
    /// unless there are none.
    ///
    /// Towards a server each command begins a frame. Towards a client a frame begins with a packet, and a packet is never in
    /// more than two frames, as servers' packets never are: MySQL's Connector/Python looks no further. So the beginning of a
    /// packet waits here for its end, or for [`FRAME_CONTENT_BYTES_MAX`].
    pub fn encode(&mut self, contexts: &mut Contexts, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        match self.side {
            Side::Server => self.encode_for_client(contexts, bytes, out),
            Side::Client => self.encode_for_server(contexts, bytes, out),
        }
    }

    fn encode_for_client(&mut self, contexts: &mut Contexts, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let (mut start, mut at, mut boundary) = (0, 0, 0);
        while at < bytes.len() {
            let room = FRAME_CONTENT_BYTES_MAX - self.held.len() - (at - start);
            let ended = self.to_client.skip(&bytes[at..], room, &mut at);
            if ended {
                boundary = at;
            }
            let length = self.held.len() + at - start;
            if length == FRAME_CONTENT_BYTES_MAX || (ended && length >= FRAME_CONTENT_BYTES) {
                self.frame_with_held(contexts, &bytes[start..at], out);
                start = at;
            }
        }
        if boundary > start {
            self.frame_with_held(contexts, &bytes[start..boundary], out);
            start = boundary;
        }
        self.held.extend_from_slice(&bytes[start..]);
        bytes.len()
    }

    fn frame_with_held(&mut self, contexts: &mut Contexts, content: &[u8], out: &mut Vec<u8>) {
        if self.held.is_empty() {
            return self.frame(contexts, content, out);
        }
        let mut whole = std::mem::take(&mut self.held);
        whole.extend_from_slice(content);
        self.frame(contexts, &whole, out);
    }

    fn encode_for_server(&mut self, contexts: &mut Contexts, bytes: &[u8], out: &mut Vec<u8>) -> usize {
        let held = std::mem::take(&mut self.held);
        let joined;
        let all = if held.is_empty() {
            bytes
        } else {
            joined = [&held, bytes].concat();
            &joined
        };
        let (length, begins) = self.outgoing.next_piece(all, FRAME_CONTENT_BYTES);
        if length == 0 {
            self.held = all.to_vec();
            return bytes.len();
        }
        if begins {
            self.next_frame = 0;
        }
        self.frame(contexts, &all[..length], out);
        length - held.len()
    }

    fn frame(&mut self, contexts: &mut Contexts, content: &[u8], out: &mut Vec<u8>) {
        if !content.is_empty() {
            contexts.encode(self.compression, self.next_frame, content, out);
            self.next_frame = self.next_frame.wrapping_add(1);
            self.incoming.wrote();
        }
    }
}
