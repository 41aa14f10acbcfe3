//! Shared by the unit tests of sessions.

/// Packets with these payloads, numbered from 1 on.
pub(super) fn packets(payloads: &[&[u8]]) -> Vec<u8> {
    let (mut bytes, mut sequence) = (Vec::new(), 1);
    for payload in payloads {
        sequence = wire::packet::append(&mut bytes, sequence, payload);
    }
    bytes
}
