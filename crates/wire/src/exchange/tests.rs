use super::*;
use crate::codec::Write;
use crate::packet;

const OLD: Capabilities = Capabilities::PROTOCOL_41;
const NEW: Capabilities = Capabilities::PROTOCOL_41.union(Capabilities::DEPRECATE_EOF);

/// Builds replies packet by packet.
#[derive(Default)]
struct ReplyBuilder {
    bytes: Vec<u8>,
    sequence: u8,
}

impl ReplyBuilder {
    fn packet(mut self, payload: &[u8]) -> ReplyBuilder {
        self.sequence = packet::append(&mut self.bytes, self.sequence.wrapping_add(1), payload).wrapping_sub(1);
        self
    }

    fn ok(self, header: u8, status: Status) -> ReplyBuilder {
        let mut payload = Vec::new();
        Ok { status, ..Ok::default() }.write(&mut payload, header, OLD);
        self.packet(&payload)
    }

    fn eof(self, status: Status) -> ReplyBuilder {
        let mut payload = Vec::new();
        Eof { status, warnings: 0 }.write(&mut payload);
        self.packet(&payload)
    }

    fn rows_end(self, capabilities: Capabilities, status: Status) -> ReplyBuilder {
        if capabilities.contains(Capabilities::DEPRECATE_EOF) { self.ok(reply::EOF, status) } else { self.eof(status) }
    }

    fn result(self, capabilities: Capabilities, rows: &[&[u8]], status: Status) -> ReplyBuilder {
        let mut reply = self.packet(&[2]).packet(b"\x03defcolumn").packet(b"\x03defcolumn");
        if !capabilities.contains(Capabilities::DEPRECATE_EOF) {
            reply = reply.eof(status);
        }
        for row in rows {
            reply = reply.packet(row);
        }
        reply.rows_end(capabilities, status)
    }
}

/// Feeds `bytes` in pieces of `step` and gives the words of what was seen; all bytes must be taken exactly at the end.
fn follow(
    expect: Expect,
    capabilities: Capabilities,
    bytes: &[u8],
    step: usize,
) -> Result<Vec<&'static str>, Malformed> {
    let mut exchange = Exchange::new(expect, capabilities);
    let (mut start, mut end) = (0, 0);
    let mut seen = Vec::new();
    while !exchange.is_over() {
        match exchange.advance(&bytes[start..end])? {
            Advance::Pass(n) => {
                assert!(n > 0 && start + n <= end);
                start += n;
            }
            Advance::Packet(packet) => {
                seen.push(match packet.event {
                    Event::Ok(_) => "ok",
                    Event::RowsEnd(_) => "rows-end",
                    Event::ColumnsEnd(_) => "columns-end",
                    Event::Eof(_) => "eof",
                    Event::Error(_) => "error",
                    Event::Infile(_) => "infile",
                    Event::Prepared(_) => "prepared",
                    Event::Progress => "progress",
                    Event::Text(_) => "text",
                });
                start += packet.taken;
                assert_eq!(packet.over, exchange.is_over());
                exchange.infile_sent();
            }
            Advance::Needs(n) => {
                assert!(n > end - start, "asked for {n} with {} there", end - start);
                assert!(end < bytes.len(), "wants more than the reply: {seen:?}");
                end = (end + step).min(bytes.len());
            }
        }
    }
    assert_eq!(start, bytes.len(), "a part was left over after {seen:?}");
    Ok(seen)
}

fn follow_in_all_steps(expect: Expect, capabilities: Capabilities, reply: ReplyBuilder) -> Vec<&'static str> {
    let whole = follow(expect, capabilities, &reply.bytes, reply.bytes.len()).unwrap();
    for step in [1, 2, 3, 5, 7, 64] {
        assert_eq!(follow(expect, capabilities, &reply.bytes, step).unwrap(), whole, "in steps of {step}");
    }
    whole
}

#[test]
fn a_plain_ok_is_a_whole_reply() {
    for capabilities in [OLD, NEW] {
        let reply = ReplyBuilder::default().ok(reply::OK, Status::AUTOCOMMIT);
        assert_eq!(follow_in_all_steps(Expect::Results, capabilities, reply), ["ok"]);
    }
}

#[test]
fn a_result_ends_where_its_rows_end_in_both_framings() {
    // Rows that look like other packets: 0x00 and 0xfb lead a row freely, 0xfe only when the packet is full.
    let rows: [&[u8]; 4] = [b"\x00", b"\xfb\xfb", b"\x01a\x01b", b"\xfc\x00\x01"];
    let reply = |capabilities| ReplyBuilder::default().result(capabilities, &rows, Status::AUTOCOMMIT);
    assert_eq!(follow_in_all_steps(Expect::Results, OLD, reply(OLD)), ["columns-end", "eof"]);
    assert_eq!(follow_in_all_steps(Expect::Results, NEW, reply(NEW)), ["rows-end"]);
}

#[test]
fn several_results_follow_each_other_until_the_flag_is_gone() {
    for capabilities in [OLD, NEW] {
        let reply = ReplyBuilder::default()
            .result(capabilities, &[b"\x01a"], Status::MORE_RESULTS)
            .ok(reply::OK, Status::MORE_RESULTS)
            .result(capabilities, &[], Status::MORE_RESULTS)
            .ok(reply::OK, Status::empty());
        let seen = follow_in_all_steps(Expect::Results, capabilities, reply);
        assert_eq!(seen.last(), Some(&"ok"));
        assert_eq!(seen.iter().filter(|word| **word == "ok").count(), 2);
    }
}

#[test]
fn an_error_ends_a_reply_in_every_phase() {
    let error = b"\xff\x7a\x04#42S02gone";
    for capabilities in [OLD, NEW] {
        assert_eq!(
            follow_in_all_steps(Expect::Results, capabilities, ReplyBuilder::default().packet(error)),
            ["error"]
        );
        let mut in_rows = ReplyBuilder::default().packet(&[1]).packet(b"\x03def");
        if capabilities == OLD {
            in_rows = in_rows.eof(Status::empty());
        }
        let in_rows = in_rows.packet(b"\x01a").packet(error);
        assert_eq!(follow_in_all_steps(Expect::Results, capabilities, in_rows).last(), Some(&"error"));
        let in_columns = ReplyBuilder::default().packet(&[2]).packet(b"\x03def").packet(error);
        assert_eq!(follow_in_all_steps(Expect::Results, capabilities, in_columns), ["error"]);
    }
}

#[test]
fn a_value_of_sixteen_mebibytes_is_a_row_and_not_an_end() {
    let mut row = vec![0xfe];
    row.put_u64(packet::PAYLOAD_BYTES_MAX as u64 + 10);
    row.resize(packet::PAYLOAD_BYTES_MAX + 19, 0xff);
    for capabilities in [OLD, NEW] {
        let reply = ReplyBuilder::default().result(capabilities, &[&row, b"\x01a"], Status::empty());
        for step in [1 << 16, packet::PAYLOAD_BYTES_MAX + 1, reply.bytes.len()] {
            let seen = follow(Expect::Results, capabilities, &reply.bytes, step).unwrap();
            assert!(matches!(seen[..], ["columns-end", "eof"] | ["rows-end"]), "{seen:?}");
        }
    }
}

#[test]
fn a_prepared_statement_ends_behind_its_columns() {
    let head = |columns: u8, parameters: u8| [0, 1, 0, 0, 0, columns, 0, parameters, 0, 0, 0, 0];
    for (columns, parameters) in [(0, 0), (2, 0), (0, 3), (2, 3)] {
        for capabilities in [OLD, NEW] {
            let mut reply = ReplyBuilder::default().packet(&head(columns, parameters));
            let mut expected = vec!["prepared"];
            for count in [parameters, columns] {
                for _ in 0..count {
                    reply = reply.packet(b"\x03def");
                }
                if count > 0 && capabilities == OLD {
                    reply = reply.eof(Status::empty());
                    expected.push("columns-end");
                }
            }
            assert_eq!(follow_in_all_steps(Expect::Prepared, capabilities, reply), expected);
        }
    }
}

#[test]
fn a_cursor_sends_no_rows_behind_its_columns() {
    let old = ReplyBuilder::default().packet(&[1]).packet(b"\x03def").eof(Status::CURSOR_EXISTS);
    assert_eq!(follow_in_all_steps(Expect::Cursor, OLD, old), ["eof"]);
    let new = ReplyBuilder::default().packet(&[1]).packet(b"\x03def").ok(reply::EOF, Status::CURSOR_EXISTS);
    assert_eq!(follow_in_all_steps(Expect::Cursor, NEW, new), ["rows-end"]);
}

#[test]
fn a_cursor_inside_a_procedure_is_no_cursor_of_the_client() {
    let status = Status::CURSOR_EXISTS | Status::MORE_RESULTS;
    for capabilities in [OLD, NEW] {
        let mut reply = ReplyBuilder::default().packet(&[1]).packet(b"\x03def");
        if capabilities == OLD {
            reply = reply.eof(status);
        }
        let reply = reply.packet(b"\x011").rows_end(capabilities, status).ok(reply::OK, Status::empty());
        assert_eq!(follow_in_all_steps(Expect::Results, capabilities, reply).last(), Some(&"ok"));
    }
}

#[test]
fn fetched_rows_have_no_columns_before_them() {
    for capabilities in [OLD, NEW] {
        let reply = ReplyBuilder::default()
            .packet(b"\x00\x00a")
            .packet(b"\x00\x00b")
            .rows_end(capabilities, Status::LAST_ROW_SENT);
        assert_eq!(follow_in_all_steps(Expect::Rows, capabilities, reply).len(), 1);
    }
}

#[test]
fn a_local_file_is_asked_for_and_then_answered() {
    let reply = ReplyBuilder::default().packet(b"\xfb/tmp/file").ok(reply::OK, Status::empty());
    assert_eq!(follow_in_all_steps(Expect::Results, NEW, reply), ["infile", "ok"]);
}

#[test]
fn progress_is_not_an_error_for_those_who_asked_for_it() {
    let reply =
        || ReplyBuilder::default().packet(b"\xff\xff\xff\x01\x01\x02\x00\x00\x00").ok(reply::OK, Status::empty());
    assert_eq!(follow_in_all_steps(Expect::Results, NEW | Capabilities::PROGRESS, reply()), ["progress", "ok"]);
}

#[test]
fn commands_with_other_replies() {
    assert_eq!(follow_in_all_steps(Expect::Text, NEW, ReplyBuilder::default().packet(b"\xffUptime: 1")), ["text"]);
    assert_eq!(follow_in_all_steps(Expect::Results, OLD, ReplyBuilder::default().eof(Status::empty())), ["eof"]);
    let list = ReplyBuilder::default().packet(b"\x03def").packet(b"\x03def").eof(Status::empty());
    assert_eq!(follow_in_all_steps(Expect::Columns, OLD, list), ["eof"]);
    assert!(Exchange::new(Expect::Nothing, NEW).is_over());
}

#[test]
fn rows_are_counted_per_result() {
    let reply = ReplyBuilder::default().result(NEW, &[b"\x01a", b"\x01b", b"\x01c"], Status::empty());
    let mut exchange = Exchange::new(Expect::Results, NEW);
    let mut start = 0;
    while !exchange.is_over() {
        match exchange.advance(&reply.bytes[start..]).unwrap() {
            Advance::Pass(n) => start += n,
            Advance::Packet(packet) => start += packet.taken,
            Advance::Needs(n) => panic!("needs {n}"),
        }
    }
    assert_eq!(exchange.rows(), 3);
}

#[test]
fn nonsense_is_an_error_and_never_a_panic() {
    assert!(follow(Expect::Results, NEW, &[0, 0, 0, 1, 9, 9], 6).is_err());
    let behind_the_end = ReplyBuilder::default().ok(reply::OK, Status::empty()).bytes;
    let mut exchange = Exchange::new(Expect::Nothing, NEW);
    assert!(exchange.advance(&behind_the_end).is_err());
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_followed_without_a_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300), new: bool) {
        for expect in [Expect::Results, Expect::Prepared, Expect::Rows, Expect::Columns, Expect::Text] {
            let mut exchange = Exchange::new(expect, if new { NEW | Capabilities::SESSION_TRACK } else { OLD });
            let mut start = 0;
            loop {
                match exchange.advance(&bytes[start..]) {
                    Result::Ok(Advance::Pass(n)) => start += n,
                    Result::Ok(Advance::Packet(packet)) => { start += packet.taken; exchange.infile_sent(); }
                    Result::Ok(Advance::Needs(n)) => { proptest::prop_assert!(n > bytes.len() - start); break; }
                    Err(_) => break,
                }
                if exchange.is_over() { break; }
            }
        }
    }
}

#[test]
fn the_ok_of_a_call_follows_its_out_parameters_whatever_their_eof_says() {
    let columns = Status::OUT_PARAMETERS | Status::MORE_RESULTS;
    // As MySQL 9.7 sends them without DEPRECATE_EOF.
    let reply = ReplyBuilder::default().packet(&[1]).packet(b"\x03def").eof(columns).packet(b"\x00\x00a");
    let reply = reply.rows_end(OLD, Status::empty()).ok(reply::OK, Status::empty());
    assert_eq!(follow_in_all_steps(Expect::Results, OLD, reply).last(), Some(&"ok"));
}
