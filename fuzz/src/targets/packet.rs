//! Framing: bytes are cut into packets, payloads into packets and back.

use wire::packet::{First, HEADER_BYTES, Header, append, begin, first, join};

use crate::Input;

const LIMITS: [usize; 6] = [0, 1, 300, 0xff_fffe, 0xff_ffff, usize::MAX];

/// See the module.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let limit = input.one_of(&LIMITS);
    let sequence = input.byte();
    let mut rest = input.remaining();
    round_trip(rest, sequence);
    while !rest.is_empty() {
        match first(rest, limit) {
            First::Whole { payload, sequence, taken } => {
                assert_eq!(taken, HEADER_BYTES + payload.len());
                assert!(payload.len() <= limit);
                assert_eq!(Header::read(rest), Some(Header { length: payload.len(), sequence }));
                prefixes_need_more(&rest[..taken], limit);
                rest = &rest[taken..];
            }
            First::Split { length, taken, .. } => {
                assert!(length <= limit && taken <= rest.len());
                assert_eq!(join(&rest[..taken]).len(), length);
                rest = &rest[taken..];
            }
            First::Needs(n) => {
                assert!(n > rest.len(), "needs {n} and has {}", rest.len());
                break;
            }
            First::TooLong => break,
        }
    }
}

/// While a packet is not whole, as much is asked for as it takes or less.
fn prefixes_need_more(packet: &[u8], limit: usize) {
    for cut in [0, 1, 3, 4, packet.len() / 2, packet.len() - 1] {
        if cut < packet.len() {
            match first(&packet[..cut], limit) {
                First::Needs(n) => assert!(n > cut && n <= packet.len()),
                other => panic!("{other:?} for {cut} bytes of {}", packet.len()),
            }
        }
    }
}

fn round_trip(payload: &[u8], sequence: u8) {
    let mut bytes = vec![7];
    let next = append(&mut bytes, sequence, payload);
    let mut other = vec![7];
    let begun = begin(&mut other);
    other.extend_from_slice(payload);
    assert_eq!(begun.end(&mut other, sequence), next);
    assert_eq!(bytes, other);
    assert_eq!(first(&bytes[1..], usize::MAX), First::Whole { payload, sequence, taken: HEADER_BYTES + payload.len() });
}
