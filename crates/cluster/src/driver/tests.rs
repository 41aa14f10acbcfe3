use facts::view::{Health, Role};

use super::script::*;
use super::*;
use crate::observation::{Facts, FailureClass, Receiver, Replication};

fn read_only(mut facts: Facts) -> Facts {
    facts.read_only = true;
    facts
}

fn writable(mut facts: Facts) -> Facts {
    facts.read_only = false;
    facts
}

#[test]
fn the_first_view_lists_all_servers_and_knows_nothing() {
    let script = Script::new(2);
    let [view] = &script.views[..] else { panic!("{:?}", script.views) };
    assert_eq!((view.number, view.primary, view.servers.len(), &view.flavour), (1, None, 2, &None));
    assert!(view.servers.iter().all(|server| server.health == Health::Down && server.role == Role::Unknown));
    assert_eq!(&*view.servers[0].reason, "not probed yet");
}

#[test]
fn roles_come_from_read_only_and_replication() {
    let mut script = Script::new(3);
    script.good(2, replica_of(1, 2));
    script.good(1, facts(1));
    assert_eq!(script.primary(), None, "s3 may turn out to be writable");
    assert_eq!(&*script.server(1).reason, "takes writes; waiting for the first probe of s3");
    script.good(3, replica_of(1, 3));
    assert_eq!(script.primary(), Some(1));
    assert_eq!([1, 2, 3].map(|n| script.server(n).role), [Role::Primary, Role::Replica, Role::Replica]);
    assert!([1, 2, 3].iter().all(|n| script.server(*n).serves_reads));
    assert_eq!(script.found(), [""; 0]);
    assert!(script.log.iter().any(|line| line == "primary is s1"), "{:?}", script.log);
}

#[test]
fn a_replica_of_a_replica_is_a_replica() {
    let mut script = Script::new(3);
    script.good(1, facts(1));
    script.good(2, replica_of(1, 2));
    script.good(3, replica_of(2, 3));
    assert_eq!(script.server(3).role, Role::Replica);
    assert!(script.server(3).reason.starts_with("follows s2"), "{}", script.server(3).reason);
    assert!(script.server(3).serves_reads);
}

#[test]
fn a_writable_server_that_follows_another_is_no_primary_even_when_the_primary_is_dead() {
    let mut script = Script::new(2);
    script.good(1, facts(1));
    script.good(2, writable(replica_of(1, 2)));
    assert_eq!((script.primary(), script.found()), (Some(1), vec!["writable_replica"]));
    script.down(1);
    assert_eq!(script.primary(), None);
    assert!(script.found().contains(&"primary_down"));
}

#[test]
fn a_dead_primary_is_lost_after_several_probes_and_others_are_probed_at_once() {
    let mut script = Script::healthy(3);
    script.fail(1, FailureClass::Refused);
    assert_eq!((script.primary(), script.server(1).health), (Some(1), Health::Suspect));
    script.fail(1, FailureClass::Refused);
    script.fail(1, FailureClass::Refused);
    assert_eq!((script.primary(), script.server(1).health), (None, Health::Down));
    assert_eq!(script.found(), ["primary_down"]);
    assert_eq!(script.probes, [Script::id(2), Script::id(3)]);
    assert!(script.server(2).serves_reads, "replicas go on serving what they have");
}

#[test]
fn a_primary_that_turns_read_only_is_lost_in_the_same_step() {
    let mut script = Script::healthy(2);
    let views = script.views.len();
    script.good(1, read_only(facts(1)));
    assert_eq!((script.primary(), script.found()), (None, vec!["primary_read_only"]));
    assert_eq!(script.views.len(), views + 1);
    script.good(1, facts(1));
    assert_eq!(script.primary(), Some(1));
}

#[test]
fn super_read_only_counts_too() {
    let mut script = Script::healthy(2);
    script.good(1, Facts { super_read_only: true, ..facts(1) });
    assert_eq!(script.primary(), None);
}

#[test]
fn a_primary_that_somebody_else_moved_is_followed() {
    let mut script = Script::healthy(3);
    script.good(1, read_only(facts(1)));
    assert_eq!(script.primary(), None);
    script.good(2, facts(2));
    assert_eq!(script.primary(), Some(2));
    script.good(1, replica_of(2, 1));
    script.good(3, replica_of(2, 3));
    assert_eq!([1, 2, 3].map(|n| script.server(n).role), [Role::Replica, Role::Primary, Role::Replica]);
    assert_eq!(script.found(), [""; 0]);
    assert!(script.log.iter().any(|line| line == "primary is s2, after s1"), "{:?}", script.log);
}

#[test]
fn the_old_primary_that_returns_writable_gets_no_traffic() {
    let mut script = Script::healthy(3);
    script.down(1);
    script.good(2, facts(2));
    assert_eq!(script.primary(), Some(2));
    script.good(3, replica_of(2, 3));
    script.good(1, facts(1));
    script.good(1, facts(1));
    assert_eq!((script.primary(), script.server(1).health), (Some(2), Health::Up));
    assert_eq!((script.server(1).role, script.server(1).serves_reads), (Role::Unknown, false));
    assert_eq!(script.found(), ["stray_writable"]);
}

#[test]
fn of_two_writable_servers_the_followed_one_is_meant() {
    let mut script = Script::new(3);
    script.good(1, facts(1));
    script.good(2, facts(2));
    script.good(3, replica_of(2, 3));
    assert_eq!((script.primary(), script.found()), (Some(2), vec!["stray_writable"]));
    script.good(3, replica_of(1, 3));
    assert_eq!(script.primary(), Some(1), "the replicas moved, so does the primary");
}

#[test]
fn two_writable_servers_that_nobody_follows_are_not_guessed_between() {
    let mut script = Script::new(2);
    script.good(1, facts(1));
    script.good(2, facts(2));
    assert_eq!((script.primary(), script.found()), (None, vec!["two_primaries"]));
    assert!([1, 2].iter().all(|n| !script.server(*n).serves_reads));
    let words = script.driver.diagnoses()[0].to_string();
    assert!(words.contains("s1, s2"), "{words}");
}

#[test]
fn the_present_primary_stays_when_another_becomes_writable() {
    let mut script = Script::healthy(2);
    script.good(2, facts(2));
    assert_eq!((script.primary(), script.found()), (Some(1), vec!["stray_writable"]));
}

#[test]
fn co_primaries() {
    let mut script = Script::new(2);
    script.good(1, writable(replica_of(2, 1)));
    script.good(2, replica_of(1, 2));
    assert_eq!(script.primary(), Some(1), "the writable one of the ring");
    script.down(1);
    assert_eq!(script.primary(), None);
    script.good(2, writable(replica_of(1, 2)));
    assert_eq!(script.primary(), Some(2));
}

#[test]
fn a_suspect_server_is_not_made_primary() {
    let mut script = Script::healthy(2);
    script.down(1);
    script.fail(2, FailureClass::Timeout);
    script.see(2, ObservationKind::Evidence(EvidenceKind::ConnectionLost));
    assert_eq!(script.server(2).health, Health::Suspect);
    script.good(2, facts(2));
    assert_eq!(script.primary(), Some(2));
}

#[test]
fn evidence_makes_suspect_at_once_and_asks_for_one_probe() {
    let mut script = Script::healthy(3);
    let lost = ObservationKind::Evidence(EvidenceKind::ConnectionLost);
    script.see(2, lost.clone());
    script.see(2, lost.clone());
    assert_eq!((script.server(2).health, &script.probes[..]), (Health::Suspect, &[Script::id(2)][..]));
    script.good(2, replica_of(1, 2));
    assert_eq!(script.server(2).health, Health::Up);
    let views = script.views.len();
    (0..100).for_each(|_| script.see(2, lost.clone()));
    assert_eq!(script.views.len(), views, "a storm right after a good probe changes nothing");
    script.see(1, ObservationKind::Evidence(EvidenceKind::ConnectFailed));
    assert_eq!((script.primary(), script.server(1).health), (Some(1), Health::Suspect));
}

#[test]
fn a_read_only_error_asks_for_a_probe_of_the_primary_and_changes_nothing() {
    let mut script = Script::healthy(2);
    let views = script.views.len();
    script.see(1, ObservationKind::Evidence(EvidenceKind::ReadOnly));
    script.see(2, ObservationKind::Evidence(EvidenceKind::ReadOnly));
    assert_eq!((&script.probes[..], script.views.len()), (&[Script::id(1)][..], views));
}

#[test]
fn refusals_to_the_monitor_alone_are_not_death() {
    let mut script = Script::healthy(2);
    for class in [FailureClass::TooManyConnections, FailureClass::Login, FailureClass::Query] {
        (0..5).for_each(|_| script.fail(1, class));
        assert_eq!((script.primary(), script.server(1).health), (Some(1), Health::Up), "{class:?}");
    }
    (0..5).for_each(|_| script.fail(2, FailureClass::TooManyConnections));
    assert_eq!(script.found(), ["monitor_refused"]);
    script.good(2, replica_of(1, 2));
    assert_eq!(script.found(), [""; 0]);
}

#[test]
fn a_server_that_never_served_the_monitor_has_no_role() {
    let mut script = Script::new(1);
    script.fail(1, FailureClass::Login);
    let server = script.server(1);
    assert_eq!((server.health, server.role, server.serves_reads), (Health::Up, Role::Unknown, false));
    assert!(server.reason.contains("login"), "{}", server.reason);
    assert!(script.found().contains(&"monitor_refused"));
}

#[test]
fn a_server_that_does_not_serve_the_monitor_is_not_called_read_only() {
    let mut script = Script::new(2);
    script.fail(1, FailureClass::Login);
    script.good(2, replica_of(1, 2));
    let words = script.driver.diagnoses().iter().find(|found| found.name() == "no_primary").unwrap().to_string();
    assert!(words.starts_with("no server is known to take writes: the monitor is not served by s1; "), "{words}");
}

#[test]
fn an_offline_server_gets_no_reads_and_is_named() {
    let mut script = Script::healthy(3);
    let mut facts = replica_of(1, 2);
    facts.details.offline = true;
    script.good(2, facts);
    let server = script.server(2);
    assert_eq!((server.health, server.role, server.serves_reads), (Health::Up, Role::Replica, false));
    assert!(server.reason.ends_with("; offline_mode is on"), "{}", server.reason);
    assert_eq!(script.found(), ["offline"]);
    script.good(2, replica_of(1, 2));
    assert!(script.server(2).serves_reads && script.found().is_empty());
    // To a monitor that is no administrator.
    script.fail(2, FailureClass::Offline);
    assert_eq!((script.server(2).health, script.server(2).serves_reads), (Health::Up, false));
    assert_eq!(script.found(), ["offline"]);
}

#[test]
fn broken_replication_takes_reads_away() {
    let mut script = Script::healthy(3);
    let mut facts = replica_of(1, 2);
    let Replication::Channels(channels) = &mut facts.replication else { panic!() };
    (channels[0].applier_running, channels[0].applier_error, channels[0].seconds_behind) =
        (false, "duplicate key".into(), None);
    script.good(2, facts);
    let server = script.server(2);
    assert_eq!((server.role, server.health, server.serves_reads), (Role::Replica, Health::Up, false));
    assert_eq!(server.lag, None);
    assert!(server.reason.contains("duplicate key"), "{}", server.reason);
    assert_eq!(script.found(), ["replication_broken"]);
}

#[test]
fn unreadable_replication_is_reported_and_a_heartbeat_makes_up_for_it() {
    let mut script = Script::healthy(2);
    let mut facts = replica_of(1, 2);
    facts.replication = Replication::Unreadable("access denied".into());
    script.good(2, facts.clone());
    assert_eq!((script.server(2).role, script.server(2).serves_reads), (Role::Unknown, false));
    assert_eq!(script.found(), ["monitor_refused"]);
    facts.heartbeat_lag = Some(Duration::from_millis(5));
    script.good(2, facts);
    assert_eq!((script.server(2).role, script.server(2).serves_reads), (Role::Replica, true));
}

#[test]
fn small_changes_of_lag_make_no_views() {
    let mut script = Script::healthy(2);
    let with_lag = |ms| Facts { heartbeat_lag: Some(Duration::from_millis(ms)), ..replica_of(1, 2) };
    let views = script.views.len();
    [3, 12, 50, 99, 0, 7].into_iter().for_each(|ms| script.good(2, with_lag(ms)));
    assert_eq!(script.views.len(), views);
    assert_eq!(script.driver.lag(Script::id(2)), Some(Duration::from_millis(7)));
    script.good(2, with_lag(400));
    assert_eq!((script.views.len(), script.server(2).lag), (views + 1, Some(Duration::from_millis(400))));
    script.good(2, with_lag(20_000));
    assert!(!script.server(2).serves_reads);
    script.good(2, with_lag(9_000));
    assert!(!script.server(2).serves_reads, "not yet below 80 %");
    script.good(2, with_lag(7_900));
    assert!(script.server(2).serves_reads);
}

#[test]
fn a_replica_that_reconnects_for_too_long_loses_reads_by_time_alone() {
    let mut script = Script::healthy(2);
    let mut facts = replica_of(1, 2);
    let Replication::Channels(channels) = &mut facts.replication else { panic!() };
    (channels[0].receiver, channels[0].seconds_behind) = (Receiver::Connecting, None);
    script.good(2, facts);
    assert!(script.server(2).serves_reads);
    script.wait(Duration::from_millis(3_900));
    assert!(script.server(2).serves_reads);
    script.wait(Duration::from_millis(200));
    assert!(!script.server(2).serves_reads);
}

#[test]
fn a_single_server_is_the_primary_even_when_read_only() {
    let mut script = Script::with(Settings { standalone: true, ..settings() }, 1);
    script.good(1, read_only(facts(1)));
    assert_eq!((script.primary(), script.server(1).serves_reads), (Some(1), true));
    assert_eq!(script.found(), ["standalone_read_only"]);
    assert!(script.server(1).reason.contains("read-only"));
    script.down(1);
    assert_eq!((script.primary(), script.found()), (None, vec!["all_down"]));
}

#[test]
fn all_down_and_back_as_a_replica_first() {
    let mut script = Script::healthy(2);
    script.down(1);
    script.down(2);
    assert_eq!(script.found(), ["all_down"]);
    (0..2).for_each(|_| script.good(2, replica_of(1, 2)));
    assert_eq!((script.server(2).health, script.primary()), (Health::Up, None));
    (0..2).for_each(|_| script.good(1, facts(1)));
    assert_eq!(script.primary(), Some(1));
}

#[test]
fn clusters_of_a_process_share_no_identity() {
    let ids = ServerIds::default();
    let driver = |name: &str| {
        Driver::new(Settings { cluster: name.into(), ..settings() }, vec![spec("s1"), spec("s2")], ids.clone(), start())
    };
    let given = |driver: Driver| driver.servers().map(|(id, _)| id.0).collect::<Vec<_>>();
    assert_eq!(given(driver("main")), [0, 1]);
    assert_eq!(given(driver("other")), [2, 3]);
    assert_eq!(given(driver("main")), [4, 5], "nor with a cluster that was taken away");
}

#[test]
fn servers_keep_their_identity_over_a_reload() {
    let mut script = Script::healthy(3);
    let with = |names: &[&str]| names.iter().map(|name| spec(name)).collect::<Vec<_>>();
    let ids = |script: &Script| -> Vec<(String, u16)> {
        script.driver.view().servers.iter().map(|server| (server.name.to_string(), server.id.0)).collect()
    };
    script.driver.reconfigure(settings(), with(&["s3", "s1", "s4"]), script.now);
    script.drain();
    assert_eq!(ids(&script), [("s3".into(), 2), ("s1".into(), 0), ("s4".into(), 3)]);
    assert_eq!(script.primary(), Some(1), "a new server that is not probed yet changes nothing");
    let mut specs = with(&["s3", "s1", "s4", "s2"]);
    specs[0].address = "elsewhere:3306".into();
    specs[1].weight = 7;
    script.driver.reconfigure(settings(), specs, script.now);
    script.drain();
    assert_eq!(
        ids(&script),
        [("s3".into(), 4), ("s1".into(), 0), ("s4".into(), 3), ("s2".into(), 5)],
        "identities are never given twice, and another address is another server"
    );
    assert_eq!(script.server(1).weight, 7);
    let views = script.views.len();
    script.see(2, ObservationKind::Evidence(EvidenceKind::ConnectFailed));
    assert_eq!(script.views.len(), views, "what is said of a removed server is ignored");
}

#[test]
fn a_removed_primary_is_no_primary() {
    let mut script = Script::healthy(2);
    script.driver.reconfigure(settings(), vec![spec("s2")], script.now);
    script.drain();
    assert_eq!(script.primary(), None);
}

#[test]
fn the_flavour_is_what_all_servers_can_do() {
    let mut script = Script::new(2);
    script.good(1, facts(1));
    let mut newer = replica_of(1, 2);
    (newer.greeting.number, newer.greeting.capabilities) = (110_402, 0b101);
    newer.greeting.version = "11.4.2-MariaDB".into();
    script.good(2, newer);
    let flavour = script.driver.view().flavour.clone().unwrap();
    assert_eq!((flavour.number, flavour.capabilities), (101_106, 0b101));
    script.down(1);
    assert_eq!(script.driver.view().flavour, Some(flavour), "a failure does not change the greeting");
}

#[test]
fn equal_server_ids_and_mixed_families_are_reported() {
    let mut script = Script::new(2);
    script.good(1, facts(1));
    let mut other = replica_of(0, 1);
    other.greeting.mariadb = false;
    script.good(2, other);
    assert!(script.found().contains(&"duplicate_server_id") && script.found().contains(&"mixed_families"));
}

#[test]
fn every_diagnosis_has_its_name_in_the_list() {
    let name: Arc<str> = "s".into();
    let all = [
        Diagnosis::AllDown,
        Diagnosis::PrimaryDown(name.clone()),
        Diagnosis::PrimaryReadOnly(name.clone()),
        Diagnosis::NoPrimary(vec![]),
        Diagnosis::TwoPrimaries(vec![name.clone()]),
        Diagnosis::StrayWritable(name.clone()),
        Diagnosis::WritableReplica(name.clone()),
        Diagnosis::StandaloneReadOnly(name.clone()),
        Diagnosis::ReplicationBroken(name.clone()),
        Diagnosis::ForeignSource(name.clone()),
        Diagnosis::MonitorRefused(name.clone()),
        Diagnosis::Offline(name.clone()),
        Diagnosis::DuplicateServerId(vec![name.clone()]),
        Diagnosis::MixedFamilies,
        Diagnosis::PrimaryDead(name.clone()),
        Diagnosis::PrimaryFrozen(name.clone()),
        Diagnosis::PrimaryUnreachable(name.clone(), name.clone()),
        Diagnosis::PrimaryBehind(name.clone(), name.clone()),
        Diagnosis::DiskFull(name.clone(), name.clone()),
        Diagnosis::CannotWrite(name.clone(), name.clone()),
        Diagnosis::FailoverBlocked(name.clone()),
        Diagnosis::ServerAhead(name.clone(), name.clone()),
        Diagnosis::SlowHeartbeat(name.clone(), 30),
        Diagnosis::StatementsUnlogged(name.clone()),
        Diagnosis::EventsStopped(name.clone(), name.clone()),
        Diagnosis::OutcomesUnproven(name.clone(), name.clone()),
        Diagnosis::NoPrimaryComponent,
        Diagnosis::OutOfGroup(name.clone(), name.clone()),
        Diagnosis::TwoGroups(vec![]),
        Diagnosis::Donor(name.clone()),
        Diagnosis::RejectsQueries(name.clone()),
        Diagnosis::NoDataNodes,
        Diagnosis::NodeGroupDown(name),
    ];
    assert_eq!(all.each_ref().map(Diagnosis::name), Diagnosis::NAMES);
}

#[test]
fn before_the_monitor_has_an_account_that_is_what_is_reported() {
    let mut script = Script::new(2);
    assert!(!script.driver.view().monitor_denied);
    script.fail(1, FailureClass::Login);
    script.fail(2, FailureClass::Refused);
    assert!(script.driver.view().monitor_denied);
    let reason = &script.server(1).reason;
    assert!(reason.starts_with("it answers, access denied for the monitor: "), "{reason}");
    script.good(1, facts(1));
    assert!(!script.driver.view().monitor_denied, "{:?}", script.driver.view());
}
