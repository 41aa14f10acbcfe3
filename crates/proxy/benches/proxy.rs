//! Decisions for each statement: `cargo bench -p sqluice-proxy`.
//!
//! Taking a connection from the pool needs a connection; what it costs is in the figures of `./dev instructions`.

#![allow(missing_docs, reason = "criterion's macros write functions without documentation")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use facts::catalog::Catalog;
use facts::view::{Health, Role, ServerId, ServerView, View};
use route::state::StateMap;
use route::{Loads, Preferences, Target, select};

/// A session as a framework leaves it behind its first statements.
fn session(zone: &str, tenant: &str) -> StateMap {
    let mut state = StateMap::default();
    state.set_schema(Some("shop"));
    for (name, value) in [
        ("character_set_client", "utf8mb4"),
        ("character_set_results", "utf8mb4"),
        ("collation_connection", "utf8mb4_general_ci"),
        ("sql_mode", "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION"),
        ("time_zone", zone),
    ] {
        state.set_variable(name, value);
    }
    state.set_user_variable("tenant", tenant);
    state
}

fn states(c: &mut Criterion) {
    let (one, other) = (session("+00:00", "'one'"), session("+02:00", "'other'"));
    let (same, fresh, catalog) = (session("+00:00", "'one'"), StateMap::default(), Catalog::default());
    let mut group = c.benchmark_group("state");
    group.bench_function("equal", |b| b.iter(|| black_box(&one).fingerprint() == black_box(&same).fingerprint()));
    group.bench_function("difference_of_equals", |b| b.iter(|| black_box(&one).difference(black_box(&same))));
    group.bench_function("difference_of_two_values", |b| b.iter(|| black_box(&one).difference(black_box(&other))));
    group.bench_function("difference_to_a_fresh_one", |b| b.iter(|| black_box(&one).difference(black_box(&fresh))));
    group.bench_function("autocommit", |b| b.iter(|| black_box(&one).autocommit(black_box(&catalog))));
    group.bench_function("set_variable", |b| {
        let mut state = one.clone();
        let mut zones = ["+01:00", "+02:00"].into_iter().cycle();
        b.iter(|| state.set_variable("time_zone", zones.next().unwrap_or_default()));
    });
    group.finish();
}

fn server(id: u16, role: Role) -> ServerView {
    ServerView {
        id: ServerId(id),
        name: Arc::from(format!("db{id}")),
        address: "127.0.0.1:3306".into(),
        resolved: None,
        role,
        health: Health::Up,
        lag: None,
        serves_reads: true,
        fenced: false,
        weight: 100,
        zone: "".into(),
        reason: "".into(),
    }
}

fn servers(c: &mut Criterion) {
    let mut group = c.benchmark_group("select_server");
    for replicas in [1, 2, 8] {
        let all: Vec<ServerView> =
            (0..=replicas).map(|id| server(id, if id == 0 { Role::Primary } else { Role::Replica })).collect();
        let view = View { primary: Some(ServerId(0)), servers: all.into(), ..View::empty("main") };
        let (loads, now) = (Loads::default(), Instant::now());
        loads.viewed(&view, now);
        let preferences = || Preferences {
            zone: "",
            slow_start: Duration::ZERO,
            avoid: &[],
            gather: false,
            needs: None,
            awaits: false,
            near: None,
        };
        group.bench_function(format!("reader_of_{replicas}"), |b| {
            b.iter(|| select(black_box(&view), &Target::Reader, &loads, preferences(), now));
        });
        group.bench_function(format!("primary_beside_{replicas}"), |b| {
            b.iter(|| select(black_box(&view), &Target::Primary, &loads, preferences(), now));
        });
    }
    group.finish();
}

criterion_group!(all, states, servers);
criterion_main!(all);
