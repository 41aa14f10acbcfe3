//! Following replies and framing commands: `cargo bench -p sqluice-wire`.

#![allow(missing_docs, reason = "criterion's macros write functions without documentation")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sqluice_wire::exchange::{Advance, Exchange, Expect};
use sqluice_wire::packet::{self, First};
use sqluice_wire::reply::{self, Eof, Ok};
use sqluice_wire::{Capabilities, Status};

const NEW: Capabilities = Capabilities::PROTOCOL_41
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::SESSION_TRACK)
    .union(Capabilities::DEPRECATE_EOF);
const OLD: Capabilities = Capabilities::PROTOCOL_41.union(Capabilities::TRANSACTIONS);

/// The payload of an OK packet.
fn ok(header: u8, session_state: &[u8]) -> Vec<u8> {
    let status = if session_state.is_empty() { Status::AUTOCOMMIT } else { Status::SESSION_STATE_CHANGED };
    let mut payload = Vec::new();
    Ok { status, session_state, ..Ok::default() }.write(&mut payload, header, NEW);
    payload
}

/// A result of one column and so many rows.
fn result(capabilities: Capabilities, rows: usize) -> Vec<u8> {
    let mut column = b"\x03def\x03app\x07sbtest1\x07sbtest1\x01c\x01c\x0c".to_vec();
    column.extend_from_slice(&[45, 0, 224, 1, 0, 0, 254, 1, 0, 0, 0, 0]);
    let mut eof = Vec::new();
    Eof { status: Status::AUTOCOMMIT, warnings: 0 }.write(&mut eof);
    let mut row = vec![119];
    row.resize(120, b'7');
    let mut bytes = Vec::new();
    let mut sequence = packet::append(&mut bytes, 1, &[1]);
    sequence = packet::append(&mut bytes, sequence, &column);
    let is_new = capabilities.contains(Capabilities::DEPRECATE_EOF);
    if !is_new {
        sequence = packet::append(&mut bytes, sequence, &eof);
    }
    for _ in 0..rows {
        sequence = packet::append(&mut bytes, sequence, &row);
    }
    packet::append(&mut bytes, sequence, if is_new { ok(reply::EOF, &[]) } else { eof }.as_slice());
    bytes
}

/// Follows a reply that came in one piece to its end.
fn follow(bytes: &[u8], capabilities: Capabilities) -> usize {
    let mut exchange = Exchange::new(Expect::Results, capabilities);
    let mut taken = 0;
    while !exchange.is_over() {
        match exchange.advance(&bytes[taken..]) {
            Result::Ok(Advance::Pass(bytes)) => taken += bytes,
            Result::Ok(Advance::Packet(packet)) => {
                taken += packet.taken;
                black_box(packet.event);
            }
            _ => break,
        }
    }
    assert_eq!(taken, bytes.len());
    taken
}

fn replies(c: &mut Criterion) {
    let mut plain = Vec::new();
    packet::append(&mut plain, 1, &ok(reply::OK, &[]));
    // session_track_system_variables: autocommit=ON
    let mut tracked = Vec::new();
    packet::append(&mut tracked, 1, &ok(reply::OK, b"\x00\x0e\x0aautocommit\x02ON"));
    let replies = [
        ("ok", plain, NEW),
        ("ok_with_state", tracked, NEW),
        ("one_row", result(NEW, 1), NEW),
        ("one_row_with_eof", result(OLD, 1), OLD),
        ("100_rows", result(NEW, 100), NEW),
        ("10000_rows", result(NEW, 10_000), NEW),
    ];
    let mut group = c.benchmark_group("exchange");
    for (name, bytes, capabilities) in &replies {
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(*name, |bencher| bencher.iter(|| follow(black_box(bytes), *capabilities)));
    }
    group.finish();
}

fn packets(c: &mut Criterion) {
    let text = b"\x03SELECT c FROM sbtest1 WHERE id=5017";
    let mut command = Vec::new();
    packet::append(&mut command, 0, text);
    c.bench_function("packet/first", |bencher| {
        bencher.iter(|| matches!(packet::first(black_box(&command), 1 << 26), First::Whole { .. }));
    });
    let mut out = Vec::new();
    c.bench_function("packet/write", |bencher| {
        bencher.iter(|| {
            out.clear();
            let begun = packet::begin(&mut out);
            out.extend_from_slice(black_box(text));
            begun.end(&mut out, 0)
        });
    });
}

criterion_group!(all, replies, packets);
criterion_main!(all);
