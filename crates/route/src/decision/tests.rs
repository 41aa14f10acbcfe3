//! Routes among servers.

use super::*;
use std::sync::Arc;
use std::time::Instant;

use facts::gtid::Applied;
use facts::gtid::mariadb::Gtids;
use facts::lags::Lags;
use facts::positions::Positions;
use facts::view::ServerId;

use crate::OwnWrites;
use crate::near::LagBounds;
use crate::testing::{server, three};

fn asks(target: Target, reason: Reason) -> Demand {
    Demand { target, reason, consistency: Consistency::Session, max_lag: None, reads: TableScope::Any }
}

fn named(name: &str, reason: Reason) -> Demand {
    asks(Target::Named(name.into()), reason)
}

/// Replicas of which nothing is known lack a session's write; the primary has it.
fn own_write() -> OwnWrites {
    let mut own = OwnWrites::default();
    own.wrote_unreported(ServerId(1), Instant::now());
    own
}

fn found(demand: Demand, servers: Servers<'_>) -> (Target, &'static str) {
    let route = decide(demand, Some(&servers));
    (route.target.clone(), route.reason.word())
}

#[test]
fn without_servers_a_demand_is_the_route() {
    let demand = asks(Target::Reader, Reason::Read);
    assert_eq!(*decide(demand.clone(), None), demand);
}

#[test]
fn a_read_for_which_no_replica_has_the_data_says_so() {
    let (view, own, positions) = (three(), own_write(), Positions::default());
    let needs = Some(Needs { own: Some(&own), all: &[], before: None, positions: &positions });
    let servers = Servers { view: &view, needs, near: None };
    let read = asks(Target::Reader, Reason::Read);
    assert_eq!(found(read.clone(), servers), (Target::Reader, "own_write"));
    assert_eq!(found(read.clone(), Servers { needs: None, ..servers }), (Target::Reader, "read"));
    let mut alone = view.clone();
    alone.servers = Arc::new([server(1, Role::Primary)]);
    assert_eq!(found(read, Servers { view: &alone, ..servers }), (Target::Reader, "read"), "there is no replica");
    assert_eq!(found(asks(Target::Primary, Reason::Writes), servers), (Target::Primary, "writes"));
}

/// db2 is behind db3.
fn positions() -> Positions {
    let applied = |id: u16, sequence: u64| {
        let all = Gtids::parse(&format!("0-1-{sequence}")).unwrap();
        Some((Applied::MariaDb { server: u32::from(id), replicated: all.clone(), current: all }, true))
    };
    let now = Instant::now();
    Positions::default().with(ServerId(3), applied(3, 8), now).with(
        ServerId(2),
        applied(2, 7),
        now + Duration::from_secs(1),
    )
}

#[test]
fn one_replica_that_has_the_data_is_enough() {
    let (view, positions) = (three(), positions());
    let needs = Some(Needs { own: None, all: &[], before: Some(ServerId(3)), positions: &positions });
    let servers = Servers { view: &view, needs, near: None };
    let read = asks(Target::Reader, Reason::Read);
    assert_eq!(found(read.clone(), servers), (Target::Reader, "read"));
    let mut without = view.clone();
    without.servers = Arc::new([server(1, Role::Primary), server(2, Role::Replica)]);
    let servers = Servers { view: &without, ..servers };
    assert_eq!(found(read, servers), (Target::Reader, "earlier_read"));
}

#[test]
fn a_rule_names_a_server_that_has_the_data_or_any_will_do() {
    let (view, own, positions) = (three(), own_write(), Positions::default());
    let needs = Some(Needs { own: Some(&own), all: &[], before: None, positions: &positions });
    let servers = Servers { view: &view, needs, near: None };
    assert_eq!(found(named("db2", Reason::Rule), servers), (Target::Reader, "own_write"));
    assert_eq!(
        found(named("db1", Reason::Rule), servers),
        (Target::Named("db1".into()), "rule"),
        "the primary has all"
    );
    assert_eq!(
        found(named("db9", Reason::Rule), servers),
        (Target::Named("db9".into()), "rule"),
        "an error of its own"
    );
    assert_eq!(
        found(named("db2", Reason::Hint), servers),
        (Target::Named("db2".into()), "hint"),
        "the client's choice"
    );
    let mut in_group = view.clone();
    in_group.group = Some(facts::view::Writers::One);
    let servers = Servers { view: &in_group, ..servers };
    assert_eq!(
        found(named("db1", Reason::Rule), servers).0,
        Target::Reader,
        "a member may have become the writer just now"
    );
}

#[test]
fn replicas_that_are_too_far_behind_leave_a_read_to_the_primary() {
    let (view, bounds, mut lags) = (three(), LagBounds::default(), Lags::default());
    let max_lag = Duration::from_millis(100);
    let demand = |target, reason| Demand { max_lag: Some(max_lag), ..asks(target, reason) };
    lags.note(ServerId(2), Some(Duration::from_millis(500)));
    lags.note(ServerId(3), Some(Duration::from_millis(500)));
    let near = Near { max_lag, lags: &lags, bounds: &bounds };
    let servers = Servers { view: &view, needs: None, near: Some(near) };
    assert_eq!(found(demand(Target::Reader, Reason::Read), servers), (Target::Reader, "replica_lag"));
    let db3 = || demand(Target::Named("db3".into()), Reason::Rule);
    assert_eq!(found(db3(), servers), (Target::Reader, "replica_lag"));
    let mut nearer = Lags::default();
    nearer.note(ServerId(2), Some(Duration::ZERO));
    nearer.note(ServerId(3), Some(Duration::from_millis(500)));
    let servers = Servers { near: Some(Near { lags: &nearer, ..near }), ..servers };
    assert_eq!(found(demand(Target::Reader, Reason::Read), servers), (Target::Reader, "read"));
    assert_eq!(found(db3(), servers), (Target::Reader, "rule"), "another one is near");
    assert_eq!(found(demand(Target::Named("db1".into()), Reason::Rule), servers).0, Target::Named("db1".into()));
}

#[test]
fn another_try_keeps_what_a_read_must_find() {
    let demand = Demand { max_lag: Some(Duration::from_secs(1)), ..asks(Target::Reader, Reason::Read) };
    let again = decide(demand.clone(), None).again(Target::Primary, Reason::NotOnReplica);
    assert_eq!(*again, Demand { target: Target::Primary, reason: Reason::NotOnReplica, ..demand });
}
