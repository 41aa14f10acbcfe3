use std::time::Duration;

use facts::evidence::EvidenceKind;
use facts::group_logs::MemberLog;
use facts::view::ServerId;

use super::*;
use crate::driver::Settings;
use crate::driver::script::{Script, facts, settings};
use crate::observation::{FailureClass, ObservationKind};
use crate::settings::GroupKind;
use facts::command::Command;

fn galera() -> Galera {
    Galera {
        primary_component: true,
        connected: true,
        ready: true,
        state: LocalState::Synced,
        desync: false,
        rejects: false,
        donor_rejects: false,
        cluster: "aaaa".into(),
        conf_id: 3,
        segment: 0,
        log: MemberLog::default(),
    }
}

fn member(number: u32, change: impl FnOnce(&mut Galera)) -> Facts {
    let mut facts = facts(number);
    let mut galera = galera();
    change(&mut galera);
    facts.details.galera = Some(galera);
    facts
}

fn well(number: u32) -> Facts {
    member(number, |_| {})
}

fn group(rules: GaleraRules, servers: u32) -> Script {
    let mut script = Script::with(Settings { group: Some(GroupKind::Galera(rules)), ..settings() }, servers);
    (1..=servers).for_each(|number| script.good(number, well(number)));
    script.catch_ups.clear();
    script.probes.clear();
    script
}

const RULES: GaleraRules = GaleraRules { writers: Writers::One, donors: Donors::Avoid };

fn caught_up(script: &mut Script, number: u32) {
    let at = script.now;
    script.see(number, ObservationKind::CaughtUp(at));
}

fn later(script: &mut Script) {
    script.wait(Duration::from_millis(100));
}

fn roles(script: &Script) -> Vec<(Role, bool)> {
    script.driver.view().servers.iter().map(|server| (server.role, server.serves_reads)).collect()
}

/// The group goes on without its first server.
fn go_on(script: &mut Script, numbers: &[u32]) {
    for number in numbers {
        script.good(*number, member(*number, |galera| galera.conf_id = 4));
    }
}

#[test]
fn the_first_by_name_takes_writes_and_the_others_reads() {
    let mut script = Script::with(Settings { group: Some(GroupKind::Galera(RULES)), ..settings() }, 3);
    script.good(2, well(2));
    script.good(3, well(3));
    assert_eq!(script.primary(), None, "the first may still answer");
    script.good(1, well(1));
    assert_eq!(script.primary(), Some(1));
    assert_eq!(roles(&script), [(Role::Primary, true), (Role::Replica, true), (Role::Replica, true)]);
    assert_eq!(script.found(), [""; 0]);
    assert_eq!(script.driver.view().group, Some(Writers::One));
    assert!(script.driver.view().servers.iter().all(|server| !server.fenced));
}

#[test]
fn a_killed_writer_is_replaced_when_the_group_has_gone_on_and_another_has_all_it_wrote() {
    let mut script = group(RULES, 3);
    later(&mut script);
    script.fail(1, FailureClass::Refused);
    assert_eq!(script.primary(), Some(1), "it may be the way to it");
    assert!(script.catch_ups.contains(&ServerId(1)) && script.catch_ups.contains(&ServerId(2)));
    // One that was asked before says nothing about what came behind.
    let before = script.now - Duration::from_millis(150);
    script.see(2, ObservationKind::CaughtUp(before));
    go_on(&mut script, &[2, 3]);
    assert_eq!(script.primary(), Some(1));
    later(&mut script);
    caught_up(&mut script, 3);
    assert_eq!(script.primary(), Some(3), "the first that is ready");
    assert_eq!(script.driver.view().epoch, 2);
    // The old one comes back, and nothing moves.
    for _ in 0..5 {
        script.good(1, member(1, |galera| galera.conf_id = 5));
        later(&mut script);
    }
    assert_eq!(script.primary(), Some(3));
    assert_eq!(roles(&script)[0], (Role::Replica, true));
}

#[test]
fn a_writer_that_only_the_monitor_does_not_reach_keeps_its_office_until_it_is_given_up() {
    let mut script = group(RULES, 3);
    later(&mut script);
    script.fail(1, FailureClass::Timeout);
    later(&mut script);
    caught_up(&mut script, 2);
    assert_eq!(script.primary(), Some(1), "the group has not dropped it");
    script.fail(1, FailureClass::Timeout);
    script.fail(1, FailureClass::Timeout);
    assert_eq!(script.primary(), Some(2));
}

#[test]
fn a_writer_that_sessions_lose_is_replaced_as_soon_as_the_group_has_gone_on() {
    let mut script = group(RULES, 3);
    later(&mut script);
    script.see(1, ObservationKind::Evidence(EvidenceKind::ConnectionLost));
    assert!(script.catch_ups.contains(&ServerId(1)), "no probe has to fail for that");
    later(&mut script);
    caught_up(&mut script, 2);
    assert_eq!(script.primary(), Some(1), "the group has not dropped it");
    // Sqluice goes on to probe the member that has shown all: its state in the group is read.
    script.catch_ups.clear();
    script.probes.clear();
    caught_up(&mut script, 2);
    assert!(script.catch_ups.contains(&ServerId(1)) && script.probes.contains(&ServerId(1)));
    go_on(&mut script, &[2]);
    assert_eq!(script.primary(), Some(2));
}

#[test]
fn a_writer_that_answers_a_probe_after_a_lost_connection_stays() {
    let mut script = group(RULES, 3);
    later(&mut script);
    script.see(1, ObservationKind::Evidence(EvidenceKind::ConnectionLost));
    later(&mut script);
    script.good(1, well(1));
    caught_up(&mut script, 2);
    go_on(&mut script, &[1, 2, 3]);
    assert_eq!(script.primary(), Some(1), "a connection may be killed without a reason");
}

#[test]
fn a_writer_without_its_group_is_shut_at_once() {
    let mut script = group(RULES, 3);
    later(&mut script);
    let cut_off = |galera: &mut Galera| (galera.primary_component, galera.ready) = (false, false);
    script.good(1, member(1, cut_off));
    assert_eq!(script.primary(), None);
    assert!(script.server(1).fenced && script.found().contains(&"out_of_group"));
    go_on(&mut script, &[2, 3]);
    later(&mut script);
    caught_up(&mut script, 2);
    assert_eq!(script.primary(), Some(2));
    for number in [2, 3] {
        script.good(number, member(number, cut_off));
    }
    assert_eq!(script.primary(), None);
    assert!(script.found().contains(&"no_primary_component"), "{:?}", script.found());
}

#[test]
fn a_donor_hands_over_without_a_gap_and_the_last_one_goes_on() {
    let mut script = group(RULES, 2);
    later(&mut script);
    let donor = |number| member(number, |galera| galera.state = LocalState::Donor);
    script.good(1, donor(1));
    assert_eq!(script.primary(), Some(1), "until another one has all");
    later(&mut script);
    caught_up(&mut script, 2);
    assert_eq!(script.primary(), Some(2));
    assert_eq!(roles(&script)[0], (Role::Replica, false));
    assert!(!script.server(1).fenced, "what it has may end");
    assert_eq!(script.found(), ["donor"]);
    script.good(2, donor(2));
    assert_eq!(script.primary(), Some(2));
    assert_eq!(roles(&script), [(Role::Replica, true), (Role::Primary, true)], "nobody else is left");
    // A donor that refuses statements is of no use.
    script.good(2, member(2, |galera| (galera.state, galera.donor_rejects) = (LocalState::Donor, true)));
    later(&mut script);
    caught_up(&mut script, 1);
    assert_eq!(script.primary(), Some(1));
}

#[test]
fn donors_may_serve_like_any_other() {
    let mut script = group(GaleraRules { donors: Donors::Use, ..RULES }, 2);
    script.good(1, member(1, |galera| galera.state = LocalState::Donor));
    assert_eq!(script.primary(), Some(1));
    assert_eq!(roles(&script), [(Role::Primary, true), (Role::Replica, true)]);
}

#[test]
fn a_donor_alone_in_its_segment_serves_reads() {
    let mut script = group(RULES, 3);
    script.good(3, member(3, |galera| (galera.state, galera.segment) = (LocalState::Donor, 1)));
    assert!(roles(&script)[2].1);
    script.good(3, member(3, |galera| galera.state = LocalState::Donor));
    assert!(!roles(&script)[2].1);
}

#[test]
fn who_refuses_joins_or_belongs_elsewhere_serves_nobody() {
    let mut script = group(RULES, 4);
    script.good(2, member(2, |galera| galera.rejects = true));
    script.good(3, member(3, |galera| galera.state = LocalState::Joined));
    script.good(4, member(4, |galera| galera.cluster = "bbbb".into()));
    assert_eq!(roles(&script)[1..], [(Role::Unknown, false); 3]);
    assert!((2..=4).all(|number| script.server(number).fenced));
    let mut found = script.found();
    found.sort_unstable();
    assert_eq!(found, ["out_of_group", "out_of_group", "rejects_queries", "two_groups"]);
    let mut plain = group(RULES, 2);
    plain.good(2, facts(2));
    assert_eq!(plain.found(), ["out_of_group"]);
    assert!(plain.server(2).reason.contains("not active"), "{}", plain.server(2).reason);
}

#[test]
fn rules_and_read_only_decide_who_may_write() {
    let mut script = Script::with(Settings { group: Some(GroupKind::Galera(RULES)), ..settings() }, 3);
    script.good(1, Facts { read_only: true, ..well(1) });
    script.good(2, well(2));
    script.good(3, well(3));
    assert_eq!(script.primary(), Some(2));
    assert_eq!(roles(&script)[0], (Role::Replica, true));
    let mut all_read_only = Script::with(Settings { group: Some(GroupKind::Galera(RULES)), ..settings() }, 1);
    all_read_only.good(1, Facts { read_only: true, ..well(1) });
    assert_eq!((all_read_only.primary(), all_read_only.found()), (None, vec!["no_primary"]));
}

#[test]
fn all_members_may_take_writes() {
    let mut script = group(GaleraRules { writers: Writers::All, ..RULES }, 3);
    assert_eq!(roles(&script), [(Role::Primary, true); 3]);
    script.good(3, Facts { read_only: true, ..well(3) });
    assert_eq!(roles(&script)[2], (Role::Replica, true));
    later(&mut script);
    script.down(1);
    go_on(&mut script, &[2, 3]);
    later(&mut script);
    caught_up(&mut script, 2);
    assert_eq!(script.primary(), Some(2));
}

#[test]
fn an_operator_moves_the_writer_without_a_gap() {
    let mut script = group(RULES, 3);
    let now = script.now;
    let to = |to| Command::Switchover { to, dry_run: false };
    assert!(script.driver.command(now, to(Some(ServerId(0)))).is_err(), "it is the writer");
    script.driver.command(now, to(Some(ServerId(2)))).unwrap();
    script.drain();
    assert_eq!((script.primary(), script.catch_ups.contains(&ServerId(2))), (Some(1), true));
    later(&mut script);
    caught_up(&mut script, 3);
    assert_eq!(script.primary(), Some(3));
    later(&mut script);
    assert_eq!(script.primary(), Some(3));
    // Maintenance of the writer moves it, too.
    let now = script.now;
    script.driver.command(now, Command::Maintenance { server: ServerId(2), dry_run: false }).unwrap();
    script.drain();
    later(&mut script);
    caught_up(&mut script, 1);
    assert_eq!(script.primary(), Some(1));
    assert!(script.driver.command(now, Command::Rejoin { server: ServerId(1), dry_run: false }).is_err());
}

#[test]
fn members_whose_logs_prove_nothing_are_named() {
    let mut script = group(RULES, 2);
    assert!(!script.found().contains(&"outcomes_unproven"));
    script.good(2, member(2, |galera| galera.log.lacks = vec!["log_bin", "wsrep_gtid_mode"]));
    let lacks = Diagnosis::OutcomesUnproven("s2".into(), "log_bin, wsrep_gtid_mode".into());
    assert!(script.driver.diagnoses().contains(&lacks), "{:?}", script.driver.diagnoses());
}

#[test]
fn a_refused_statement_asks_for_a_probe() {
    let mut script = group(RULES, 2);
    script.see(2, ObservationKind::Evidence(EvidenceKind::NotInGroup));
    assert_eq!(script.probes, [ServerId(1)]);
    assert_eq!(script.server(2).health, Health::Up, "the probe tells");
}

/// Whatever happens, writes go to a member that serves, and a writer that is well stays.
#[test]
fn random_states_never_lead_writes_to_a_server_that_serves_nobody() {
    let mut dice: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut roll = |sides: u64| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice % sides
    };
    let mut script = group(RULES, 3);
    let mut writer = script.driver.view().primary;
    for step in 0..20_000 {
        let number = roll(3) as u32 + 1;
        match roll(12) {
            0 => script.fail(number, FailureClass::Refused),
            1 => script.good(number, member(number, |galera| galera.primary_component = false)),
            2 => script.good(number, member(number, |galera| galera.rejects = true)),
            3 => script.good(number, member(number, |galera| galera.state = LocalState::Donor)),
            4 => script.good(number, member(number, |galera| galera.conf_id = roll(9))),
            5 => caught_up(&mut script, number),
            6 => later(&mut script),
            _ => script.good(number, well(number)),
        }
        let view = script.driver.view();
        if let Some(writer) = view.primary.and_then(|id| view.server(id)) {
            assert!(writer.role == Role::Primary && !writer.fenced, "step {step}: {writer:?}");
            assert_ne!(writer.health, Health::Down, "step {step}");
        }
        for view in script.views.drain(..) {
            if let (Some(old), Some(new)) = (writer, view.primary.filter(|new| writer.is_some_and(|old| old != *new))) {
                let why = &view.server(new).unwrap().reason;
                assert!(why.contains("took over"), "step {step}: from {old:?} to {new:?}: {why}");
            }
            writer = view.primary.or(writer);
        }
    }
}
