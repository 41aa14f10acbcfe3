//! A primary that dies, freezes, moves, comes back: what the driver orders, step by step.

mod comeback;
mod signs;
mod switchover;

use facts::view::Health;

use super::script::*;
use super::*;
use crate::observation::{Channel, Details, Facts, Failure, FailureClass, Receiver, Replication};
use crate::step::{ErrorKind, Step};

pub(super) const AUTO: Failover = Failover {
    events: false,
    mode: Mode::Auto,
    cooldown: Duration::from_secs(300),
    attempts_max: 5,
    drain_max: Duration::from_secs(30),
    in_flight_max: Duration::from_secs(1),
    look_timeout: Duration::from_millis(500),
    step_timeout: Duration::from_secs(2),
    hook_timeout: Duration::from_secs(10),
    lag_max: Duration::from_secs(30),
    preferred_within: Duration::from_secs(60),
    semi_sync_required: false,
    replace_unwritable: false,
    majority_required: true,
    lease_required: false,
    rejoin: true,
    remembers: true,
    attaches: true,
    hook_before: false,
    hook_after: false,
};

/// A server whose last transaction is number `last`, written by server 1, with what a primary needs.
fn able(facts: Facts, last: u64) -> Facts {
    let position: Arc<str> = format!("0-1-{last}").into();
    let details = Details {
        uptime_s: Some(1000),
        gtid_on: Some(true),
        gtid_replicated: if facts.server_id == 1 { "".into() } else { position.clone() },
        gtid_binlog_state: position.clone(),
        log_bin: Some(true),
        log_replica_updates: Some(true),
        ..Details::default()
    };
    Facts { gtid_executed: position, details, ..facts }
}

pub(super) fn primary(last: u64) -> Facts {
    able(facts(1), last)
}

pub(super) fn replica(number: u32, last: u64) -> Facts {
    let mut facts = able(replica_of(1, number), last);
    channel_of(&mut facts).gtid_received = format!("0-1-{last}").into();
    facts
}

pub(super) fn channel_of(facts: &mut Facts) -> &mut Channel {
    let Replication::Channels(channels) = &mut facts.replication else { panic!("unreadable") };
    &mut channels[0]
}

/// Its receiver is in this state.
fn with_receiver(mut facts: Facts, receiver: Receiver) -> Facts {
    channel_of(&mut facts).receiver = receiver;
    facts
}

pub(super) fn lost(number: u32, last: u64) -> Facts {
    with_receiver(replica(number, last), Receiver::Connecting)
}

pub(super) fn cluster(failover: Failover, servers: u32) -> Script {
    let mut script = Script::with(Settings { failover, ..settings() }, servers);
    for _ in 0..2 {
        (2..=servers).for_each(|number| script.good(number, replica(number, 10)));
        script.good(1, primary(10));
        script.now += Duration::from_millis(500);
    }
    assert_eq!((script.primary(), script.found()), (Some(1), vec![]));
    script.probes.clear();
    script.journal.clear();
    script
}

fn refused(class: FailureClass) -> Result<StepResult, StepError> {
    Err(StepError { kind: ErrorKind::Unreachable(class), text: "no".into() })
}

pub(super) fn reported(facts: Facts) -> Result<StepResult, StepError> {
    Ok(StepResult::Facts(Box::new(facts)))
}

pub(super) fn number(step: &Step) -> u32 {
    step.server().map_or(0, |id| u32::from(id.0) + 1)
}

/// One that follows no other and takes writes.
pub(super) fn alone(number: u32, last: u64) -> Facts {
    Facts { read_only: false, replication: Replication::Channels(vec![]), ..replica(number, last) }
}

/// The primary of three refuses, and its replicas have lost it.
fn lose_primary(script: &mut Script) {
    script.fail(1, FailureClass::Refused);
    (2..=3).for_each(|number| script.good(number, lost(number, 10)));
}

/// The diagnoses, in words.
fn diagnoses(script: &Script) -> String {
    script.driver.diagnoses().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Whether the journal says this.
fn logged(script: &Script, words: &str) -> bool {
    script.journal.iter().any(|entry| entry.text.contains(words))
}

/// The servers' results when s1 is dead and all else works; replicas have received up to `last`.
pub(super) fn world(step: &Step, last: &[u64]) -> Result<StepResult, StepError> {
    let n = number(step);
    match step {
        _ if n == 1 => refused(FailureClass::Refused),
        Step::ReadFacts { .. } => reported(lost(n, last[n as usize - 2])),
        Step::Promote { .. } => reported(alone(n, last[n as usize - 2])),
        Step::TakeLease => Ok(StepResult::Lease { held_until: start() + Duration::from_secs(60) }),
        _ => Ok(StepResult::Done),
    }
}

#[test]
fn a_killed_primary_is_replaced_without_waiting_for_more_probes() {
    let mut script = cluster(AUTO, 3);
    script.see(1, ObservationKind::Evidence(EvidenceKind::ConnectionLost));
    assert_eq!(script.probes, [Script::id(1)]);
    script.fail(1, FailureClass::Refused);
    assert!(script.probes.contains(&Script::id(2)) && script.probes.contains(&Script::id(3)), "{:?}", script.probes);
    assert_eq!(script.orders, []);
    script.good(2, lost(2, 10));
    assert_eq!(script.orders, [], "s3 was not heard yet");
    script.good(3, lost(3, 12));
    assert_eq!(script.words(), ["ask s1 again", "ask s2 again", "ask s3 again"], "the second look");
    assert_eq!(script.primary(), Some(1));
    script.answer(|step| world(step, &[10, 12]));
    assert_eq!(script.words(), ["stop the receiver of s2", "stop the receiver of s3"]);
    assert!(script.primary().is_none() && script.server(1).fenced, "fenced before anything is changed");
    script.answer(|step| world(step, &[10, 12]));
    assert_eq!(script.words(), ["ask s2 again", "ask s3 again"]);
    script.answer(|step| world(step, &[10, 12]));
    assert_eq!(script.words(), ["promote s3", "have s2 follow s3"], "it received more");
    let promotion = script.orders.remove(0);
    script.driver.outcome(script.now, promotion.id, world(&promotion.step, &[10, 12]));
    script.drain();
    assert_eq!((script.primary(), script.driver.view().epoch), (Some(3), 2));
    assert_eq!(script.words(), ["have s2 follow s3"], "it goes on, and is not ordered twice");
    script.answer(|step| world(step, &[10, 12]));
    assert!(script.journal.iter().any(|entry| entry.text == "failover from s1 to s3 is done"), "{:?}", script.journal);
    let why = script.journal.iter().find(|entry| entry.text.contains("not s2")).map(|entry| entry.text.clone());
    assert!(why.clone().unwrap_or_default().contains("lacks what s3 has received: up to 0-1-12"), "{why:?}");
}

#[test]
fn what_was_received_is_applied_before_the_promotion_and_another_takes_over_when_it_cannot() {
    let mut script = cluster(AUTO, 3);
    script.fail(1, FailureClass::Lost);
    let behind = |number| {
        let mut facts = lost(number, 10);
        channel_of(&mut facts).gtid_received = "0-1-12".into();
        facts
    };
    let answer = |step: &Step| match step {
        Step::ReadFacts { .. } if number(step) > 1 => reported(behind(number(step))),
        Step::WaitApplied { .. } if number(step) == 2 => {
            Err(StepError { kind: ErrorKind::Timeout, text: "slow".into() })
        }
        _ => world(step, &[12, 12]),
    };
    script.good(2, behind(2));
    script.good(3, behind(3));
    (0..3).for_each(|_| script.answer(answer));
    assert_eq!(script.words(), ["wait until s2 has applied 0-1-12"]);
    script.answer(answer);
    assert_eq!(script.words(), ["wait until s3 has applied 0-1-12"]);
    script.answer(answer);
    assert_eq!(script.words(), ["promote s3", "have s2 follow s3"]);
}

#[test]
fn a_promotion_whose_end_is_not_known_is_looked_at_although_another_server_follows_already() {
    let mut script = cluster(AUTO, 3);
    lose_primary(&mut script);
    (0..3).for_each(|_| script.answer(|step| world(step, &[10, 10])));
    assert_eq!(script.words(), ["promote s2", "have s3 follow s2"]);
    script.answer(|step| match step {
        Step::Promote { .. } => Err(StepError { kind: ErrorKind::Timeout, text: "lost".into() }),
        _ => world(step, &[10, 10]),
    });
    assert_eq!((script.words(), script.primary()), (vec!["ask s2 again".to_owned()], None));
    let promoted = world(&Step::Promote { server: Script::id(2), old: None }, &[10, 10]);
    script.answer(|_| promoted.clone());
    assert_eq!(script.primary(), Some(2));
    script.answer(|step| world(step, &[10, 10]));
    assert!(script.journal.iter().any(|entry| entry.text == "failover from s1 to s2 is done"), "{:?}", script.journal);
}

#[test]
fn advice_is_given_once_and_nothing_is_done() {
    let mut script = cluster(Failover { mode: Mode::Advise, ..AUTO }, 3);
    for _ in 0..5 {
        script.fail(1, FailureClass::Refused);
        (2..=3).for_each(|number| script.good(number, lost(number, 10)));
    }
    assert_eq!(script.orders, []);
    let advice: Vec<_> = script.journal.iter().filter(|entry| entry.kind.word() == "advice").collect();
    let [only] = &advice[..] else { panic!("{advice:?}") };
    assert!(only.text.contains("promote s2, have s3 follow s2"), "{}", only.text);
}

#[test]
fn servers_without_gtid_are_never_promoted() {
    let mut script = cluster(AUTO, 3);
    let old_style = |number| {
        let mut facts = lost(number, 10);
        channel_of(&mut facts).uses_gtid = Some(false);
        facts
    };
    script.fail(1, FailureClass::Refused);
    (2..=3).for_each(|number| script.good(number, old_style(number)));
    assert_eq!(script.orders, []);
    let words = diagnoses(&script);
    assert!(words.contains("not s2: it does not replicate by GTID"), "{words}");
}

#[test]
fn after_a_promotion_the_next_one_waits_for_a_human_or_for_time() {
    let mut script = cluster(AUTO, 3);
    lose_primary(&mut script);
    (0..5).for_each(|_| script.answer(|step| world(step, &[10, 10])));
    assert_eq!(script.primary(), Some(2));
    let follower = |receiver| {
        let mut facts = with_receiver(replica(3, 10), receiver);
        (channel_of(&mut facts).source_server_id, channel_of(&mut facts).source_host) = (2, "s2".into());
        facts
    };
    script.good(3, follower(Receiver::Running));
    script.fail(2, FailureClass::Refused);
    script.now += Duration::from_secs(1);
    script.good(3, follower(Receiver::Connecting));
    script.fail(2, FailureClass::Refused);
    assert!(script.found().contains(&"failover_blocked"), "{:?}", script.found());
    assert_eq!(script.orders, []);
    let _ = script.driver.command(script.now, Command::Acknowledge);
    script.drain();
    assert!(script.found().contains(&"failover_blocked"), "one of three is no majority: {:?}", script.found());
}

#[test]
fn a_lease_that_is_lost_stops_it_before_the_promotion() {
    let mut script = cluster(Failover { lease_required: true, ..AUTO }, 3);
    lose_primary(&mut script);
    assert_eq!(script.words(), ["take the lease"]);
    let until = script.now + Duration::from_secs(3);
    script.answer(|_| Ok(StepResult::Lease { held_until: until }));
    script.answer(|step| world(step, &[10, 10]));
    assert!(script.orders.iter().all(|order| order.not_after == Some(until)), "{:?}", script.orders);
    script.driver.lease(script.now, None);
    script.answer(|step| world(step, &[10, 10]));
    script.answer(|step| world(step, &[10, 10]));
    assert!(!script.words().iter().any(|words| words.contains("promote")), "{:?}", script.words());
    assert!(logged(&script, "the lease is lost"));
}

#[test]
fn an_outcome_of_a_run_that_is_over_changes_nothing() {
    let mut script = cluster(AUTO, 3);
    lose_primary(&mut script);
    let late = script.orders[0].id;
    script.answer(|step| if number(step) == 1 { reported(primary(10)) } else { world(step, &[10, 10]) });
    let views = script.views.len();
    script.driver.outcome(script.now, late, Err(StepError { kind: ErrorKind::Failed, text: "late".into() }));
    script.driver.outcome(script.now, StepId(12_345), Ok(StepResult::Done));
    script.drain();
    assert_eq!((script.views.len(), script.primary()), (views, Some(1)));
}

#[test]
fn a_reload_that_switches_it_off_ends_what_nobody_ordered() {
    let mut script = cluster(AUTO, 3);
    lose_primary(&mut script);
    (0..2).for_each(|_| script.answer(|step| world(step, &[10, 10])));
    assert!(script.server(1).fenced && !script.orders.is_empty());
    let specs = ["s1", "s2", "s3"].map(spec).to_vec();
    script.driver.reconfigure(
        Settings { failover: Failover { mode: Mode::Off, ..AUTO }, ..settings() },
        specs,
        script.now,
    );
    script.drain();
    (0..3).for_each(|_| script.answer(|step| world(step, &[10, 10])));
    assert!(script.orders.is_empty() && !script.server(1).fenced);
    assert!(logged(&script, "does not want it any more"));
}
