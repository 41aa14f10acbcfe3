//! The position of a stream of events in the files of a binary log.

use super::{CHECKSUM_BYTES, Header};

/// ROTATE: the next file's name stands behind a position.
const ROTATE: u8 = 4;
const FORMAT: u8 = 15;
/// HEARTBEAT: the log has nothing after this position.
const HEARTBEAT: u8 = 27;
/// The server made the event up for this connection; it stands in no file.
const ARTIFICIAL: u16 = 0x20;

/// A position in a binary log: a file and an offset in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPosition {
    /// How many files the stream has begun: files in their order.
    pub file: u64,
    /// The name of the file; empty until the server has sent it.
    pub name: Vec<u8>,
    /// Bytes of the file up to the end of the last event.
    pub end: u64,
    /// Events end with checksums; not known before the stream's first format event.
    checksummed: Option<bool>,
}

impl LogPosition {
    /// Goes to the end of this event, as it was sent.
    pub fn pass(&mut self, event: &[u8]) {
        let Ok((Header { code, end, flags, .. }, mut body)) = Header::parse(event) else { return };
        match code {
            ROTATE => {
                let name = body.u64("position of a rotate event").map(|_| body.rest()).unwrap_or_default();
                let bytes =
                    name.len() - if self.checksummed == Some(true) { CHECKSUM_BYTES.min(name.len()) } else { 0 };
                if self.name != name[..bytes] {
                    let checksummed = self.checksummed;
                    *self = LogPosition { file: self.file + 1, name: name[..bytes].to_vec(), end: 0, checksummed };
                }
                return;
            }
            FORMAT => {
                let checksummed = super::is_checksummed(body).unwrap_or(false);
                // The name came before it was known what stands behind it.
                if self.checksummed.is_none() && checksummed {
                    self.name.truncate(self.name.len().saturating_sub(CHECKSUM_BYTES));
                }
                self.checksummed = Some(checksummed);
            }
            _ => {}
        }
        if end != 0 && (flags & ARTIFICIAL == 0 || code == HEARTBEAT) {
            // Offsets are sent in 32 bits: a file with one huge transaction may have more.
            let high = self.end & !u64::from(u32::MAX);
            let reported = high | u64::from(end);
            self.end = if reported < self.end { reported + (1 << 32) } else { reported };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::HEADER_BYTES;
    use super::*;

    fn event(code: u8, end: u32, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut event = vec![0, 0, 0, 0, code];
        event.extend_from_slice(&1_u32.to_le_bytes());
        event.extend_from_slice(&((HEADER_BYTES + body.len()) as u32).to_le_bytes());
        event.extend_from_slice(&end.to_le_bytes());
        event.extend_from_slice(&flags.to_le_bytes());
        event.extend_from_slice(body);
        event
    }

    fn rotate(name: &str, checksum: &[u8]) -> Vec<u8> {
        event(ROTATE, 0, ARTIFICIAL, &[&4_u64.to_le_bytes(), name.as_bytes(), checksum].concat())
    }

    fn format(algorithm: u8) -> Vec<u8> {
        event(FORMAT, 0, 0, &[&[7; 60][..], &[algorithm], &[1, 2, 3, 4]].concat())
    }

    #[test]
    fn events_lead_from_place_to_place_and_from_file_to_file() {
        for checksum in [&b""[..], b"abcd"] {
            let mut position = LogPosition::default();
            position.pass(&rotate("log.1", checksum));
            position.pass(&format(u8::from(!checksum.is_empty())));
            assert_eq!((position.file, &position.name[..], position.end), (1, &b"log.1"[..], 0));
            position.pass(&event(2, 300, 0, b"..."));
            position.pass(&event(163, 500, ARTIFICIAL, b"..."));
            assert_eq!(position.end, 300);
            position.pass(&event(16, u32::MAX, 0, b"..."));
            position.pass(&event(16, 7, 0, b"..."));
            assert_eq!(position.end, (1 << 32) + 7);
            for _ in 0..2 {
                position.pass(&rotate("log.2", checksum));
            }
            assert_eq!((position.file, &position.name[..], position.end), (2, &b"log.2"[..], 0));
        }
        // Bytes that are no event lead nowhere.
        let mut position = LogPosition::default();
        [&b""[..], &[0; 18], &[4; 19], &[15; 19]].into_iter().for_each(|bytes| position.pass(bytes));
        assert_eq!((position.file, position.name.len()), (0, 0));
    }
}
