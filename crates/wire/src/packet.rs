//! Packets: three bytes of length, one of sequence, then the payload; payloads of 16 MiB − 1 and more are split.
//!
//! Source: MariaDB's documentation "0-Packet". A payload of exactly `n × 0xffffff` bytes ends with an empty packet.

/// Bytes before each payload.
pub const HEADER_BYTES: usize = 4;
/// The longest payload of one packet; a packet of this length is continued by the next.
pub const PAYLOAD_BYTES_MAX: usize = 0xff_ffff;

/// A packet's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Length of the payload.
    pub length: usize,
    /// Sequence number.
    pub sequence: u8,
}

impl Header {
    /// Reads a header; `None` while four bytes are not there.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<Header> {
        let &[a, b, c, sequence] = bytes.first_chunk::<HEADER_BYTES>()?;
        Some(Header { length: u32::from_le_bytes([a, b, c, 0]) as usize, sequence })
    }

    /// The header as bytes.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let [a, b, c, _] = (self.length as u32).to_le_bytes();
        [a, b, c, self.sequence]
    }

    /// The payload goes on in the next packet.
    pub fn is_continued(self) -> bool {
        self.length == PAYLOAD_BYTES_MAX
    }
}

/// Appends packets to a buffer: `begin`, write the payload, `end`.
///
/// ```
/// let mut out = Vec::new();
/// let packet = wire_packet::begin(&mut out);
/// out.extend_from_slice(b"payload");
/// let next_sequence = packet.end(&mut out, 0);
/// assert_eq!(out[..4], [7, 0, 0, 0]);
/// assert_eq!(next_sequence, 1);
/// # use sqluice_wire::packet as wire_packet;
/// ```
#[derive(Debug)]
#[must_use = "a begun packet has no header until it is ended"]
pub struct Begun {
    start: usize,
}

/// Leaves room for a header.
pub fn begin(out: &mut Vec<u8>) -> Begun {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    Begun { start }
}

impl Begun {
    /// Writes the header (and splits the payload where it is too long for one packet); gives the next sequence number.
    pub fn end(self, out: &mut Vec<u8>, sequence: u8) -> u8 {
        let length = out.len() - self.start - HEADER_BYTES;
        if length < PAYLOAD_BYTES_MAX {
            let header = Header { length, sequence };
            out[self.start..self.start + HEADER_BYTES].copy_from_slice(&header.to_bytes());
            return sequence.wrapping_add(1);
        }
        let payload = out.split_off(self.start + HEADER_BYTES);
        out.truncate(self.start);
        append(out, sequence, &payload)
    }
}

/// Appends a payload as one packet or several; gives the next sequence number.
pub fn append(out: &mut Vec<u8>, mut sequence: u8, payload: &[u8]) -> u8 {
    let mut rest = payload;
    loop {
        let length = rest.len().min(PAYLOAD_BYTES_MAX);
        let header = Header { length, sequence };
        out.extend_from_slice(&header.to_bytes());
        out.extend_from_slice(&rest[..length]);
        sequence = sequence.wrapping_add(1);
        rest = &rest[length..];
        if !header.is_continued() {
            return sequence;
        }
    }
}

/// The result of [`first`] at the start of a buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum First<'a> {
    /// Not all bytes are there yet; at least this many must be before a look is worth it.
    Needs(usize),
    /// A payload in one packet: no copy.
    Whole {
        /// Its bytes.
        payload: &'a [u8],
        /// Sequence number of the packet.
        sequence: u8,
        /// How many bytes of the buffer it took, headers counted.
        taken: usize,
    },
    /// A payload that was split: joined by [`join`].
    Split {
        /// Length of the joined payload.
        length: usize,
        /// Sequence number of the last packet.
        sequence: u8,
        /// How many bytes of the buffer it took, headers counted.
        taken: usize,
    },
    /// The payload would be longer than the limit.
    TooLong,
}

/// Looks for a whole payload of at most `limit` bytes at the start of `bytes`.
pub fn first(bytes: &[u8], limit: usize) -> First<'_> {
    let Some(header) = Header::read(bytes) else { return First::Needs(HEADER_BYTES) };
    if header.length > limit {
        return First::TooLong;
    }
    if !header.is_continued() {
        let taken = HEADER_BYTES + header.length;
        return match bytes.get(HEADER_BYTES..taken) {
            Some(payload) => First::Whole { payload, sequence: header.sequence, taken },
            None => First::Needs(taken),
        };
    }
    let (mut taken, mut length) = (0, 0);
    loop {
        let Some(header) = Header::read(&bytes[taken.min(bytes.len())..]) else {
            return First::Needs(taken + HEADER_BYTES);
        };
        length += header.length;
        taken += HEADER_BYTES + header.length;
        if length > limit {
            return First::TooLong;
        }
        if taken > bytes.len() {
            return First::Needs(taken);
        }
        if !header.is_continued() {
            return First::Split { length, sequence: header.sequence, taken };
        }
    }
}

/// Whether the packets of a command that [`first`] called [`First::Split`] count up from 0.
pub fn in_order(packets: &[u8]) -> bool {
    let (mut rest, mut expected) = (packets, 0u8);
    while let Some(header) = Header::read(rest) {
        if header.sequence != expected {
            return false;
        }
        expected = expected.wrapping_add(1);
        rest = &rest[(HEADER_BYTES + header.length).min(rest.len())..];
    }
    true
}

/// Joins the payload of packets that [`first`] called [`First::Split`].
pub fn join(packets: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(packets.len());
    let mut rest = packets;
    while let Some(header) = Header::read(rest) {
        let end = (HEADER_BYTES + header.length).min(rest.len());
        payload.extend_from_slice(&rest[HEADER_BYTES..end]);
        rest = &rest[end..];
    }
    payload
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload_of(bytes: &[u8]) -> (Vec<u8>, usize) {
        match first(bytes, usize::MAX) {
            First::Whole { payload, taken, .. } => (payload.to_vec(), taken),
            First::Split { taken, .. } => (join(&bytes[..taken]), taken),
            other => panic!("not whole: {other:?}"),
        }
    }

    #[test]
    fn payloads_survive_splitting_at_every_boundary() {
        for length in [0, 1, PAYLOAD_BYTES_MAX - 1, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MAX + 1, 2 * PAYLOAD_BYTES_MAX] {
            let payload = vec![b'x'; length];
            let mut out = Vec::new();
            append(&mut out, 0, &payload);
            assert_eq!(payload_of(&out), (payload.clone(), out.len()), "length {length}");
            let mut begun_out = vec![1, 2, 3];
            let begun = begin(&mut begun_out);
            begun_out.extend_from_slice(&payload);
            begun.end(&mut begun_out, 0);
            assert_eq!(&begun_out[3..], &out[..], "length {length}");
            assert!(matches!(first(&out[..out.len() - 1], usize::MAX), First::Needs(n) if n <= out.len()));
        }
    }

    #[test]
    fn a_payload_of_exactly_one_full_packet_ends_with_an_empty_one() {
        let mut out = Vec::new();
        assert_eq!(append(&mut out, 255, &vec![0; PAYLOAD_BYTES_MAX]), 1);
        assert_eq!(out.len(), PAYLOAD_BYTES_MAX + 2 * HEADER_BYTES);
        assert_eq!(out[out.len() - 4..], [0, 0, 0, 0]);
    }

    #[test]
    fn a_payload_over_the_limit_is_refused_from_its_header() {
        assert_eq!(first(&[0xff, 0xff, 0x00, 0], 100), First::TooLong);
        assert_eq!(first(&[0xff, 0xff, 0xff, 0], PAYLOAD_BYTES_MAX + 5), First::Needs(PAYLOAD_BYTES_MAX + 4));
    }

    #[test]
    fn packets_of_a_long_command_count_up_from_zero() {
        for (first_sequence, good) in [(0, true), (1, false), (255, false)] {
            let mut out = Vec::new();
            append(&mut out, first_sequence, &vec![0; PAYLOAD_BYTES_MAX + 1]);
            assert_eq!(in_order(&out), good);
            out[PAYLOAD_BYTES_MAX + HEADER_BYTES + 3] = 7;
            assert!(!in_order(&out));
        }
    }

    #[test]
    fn several_packets_in_one_read_are_taken_one_by_one() {
        let mut out = Vec::new();
        append(&mut out, 0, b"one");
        append(&mut out, 0, b"two");
        let (payload, taken) = payload_of(&out);
        assert_eq!(payload, b"one");
        assert_eq!(payload_of(&out[taken..]).0, b"two");
    }
}
