//! A primary that dies, freezes, moves, comes back: what the driver orders, step by step.

use super::script::*;
use super::*;
use crate::observation::{Channel, Details, Facts, Failure, FailureClass, Receiver, Replication};
use crate::step::{ErrorKind, Step};
use crate::view::Health;

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

pub(super) fn told(facts: Facts) -> Result<StepResult, StepError> {
    Ok(StepResult::Facts(Box::new(facts)))
}

pub(super) fn number(step: &Step) -> u32 {
    step.server().map_or(0, |id| u32::from(id.0) + 1)
}

/// What servers do when s1 is dead and all else works; replicas have received up to `last`.
pub(super) fn world(step: &Step, last: &[u64]) -> Result<StepResult, StepError> {
    let n = number(step);
    match step {
        _ if n == 1 => refused(FailureClass::Refused),
        Step::ReadFacts { .. } => told(lost(n, last[n as usize - 2])),
        Step::Promote { .. } => {
            let promoted = Facts {
                read_only: false,
                replication: Replication::Channels(vec![]),
                ..replica(n, last[n as usize - 2])
            };
            told(promoted)
        }
        Step::TakeLease => Ok(StepResult::Lease { held_until: start() + Duration::from_secs(60) }),
        _ => Ok(StepResult::Done),
    }
}

#[test]
fn a_killed_primary_is_replaced_without_waiting_for_more_probes() {
    let mut script = cluster(AUTO, 3);
    script.see(1, Seen::Evidence(EvidenceKind::ConnectionLost));
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
        Step::ReadFacts { .. } if number(step) > 1 => told(behind(number(step))),
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
    script.fail(1, FailureClass::Refused);
    (2..=3).for_each(|number| script.good(number, lost(number, 10)));
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
fn a_replica_that_hears_the_primary_forbids_it() {
    let mut script = cluster(AUTO, 3);
    for _ in 0..10 {
        script.now += Duration::from_millis(500);
        script.fail(1, FailureClass::Timeout);
        script.good(2, lost(2, 10));
        script.good(3, replica(3, 10));
    }
    assert_eq!(script.orders, []);
    assert!(script.found().contains(&"primary_unreachable"), "{:?}", script.found());
}

#[test]
fn without_a_witness_nobody_is_promoted() {
    let mut script = cluster(AUTO, 2);
    (0..10).for_each(|_| {
        script.now += Duration::from_millis(500);
        script.fail(2, FailureClass::Refused);
        script.fail(1, FailureClass::Refused);
    });
    assert_eq!(script.orders, []);
    assert!(script.found().contains(&"failover_blocked"), "{:?}", script.found());
}

#[test]
fn a_primary_that_only_refuses_the_monitor_lives() {
    let mut script = cluster(AUTO, 3);
    for class in [FailureClass::TooManyConnections, FailureClass::Login, FailureClass::Query] {
        (0..5).for_each(|_| script.fail(1, class));
        script.good(2, lost(2, 10));
        script.good(3, lost(3, 10));
        assert_eq!((script.orders.len(), script.primary()), (0, Some(1)), "{class:?}");
    }
}

#[test]
fn a_primary_that_answers_the_second_look_stays() {
    let mut script = cluster(AUTO, 3);
    script.fail(1, FailureClass::Lost);
    script.good(2, lost(2, 10));
    script.good(3, lost(3, 10));
    assert_eq!(script.orders.len(), 3);
    script.answer(|step| if number(step) == 1 { told(primary(10)) } else { world(step, &[10, 10]) });
    assert_eq!((script.orders.len(), script.primary()), (0, Some(1)));
}

/// Heartbeats arrive with each probe until the primary freezes.
fn frozen(look: FailureClass) -> Script {
    let mut script = cluster(AUTO, 3);
    let hearing = |number, life| {
        let mut facts = replica(number, 10);
        channel_of(&mut facts).life = Some(life);
        facts
    };
    for life in 0..6 {
        script.now += Duration::from_millis(500);
        script.good(1, primary(10));
        (2..=3).for_each(|number| script.good(number, hearing(number, life)));
    }
    let begin = script.now;
    while script.orders.is_empty() && script.now < begin + Duration::from_secs(10) {
        script.now += Duration::from_millis(500);
        script.fail(1, FailureClass::Timeout);
        (2..=3).for_each(|number| script.good(number, hearing(number, 5)));
    }
    assert!(script.now <= begin + Duration::from_millis(1500), "{:?}", script.now - begin);
    script.answer(|step| match step {
        Step::ReadFacts { .. } if number(step) == 1 => refused(look),
        Step::ReadFacts { .. } => told(hearing(number(step), 5)),
        _ => world(step, &[10, 10]),
    });
    script
}

#[test]
fn a_frozen_primary_is_replaced() {
    let script = frozen(FailureClass::Silent);
    assert_eq!(script.words(), ["stop the receiver of s2", "stop the receiver of s3"]);
    assert!(script.journal.iter().any(|entry| entry.text.contains("takes connections, s1 says nothing")));
}

#[test]
fn one_that_was_silent_on_two_connections_is_looked_at_for_half_the_time() {
    let mut script = cluster(AUTO, 3);
    let hearing = |number, life| {
        let mut facts = replica(number, 10);
        channel_of(&mut facts).life = Some(life);
        facts
    };
    for life in 0..6 {
        script.now += Duration::from_millis(500);
        script.good(1, primary(10));
        (2..=3).for_each(|number| script.good(number, hearing(number, life)));
    }
    script.now += Duration::from_millis(1000);
    script.see(1, Seen::FailedTwice(Failure { class: FailureClass::Silent, text: "silent".into() }));
    (2..=3).for_each(|number| script.good(number, hearing(number, 5)));
    assert_eq!(script.words(), ["ask s1 again", "ask s2 again", "ask s3 again"]);
    let limits: Vec<u128> = script.orders.iter().map(|order| order.timeout.as_millis()).collect();
    assert_eq!(limits, [250, 500, 500]);
    script.answer(|step| match step {
        Step::ReadFacts { .. } if number(step) == 1 => refused(FailureClass::Silent),
        Step::ReadFacts { .. } => told(hearing(number(step), 5)),
        _ => world(step, &[10, 10]),
    });
    assert_eq!(script.words(), ["stop the receiver of s2", "stop the receiver of s3"]);
}

#[test]
fn replicas_that_hear_seldom_from_an_idle_source_are_named() {
    let mut script = cluster(AUTO, 3);
    for (number, seconds) in [(2, 30), (3, 1)] {
        let mut facts = replica(number, 10);
        channel_of(&mut facts).heartbeat_period = Some(Duration::from_secs(seconds));
        script.good(number, facts);
    }
    let words = script.driver.diagnoses().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(words.len() == 1 && words[0].starts_with("s2 hears from an idle primary only each 30 s"), "{words:?}");
    script.good(2, replica(2, 10));
    assert_eq!(script.found(), [""; 0]);
}

#[test]
fn a_primary_behind_a_broken_network_is_not_taken_for_a_frozen_one() {
    let script = frozen(FailureClass::Timeout);
    assert_eq!(script.words(), [""; 0], "its replicas may just have nothing to hear");
    assert_eq!(script.primary(), Some(1));
}

#[test]
fn silence_beyond_the_heartbeat_period_is_loss() {
    let mut script = cluster(AUTO, 3);
    let quiet = |number| {
        let mut facts = replica(number, 10);
        (channel_of(&mut facts).life, channel_of(&mut facts).heartbeat_period) =
            (Some(1), Some(Duration::from_secs(1)));
        facts
    };
    (2..=3).for_each(|number| script.good(number, quiet(number)));
    let begin = script.now;
    while script.orders.is_empty() && script.now < begin + Duration::from_secs(10) {
        script.now += Duration::from_millis(500);
        script.fail(1, FailureClass::Timeout);
        (2..=3).for_each(|number| script.good(number, quiet(number)));
    }
    assert_eq!(script.now - begin, Duration::from_millis(2000), "one and a half periods");
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
    let words = script.driver.diagnoses().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    assert!(words.contains("not s2: it does not replicate by GTID"), "{words}");
}

#[test]
fn each_exclusion_has_its_words() {
    type Change = fn(&mut Facts);
    let reasons: [(&str, Change); 8] = [
        ("delayed by 60 s", |facts| channel_of(facts).delay_s = 60),
        ("applier is stopped (duplicate key)", |facts| {
            (channel_of(facts).applier_running, channel_of(facts).applier_error) = (false, "duplicate key".into());
        }),
        ("its binary log is off", |facts| facts.details.log_bin = None),
        ("log_replica_updates", |facts| facts.details.log_replica_updates = Some(false)),
        ("its replication is filtered (db: a)", |facts| channel_of(facts).filters = "db: a".into()),
        ("filtered in another way", |facts| facts.details.binlog_filters = "do: a".into()),
        ("its version is newer than that of s3", |facts| facts.greeting.number = 110_400),
        ("transactions of its own that no other server has: up to 0-2-11", |facts| {
            facts.gtid_executed = "0-2-11".into()
        }),
    ];
    for (words, change) in reasons {
        let mut script = cluster(AUTO, 3);
        let mut odd = replica(2, 10);
        change(&mut odd);
        script.good(2, odd);
        let wish = Command::Switchover { to: None, dry_run: true };
        let accepted = script.driver.command(script.now, wish).unwrap();
        assert!(accepted.others.iter().any(|line| line.contains(words)), "{words}: {:?}", accepted.others);
        assert!(accepted.steps.contains(&"promote s3".to_owned()), "{:?}", accepted.steps);
        assert_eq!(script.orders, []);
    }
}

#[test]
fn too_few_servers_forbid_it() {
    let mut script = cluster(AUTO, 5);
    (3..=5).for_each(|number| script.down(number));
    script.fail(1, FailureClass::Refused);
    script.good(2, lost(2, 10));
    assert_eq!(script.orders, []);
    let words = script.driver.diagnoses().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    assert!(words.contains("only 1 of 5 servers are reached"), "{words}");
}

#[test]
fn after_a_promotion_the_next_one_waits_for_a_human_or_for_time() {
    let mut script = cluster(AUTO, 3);
    script.fail(1, FailureClass::Refused);
    (2..=3).for_each(|number| script.good(number, lost(number, 10)));
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
fn who_follows_a_dead_former_primary_is_moved_before_that_is_down() {
    let mut script = cluster(Failover { lease_required: true, ..AUTO }, 3);
    script.fail(1, FailureClass::Refused);
    (2..=3).for_each(|number| script.good(number, lost(number, 10)));
    assert_eq!(script.words(), ["take the lease"], "another instance has it, promotes s2, and dies");
    script.answer(|_| Err(StepError { kind: ErrorKind::LeaseLost, text: "no".into() }));
    script.now += Duration::from_millis(100);
    let promoted = Facts { read_only: false, replication: Replication::Channels(vec![]), ..replica(2, 10) };
    for _ in 0..2 {
        script.good(3, lost(3, 10));
        script.good(2, promoted.clone());
        script.now += Duration::from_millis(10);
    }
    script.now += Duration::from_millis(500);
    script.good(3, lost(3, 10));
    assert_eq!((script.primary(), script.server(1).health), (Some(2), Health::Suspect));
    assert_eq!(script.words(), ["take the lease"]);
    assert!(script.journal.iter().any(|entry| entry.text.contains("s3 follows s1, which follows nobody")));
}

#[test]
fn a_cool_down_and_the_epoch_outlive_the_process() {
    let mut script = cluster(AUTO, 3);
    script.fail(1, FailureClass::Refused);
    (2..=3).for_each(|number| script.good(number, lost(number, 10)));
    (0..5).for_each(|_| script.answer(|step| world(step, &[10, 10])));
    assert!(script.journal.iter().any(|entry| entry.kind == EntryKind::Finished("failover")), "{:?}", script.journal);
    let kept = script.memory;
    assert_eq!((kept.epoch, kept.failures, kept.promoted.is_some()), (2, 0, true));

    let mut next = Script::with(Settings { failover: AUTO, ..settings() }, 3);
    next.driver.recall(kept);
    next.now = script.now + Duration::from_secs(1);
    for _ in 0..2 {
        (2..=3).for_each(|number| next.good(number, replica(number, 10)));
        next.good(1, primary(10));
        next.now += Duration::from_millis(500);
    }
    assert_eq!((next.primary(), next.driver.view().epoch), (Some(1), 3));
    next.fail(1, FailureClass::Refused);
    (2..=3).for_each(|number| next.good(number, lost(number, 10)));
    assert_eq!(next.orders, []);
    let words = next.driver.diagnoses().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    assert!(words.contains("the last promotion was less than 300 s ago"), "{words}");
    let _ = next.driver.command(next.now, Command::Acknowledge);
    next.drain();
    assert_eq!(next.memory.promoted, None);
    assert_eq!(next.words(), ["ask s1 again", "ask s2 again", "ask s3 again"]);
    assert!(next.journal.iter().all(|entry| entry.run > kept.runs || entry.run == 0), "{:?}", next.journal);
}

#[test]
fn a_lease_that_is_lost_stops_it_before_the_promotion() {
    let mut script = cluster(Failover { lease_required: true, ..AUTO }, 3);
    script.fail(1, FailureClass::Refused);
    (2..=3).for_each(|number| script.good(number, lost(number, 10)));
    assert_eq!(script.words(), ["take the lease"]);
    let until = script.now + Duration::from_secs(3);
    script.answer(|_| Ok(StepResult::Lease { held_until: until }));
    script.answer(|step| world(step, &[10, 10]));
    assert!(script.orders.iter().all(|order| order.not_after == Some(until)), "{:?}", script.orders);
    script.driver.lease(script.now, None);
    script.answer(|step| world(step, &[10, 10]));
    script.answer(|step| world(step, &[10, 10]));
    assert!(!script.words().iter().any(|words| words.contains("promote")), "{:?}", script.words());
    assert!(script.journal.iter().any(|entry| entry.text.contains("the lease is lost")));
}

#[test]
fn a_server_that_came_back_behind_is_fenced_and_attached() {
    let mut script = returned(8);
    assert!(script.server(1).fenced && script.server(1).health == Health::Up);
    assert!(script.words().iter().any(|words| words == "ask s1 again"), "{:?}", script.words());
    let writable = |step: &Step| match step {
        Step::ReadFacts { .. } if number(step) == 1 => told(primary(8)),
        Step::ReadFacts { .. } if number(step) == 2 => told(promoted()),
        Step::ReadFacts { .. } => told(of_two()),
        _ => Ok(StepResult::Done),
    };
    (0..2).for_each(|_| script.answer(writable));
    assert_eq!(script.words(), ["end the clients' connections of s1"]);
    (0..2).for_each(|_| script.answer(writable));
    let read_only = |step: &Step| match number(step) {
        1 if matches!(step, Step::ReadFacts { .. }) => told(Facts { read_only: true, ..primary(8) }),
        _ => writable(step),
    };
    (0..3).for_each(|_| script.answer(read_only));
    assert_eq!(script.words(), ["have s1 follow s2"]);
}

#[test]
fn a_server_that_came_back_ahead_is_kept_out_and_the_extra_is_named() {
    let mut script = returned(15);
    let answer = |step: &Step| match step {
        Step::ReadFacts { .. } if number(step) == 1 => told(Facts { read_only: true, ..primary(15) }),
        Step::ReadFacts { .. } if number(step) == 2 => told(promoted()),
        Step::ReadFacts { .. } => told(of_two()),
        _ => Ok(StepResult::Done),
    };
    (0..2).for_each(|_| script.answer(answer));
    assert!(script.found().contains(&"server_ahead"), "{:?}", script.found());
    let words = script.driver.diagnoses().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    assert!(words.contains("s1 has transactions that the primary lacks (up to 0-1-15)"), "{words}");
    assert!(script.server(1).fenced && !script.words().iter().any(|words| words.contains("follow")));
}

/// s2 was promoted at number 10 and has written up to 20.
fn promoted() -> Facts {
    let mut facts = Facts { read_only: false, replication: Replication::Channels(vec![]), ..replica(2, 10) };
    facts.gtid_executed = "0-2-20".into();
    facts.details.gtid_binlog_state = "0-1-10,0-2-20".into();
    facts
}

fn of_two() -> Facts {
    let mut facts = replica(3, 10);
    let channel = channel_of(&mut facts);
    (channel.source_server_id, channel.source_host, channel.gtid_received) = (2, "s2".into(), "0-2-20".into());
    (facts.gtid_executed, facts.details.gtid_replicated) = ("0-2-20".into(), "0-2-20".into());
    facts.details.gtid_binlog_state = "0-1-10,0-2-20".into();
    facts
}

/// A process that was just started finds s2 as the primary, and s1 writable beside it.
fn returned(last: u64) -> Script {
    let mut script = Script::with(Settings { failover: AUTO, ..settings() }, 3);
    for _ in 0..3 {
        script.good(1, primary(last));
        script.good(3, of_two());
        script.good(2, promoted());
        script.now += Duration::from_millis(100);
    }
    assert_eq!(script.primary(), Some(2));
    assert!(script.views.iter().all(|view| view.primary != Some(Script::id(1))), "never, not even for a moment");
    script
}

#[test]
fn a_switchover_holds_drains_moves_and_turns_the_old_primary_round() {
    let mut script = cluster(Failover { mode: Mode::Off, ..AUTO }, 3);
    let accepted = script.driver.command(script.now, Command::Switchover { to: Some(Script::id(3)), dry_run: false });
    script.drain();
    assert!(accepted.unwrap().run.is_some());
    let answer = |read_only: bool| {
        move |step: &Step| match step {
            Step::ReadFacts { .. } if number(step) == 1 => told(Facts { read_only, ..primary(10) }),
            Step::ReadFacts { .. } => told(replica(number(step), 10)),
            Step::Promote { .. } => world(step, &[10, 10]),
            _ => Ok(StepResult::Done),
        }
    };
    script.answer(answer(false));
    assert_eq!(script.words(), ["wait for running work on s1"]);
    assert!(script.driver.view().hold_writes && script.primary() == Some(1));
    script.answer(answer(false));
    assert_eq!((script.words(), script.primary()), (vec!["make s1 read-only".to_owned()], None));
    assert!(script.server(1).fenced);
    script.answer(answer(true));
    assert_eq!(script.words(), ["end the clients' connections of s1"]);
    (0..2).for_each(|_| script.answer(answer(true)));
    assert_eq!(script.words(), ["wait until s3 has applied 0-1-10"]);
    (0..2).for_each(|_| script.answer(answer(true)));
    assert_eq!(script.words(), ["promote s3"]);
    script.answer(answer(true));
    assert_eq!(script.words(), ["have s1 follow s3", "have s2 follow s3"]);
    assert_eq!((script.primary(), script.driver.view().hold_writes), (Some(3), false));
}

#[test]
fn a_switchover_that_fails_is_taken_back() {
    let mut script = cluster(AUTO, 3);
    let _ = script.driver.command(script.now, Command::Switchover { to: None, dry_run: false });
    script.drain();
    let answer = |step: &Step| match step {
        Step::ReadFacts { .. } if number(step) == 1 => told(primary(10)),
        Step::ReadFacts { .. } => told(replica(number(step), 10)),
        Step::WaitApplied { .. } => Err(StepError { kind: ErrorKind::Timeout, text: "too slow".into() }),
        _ => Ok(StepResult::Done),
    };
    (0..6).for_each(|_| script.answer(answer));
    assert_eq!(script.words(), ["make s1 writable"]);
    script.answer(answer);
    assert!(script.journal.iter().any(|entry| entry.text.ends_with("the old primary takes writes again")));
    script.good(1, primary(10));
    assert!(script.primary() == Some(1) && !script.server(1).fenced && !script.driver.view().hold_writes);
}

#[test]
fn wishes_that_make_no_sense_are_refused_in_words() {
    let mut script = cluster(AUTO, 3);
    let s1 = Script::id(1);
    for (wish, words) in [
        (Command::Switchover { to: Some(s1), dry_run: true }, "s1 is the primary"),
        (Command::Failover { to: None, dry_run: true, force: false }, "s1 answers"),
        (Command::Rejoin { server: s1, dry_run: true }, "s1 is the primary"),
        (Command::Maintenance { server: s1 }, "switchover first"),
        (Command::Drain { server: ServerId(99) }, "no such server"),
    ] {
        let refused = script.driver.command(script.now, wish).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
    script.driver.command(script.now, Command::Maintenance { server: Script::id(2) }).unwrap();
    let only = script.driver.command(script.now, Command::Switchover { to: None, dry_run: true }).unwrap();
    assert!(only.others[0].contains("drained or in maintenance"), "{:?}", only.others);
    assert_eq!(script.server(2).health, Health::Draining);
}

#[test]
fn an_outside_manager_is_believed_and_the_old_primary_fenced() {
    let mut script = cluster(AUTO, 3);
    script.driver.command(script.now, Command::SetPrimary { server: Script::id(2) }).unwrap();
    script.drain();
    assert!(script.primary().is_none() && script.server(1).fenced);
    script.good(2, Facts { read_only: false, replication: Replication::Channels(vec![]), ..replica(2, 10) });
    assert_eq!((script.primary(), script.driver.view().epoch), (Some(2), 2));
    assert!(script.server(1).fenced);
}

#[test]
fn an_outcome_of_a_run_that_is_over_changes_nothing() {
    let mut script = cluster(AUTO, 3);
    script.fail(1, FailureClass::Refused);
    (2..=3).for_each(|number| script.good(number, lost(number, 10)));
    let late = script.orders[0].id;
    script.answer(|step| if number(step) == 1 { told(primary(10)) } else { world(step, &[10, 10]) });
    let views = script.views.len();
    script.driver.outcome(script.now, late, Err(StepError { kind: ErrorKind::Failed, text: "late".into() }));
    script.driver.outcome(script.now, StepId(12_345), Ok(StepResult::Done));
    script.drain();
    assert_eq!((script.views.len(), script.primary()), (views, Some(1)));
}

#[test]
fn a_reload_that_switches_it_off_ends_what_nobody_ordered() {
    let mut script = cluster(AUTO, 3);
    script.fail(1, FailureClass::Refused);
    (2..=3).for_each(|number| script.good(number, lost(number, 10)));
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
    assert!(script.journal.iter().any(|entry| entry.text.contains("does not want it any more")));
}

#[test]
fn another_process_that_finds_a_promotion_half_done_finishes_it() {
    let mut script = Script::with(Settings { failover: AUTO, ..settings() }, 3);
    let alone = Facts { read_only: false, replication: Replication::Channels(vec![]), ..replica(2, 10) };
    for _ in 0..3 {
        script.fail(1, FailureClass::Refused);
        script.good(3, with_receiver(replica(3, 10), Receiver::Stopped));
        script.good(2, alone.clone());
        script.now += Duration::from_millis(500);
    }
    assert_eq!(script.primary(), Some(2), "{:?}", script.log);
    let answer = |step: &Step| match step {
        Step::ReadFacts { .. } if number(step) == 2 => told(alone.clone()),
        Step::ReadFacts { .. } if number(step) == 3 => told(with_receiver(replica(3, 10), Receiver::Stopped)),
        _ => world(step, &[10, 10]),
    };
    let mut ordered = Vec::new();
    for _ in 0..6 {
        ordered.extend(script.words());
        script.answer(answer);
    }
    assert!(ordered.contains(&"have s3 follow s2".to_owned()), "{ordered:?}");
}

#[test]
fn another_process_that_finds_only_stopped_receivers_starts_them_to_learn() {
    let mut script = Script::with(Settings { failover: AUTO, ..settings() }, 3);
    for _ in 0..2 {
        script.fail(1, FailureClass::Refused);
        (2..=3).for_each(|number| script.good(number, with_receiver(replica(number, 10), Receiver::Stopped)));
    }
    assert_eq!(script.words(), ["ask s2 again", "ask s3 again", "ask s2 again", "ask s3 again"][..script.orders.len()]);
    let answer = |step: &Step| match step {
        Step::ReadFacts { .. } if number(step) > 1 => told(with_receiver(replica(number(step), 10), Receiver::Stopped)),
        _ => world(step, &[10, 10]),
    };
    let mut ordered = Vec::new();
    for _ in 0..6 {
        ordered.extend(script.words());
        script.answer(answer);
    }
    for wanted in ["have s2 follow s1", "have s3 follow s1"] {
        assert!(ordered.contains(&wanted.to_owned()), "{ordered:?}");
    }
    assert!(!ordered.iter().any(|words| words.contains("promote")), "{ordered:?}");
}

#[test]
fn events_move_with_the_primary_and_nothing_waits_for_them() {
    let failed = || Err(StepError { kind: ErrorKind::Failed, text: "no right".into() });
    let answer = |step: &Step| match step {
        Step::DisableEvents { .. } | Step::EnableEvents { .. } => failed(),
        Step::ReadFacts { .. } if number(step) == 1 => told(Facts { read_only: true, ..primary(10) }),
        Step::ReadFacts { .. } => told(replica(number(step), 10)),
        Step::Promote { .. } => world(step, &[10, 10]),
        _ => Ok(StepResult::Done),
    };
    let mut script = cluster(Failover { events: true, ..AUTO }, 3);
    let _ = script.driver.command(script.now, Command::Switchover { to: Some(Script::id(3)), dry_run: false });
    script.drain();
    script.answer(|step| match step {
        Step::ReadFacts { .. } if number(step) == 1 => told(primary(10)),
        step => answer(step),
    });
    script.answer(answer);
    assert_eq!(script.words(), ["disable the events of s1"], "before it is read-only");
    script.answer(answer);
    assert_eq!(script.words(), ["make s1 read-only"]);
    for _ in 0..8 {
        if script.primary() == Some(3) {
            break;
        }
        assert!(!script.words().iter().any(|words| words.contains("enable on")), "{:?}", script.words());
        script.answer(answer);
    }
    let words = script.words();
    assert_eq!(words.last().map(String::as_str), Some("enable on s3 the events that ran on s1"), "{words:?}");
    assert_eq!(script.primary(), Some(3), "published before");
    script.answer(answer);
    let last = script.journal.last().unwrap();
    assert!(matches!(last.kind, EntryKind::Finished(_)), "{last:?}");
}

#[test]
fn events_of_a_switchover_that_is_taken_back_run_again() {
    let mut script = cluster(Failover { events: true, ..AUTO }, 3);
    let _ = script.driver.command(script.now, Command::Switchover { to: None, dry_run: false });
    script.drain();
    let answer = |step: &Step| match step {
        Step::ReadFacts { .. } if number(step) == 1 => told(primary(10)),
        Step::ReadFacts { .. } => told(replica(number(step), 10)),
        Step::WaitApplied { .. } => Err(StepError { kind: ErrorKind::Timeout, text: "too slow".into() }),
        Step::EnableEvents { .. } => Err(StepError { kind: ErrorKind::Failed, text: "no right".into() }),
        _ => Ok(StepResult::Done),
    };
    (0..7).for_each(|_| script.answer(answer));
    assert_eq!(script.words(), ["make s1 writable"]);
    script.answer(answer);
    assert_eq!(script.words(), ["enable on s1 the events that ran on s1"]);
    script.answer(answer);
    assert!(script.journal.iter().any(|entry| entry.text.ends_with("the old primary takes writes again")));
}
