//! Replies: whatever a server sends, however it is cut, the same is seen in it.

use wire::Capabilities;
use wire::exchange::{Advance, Event, Exchange, Expect};

use crate::Input;
use crate::input::Cuts;

const EXPECTS: [Expect; 7] =
    [Expect::Results, Expect::Prepared, Expect::Rows, Expect::Columns, Expect::Text, Expect::Nothing, Expect::Cursor];

/// The relay's record: bytes that passed, and packets with a meaning.
#[derive(Debug, PartialEq, Eq)]
enum ReplyPart {
    Passed(usize),
    Packet(String, u8, usize),
    Over(u64),
    Refused(&'static str),
}

/// See the module.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let expect = input.one_of(&EXPECTS);
    let capabilities = Capabilities::from_bits_retain(input.number());
    let number = input.number();
    let bytes = input.remaining();
    let whole = follow(expect, capabilities, bytes, || bytes.len());
    let mut cuts = Cuts::new(number);
    let cut = follow(expect, capabilities, bytes, || cuts.next_length());
    assert_eq!(whole, cut);
}

fn follow(
    expect: Expect,
    capabilities: Capabilities,
    bytes: &[u8],
    mut piece: impl FnMut() -> usize,
) -> Vec<ReplyPart> {
    let mut exchange = Exchange::new(expect, capabilities);
    let (mut start, mut end) = (0, 0);
    let mut parts = Vec::new();
    while !exchange.is_over() {
        match exchange.advance(&bytes[start..end]) {
            Ok(Advance::Pass(n)) => {
                assert!(n > 0 && start + n <= end);
                start += n;
                match parts.last_mut() {
                    Some(ReplyPart::Passed(before)) => *before += n,
                    _ => parts.push(ReplyPart::Passed(n)),
                }
            }
            Ok(Advance::Packet(packet)) => {
                assert!(packet.taken > 0 && start + packet.taken <= end);
                assert_eq!(packet.over, exchange.is_over());
                assert_eq!(matches!(packet.event, Event::Infile(_)), exchange.awaits_infile());
                parts.push(ReplyPart::Packet(format!("{:?}", packet.event), packet.sequence, packet.taken));
                start += packet.taken;
                exchange.infile_sent();
            }
            Ok(Advance::Needs(n)) => {
                assert!(n > end - start, "asks for {n} with {} there", end - start);
                if end == bytes.len() {
                    return parts;
                }
                end = (end + piece()).min(bytes.len());
            }
            Err(error) => {
                parts.push(ReplyPart::Refused(error.0));
                return parts;
            }
        }
    }
    parts.push(ReplyPart::Over(exchange.rows()));
    parts
}
