//! Switchovers, and other commands.

use super::*;

/// The results of servers that have received all there is: `s1`, the primary, answers as read-only or not.
fn willing(step: &Step, read_only: bool) -> Result<StepResult, StepError> {
    match step {
        Step::ReadFacts { .. } if number(step) == 1 => reported(Facts { read_only, ..primary(10) }),
        Step::ReadFacts { .. } => reported(replica(number(step), 10)),
        Step::Promote { .. } => world(step, &[10, 10]),
        _ => Ok(StepResult::Done),
    }
}

#[test]
fn a_switchover_holds_drains_moves_and_turns_the_old_primary_round() {
    let mut script = cluster(Failover { mode: Mode::Off, ..AUTO }, 3);
    let accepted = script.driver.command(script.now, Command::Switchover { to: Some(Script::id(3)), dry_run: false });
    script.drain();
    assert!(accepted.unwrap().run.is_some());
    let answer = |read_only: bool| move |step: &Step| willing(step, read_only);
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
    assert_eq!(script.words(), ["promote s3", "have s2 follow s3"], "its first write waits for s2");
    script.answer(answer(true));
    assert_eq!(script.words(), ["have s1 follow s3"]);
    assert_eq!((script.primary(), script.driver.view().hold_writes), (Some(3), false));
}

#[test]
fn an_answer_from_before_the_promotion_does_not_take_the_role_away() {
    let mut script = cluster(Failover { mode: Mode::Off, ..AUTO }, 3);
    let _ = script.driver.command(script.now, Command::Switchover { to: Some(Script::id(3)), dry_run: false });
    script.drain();
    for step in 0..7 {
        script.answer(|order| willing(order, step > 1));
    }
    assert_eq!(script.words(), ["promote s3", "have s2 follow s3"]);
    let asked = script.now;
    script.now += Duration::from_millis(20);
    script.answer(|order| willing(order, true));
    assert_eq!(script.primary(), Some(3));
    let probes = script.probes.len();
    script.see_late(3, asked, ObservationKind::Facts(Box::new(replica(3, 10))));
    assert_eq!((script.primary(), script.probes.len()), (Some(3), probes + 1), "it is asked anew");
    script.good(3, replica(3, 10));
    assert_eq!(script.primary(), None, "one that was asked afterwards is believed");
}

#[test]
fn a_switchover_that_fails_is_taken_back() {
    let mut script = cluster(AUTO, 3);
    let _ = script.driver.command(script.now, Command::Switchover { to: None, dry_run: false });
    script.drain();
    let answer = |step: &Step| match step {
        Step::WaitApplied { .. } => Err(StepError { kind: ErrorKind::Timeout, text: "too slow".into() }),
        _ => willing(step, false),
    };
    (0..6).for_each(|_| script.answer(answer));
    assert_eq!(script.words(), ["make s1 writable"]);
    script.answer(answer);
    assert!(logged(&script, "the old primary takes writes again"));
    script.good(1, primary(10));
    assert!(script.primary() == Some(1) && !script.server(1).fenced && !script.driver.view().hold_writes);
}

#[test]
fn a_switchover_whose_promotion_fails_leaves_replicas_with_the_old_primary() {
    let mut script = cluster(Failover { mode: Mode::Off, ..AUTO }, 3);
    let _ = script.driver.command(script.now, Command::Switchover { to: Some(Script::id(3)), dry_run: false });
    script.drain();
    let refused = || Err(StepError { kind: ErrorKind::Failed, text: "no right".into() });
    let mut read_only = false;
    for _ in 0..20 {
        let words = script.words();
        if words.iter().any(|words| words.contains("writable")) {
            break;
        }
        read_only |= words.iter().any(|words| words == "make s1 read-only");
        script.answer(|step| match step {
            Step::Promote { .. } => refused(),
            step => willing(step, read_only),
        });
    }
    assert_eq!(script.words(), ["make s1 writable", "have s2 follow s1"]);
    script.answer(|step| match step {
        Step::Follow { .. } => refused(),
        step => willing(step, false),
    });
    assert!(logged(&script, "the old primary takes writes again"));
}

#[test]
fn wishes_that_make_no_sense_are_refused_in_words() {
    let mut script = cluster(AUTO, 3);
    let s1 = Script::id(1);
    for (command, words) in [
        (Command::Switchover { to: Some(s1), dry_run: true }, "s1 is the primary"),
        (Command::Failover { to: None, dry_run: true, force: false }, "s1 answers"),
        (Command::Rejoin { server: s1, dry_run: true }, "s1 is the primary"),
        (Command::Maintenance { server: s1, dry_run: false }, "switchover first"),
        (Command::Drain { server: ServerId(99), dry_run: false }, "no such server"),
    ] {
        let refused = script.driver.command(script.now, command).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
    script.driver.command(script.now, Command::Maintenance { server: Script::id(2), dry_run: false }).unwrap();
    let only = script.driver.command(script.now, Command::Switchover { to: None, dry_run: true }).unwrap();
    assert!(only.others[0].contains("drained or in maintenance"), "{:?}", only.others);
    assert_eq!(script.server(2).health, Health::Maintenance);
}

#[test]
fn an_outside_manager_is_believed_and_the_old_primary_fenced() {
    let mut script = cluster(AUTO, 3);
    script.driver.command(script.now, Command::SetPrimary { server: Script::id(2) }).unwrap();
    script.drain();
    assert!(script.primary().is_none() && script.server(1).fenced);
    script.good(2, alone(2, 10));
    assert_eq!((script.primary(), script.driver.view().epoch), (Some(2), 2));
    assert!(script.server(1).fenced);
}

#[test]
fn events_move_with_the_primary_and_nothing_waits_for_them() {
    let failed = || Err(StepError { kind: ErrorKind::Failed, text: "no right".into() });
    let answer = |step: &Step| match step {
        Step::DisableEvents { .. } | Step::EnableEvents { .. } => failed(),
        _ => willing(step, true),
    };
    let mut script = cluster(Failover { events: true, ..AUTO }, 3);
    let _ = script.driver.command(script.now, Command::Switchover { to: Some(Script::id(3)), dry_run: false });
    script.drain();
    script.answer(|step| match step {
        Step::ReadFacts { .. } if number(step) == 1 => reported(primary(10)),
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
        Step::WaitApplied { .. } => Err(StepError { kind: ErrorKind::Timeout, text: "too slow".into() }),
        Step::EnableEvents { .. } => Err(StepError { kind: ErrorKind::Failed, text: "no right".into() }),
        _ => willing(step, false),
    };
    (0..7).for_each(|_| script.answer(answer));
    assert_eq!(script.words(), ["make s1 writable"]);
    script.answer(answer);
    assert_eq!(script.words(), ["enable on s1 the events that ran on s1"]);
    script.answer(answer);
    assert!(logged(&script, "the old primary takes writes again"));
}

#[test]
fn each_exclusion_has_its_words() {
    type Change = fn(&mut Facts);
    let reasons: [(&str, Change); 9] = [
        ("delayed by 60 s", |facts| channel_of(facts).delay_s = 60),
        ("applier is stopped (duplicate key)", |facts| {
            (channel_of(facts).applier_running, channel_of(facts).applier_error) = (false, "duplicate key".into());
        }),
        ("its offline_mode is on", |facts| facts.details.offline = true),
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
        let command = Command::Switchover { to: None, dry_run: true };
        let accepted = script.driver.command(script.now, command).unwrap();
        assert!(accepted.others.iter().any(|line| line.contains(words)), "{words}: {:?}", accepted.others);
        assert!(accepted.steps.contains(&"promote s3".to_owned()), "{:?}", accepted.steps);
        assert_eq!(script.orders, []);
    }
}

#[test]
fn without_an_account_for_the_old_primary_there_is_no_switchover() {
    let mut script = cluster(Failover { attaches: false, ..AUTO }, 3);
    for dry_run in [true, false] {
        let refused = script.driver.command(script.now, Command::Switchover { to: None, dry_run }).unwrap_err();
        assert!(refused.reason.starts_with("replication.user is not set, so s1 could not follow"), "{refused}");
    }
    script.drain();
    assert_eq!(script.words(), Vec::<String>::new());
}

#[test]
fn a_replica_without_weight_is_no_reader_that_is_left() {
    let mut script = cluster(AUTO, 3);
    let mut specs = ["s1", "s2", "s3"].map(spec).to_vec();
    specs[2].weight = 0;
    script.driver.reconfigure(Settings { failover: AUTO, ..settings() }, specs, script.now);
    script.drain();
    let accepted = script.driver.command(script.now, Command::Drain { server: Script::id(2), dry_run: false }).unwrap();
    assert_eq!(accepted.warnings, ["no replica is left that serves reads: the primary s1 serves all"]);
}

#[test]
fn taking_the_last_reader_out_warns_the_operator_and_outlives_the_process() {
    let mut script = cluster(AUTO, 3);
    let drain = |script: &mut Script, number: u32| {
        let accepted =
            script.driver.command(script.now, Command::Drain { server: Script::id(number), dry_run: false }).unwrap();
        script.drain();
        accepted.warnings
    };
    let dry = script.driver.command(script.now, Command::Drain { server: Script::id(2), dry_run: true }).unwrap();
    script.drain();
    assert!(dry.steps[0].starts_with("s2 gets no new work") && script.server(2).health == Health::Up, "{dry:?}");
    assert_eq!(drain(&mut script, 2), Vec::<String>::new());
    assert_eq!(drain(&mut script, 3), ["no replica is left that serves reads: the primary s1 serves all"]);
    let maintenance = Command::Maintenance { server: Script::id(3), dry_run: false };
    script.driver.command(script.now, maintenance).unwrap();
    script.drain();
    assert_eq!((script.server(2).health, script.server(3).health), (Health::Draining, Health::Maintenance));
    assert!(
        script.server(3).reason.starts_with("in maintenance, as an operator ordered; "),
        "{}",
        script.server(3).reason
    );
    // The next process goes on with both.
    let kept = script.memory.clone();
    let mut next = Script::with(Settings { failover: Failover { remembers: false, ..AUTO }, ..settings() }, 3);
    next.driver.recall(kept);
    next.drain();
    assert!(next.log.iter().any(|line| line.starts_with("s3 is still in maintenance")), "{:?}", next.log);
    let resumed = next.driver.command(next.now, Command::Resume { server: Script::id(3) }).unwrap();
    assert_eq!(resumed.warnings, Vec::<String>::new());
    next.drain();
    assert_eq!(next.memory.uses, [("s2".into(), crate::memory::ServerUse::Draining)]);
    // Where nothing is kept, that is said.
    let accepted =
        next.driver.command(next.now, Command::Maintenance { server: Script::id(3), dry_run: false }).unwrap();
    assert!(
        accepted.warnings.iter().any(|warning| warning.contains("forgotten when the process ends")),
        "{accepted:?}"
    );
}
