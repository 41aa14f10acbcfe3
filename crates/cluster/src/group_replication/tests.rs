use std::time::Duration;

use facts::view::ServerId;

use super::*;
use crate::driver::script::{Script, facts, settings};
use crate::observation::{Facts, FailureClass, GroupMember};
use crate::settings::{GroupKind, Settings};
use crate::step::Step;
use facts::command::Command;

const GROUP: &str = "aaaaaaaa-0000-4000-8000-000000000001";

fn uuid(number: u32) -> Arc<str> {
    format!("member-{number}").into()
}

/// The facts of a member that sees these others; the first of them that is marked is the primary.
fn member(number: u32, view: u64, rows: &[(u32, MemberState, bool)]) -> Facts {
    let mut facts = facts(number);
    facts.details.server_uuid = uuid(number);
    let members =
        rows.iter().map(|(id, state, primary)| GroupMember { id: uuid(*id), state: *state, primary: *primary });
    facts.details.group_replication = Some(GroupReplication {
        group: GROUP.into(),
        view: format!("17:{view}").into(),
        members: members.collect(),
        applied: true,
        certifying: 0,
        applying: 0,
        lag: Some(Duration::ZERO),
    });
    facts.super_read_only = !rows.iter().any(|(id, _, primary)| *id == number && *primary);
    facts
}

use MemberState::{Error, Online, Recovering, Unreachable};

/// All three are there, and this one is the primary.
fn all(number: u32, primary: u32) -> Facts {
    member(number, 3, &[1, 2, 3].map(|id| (id, Online, id == primary)))
}

fn group() -> Script {
    let mut script = Script::with(Settings { group: Some(GroupKind::GroupReplication), ..settings() }, 3);
    (1..=6).for_each(|turn| script.good(turn % 3 + 1, all(turn % 3 + 1, 2)));
    script.probes.clear();
    script
}

fn later(script: &mut Script) {
    script.wait(Duration::from_millis(100));
}

#[test]
fn the_member_that_the_group_has_made_its_primary_takes_writes() {
    let mut script = group();
    assert_eq!(script.primary(), Some(2));
    assert!(script.driver.view().servers.iter().all(|server| server.serves_reads && !server.fenced));
    assert_eq!((script.driver.view().group, script.found()), (None, vec![]));
    // The group moves it: the old one refuses writes first.
    let mut between = all(2, 2);
    between.super_read_only = true;
    script.good(2, between);
    assert_eq!(script.primary(), None);
    assert!(script.probes.contains(&ServerId(0)), "the others are asked at once");
    script.good(2, all(2, 1));
    script.good(1, all(1, 1));
    assert_eq!(script.primary(), Some(1));
    assert!(!script.server(2).fenced, "what it has may end");
}

#[test]
fn a_dead_primary_is_replaced_when_the_group_has_chosen_another_one_that_has_applied_all() {
    let mut script = group();
    later(&mut script);
    script.fail(2, FailureClass::Refused);
    assert_eq!(script.primary(), Some(2), "the group has not given it up");
    assert!(script.probes.contains(&ServerId(0)) && script.probes.contains(&ServerId(2)));
    let missed = [(1, Online, false), (2, Unreachable, true), (3, Online, false)];
    script.good(1, member(1, 3, &missed));
    script.good(3, member(3, 3, &missed));
    assert_eq!(script.primary(), Some(2));
    let chosen = [(1, Online, true), (3, Online, false)];
    let mut behind = member(1, 4, &chosen);
    behind.details.group_replication.as_mut().unwrap().applied = false;
    script.good(1, behind);
    assert_eq!(script.primary(), None, "it still applies");
    assert!(script.server(2).fenced, "the group has gone on without it");
    script.good(1, member(1, 4, &chosen));
    assert_eq!(script.primary(), None, "what was on its way to the queues may still come");
    script.good(1, member(1, 4, &chosen));
    assert_eq!(script.primary(), Some(1));
    script.good(3, member(3, 4, &chosen));
    assert_eq!(script.primary(), Some(1));
}

#[test]
fn one_that_was_frozen_and_takes_itself_for_the_primary_serves_nobody() {
    let mut script = group();
    for _ in 0..3 {
        later(&mut script);
        script.fail(2, FailureClass::Timeout);
    }
    assert_eq!(script.primary(), None);
    let chosen = [(1, Online, false), (3, Online, true)];
    (0..2).for_each(|_| script.good(3, member(3, 4, &chosen)));
    script.good(1, member(1, 4, &chosen));
    assert_eq!(script.primary(), Some(3));
    // It thaws, and has not heard of anything yet.
    (0..3).for_each(|_| script.good(2, all(2, 2)));
    assert_eq!(script.primary(), Some(3));
    assert!(script.server(2).fenced && script.found().contains(&"out_of_group"), "{:?}", script.found());
    script.good(2, member(2, 3, &[(2, Error, false)]));
    assert!(script.server(2).fenced && !script.server(2).serves_reads);
    let back = [(1, Online, false), (2, Recovering, false), (3, Online, true)];
    script.good(2, member(2, 5, &back));
    assert!(!script.server(2).serves_reads, "it catches up");
    script.good(2, member(2, 5, &[1, 2, 3].map(|id| (id, Online, id == 3))));
    assert!(script.server(2).serves_reads && !script.server(2).fenced);
}

#[test]
fn without_a_majority_nothing_is_served_and_nobody_is_cut_off_from_what_may_come_back() {
    let mut script = group();
    later(&mut script);
    script.good(2, member(2, 3, &[(1, Unreachable, false), (2, Online, true), (3, Unreachable, false)]));
    script.fail(1, FailureClass::Timeout);
    script.fail(3, FailureClass::Timeout);
    assert!(script.server(2).fenced, "the others may have gone on");
    for _ in 0..3 {
        script.fail(1, FailureClass::Timeout);
        script.fail(3, FailureClass::Timeout);
    }
    assert_eq!(script.primary(), None);
    assert!(!script.server(2).fenced && !script.server(2).serves_reads, "its commits wait for the others, too");
    assert!(script.found().contains(&"no_primary_component"), "{:?}", script.found());
    script.good(2, all(2, 2));
    assert_eq!(script.primary(), Some(2));
}

#[test]
fn of_several_primaries_one_takes_all_writes_and_stays() {
    let mut script = Script::with(Settings { group: Some(GroupKind::GroupReplication), ..settings() }, 3);
    let every = |number| member(number, 3, &[1, 2, 3].map(|id| (id, Online, true)));
    (0..2).for_each(|_| script.good(3, every(3)));
    assert_eq!(script.primary(), None, "the first may still answer");
    (0..2).for_each(|_| script.good(1, every(1)));
    (0..2).for_each(|_| script.good(2, every(2)));
    assert_eq!(script.primary(), Some(1));
    assert!(script.server(2).serves_reads && script.server(2).reason.contains("takes writes, too"));
    script.driver.command(script.now, Command::Switchover { to: Some(ServerId(1)), dry_run: false }).unwrap();
    later(&mut script);
    assert_eq!(script.primary(), Some(2));
}

#[test]
fn replicas_that_are_far_behind_take_no_reads() {
    let mut script = group();
    let mut behind = all(1, 2);
    let reported = behind.details.group_replication.as_mut().unwrap();
    (reported.lag, reported.applying) = (Some(Duration::from_secs(60)), 7_000);
    script.good(1, behind);
    assert!(!script.server(1).serves_reads && script.server(1).reason.contains("7000"), "{}", script.server(1).reason);
    assert_eq!(script.server(1).lag, Some(Duration::from_secs(60)));
}

#[test]
fn a_switchover_is_ordered_of_the_group() {
    let mut script = group();
    let refused = script.driver.command(script.now, Command::Failover { to: None, dry_run: false, force: true });
    assert!(refused.is_err());
    let same = script.driver.command(script.now, Command::Switchover { to: Some(ServerId(1)), dry_run: false });
    assert!(same.is_err(), "it is the primary");
    let plan = script.driver.command(script.now, Command::Switchover { to: Some(ServerId(2)), dry_run: true }).unwrap();
    assert_eq!(plan.steps.len(), 2);
    script.driver.command(script.now, Command::Switchover { to: Some(ServerId(2)), dry_run: false }).unwrap();
    later(&mut script);
    let ordered = script.orders.iter().any(|order| {
        matches!(&order.step, Step::SetGroupPrimary { server, member } if *server == ServerId(2) && **member == *uuid(3))
    });
    assert!(ordered, "{:?}", script.orders);
    assert_eq!(script.primary(), Some(2), "until the group has done it");
}

#[test]
fn views_of_other_histories_are_not_compared() {
    let view = |text: &str| {
        let mut facts = all(1, 1);
        facts.details.group_replication.as_mut().unwrap().view = text.into();
        facts.details.group_replication.unwrap()
    };
    assert!(view("17:3").is_older_than(&view("17:10")));
    assert!(!view("17:10").is_older_than(&view("17:3")) && !view("17:3").is_older_than(&view("18:10")));
    assert!(!view("").is_older_than(&view("17:3")) && !view("17:x").is_older_than(&view("17:3")));
}
