//! Both sides against each other, frames of others, and bytes that are no frames.

use proptest::prelude::*;

use super::*;
use crate::packet::{PAYLOAD_BYTES_MAX, append};

const BOTH: [Compression; 2] =
    [Compression::ZLIB, Compression { algorithm: Algorithm::Zstd, level: ZSTD_LEVEL_DEFAULT }];

fn packets(packets: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, payload) in packets {
        append(&mut out, *number, payload);
    }
    out
}

/// Frames of all of `bytes`.
fn write(codec: &mut Codec, bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut rest, mut contexts) = (Vec::new(), bytes, Contexts::default());
    while !rest.is_empty() {
        let taken = codec.encode(&mut contexts, rest, &mut out);
        assert!(taken > 0);
        rest = &rest[taken..];
    }
    out
}

/// All that is in `frames`, which come in pieces of `input` bytes and go out in pieces of `room` bytes.
fn read_cut(codec: &mut Codec, frames: &[u8], input: usize, room: usize) -> Result<Vec<u8>, FrameError> {
    let (mut all, mut output, mut contexts) = (Vec::new(), vec![0; room], Contexts::default());
    for piece in frames.chunks(input) {
        let mut rest = piece;
        loop {
            let Decoded { taken, made } = codec.decode(&mut contexts, rest, &mut output)?;
            all.extend_from_slice(&output[..made]);
            rest = &rest[taken..];
            if taken == 0 && made == 0 {
                assert!(rest.is_empty(), "bytes were left without an end of a frame");
                break;
            }
        }
    }
    Ok(all)
}

fn read(codec: &mut Codec, frames: &[u8]) -> Vec<u8> {
    read_cut(codec, frames, usize::MAX, 64 * 1024).unwrap()
}

/// The numbers and lengths of frames.
fn frames(mut bytes: &[u8]) -> Vec<(u8, usize, usize)> {
    let mut found = Vec::new();
    while let &[a, b, c, number, d, e, f, ..] = bytes {
        let (length, before) = (u32::from_le_bytes([a, b, c, 0]) as usize, u32::from_le_bytes([d, e, f, 0]) as usize);
        found.push((number, length, before));
        bytes = &bytes[FRAME_HEADER_BYTES + length..];
    }
    assert!(bytes.is_empty());
    found
}

/// Bytes that compress, but not to nothing.
fn text(length: usize) -> Vec<u8> {
    (0..length).map(|i| b"abcdefghijklmnop"[(i * i / 7) % 16]).collect()
}

#[test]
fn commands_and_replies_survive_at_every_cut() {
    for compression in BOTH {
        let command = packets(&[(0, &text(300))]);
        let reply = packets(&[(1, b"small"), (2, &text(500)), (3, b""), (4, b"end")]);
        let frames = write(&mut Codec::new(compression, Side::Client), &command);
        assert!(frames.len() < command.len());
        for cut in 1..=frames.len() {
            for room in [1, 7, 64, 1000] {
                let mut server = Codec::new(compression, Side::Server);
                assert_eq!(read_cut(&mut server, &frames, cut, room).unwrap(), command, "cut {cut}, room {room}");
                assert!(server.is_between_frames());
            }
        }
        let mut server = Codec::new(compression, Side::Server);
        read(&mut server, &frames);
        let frames = write(&mut server, &reply);
        for cut in 1..=frames.len() {
            let mut client = Codec::new(compression, Side::Client);
            write(&mut client, &command);
            assert_eq!(read_cut(&mut client, &frames, cut, 50).unwrap(), reply, "cut {cut}");
        }
    }
}

#[test]
fn small_content_goes_as_it_is_and_large_content_in_several_frames() {
    for compression in BOTH {
        let mut client = Codec::new(compression, Side::Client);
        assert_eq!(frames(&write(&mut client, &packets(&[(0, b"\x0e")]))), [(0, 5, 0)]);
        let noise: Vec<u8> = (0..60u8).map(|i| i.wrapping_mul(151).rotate_left(3)).collect();
        assert_eq!(frames(&write(&mut client, &packets(&[(0, &noise)]))), [(0, 64, 0)], "no gain, not compressed");
        let long = packets(&[(0, &text(PAYLOAD_BYTES_MAX + 10))]);
        let bytes = write(&mut client, &long);
        let found = frames(&bytes);
        assert_eq!(found.len(), long.len().div_ceil(FRAME_CONTENT_BYTES));
        assert!(found.iter().enumerate().all(|(i, (number, ..))| *number == i as u8));
        assert_eq!(read(&mut Codec::new(compression, Side::Server), &bytes), long);
    }
}

#[test]
fn a_packet_for_a_client_is_in_two_frames_at_most() {
    let longest = text(PAYLOAD_BYTES_MAX + 70_000);
    let reply = packets(&[(1, b"head"), (2, &longest), (4, &text(100_000)), (5, b""), (6, &text(66_000)), (7, b"end")]);
    for piece in [5_000, 65_536, reply.len()] {
        let (mut server, mut contexts, mut bytes) =
            (Codec::new(Compression::ZLIB, Side::Server), Contexts::default(), Vec::new());
        for piece in reply.chunks(piece) {
            assert_eq!(server.encode(&mut contexts, piece, &mut bytes), piece.len());
        }
        let mut client = Codec::new(Compression::ZLIB, Side::Client);
        write(&mut client, &packets(&[(0, b"SELECT")]));
        assert_eq!(read(&mut client, &bytes), reply, "{piece}");
        // Each frame begins with a packet's header, but for one that goes on with a packet of the longest kind.
        let (mut at, mut begins) = (0, vec![0]);
        while let Some(header) = crate::packet::Header::read(&reply[at..]) {
            at += 4 + header.length;
            begins.push(at);
        }
        let (mut at, mut continued) = (0, 0);
        for (_, length, before) in frames(&bytes) {
            continued += usize::from(!begins.contains(&at));
            at += if before == 0 { length } else { before };
        }
        assert_eq!((at, continued), (reply.len(), 1), "{piece}");
    }
}

#[test]
fn each_command_begins_a_frame_with_number_zero() {
    let mut client = Codec::new(Compression::ZLIB, Side::Client);
    let together = packets(&[(0, b"SET"), (0, &text(400)), (0, b"third")]);
    let bytes = write(&mut client, &together);
    assert_eq!(frames(&bytes).iter().map(|frame| frame.0).collect::<Vec<_>>(), [0, 0, 0]);
    // Byte by byte it is the same.
    let mut slowly = Codec::new(Compression::ZLIB, Side::Client);
    let (mut out, mut contexts) = (Vec::new(), Contexts::default());
    for byte in &together {
        assert_eq!(slowly.encode(&mut contexts, std::slice::from_ref(byte), &mut out), 1);
    }
    let content = read(&mut Codec::new(Compression::ZLIB, Side::Server), &out);
    assert_eq!(content, together);
}

#[test]
fn replies_go_on_from_their_command_even_when_commands_were_sent_ahead() {
    let mut server = Codec::new(Compression::ZLIB, Side::Server);
    let command = write(&mut Codec::new(Compression::ZLIB, Side::Client), &packets(&[(0, b"one")]));
    for _ in 0..3 {
        assert_eq!(read(&mut server, &command), packets(&[(0, b"one")]));
        let reply = write(&mut server, &packets(&[(1, b"a"), (2, b"b")]));
        assert_eq!(frames(&reply), [(1, 10, 0)]);
    }
    // Two commands in one go: the first must be answered before the second moves the count.
    let both = [command.clone(), command].concat();
    let (mut contexts, mut room) = (Contexts::default(), [0; 100]);
    let first = server.decode(&mut contexts, &both, &mut room).unwrap();
    assert_eq!((first.taken, first.made), (both.len() / 2, 7));
}

#[test]
fn packets_are_numbered_as_without_compression() {
    // A server (MariaDB and MySQL alike) sets its packets' numbers to the frames' when it flushes.
    let frame = |number: u8, content: &[u8]| {
        let mut out = Vec::new();
        Contexts::default().encode(Compression::ZLIB, number, content, &mut out);
        out
    };
    let mut client = Codec::new(Compression::ZLIB, Side::Client);
    write(&mut client, &packets(&[(0, b"LOAD DATA LOCAL INFILE")]));
    assert_eq!(read(&mut client, &frame(1, &packets(&[(1, b"\xfbfile")]))), packets(&[(1, b"\xfbfile")]));
    let file = write(&mut client, &packets(&[(2, b"rows"), (3, b"")]));
    assert_eq!(frames(&file), [(2, 12, 0)]);
    assert_eq!(read(&mut client, &frame(3, &packets(&[(3, b"ok")]))), packets(&[(4, b"ok")]));
    // Several results, flushed in between.
    write(&mut client, &packets(&[(0, b"CALL p()")]));
    let first = frame(1, &packets(&[(1, b"1"), (2, b"row"), (3, b"eof")]));
    let second = frame(2, &packets(&[(2, b"1"), (3, b"row")]));
    assert_eq!(read(&mut client, &[first, second].concat()), {
        packets(&[(1, b"1"), (2, b"row"), (3, b"eof"), (4, b"1"), (5, b"row")])
    });
    // Commands sent ahead: each reply begins with 1.
    write(&mut client, &packets(&[(0, b"SET a"), (0, b"SET b")]));
    for _ in 0..2 {
        assert_eq!(read(&mut client, &frame(1, &packets(&[(1, b"ok")]))), packets(&[(1, b"ok")]));
    }
    // A command of more than one packet.
    let long = write(&mut client, &packets(&[(0, &text(PAYLOAD_BYTES_MAX))]));
    let answer = frames(&long).len() as u8;
    assert_eq!(read(&mut client, &frame(answer, &packets(&[(answer, b"ok")]))), packets(&[(2, b"ok")]));

    // A client (MariaDB Connector/J 2) that numbers a command's packet like a reply's.
    let mut server = Codec::new(Compression::ZLIB, Side::Server);
    assert_eq!(read(&mut server, &frame(0, &packets(&[(1, b"SELECT 1")]))), packets(&[(0, b"SELECT 1")]));
    write(&mut server, &packets(&[(1, b"ok")]));
    assert_eq!(read(&mut server, &frame(0, &packets(&[(5, b"SELECT 2")]))), packets(&[(0, b"SELECT 2")]));
}

#[test]
fn an_upload_may_count_past_255() {
    let (mut client, mut server) =
        (Codec::new(Compression::ZLIB, Side::Client), Codec::new(Compression::ZLIB, Side::Server));
    let command = packets(&[(0, b"LOAD")]);
    assert_eq!(read(&mut server, &write(&mut client, &command)), command);
    let ask = packets(&[(1, b"\xfbx")]);
    assert_eq!(read(&mut client, &write(&mut server, &ask)), ask);
    let mut number = 2u8;
    for _ in 0..600 {
        // One packet in one frame each: both counts come by 0 in the middle.
        let part = packets(&[(number, b"part")]);
        assert_eq!(read(&mut server, &write(&mut client, &part)), part, "packet {number}");
        number = number.wrapping_add(1);
    }
    let end = packets(&[(number, b"")]);
    assert_eq!(read(&mut server, &write(&mut client, &end)), end);
    let ok = packets(&[(number.wrapping_add(1), b"ok")]);
    assert_eq!(read(&mut client, &write(&mut server, &ok)), ok);
    assert_eq!(read(&mut server, &write(&mut client, &command)), command);
}

#[test]
fn a_reply_of_any_number_of_frames_is_followed_by_a_command() {
    for rows in 250..260 {
        let (mut client, mut server) =
            (Codec::new(Compression::ZLIB, Side::Client), Codec::new(Compression::ZLIB, Side::Server));
        let command = packets(&[(0, b"SELECT")]);
        assert_eq!(read(&mut server, &write(&mut client, &command)), command);
        for row in 1..=rows {
            let row = packets(&[((row % 256) as u8, b"row")]);
            assert_eq!(read(&mut client, &write(&mut server, &row)), row);
        }
        assert_eq!(read(&mut server, &write(&mut client, &command)), command, "after {rows} frames");
        let ok = packets(&[(1, b"ok")]);
        assert_eq!(read(&mut client, &write(&mut server, &ok)), ok, "after {rows} frames");
    }
}

#[test]
fn frames_that_lie_are_refused() {
    for compression in BOTH {
        let mut good = Vec::new();
        Contexts::default().encode(compression, 0, &text(1000), &mut good);
        let said = |before: u32, frame: &[u8]| {
            let mut frame = frame.to_vec();
            frame[4..7].copy_from_slice(&before.to_le_bytes()[..3]);
            read_cut(&mut Codec::new(compression, Side::Server), &frame, usize::MAX, 4096).map(|bytes| bytes.len())
        };
        assert_eq!(said(1000, &good), Ok(1000));
        assert!(said(999, &good).unwrap_err().to_string().contains("more than its header says"));
        assert!(said(1001, &good).unwrap_err().to_string().contains("less than its header says"));
        assert!(said(0xff_ffff, &good).unwrap_err().to_string().contains("less than its header says"));
        let mut short = good.clone();
        short.truncate(good.len() - 3);
        short[0] -= 3;
        assert!(said(1000, &short).is_err());
        assert!(said(1000, &[0, 0, 0, 0, 0, 0, 0]).is_err(), "no bytes at all");
        let mut garbage = good.clone();
        garbage[7..].fill(0x5a);
        assert!(said(1000, &garbage).is_err());
    }
}

#[test]
fn a_bomb_gives_its_content_piece_by_piece() {
    for compression in BOTH {
        let mut bomb = Vec::new();
        Contexts::default().encode(compression, 0, &vec![0; PAYLOAD_BYTES_MAX], &mut bomb);
        assert!(bomb.len() < 20_000, "{} bytes", bomb.len());
        let (mut codec, mut contexts) = (Codec::new(compression, Side::Server), Contexts::default());
        let mut room = [0; 1024];
        let first = codec.decode(&mut contexts, &bomb, &mut room).unwrap();
        assert_eq!(first.made, 1024);
        assert!(!codec.is_between_frames());
    }
}

#[test]
fn zlib_is_taken_when_both_are_agreed_on() {
    let both = Capabilities::COMPRESS | Capabilities::ZSTD_COMPRESSION;
    assert_eq!(Compression::agreed(both, Some(7)), Some(Compression::ZLIB));
    let zstd = Compression::agreed(Capabilities::ZSTD_COMPRESSION, Some(7));
    assert_eq!(zstd, Some(Compression { algorithm: Algorithm::Zstd, level: 7 }));
    assert_eq!(Compression::zstd(Some(22)).level, ZSTD_LEVEL_MAX);
    assert_eq!(Compression::zstd(Some(0)).level, 1);
    assert_eq!(Compression::agreed(Capabilities::empty(), Some(7)), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// All written bytes are read, with any cut, by either side and algorithm.
    #[test]
    fn round_trip(
        payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..2000), 1..6),
        cut in 1usize..3000,
        room in 1usize..3000,
        zstd: bool,
        to_server: bool,
    ) {
        let compression = BOTH[usize::from(zstd)];
        let (from, to) = if to_server { (Side::Client, Side::Server) } else { (Side::Server, Side::Client) };
        let mut bytes = Vec::new();
        let mut number = 0;
        for payload in &payloads {
            number = append(&mut bytes, number, payload);
        }
        let frames = write(&mut Codec::new(compression, from), &bytes);
        prop_assert_eq!(read_cut(&mut Codec::new(compression, to), &frames, cut, room).unwrap(), bytes);
    }

    /// Any bytes at all: an error or something, and the same wherever they are cut.
    #[test]
    fn arbitrary_bytes_are_no_danger(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), cut in 1usize..50, zstd: bool) {
        // Short frames, so that content is reached.
        for at in [1, 2, 5, 6] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = 0;
            }
        }
        let compression = BOTH[usize::from(zstd)];
        for side in [Side::Server, Side::Client] {
            let whole = read_cut(&mut Codec::new(compression, side), &bytes, usize::MAX, 64);
            let pieces = read_cut(&mut Codec::new(compression, side), &bytes, cut, 64);
            prop_assert_eq!(whole.is_ok(), pieces.is_ok());
            if let (Ok(whole), Ok(pieces)) = (whole, pieces) {
                prop_assert_eq!(whole, pieces);
            }
        }
    }

    /// A damaged frame is an error, or gives no more than it says.
    #[test]
    fn damage_is_no_danger(at in 0usize..200, to: u8, zstd: bool) {
        let compression = BOTH[usize::from(zstd)];
        let mut frame = Vec::new();
        Contexts::default().encode(compression, 0, &text(800), &mut frame);
        let at = at % frame.len();
        frame[at] = to;
        let content = read_cut(&mut Codec::new(compression, Side::Server), &frame, 33, 100);
        prop_assert!(content.is_err() || content.is_ok_and(|content| content.len() <= PAYLOAD_BYTES_MAX));
    }
}
