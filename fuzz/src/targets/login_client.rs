//! Logging in to a server that says what it likes.

use wire::Capabilities;
use wire::auth::{Credential, caching_sha2, native};
use wire::handshake::client::{AUTH_PACKETS_MAX, AwaitGreeting, LoginRequest, RsaPolicy, Step};
use wire::handshake::{Channel, HandshakeResponse, LOGIN_BYTES_MAX, Received};
use wire::packet::{First, first};
use zeroize::Zeroizing;

use crate::Input;

const PASSWORD: &[u8] = b"correct horse battery";

/// The first packets of MariaDB 10.11 and MySQL 8.0.
const GREETINGS: [&[u8]; 2] = [
    b"\x0a5.5.5-10.11.6-MariaDB-0+deb12u1\0\x1f\x00\x00\x00\x2bL@cR'kD\x00\xfe\xf7\x2d\x02\x00\xff\x81\x15\0\0\0\0\0\0\
      \x1d\0\0\0q+uQ1!x;y]/V\0mysql_native_password\0",
    b"\x0a8.0.36\0\x08\x00\x00\x00\x60\x4d\x18\x14\x26\x1f\x3b\x05\x00\xff\xff\xff\x02\x00\xff\xdf\x15\0\0\0\0\0\0\0\0\0\0\
      \x0b\x52\x5f\x11\x64\x31\x2e\x43\x01\x02\x03\x04\0caching_sha2_password\0",
];

/// See the module.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let credential = match input.byte() % 4 {
        0 => Credential::password(PASSWORD),
        1 => Credential::Empty,
        2 => Credential::NativeStage1(Zeroizing::new(*native::stage1(PASSWORD))),
        _ => Credential::CachingSha2Stage1(Zeroizing::new(*caching_sha2::stage1(PASSWORD))),
    };
    let channel = input.one_of(&[Channel::Open, Channel::Secure]);
    let rsa = if input.byte().is_multiple_of(2) { RsaPolicy::AskServer } else { RsaPolicy::Refuse };
    let known = usize::from(input.byte() % 3);
    let capabilities = Capabilities::from_bits_retain(input.number());
    let mut rest = input.remaining();
    let greeted = match GREETINGS.get(known) {
        Some(payload) => AwaitGreeting.handle(Received { sequence: 0, payload }),
        None => match packet(&mut rest) {
            Some(received) => AwaitGreeting.handle(received),
            None => return,
        },
    };
    let Ok(greeted) = greeted else { return };
    let login = LoginRequest {
        user: b"app".to_vec(),
        credential,
        schema: Some(b"shop".to_vec()),
        capabilities,
        collation: 45,
        packet_bytes_max: 1 << 24,
        attributes: [("program_name", "test")].into_iter().collect(),
        rsa,
    };
    let mut out = Vec::new();
    let offered = greeted.greeting().capabilities;
    let mut awaiting = greeted.plain(channel).log_in(login, &mut out);
    let response = sent(&mut out, channel);
    if offered.contains(Capabilities::PLUGIN_AUTH | Capabilities::CONNECT_ATTRS) {
        let response = HandshakeResponse::parse(&response);
        assert!(response.is_ok_and(|response| response.user == b"app"), "a login that cannot be read");
    }
    let mut packets = 0;
    while let Some(received) = packet(&mut rest) {
        packets += 1;
        match awaiting.handle(received, &mut out) {
            Ok(Step::Await(next)) => awaiting = next,
            Ok(Step::Done(done)) => {
                assert_eq!(done.ok_payload.first(), Some(&0));
                break;
            }
            Err(_) => break,
        }
        sent(&mut out, channel);
    }
    // Packets that end a login need not count.
    assert!(packets <= u32::from(AUTH_PACKETS_MAX) + 1, "{packets} packets");
}

fn packet<'a>(rest: &mut &'a [u8]) -> Option<Received<'a>> {
    let First::Whole { payload, sequence, taken } = first(rest, LOGIN_BYTES_MAX) else { return None };
    *rest = &rest[taken..];
    Some(Received { sequence, payload })
}

/// The bytes that were appended are whole packets, and hold no password unless nobody else can read it.
/// Gives the first payload.
fn sent(out: &mut Vec<u8>, channel: Channel) -> Vec<u8> {
    let shown = out.windows(PASSWORD.len()).any(|window| window == PASSWORD);
    assert!(channel == Channel::Secure || !shown, "the password is on the wire");
    let (mut rest, mut payload) = (&out[..], None);
    while let Some(received) = packet(&mut rest) {
        payload.get_or_insert_with(|| received.payload.to_vec());
    }
    assert!(rest.is_empty(), "a part of a packet");
    out.clear();
    payload.unwrap_or_default()
}
