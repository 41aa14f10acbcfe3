//! Capabilities × form of EOF × protocol × compression.

use sqluice_wire::codec::Write;
use sqluice_wire::compress::{Codec, Compression, Contexts, Side};
use sqluice_wire::exchange::{Advance, Exchange, Expect};
use sqluice_wire::packet;
use sqluice_wire::reply::{EOF, Eof, OK, Ok, ServerError};
use sqluice_wire::{Capabilities, Status};

const TRACK: Capabilities = Capabilities::SESSION_TRACK;

/// All pairs of cuts are tried in replies that are no longer than this.
const PAIRS_BYTES_MAX: usize = 130;

/// Builds replies packet by packet.
#[derive(Clone)]
struct ReplyBuilder {
    bytes: Vec<u8>,
    sequence: u8,
    capabilities: Capabilities,
}

impl ReplyBuilder {
    fn new(capabilities: Capabilities) -> ReplyBuilder {
        ReplyBuilder { bytes: Vec::new(), sequence: 1, capabilities }
    }

    fn packet(mut self, payload: &[u8]) -> ReplyBuilder {
        self.sequence = packet::append(&mut self.bytes, self.sequence, payload);
        self
    }

    /// An OK packet that tells a change of the session to those who track.
    fn ok(self, header: u8, status: Status) -> ReplyBuilder {
        let state = b"\x00\x0f\x0aautocommit\x03OFF";
        let status = status | Status::SESSION_STATE_CHANGED;
        let ok =
            Ok { status, affected_rows: 300, insert_id: 7, info: b"Rows: 1", session_state: state, ..Ok::default() };
        let mut payload = Vec::new();
        ok.write(&mut payload, header, self.capabilities);
        self.packet(&payload)
    }

    fn end(self, status: Status) -> ReplyBuilder {
        if self.capabilities.contains(Capabilities::DEPRECATE_EOF) {
            return self.ok(EOF, status);
        }
        let mut payload = Vec::new();
        Eof { status, warnings: 3 }.write(&mut payload);
        self.packet(&payload)
    }

    fn error(self) -> ReplyBuilder {
        let mut payload = Vec::new();
        ServerError { code: 1317, sqlstate: *b"70100", message: b"interrupted" }.write(&mut payload);
        self.packet(&payload)
    }

    fn columns(mut self, count: u8, status: Status) -> ReplyBuilder {
        self = self.packet(&[count]);
        for _ in 0..count {
            self = self.packet(b"\x03def\x01s\x01t\x01t\x01c\x01c\x0c\x2d\x00\x0b\0\0\0\xfd\0\0\0\0\0");
        }
        if self.capabilities.contains(Capabilities::DEPRECATE_EOF) { self } else { self.plain_eof(status) }
    }

    fn plain_eof(self, status: Status) -> ReplyBuilder {
        let mut payload = Vec::new();
        Eof { status, warnings: 0 }.write(&mut payload);
        self.packet(&payload)
    }

    /// Rows of the text protocol: values, NULL first, empty, and one whose length takes three bytes.
    fn text_rows(self) -> ReplyBuilder {
        let mut long = vec![0xfb];
        long.put_lenenc_bytes(&[0xfe; 260]);
        self.packet(b"\x01a\x01b").packet(b"\xfb\xfb").packet(b"\x00\x00").packet(&long)
    }

    /// Rows of the binary protocol: zero, NULL bitmap, values.
    fn binary_rows(self) -> ReplyBuilder {
        self.packet(b"\x00\x00\x01a\x01b").packet(b"\x00\x0c").packet(b"\x00\x04\xfc\x03\x00xyz")
    }
}

/// The events.
#[derive(Debug, PartialEq, Eq)]
enum ReplyPart {
    Passed(Vec<u8>),
    Packet(String, Vec<u8>),
}

/// Feeds a reply that ends its pieces at these places.
fn follow(expect: Expect, reply: &ReplyBuilder, cuts: &[usize]) -> Vec<ReplyPart> {
    let bytes = &reply.bytes;
    let mut exchange = Exchange::new(expect, reply.capabilities);
    let mut ends = cuts.iter().copied().chain([bytes.len()]);
    let (mut start, mut end) = (0, ends.next().unwrap());
    let mut parts = Vec::new();
    while !exchange.is_over() {
        match exchange.advance(&bytes[start..end]).unwrap_or_else(|error| panic!("{error} after {parts:?}")) {
            Advance::Pass(n) => {
                assert!(n > 0 && start + n <= end);
                match parts.last_mut() {
                    Some(ReplyPart::Passed(passed)) => passed.extend_from_slice(&bytes[start..start + n]),
                    _ => parts.push(ReplyPart::Passed(bytes[start..start + n].to_vec())),
                }
                start += n;
            }
            Advance::Packet(packet) => {
                let whole = bytes[start..start + packet.taken].to_vec();
                parts.push(ReplyPart::Packet(format!("{} {:?} {}", packet.sequence, packet.event, packet.over), whole));
                start += packet.taken;
                exchange.infile_sent();
            }
            Advance::Needs(n) => {
                assert!(n > end - start, "asks for {n} with {} there", end - start);
                end = ends.next().unwrap_or_else(|| panic!("wants more than the reply: {parts:?}"));
            }
        }
    }
    assert_eq!(start, bytes.len(), "a part was left over after {parts:?}");
    parts
}

/// The replies of every form, by name.
fn replies(capabilities: Capabilities) -> Vec<(&'static str, Expect, ReplyBuilder)> {
    let (more, none) = (Status::MORE_RESULTS, Status::AUTOCOMMIT);
    let new = || ReplyBuilder::new(capabilities);
    let prepared = |columns: u8, parameters: u8| {
        let mut reply = new().packet(&[0, 1, 0, 0, 0, columns, 0, parameters, 0, 0, 0, 0]);
        for count in [parameters, columns] {
            for _ in 0..count {
                reply = reply.packet(b"\x03def\0\0\0\x01?\0\x0c\x3f\0\0\0\0\0\xfd\0\0\0\0\0");
            }
            if count > 0 && !capabilities.contains(Capabilities::DEPRECATE_EOF) {
                reply = reply.plain_eof(none);
            }
        }
        reply
    };
    let mut replies = vec![
        ("ok", Expect::Results, new().ok(OK, none)),
        ("error", Expect::Results, new().error()),
        ("empty result", Expect::Results, new().columns(1, none).end(none)),
        ("text", Expect::Results, new().columns(2, none).text_rows().end(none)),
        ("binary", Expect::Results, new().columns(2, none).binary_rows().end(none)),
        ("error in rows", Expect::Results, new().columns(2, none).text_rows().error()),
        ("error in columns", Expect::Results, new().packet(&[2]).packet(b"\x03def").error()),
        (
            "several results",
            Expect::Results,
            new().columns(2, more).text_rows().end(more).ok(OK, more).columns(1, none).end(none),
        ),
        (
            "procedure",
            Expect::Results,
            new().columns(2, more).binary_rows().end(more).columns(1, more).end(more).ok(OK, none),
        ),
        ("local file", Expect::Results, new().packet(b"\xfb/tmp/file").ok(OK, none)),
        ("prepared", Expect::Prepared, prepared(2, 3)),
        ("prepared without parameters", Expect::Prepared, prepared(1, 0)),
        ("prepared without columns", Expect::Prepared, prepared(0, 1)),
        ("prepared with neither", Expect::Prepared, prepared(0, 0)),
        ("refused to prepare", Expect::Prepared, new().error()),
        ("fetched", Expect::Rows, new().binary_rows().end(Status::LAST_ROW_SENT)),
        ("statistics", Expect::Text, new().packet(b"Uptime: 1  Threads: 2")),
        ("field list", Expect::Columns, new().packet(b"\x03def\x01x").plain_eof(none)),
    ];
    if capabilities.contains(Capabilities::PROGRESS) {
        let report = b"\xff\xff\xff\x01\x01\x02\x10\x27\x00\x05stage";
        replies.push(("progress", Expect::Results, new().packet(report).packet(report).ok(OK, none)));
    }
    replies
}

fn all_capabilities() -> Vec<Capabilities> {
    let mut all = Vec::new();
    for eof in [Capabilities::empty(), Capabilities::DEPRECATE_EOF] {
        for track in [Capabilities::empty(), TRACK] {
            for progress in [Capabilities::empty(), Capabilities::PROGRESS] {
                all.push(Capabilities::PROTOCOL_41 | eof | track | progress);
            }
        }
    }
    all
}

#[test]
fn replies_cut_at_every_byte_are_seen_as_whole_ones() {
    for capabilities in all_capabilities() {
        for (name, expect, reply) in replies(capabilities) {
            let whole = follow(expect, &reply, &[]);
            let length = reply.bytes.len();
            assert_eq!(follow(expect, &reply, &(1..length).collect::<Vec<_>>()), whole, "{name}, byte by byte");
            for first in 1..length {
                assert_eq!(follow(expect, &reply, &[first]), whole, "{name} {capabilities:?} cut at {first}");
                let seconds = if length <= PAIRS_BYTES_MAX { first + 1..length } else { 0..0 };
                for second in seconds {
                    assert_eq!(follow(expect, &reply, &[first, second]), whole, "{name} cut at {first} and {second}");
                }
            }
        }
    }
}

#[test]
fn the_same_replies_compressed_and_cut_at_every_byte_give_the_same_bytes() {
    let mut contexts = Contexts::default();
    for compression in [Compression::ZLIB, Compression::zstd(None)] {
        for capabilities in all_capabilities() {
            for (name, _, reply) in replies(capabilities) {
                // The command goes first: replies go on from its frame.
                let (mut server, mut client) =
                    (Codec::new(compression, Side::Server), Codec::new(compression, Side::Client));
                let (mut command, mut frames) = (Vec::new(), Vec::new());
                packet::append(&mut command, 0, b"\x03SELECT 1");
                client.encode(&mut contexts, &command, &mut frames);
                let mut output = vec![0; 4096];
                let taken = server.decode(&mut contexts, &frames, &mut output).unwrap();
                assert_eq!(output[..taken.made], command[..]);
                frames.clear();
                let mut rest = &reply.bytes[..];
                while !rest.is_empty() {
                    rest = &rest[server.encode(&mut contexts, rest, &mut frames)..];
                }
                for cut in 1..frames.len() {
                    let mut client = Codec::new(compression, Side::Client);
                    client.encode(&mut contexts, &command, &mut Vec::new());
                    let mut got = Vec::new();
                    for piece in [&frames[..cut], &frames[cut..]] {
                        let mut rest = piece;
                        loop {
                            let step = client.decode(&mut contexts, rest, &mut output[..97]).unwrap();
                            got.extend_from_slice(&output[..step.made]);
                            rest = &rest[step.taken..];
                            if step.taken == 0 && step.made == 0 {
                                break;
                            }
                        }
                    }
                    assert!(got == reply.bytes, "{name} by {compression:?} cut at {cut}");
                }
            }
        }
    }
}
