//! Servers that come back, and processes that find what others left.

use super::*;

#[test]
fn who_follows_a_dead_former_primary_is_moved_before_that_is_down() {
    let mut script = cluster(Failover { lease_required: true, ..AUTO }, 3);
    lose_primary(&mut script);
    assert_eq!(script.words(), ["take the lease"], "another instance has it, promotes s2, and dies");
    script.answer(|_| Err(StepError { kind: ErrorKind::LeaseLost, text: "no".into() }));
    script.now += Duration::from_millis(100);
    for _ in 0..2 {
        script.good(3, lost(3, 10));
        script.good(2, alone(2, 10));
        script.now += Duration::from_millis(10);
    }
    script.now += Duration::from_millis(500);
    script.good(3, lost(3, 10));
    assert_eq!((script.primary(), script.server(1).health), (Some(2), Health::Suspect));
    assert_eq!(script.words(), ["take the lease"]);
    assert!(logged(&script, "s3 follows s1, which follows no server"));
}

#[test]
fn a_cool_down_and_the_epoch_outlive_the_process() {
    let mut script = cluster(AUTO, 3);
    lose_primary(&mut script);
    (0..5).for_each(|_| script.answer(|step| world(step, &[10, 10])));
    assert!(script.journal.iter().any(|entry| entry.kind == EntryKind::Finished("failover")), "{:?}", script.journal);
    let kept = script.memory;
    assert_eq!((kept.epoch, kept.failures, kept.promoted.is_some()), (2, 0, true));

    let mut next = Script::with(Settings { failover: AUTO, ..settings() }, 3);
    next.driver.recall(kept.clone());
    next.now = script.now + Duration::from_secs(1);
    for _ in 0..2 {
        (2..=3).for_each(|number| next.good(number, replica(number, 10)));
        next.good(1, primary(10));
        next.now += Duration::from_millis(500);
    }
    assert_eq!((next.primary(), next.driver.view().epoch), (Some(1), 3));
    lose_primary(&mut next);
    assert_eq!(next.orders, []);
    let words = diagnoses(&next);
    assert!(words.contains("the last promotion was less than 300 s ago"), "{words}");
    let _ = next.driver.command(next.now, Command::Acknowledge);
    next.drain();
    assert_eq!(next.memory.promoted, None);
    assert_eq!(next.words(), ["ask s1 again", "ask s2 again", "ask s3 again"]);
    assert!(next.journal.iter().all(|entry| entry.run > kept.runs || entry.run == 0), "{:?}", next.journal);
}

#[test]
fn a_server_that_came_back_behind_is_fenced_and_attached() {
    let mut script = returned(8);
    assert!(script.server(1).fenced && script.server(1).health == Health::Up);
    assert!(script.words().iter().any(|words| words == "ask s1 again"), "{:?}", script.words());
    let writable = |step: &Step| match step {
        Step::ReadFacts { .. } if number(step) == 1 => reported(primary(8)),
        Step::ReadFacts { .. } if number(step) == 2 => reported(promoted()),
        Step::ReadFacts { .. } => reported(of_two()),
        _ => Ok(StepResult::Done),
    };
    (0..2).for_each(|_| script.answer(writable));
    assert_eq!(script.words(), ["end the clients' connections of s1"]);
    (0..2).for_each(|_| script.answer(writable));
    let read_only = |step: &Step| match number(step) {
        1 if matches!(step, Step::ReadFacts { .. }) => reported(Facts { read_only: true, ..primary(8) }),
        _ => writable(step),
    };
    (0..3).for_each(|_| script.answer(read_only));
    assert_eq!(script.words(), ["have s1 follow s2"]);
}

#[test]
fn a_server_that_came_back_ahead_is_kept_out_and_the_extra_is_named() {
    let mut script = returned(15);
    let answer = |step: &Step| match step {
        Step::ReadFacts { .. } if number(step) == 1 => reported(Facts { read_only: true, ..primary(15) }),
        Step::ReadFacts { .. } if number(step) == 2 => reported(promoted()),
        Step::ReadFacts { .. } => reported(of_two()),
        _ => Ok(StepResult::Done),
    };
    (0..2).for_each(|_| script.answer(answer));
    assert!(script.found().contains(&"server_ahead"), "{:?}", script.found());
    let words = diagnoses(&script);
    assert!(words.contains("s1 has transactions that the primary lacks (up to 0-1-15)"), "{words}");
    assert!(script.server(1).fenced && !script.words().iter().any(|words| words.contains("follow")));
}

/// s2 was promoted at number 10 and has written up to 20.
fn promoted() -> Facts {
    let mut facts = alone(2, 10);
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
fn another_process_that_finds_a_promotion_half_done_finishes_it() {
    let mut script = Script::with(Settings { failover: AUTO, ..settings() }, 3);
    for _ in 0..3 {
        script.fail(1, FailureClass::Refused);
        script.good(3, with_receiver(replica(3, 10), Receiver::Stopped));
        script.good(2, alone(2, 10));
        script.now += Duration::from_millis(500);
    }
    assert_eq!(script.primary(), Some(2), "{:?}", script.log);
    let answer = |step: &Step| match step {
        Step::ReadFacts { .. } if number(step) == 2 => reported(alone(2, 10)),
        Step::ReadFacts { .. } if number(step) == 3 => reported(with_receiver(replica(3, 10), Receiver::Stopped)),
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
        Step::ReadFacts { .. } if number(step) > 1 => {
            reported(with_receiver(replica(number(step), 10), Receiver::Stopped))
        }
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
fn a_receiver_that_was_left_stopped_is_started_at_once_when_its_source_is_gone() {
    let mut script = cluster(AUTO, 3);
    let stopped = |number| with_receiver(replica(number, 10), Receiver::Stopped);
    (2..=3).for_each(|number| script.good(number, stopped(number)));
    let answer = |step: &Step| match step {
        Step::ReadFacts { .. } if number(step) > 1 => reported(stopped(number(step))),
        _ => world(step, &[10, 10]),
    };
    let mut ordered = Vec::new();
    for _ in 0..4 {
        ordered.extend(script.words());
        script.answer(answer);
    }
    assert!(ordered.contains(&"ask s1 again".to_owned()), "it was believed to live: {ordered:?}");
    for wanted in ["have s2 follow s1", "have s3 follow s1"] {
        assert!(ordered.contains(&wanted.to_owned()), "{ordered:?}");
    }
    assert!(!ordered.iter().any(|words| words.contains("promote")), "{ordered:?}");
}

#[test]
fn a_replica_that_was_attached_by_half_is_started() {
    let idle = |number| {
        let mut facts = with_receiver(replica(number, 10), Receiver::Stopped);
        channel_of(&mut facts).applier_running = false;
        facts
    };
    // How often it is ordered to follow, if nobody knows whether it did so the first time, and whether it was seen to do so.
    let follows = |unknown: bool, seen: bool| {
        let mut script = cluster(AUTO, 3);
        script.good(2, with_receiver(replica(2, 10), Receiver::Stopped));
        let mut follows = 0;
        for _ in 0..40 {
            if script.orders.is_empty() {
                script.wait(Duration::from_secs(1));
                script.good(1, primary(10));
                script.good(2, if follows > 0 { idle(2) } else { with_receiver(replica(2, 10), Receiver::Stopped) });
                script.good(3, replica(3, 10));
            }
            follows += script.words().iter().filter(|words| **words == "have s2 follow s1").count();
            script.answer(|step| match step {
                Step::Follow { .. } if unknown && follows == 1 => {
                    Err(StepError { kind: ErrorKind::Timeout, text: "it took too long".into() })
                }
                Step::ReadFacts { .. } if number(step) == 2 && follows > 0 => reported(idle(2)),
                Step::ReadFacts { .. } if number(step) == 2 => {
                    reported(with_receiver(replica(2, 10), Receiver::Stopped))
                }
                _ => world(step, &[10, 10, 10]),
            });
            if seen && follows == 1 {
                script.good(2, replica(2, 10));
            }
        }
        follows
    };
    assert_eq!(follows(true, false), 2, "its end was not known");
    assert_eq!(follows(true, true), 1, "it was done after all, and somebody has stopped it since");
    assert_eq!(follows(false, false), 1, "somebody has stopped it since");
}

#[test]
fn rows_without_their_statements_are_reported_where_failover_is_automatic() {
    for (mode, wanted) in [(Mode::Auto, vec!["statements_unlogged"]), (Mode::Advise, vec![])] {
        let mut script = cluster(Failover { mode, ..AUTO }, 3);
        let mut facts = replica(3, 10);
        facts.details.logs_statements = Some(false);
        script.good(3, facts);
        assert_eq!(script.found(), wanted);
        script.good(3, replica(3, 10));
        assert_eq!(script.found(), Vec::<&str>::new());
    }
}

#[test]
fn a_primary_that_runs_no_events_is_reported_when_another_server_would() {
    for (events, scheduler, wanted) in [
        (true, Some(false), vec!["events_stopped"]),
        (true, Some(true), vec![]),
        (true, None, vec![]),
        (false, Some(false), vec![]),
    ] {
        let mut script = cluster(Failover { events, ..AUTO }, 3);
        let reported = |mut facts: Facts, scheduler| {
            facts.details.event_scheduler = scheduler;
            facts
        };
        script.good(1, reported(primary(10), scheduler));
        script.good(3, reported(replica(3, 10), Some(true)));
        assert_eq!(script.found(), wanted, "{events} {scheduler:?}");
    }
}
