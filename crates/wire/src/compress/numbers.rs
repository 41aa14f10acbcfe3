//! The numbers of the packets inside frames; see "Numbers" in the module above.

use super::Side;
use crate::packet::{HEADER_BYTES, Header, PAYLOAD_BYTES_MAX};

/// Follows the packets of what the peer sends, and numbers them as they would be without compression.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    length: [u8; 3],
    header_bytes: usize,
    /// The rest of the packet's payload.
    left: usize,
    /// The packet is continued by the next.
    continued: bool,
    /// A command (or a reply to another command than the last) begins with the next packet.
    fresh: bool,
    /// The number that the last packet came with.
    came_with: u8,
    /// The number that it was given.
    given: u8,
    /// Something was written since the last packet.
    wrote: bool,
    /// There was a packet.
    any: bool,
}

impl Incoming {
    /// A frame of this number begins; `continues` if it is the one that was due.
    pub(super) fn frame(&mut self, side: Side, number: u8, continues: bool) {
        let inside_packet = self.left > 0 || self.header_bytes > 0 || self.continued;
        self.fresh = !inside_packet
            && match side {
                // Clients begin commands with 0. In the middle of a long upload the count comes by 0 as well.
                Side::Server => number == 0 && (!continues || self.wrote || !self.any),
                // Replies go on from their command's frames; what was sent ahead of the reply has moved the count.
                Side::Client => !continues,
            };
    }

    /// Something was written.
    pub(super) fn wrote(&mut self) {
        self.wrote = true;
    }

    /// Numbers the packets that begin in `content`.
    pub(super) fn number(&mut self, side: Side, content: &mut [u8], outgoing: &mut Outgoing) {
        let mut at = 0;
        while at < content.len() {
            if self.left > 0 {
                let skipped = self.left.min(content.len() - at);
                self.left -= skipped;
                at += skipped;
                continue;
            }
            if let Some(byte) = self.length.get_mut(self.header_bytes) {
                *byte = content[at];
                self.header_bytes += 1;
                at += 1;
                continue;
            }
            let came_with = content[at];
            let number = match side {
                Side::Server => self.number_of_client(came_with),
                Side::Client => self.number_of_server(outgoing),
            };
            content[at] = number;
            at += 1;
            let [a, b, c] = self.length;
            self.left = u32::from_le_bytes([a, b, c, 0]) as usize;
            self.continued = self.left == PAYLOAD_BYTES_MAX;
            self.header_bytes = 0;
            (self.fresh, self.wrote, self.any) = (false, false, true);
            (self.came_with, self.given) = (came_with, number);
        }
    }

    fn number_of_client(&self, came_with: u8) -> u8 {
        let begins = came_with == 0 && !self.continued && self.came_with != u8::MAX;
        if self.fresh || begins {
            0
        } else if self.wrote {
            // The answer to a question of the server: it goes on from the question.
            came_with
        } else {
            self.given.wrapping_add(1)
        }
    }

    fn number_of_server(&self, outgoing: &mut Outgoing) -> u8 {
        let number = if self.fresh { 1 } else { outgoing.next };
        outgoing.next = number.wrapping_add(1);
        number
    }
}

/// Follows the packets that are sent to a server, and finds where commands begin.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// The rest of the packet in work.
    left: usize,
    continued: bool,
    last: u8,
    /// Something came from the server since the last packet.
    heard: bool,
    /// The number of the next packet, from whichever side.
    next: u8,
}

impl Outgoing {
    /// A frame came.
    pub(super) fn heard(&mut self) {
        self.heard = true;
    }

    /// How many bytes from the front of `bytes` belong into one frame, and whether they begin a command; none when a packet
    /// begins there and its header is not whole.
    pub(super) fn next_piece(&mut self, bytes: &[u8], max: usize) -> (usize, bool) {
        let mut at = 0;
        let mut begins = false;
        while at < bytes.len() && at < max {
            if self.left > 0 {
                let taken = self.left.min(bytes.len() - at).min(max - at);
                self.left -= taken;
                at += taken;
                continue;
            }
            let Some(header) = Header::read(&bytes[at..]).filter(|_| at + HEADER_BYTES <= max) else { break };
            let wraps = self.last == u8::MAX && !self.heard;
            if header.sequence == 0 && !self.continued && !wraps {
                if at > 0 {
                    break;
                }
                begins = true;
            }
            at += HEADER_BYTES;
            self.left = header.length;
            self.continued = header.is_continued();
            self.last = header.sequence;
            self.next = header.sequence.wrapping_add(1);
            self.heard = false;
        }
        (at, begins)
    }
}

/// Finds where packets end.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    length: [u8; 3],
    header_bytes: usize,
    left: usize,
}

impl Bounds {
    /// Moves `at` over a part of a packet, at most `room` bytes of it; true behind its end.
    pub(super) fn skip(&mut self, bytes: &[u8], room: usize, at: &mut usize) -> bool {
        if self.left > 0 {
            let skipped = self.left.min(bytes.len()).min(room);
            self.left -= skipped;
            *at += skipped;
            return self.left == 0;
        }
        *at += 1;
        if let Some(byte) = self.length.get_mut(self.header_bytes) {
            *byte = bytes[0];
            self.header_bytes += 1;
            return false;
        }
        let [a, b, c] = self.length;
        self.left = u32::from_le_bytes([a, b, c, 0]) as usize;
        self.header_bytes = 0;
        self.left == 0
    }
}
