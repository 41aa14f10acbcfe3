//! The signs that count as the death of a primary.

use super::*;

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
    script.answer(|step| if number(step) == 1 { reported(primary(10)) } else { world(step, &[10, 10]) });
    assert_eq!((script.orders.len(), script.primary()), (0, Some(1)));
}

/// A replica in whose life so many heartbeats arrived.
fn hearing(number: u32, life: u64) -> Facts {
    let mut facts = replica(number, 10);
    channel_of(&mut facts).life = Some(life);
    facts
}

/// Heartbeats have arrived with each probe.
fn heard() -> Script {
    let mut script = cluster(AUTO, 3);
    for life in 0..6 {
        script.now += Duration::from_millis(500);
        script.good(1, primary(10));
        (2..=3).for_each(|number| script.good(number, hearing(number, life)));
    }
    script
}

/// The servers' results when the primary is silent in this way, and its replicas hear no more of it.
fn silent(step: &Step, look: FailureClass) -> Result<StepResult, StepError> {
    match step {
        Step::ReadFacts { .. } if number(step) == 1 => refused(look),
        Step::ReadFacts { .. } => reported(hearing(number(step), 5)),
        _ => world(step, &[10, 10]),
    }
}

/// Heartbeats arrive with each probe until the primary freezes.
fn frozen(look: FailureClass) -> Script {
    let mut script = heard();
    let begin = script.now;
    while script.orders.is_empty() && script.now < begin + Duration::from_secs(10) {
        script.now += Duration::from_millis(500);
        script.fail(1, FailureClass::Timeout);
        (2..=3).for_each(|number| script.good(number, hearing(number, 5)));
    }
    assert!(script.now <= begin + Duration::from_millis(1500), "{:?}", script.now - begin);
    script.answer(|step| silent(step, look));
    script
}

#[test]
fn a_frozen_primary_is_replaced() {
    let script = frozen(FailureClass::Silent);
    assert_eq!(script.words(), ["stop the receiver of s2", "stop the receiver of s3"]);
    assert!(logged(&script, "takes connections, s1 says nothing"));
}

#[test]
fn a_replica_that_does_not_tell_its_status_has_not_lost_the_primary() {
    let late: [fn(&mut Channel); 2] = [|channel| channel.outdated = true, |channel| channel.life = None];
    for change in late {
        let mut script = heard();
        let begin = script.now;
        while script.now < begin + Duration::from_secs(10) {
            script.now += Duration::from_millis(500);
            script.fail(1, FailureClass::Timeout);
            for number in 2..=3 {
                let mut facts = hearing(number, 5);
                change(channel_of(&mut facts));
                script.good(number, facts);
            }
            assert!(script.orders.is_empty(), "{:?}", script.words());
        }
    }
}

#[test]
fn one_that_was_silent_on_two_connections_is_looked_at_for_half_the_time() {
    let mut script = heard();
    script.now += Duration::from_millis(1000);
    script.see(1, ObservationKind::FailedTwice(Failure { class: FailureClass::Silent, text: "silent".into() }));
    (2..=3).for_each(|number| script.good(number, hearing(number, 5)));
    assert_eq!(script.words(), ["ask s1 again", "ask s2 again", "ask s3 again"]);
    let limits: Vec<u128> = script.orders.iter().map(|order| order.timeout.as_millis()).collect();
    assert_eq!(limits, [250, 500, 500]);
    script.answer(|step| silent(step, FailureClass::Silent));
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
fn too_few_servers_forbid_it() {
    let mut script = cluster(AUTO, 5);
    (3..=5).for_each(|number| script.down(number));
    script.fail(1, FailureClass::Refused);
    script.good(2, lost(2, 10));
    assert_eq!(script.orders, []);
    let words = diagnoses(&script);
    assert!(words.contains("only 1 of 5 servers are reached"), "{words}");
}
