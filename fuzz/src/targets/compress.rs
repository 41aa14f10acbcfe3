//! Compressed frames: any bytes are taken apart in the same way however they are cut, and what one side wraps the other unwraps.

use wire::compress::{Codec, Compression, Contexts, FrameError, Side};
use wire::packet::append;

use crate::Input;
use crate::input::Cuts;

/// Enough to see that a frame gives no more than its header says.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// See the module.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let compression = input.one_of(&[Compression::ZLIB, Compression::zstd(None), Compression::zstd(Some(9))]);
    let side = input.one_of(&[Side::Client, Side::Server]);
    let number = input.number();
    match input.byte() % 3 {
        0 => any_bytes(compression, side, number, input.remaining()),
        1 => conversation(compression, number, input),
        _ => any_bytes(compression, side, number, &nearly_good(compression, side, input)),
    }
}

/// The output, and whether it ended with an error.
fn decoded(
    codec: &mut Codec,
    contexts: &mut Contexts,
    bytes: &[u8],
    mut piece: impl FnMut() -> usize,
    room: usize,
) -> (Vec<u8>, Option<FrameError>) {
    let (mut all, mut output) = (Vec::new(), vec![0; room]);
    let (mut start, mut end) = (0, 0);
    while all.len() < OUTPUT_BYTES_MAX {
        match codec.decode(contexts, &bytes[start..end], &mut output) {
            Ok(step) => {
                assert!(step.taken <= end - start && step.made <= room);
                all.extend_from_slice(&output[..step.made]);
                start += step.taken;
                if step.taken == 0 && step.made == 0 {
                    if end == bytes.len() {
                        break;
                    }
                    end = (end + piece()).min(bytes.len());
                }
            }
            Err(error) => return (all, Some(error)),
        }
    }
    (all, None)
}

fn any_bytes(compression: Compression, side: Side, number: u64, bytes: &[u8]) {
    let mut contexts = Contexts::default();
    let mut codec = Codec::new(compression, side);
    let (whole, error) = decoded(&mut codec, &mut contexts, bytes, || bytes.len(), 1 << 16);
    let mut cuts = Cuts::new(number);
    let mut codec = Codec::new(compression, side);
    let room = 1 + (number >> 8) as usize % 5000;
    let (cut, cut_error) = decoded(&mut codec, &mut contexts, bytes, || cuts.next_length(), room);
    if whole.len() >= OUTPUT_BYTES_MAX || cut.len() >= OUTPUT_BYTES_MAX {
        return;
    }
    assert_eq!(error.is_some(), cut_error.is_some(), "whole: {error:?}, cut: {cut_error:?}");
    // A step that fails gives nothing of what it had made.
    let (short, long) = if whole.len() <= cut.len() { (&whole, &cut) } else { (&cut, &whole) };
    assert!(long.starts_with(short));
    // Inside a frame it may be later with one of them.
    let may_differ = error.is_some() || !codec.is_between_frames();
    assert!(may_differ || short.len() == long.len(), "{} bytes whole, {} cut", whole.len(), cut.len());
}

/// Frames as a good peer makes them, with a few bytes changed.
fn nearly_good(compression: Compression, side: Side, mut input: Input<'_>) -> Vec<u8> {
    let peer = if side == Side::Client { Side::Server } else { Side::Client };
    let changes: Vec<(u64, u8)> = (0..input.byte() % 4).map(|_| (input.number(), input.byte())).collect();
    let (mut codec, mut contexts) = (Codec::new(compression, peer), Contexts::default());
    let mut packets = Vec::new();
    append(&mut packets, u8::from(side == Side::Client), &input.remaining().repeat(3));
    let (mut frames, mut rest) = (Vec::new(), &packets[..]);
    while !rest.is_empty() {
        rest = &rest[codec.encode(&mut contexts, rest, &mut frames)..];
    }
    for (at, byte) in changes {
        let at = (at % frames.len() as u64) as usize;
        frames[at] ^= byte;
    }
    frames
}

/// Commands and replies as two good sides exchange them.
fn conversation(compression: Compression, number: u64, mut input: Input<'_>) {
    let mut contexts = Contexts::default();
    let (mut client, mut server) = (Codec::new(compression, Side::Client), Codec::new(compression, Side::Server));
    let mut cuts = Cuts::new(number);
    for _ in 0..4 {
        let command = input.bytes(100);
        let repeats = 1 + usize::from(input.byte() % 16).pow(3) / 4;
        let mut packets = Vec::new();
        append(&mut packets, 0, &command.repeat(repeats));
        exchange(&mut contexts, &mut client, &mut server, &packets, &mut cuts);
        let mut reply = Vec::new();
        let mut sequence = 1;
        for _ in 0..input.byte() % 64 {
            sequence = append(&mut reply, sequence, input.bytes(20));
        }
        exchange(&mut contexts, &mut server, &mut client, &reply, &mut cuts);
    }
}

fn exchange(contexts: &mut Contexts, from: &mut Codec, to: &mut Codec, packets: &[u8], cuts: &mut Cuts) {
    let mut frames = Vec::new();
    let mut rest = packets;
    while !rest.is_empty() {
        let piece =
            cuts.next_length().max(if cuts.next_length().is_multiple_of(2) { rest.len() } else { 1 }).min(rest.len());
        let taken = from.encode(contexts, &rest[..piece], &mut frames);
        assert!(taken > 0 && taken <= piece);
        rest = &rest[taken..];
    }
    let (out, error) = decoded(to, contexts, &frames, || cuts.next_length() * 7, 1000);
    assert_eq!(error, None);
    assert!(out == packets, "{} bytes became {}", packets.len(), out.len());
    assert!(to.is_between_frames());
}
