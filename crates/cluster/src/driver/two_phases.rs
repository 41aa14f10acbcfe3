//! The data is not where the role should be: it is fetched before a promotion, or the role moves on after it.

use std::cell::Cell;

use super::replacing::*;
use super::script::*;
use super::*;
use crate::observation::{Facts, FailureClass, Replication};
use crate::step::{ErrorKind, Step};

/// A cluster whose servers have these rules, by number, and that has lost `s1`.
fn without_primary(failover: Failover, rules: &[PromotionRule], last: &[u64]) -> Script {
    let mut script = cluster(failover.clone(), rules.len() as u32);
    let specs =
        rules.iter().zip(1..).map(|(rule, number)| ServerSpec { promotion: *rule, ..spec(&format!("s{number}")) });
    let settings = Settings { failover, ..settings() };
    script.driver.reconfigure(settings, specs.collect(), script.now);
    script.drain();
    script.journal.clear();
    script.fail(1, FailureClass::Refused);
    last.iter().zip(2..).for_each(|(last, number)| script.good(number, lost(number, *last)));
    script
}

/// Answers all orders until none are left, as servers would of which `s2` has what it fetched from `s3`. Gives the orders' words.
fn play(script: &mut Script, last: &[u64], fetches: bool) -> Vec<String> {
    let mut words = Vec::new();
    let fetched = Cell::new(false);
    while !script.orders.is_empty() {
        words.extend(script.words());
        script.answer(|step| match step {
            Step::Follow { source, .. } if number(step) == 2 && *source == Script::id(3) => {
                fetched.set(fetches);
                Ok(StepResult::Done)
            }
            Step::WaitApplied { .. } if number(step) == 2 && !fetched.get() => {
                Err(StepError { kind: ErrorKind::Timeout, text: "nothing came".into() })
            }
            _ if fetched.get() => world(step, &[last[1], last[1], last[2]]),
            _ => world(step, last),
        });
    }
    words
}

const BARRED: [PromotionRule; 4] =
    [PromotionRule::Neutral, PromotionRule::Neutral, PromotionRule::MustNot, PromotionRule::Neutral];

#[test]
fn what_only_a_server_has_that_must_not_be_promoted_is_fetched_from_it() {
    let mut script = without_primary(AUTO, &BARRED, &[10, 12, 10]);
    let words = play(&mut script, &[10, 12, 10], true);
    let from = words.iter().position(|words| words == "have s2 follow s3").expect("it fetches");
    assert_eq!(words[from - 1], "ask s3 again", "{words:?}");
    assert_eq!(words[from + 1], "wait until s2 has applied 0-1-12", "{words:?}");
    let rest = ["ask s2 again", "ask s3 again", "ask s4 again", "promote s2", "have s3 follow s2", "have s4 follow s2"];
    assert_eq!(words[from + 2..], rest);
    assert_eq!(script.primary(), Some(2));
}

#[test]
fn when_nothing_can_be_fetched_the_next_one_tries_and_then_it_is_given_up() {
    let mut script = without_primary(AUTO, &BARRED, &[10, 12, 10]);
    let answer = |step: &Step| match step {
        Step::WaitApplied { .. } => Err(StepError { kind: ErrorKind::Timeout, text: "nothing came".into() }),
        _ => world(step, &[10, 12, 10]),
    };
    let mut words = Vec::new();
    while script.journal.iter().all(|entry| !entry.text.contains("no server can be promoted")) {
        assert!(!script.orders.is_empty(), "{words:?}");
        words.extend(script.words());
        script.answer(answer);
    }
    let fetches: Vec<&String> = words.iter().filter(|words| words.ends_with("follow s3")).collect();
    assert_eq!(fetches, ["have s2 follow s3", "have s4 follow s3"]);
    assert!(!words.iter().any(|words| words.starts_with("promote")), "{words:?}");
    let why =
        script.journal.iter().find(|entry| entry.text.contains("no server can be promoted")).expect("it is reported");
    assert!(why.text.contains("s2: it could not get what it lacks from s3"), "{}", why.text);
}

/// Fails over with orders to `s2` to follow `s3` of which the first `late` take too long. Gives the orders' words.
fn turn_late(late: usize) -> (Script, Vec<String>) {
    let mut script = without_primary(AUTO, &BARRED[..3], &[10, 12]);
    let mut words = Vec::new();
    let (tries, fetched) = (Cell::new(0), Cell::new(false));
    let given_up =
        |script: &Script| script.journal.iter().any(|entry| entry.text.contains("no server can be promoted"));
    while !script.orders.is_empty() && !given_up(&script) {
        words.extend(script.words());
        script.answer(|step| match step {
            Step::Follow { source, .. } if number(step) == 2 && *source == Script::id(3) => {
                tries.set(tries.get() + 1);
                fetched.set(tries.get() > late);
                match fetched.get() {
                    true => Ok(StepResult::Done),
                    false => Err(StepError { kind: ErrorKind::Timeout, text: "STOP REPLICA took too long".into() }),
                }
            }
            _ if fetched.get() => world(step, &[12, 12]),
            _ => world(step, &[10, 12]),
        });
    }
    (script, words)
}

#[test]
fn a_server_that_takes_long_to_follow_is_ordered_again_and_nothing_is_awaited_before() {
    let (script, words) = turn_late(2);
    let first = words.iter().position(|words| words == "have s2 follow s3").expect("it fetches");
    let next = ["have s2 follow s3", "have s2 follow s3", "wait until s2 has applied 0-1-12"];
    assert_eq!(words[first + 1..first + 4], next, "{words:?}");
    assert_eq!(script.primary(), Some(2));
}

#[test]
fn a_server_that_never_follows_is_given_up() {
    let (script, words) = turn_late(usize::MAX);
    assert_eq!(words.iter().filter(|words| *words == "have s2 follow s3").count(), 4, "{words:?}");
    assert!(!words.iter().any(|words| words == "wait until s2 has applied 0-1-12"), "{words:?}");
    assert!(script.journal.iter().any(|entry| entry.text.contains("STOP REPLICA took too long")));
}

#[test]
fn a_server_that_fetched_and_lacks_something_still_is_not_asked_to_fetch_again() {
    let mut script = without_primary(AUTO, &BARRED[..3], &[10, 12]);
    let answer = |step: &Step| world(step, &[10, 12]);
    let mut words = Vec::new();
    while script.journal.iter().all(|entry| !entry.text.contains("no server can be promoted")) {
        assert!(!script.orders.is_empty(), "{words:?}");
        words.extend(script.words());
        script.answer(answer);
    }
    assert_eq!(words.iter().filter(|words| *words == "have s2 follow s3").count(), 1, "{words:?}");
}

#[test]
fn a_delayed_server_has_nothing_to_give() {
    let mut script = without_primary(Failover { mode: Mode::Off, ..AUTO }, &BARRED[..3], &[10, 10]);
    let mut delayed = lost(3, 12);
    channel_of(&mut delayed).delay_s = 600;
    script.good(3, delayed);
    let ordered = facts::command::Command::Failover { to: None, dry_run: true, force: false };
    let refused = script.driver.command(script.now, ordered).expect_err("nobody has all");
    assert!(refused.others.iter().any(|why| why.contains("not s2: it lacks what s3 has received")), "{refused:?}");
}

const PREFERRED: [PromotionRule; 3] = [PromotionRule::Prefer, PromotionRule::Neutral, PromotionRule::Prefer];

/// Shows a cluster after `s2` has been promoted; `s3` follows it, `lag_ms` behind.
fn see_after(script: &mut Script, lag_ms: u64) {
    let promoted = Facts { replication: Replication::Channels(vec![]), read_only: false, ..replica(2, 12) };
    let mut follower = replica(3, 12);
    follower.heartbeat_lag = Some(Duration::from_millis(lag_ms));
    channel_of(&mut follower).source_server_id = 2;
    channel_of(&mut follower).source_host = "s2".into();
    for _ in 0..2 {
        script.now += Duration::from_millis(500);
        script.good(2, promoted.clone());
        script.good(3, follower.clone());
    }
}

/// Fails over from `s1` to `s2`, which has more than `s3`, the preferred one.
fn promoted_for_its_data(failover: Failover) -> Script {
    let mut script = without_primary(failover, &PREFERRED, &[12, 10]);
    let words = play(&mut script, &[12, 10], false);
    assert!(words.contains(&"promote s2".to_owned()), "{words:?}");
    assert_eq!(script.primary(), Some(2));
    script.journal.clear();
    script
}

#[test]
fn the_role_moves_on_to_a_preferred_server_once_that_has_the_data() {
    let mut script = promoted_for_its_data(AUTO);
    see_after(&mut script, 5_000);
    assert_eq!(script.words(), Vec::<String>::new(), "writes would wait until it has caught up");
    see_after(&mut script, 20);
    assert_eq!(script.words(), ["ask s2 again", "ask s3 again"]);
    let why = &script.journal[0].text;
    assert_eq!(why, "s3 (`prefer`) has what s2 (`neutral`) was promoted for, so the role moves on");
    // The hold that a switchover begins with.
    script.answer(|step| match number(step) {
        2 => reported(Facts { replication: Replication::Channels(vec![]), read_only: false, ..replica(2, 12) }),
        _ => {
            let mut follower = replica(3, 12);
            channel_of(&mut follower).source_server_id = 2;
            reported(follower)
        }
    });
    assert_eq!(script.words(), ["wait for running work on s2"]);
}

#[test]
fn it_is_tried_again_when_it_did_not_come_about_and_not_for_ever() {
    let mut script = promoted_for_its_data(AUTO);
    for attempt in 1..=4 {
        see_after(&mut script, 20);
        let tries = if attempt <= 3 { vec!["ask s2 again", "ask s3 again"] } else { vec![] };
        assert_eq!(script.words(), tries, "attempt {attempt}");
        script.answer(|_| Err(StepError { kind: ErrorKind::Failed, text: "no".into() }));
        see_after(&mut script, 20);
        assert_eq!(script.words(), Vec::<String>::new(), "too early for attempt {}", attempt + 1);
        script.now += Duration::from_secs(5);
    }
    let refused = script.journal.iter().filter(|entry| entry.text.contains("the primary does not answer"));
    assert!(refused.count() >= 3, "{:?}", script.journal);
}

#[test]
fn it_stays_when_the_operator_wants_that_or_time_has_passed() {
    let mut script = promoted_for_its_data(Failover { preferred_within: Duration::ZERO, ..AUTO });
    see_after(&mut script, 20);
    assert_eq!(script.words(), Vec::<String>::new());
    let mut script = promoted_for_its_data(AUTO);
    script.now += Duration::from_secs(61);
    see_after(&mut script, 20);
    assert_eq!(script.words(), Vec::<String>::new());
}
