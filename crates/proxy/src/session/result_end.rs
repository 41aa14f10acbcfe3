//! The end of a result: its status flags and the session state that it reports, changed for the client.

use wire::packet::{self, HEADER_BYTES, Header};
use wire::reply::{self, Ok};
use wire::{Capabilities, Status};

/// A result without what its last packet tells of the session: the client asked nothing that changes it.
pub(super) fn without_state(mut reply: Vec<u8>, capabilities: Capabilities) -> Vec<u8> {
    let mut last = 0;
    while let Some(header) = Header::read(reply.get(last..).unwrap_or_default()) {
        let next = last + HEADER_BYTES + header.length;
        if next < reply.len() {
            last = next;
            continue;
        }
        if capabilities.contains(Capabilities::DEPRECATE_EOF)
            && let Ok(end) = Ok::parse(&reply[last + HEADER_BYTES..], capabilities)
            && !end.session_state.is_empty()
        {
            let mut payload = Vec::new();
            Ok { session_state: &[], ..end }.write(&mut payload, reply::EOF, capabilities);
            reply.truncate(last);
            packet::append(&mut reply, header.sequence, &payload);
        }
        break;
    }
    reply
}

/// A result with these status flags, which stand at the same place in both forms of its end.
pub(super) fn with_status(reply: Vec<u8>, status: Status) -> Vec<u8> {
    with_flags(reply, Status::all(), status)
}

/// A result whose ends have, of these status flags, those of `status`.
pub(super) fn with_flags(mut reply: Vec<u8>, which: Status, status: Status) -> Vec<u8> {
    const LONGEST_EOF: usize = 8;
    let (mut at, mut goes_on) = (0, false);
    while let Some(header) = Header::read(reply.get(at..).unwrap_or_default()) {
        let payload = at + HEADER_BYTES;
        at = payload + header.length;
        // The rest of a row that fills more than a packet may look like anything.
        let is_whole = !std::mem::replace(&mut goes_on, header.length == packet::PAYLOAD_BYTES_MAX);
        if is_whole
            && header.length <= LONGEST_EOF
            && let Some([reply::EOF, _, _, flags @ ..]) = reply.get_mut(payload..at)
            && let Some(flags) = flags.first_chunk_mut()
        {
            let before = Status::from_bits_retain(u16::from_le_bytes(*flags));
            *flags = ((before - which) | (status & which)).bits().to_le_bytes();
        }
    }
    reply
}
