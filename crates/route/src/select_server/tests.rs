//! Choices among servers.

use super::*;

use facts::gtid::Applied;
use facts::positions::Positions;

use crate::OwnWrites;
use crate::testing::{server, three, view};

const PLAIN: Preferences<'static> = Preferences {
    zone: "",
    slow_start: Duration::from_secs(10),
    avoid: &[],
    gather: false,
    needs: None,
    awaits: false,
    near: None,
};

fn choose(view: &View, loads: &Loads, preferences: Preferences<'_>) -> Option<u16> {
    select(view, &Target::Reader, loads, preferences, Instant::now()).map(|id| id.0)
}

#[test]
fn reads_go_to_the_replica_with_less_to_do() {
    let loads = Loads::default();
    loads.begin(ServerId(2));
    assert_eq!(choose(&three(), &loads, PLAIN), Some(3));
    loads.begin(ServerId(3));
    loads.begin(ServerId(3));
    assert_eq!(choose(&three(), &loads, PLAIN), Some(2));
    loads.end(ServerId(3));
    loads.end(ServerId(3));
    assert_eq!(choose(&three(), &loads, PLAIN), Some(3));
}

#[test]
fn a_slow_answer_counts_at_once_and_is_forgotten_slowly() {
    let (loads, start) = (Loads::default(), Instant::now());
    for id in [2, 3] {
        loads.first_byte(ServerId(id), Duration::from_micros(200), start);
    }
    loads.first_byte(ServerId(2), Duration::from_millis(50), start);
    assert_eq!(choose(&three(), &loads, PLAIN), Some(3));
    loads.first_byte(ServerId(2), Duration::from_micros(100), start + Duration::from_secs(1));
    assert_eq!(choose(&three(), &loads, PLAIN), Some(3), "one good answer does not make good for it");
    loads.first_byte(ServerId(2), Duration::from_micros(100), start + Duration::from_secs(200));
    assert_eq!(choose(&three(), &loads, PLAIN), Some(2));
}

#[test]
fn a_slow_server_gets_another_chance_although_nothing_is_measured() {
    let (loads, start) = (Loads::default(), Instant::now());
    loads.first_byte(ServerId(2), Duration::from_millis(5), start);
    let chosen_at = |seconds: u64| {
        let at = start + Duration::from_secs(seconds);
        loads.first_byte(ServerId(3), Duration::from_micros(500), at);
        (0..100).any(|_| select(&three(), &Target::Reader, &loads, PLAIN, at) == Some(ServerId(2)))
    };
    assert!(!chosen_at(1));
    assert!(chosen_at(20));
}

#[test]
fn without_a_replica_that_serves_the_primary_reads() {
    let mut servers = vec![server(1, Role::Primary), server(2, Role::Replica), server(3, Role::Replica)];
    servers[1].health = Health::Down;
    servers[2].serves_reads = false;
    assert_eq!(choose(&view(servers.clone()), &Loads::default(), PLAIN), Some(1));
    servers[0].role = Role::Unknown;
    assert_eq!(choose(&view(servers), &Loads::default(), PLAIN), None);
}

#[test]
fn weights_zones_and_what_just_failed_are_respected() {
    let mut servers = vec![server(1, Role::Primary), server(2, Role::Replica), server(3, Role::Replica)];
    servers[1].weight = 0;
    assert_eq!(choose(&view(servers.clone()), &Loads::default(), PLAIN), Some(3));
    servers[1].weight = 100;
    servers[2].zone = "b".into();
    let near_b = Preferences { zone: "b", ..PLAIN };
    assert_eq!(choose(&view(servers.clone()), &Loads::default(), near_b), Some(3));
    let failed = Preferences { avoid: &[ServerId(3)], ..near_b };
    assert_eq!(choose(&view(servers.clone()), &Loads::default(), failed), Some(2));
    let all_failed = Preferences { avoid: &[ServerId(2), ServerId(3)], ..near_b };
    assert_eq!(choose(&view(servers), &Loads::default(), all_failed), Some(1));
}

#[test]
fn a_server_that_came_back_starts_slowly() {
    let (loads, start) = (Loads::default(), Instant::now());
    let mut servers = vec![server(1, Role::Primary), server(2, Role::Replica), server(3, Role::Replica)];
    servers[1].health = Health::Down;
    loads.viewed(&view(servers.clone()), start);
    servers[1].health = Health::Up;
    loads.viewed(&view(servers.clone()), start);
    let view = view(servers);
    let share_at = |seconds| {
        let at = start + Duration::from_secs(seconds);
        (0..10_000).filter(|_| select(&view, &Target::Reader, &loads, PLAIN, at) == Some(ServerId(2))).count()
    };
    for (seconds, shares) in [(0, 700..1_150), (5, 3_000..3_700), (9, 4_400..5_100), (10, 4_700..5_300)] {
        let share = share_at(seconds);
        assert!(shares.contains(&share), "after {seconds} s: {share} of 10,000");
    }
}

#[test]
fn equal_servers_get_equal_work() {
    let (loads, view) = (Loads::default(), three());
    loads.first_byte(ServerId(2), Duration::from_micros(600), Instant::now());
    loads.first_byte(ServerId(3), Duration::from_micros(650), Instant::now());
    let chosen = (0..10_000).filter(|_| choose(&view, &loads, PLAIN) == Some(2)).count();
    assert!((4_800..5_600).contains(&chosen), "{chosen}");
}

#[test]
fn in_a_group_of_writers_a_session_keeps_to_one_member() {
    let mut servers = vec![server(1, Role::Primary), server(2, Role::Primary), server(3, Role::Primary)];
    servers.iter_mut().for_each(|server| server.serves_reads = true);
    let group = |servers: &[ServerView]| View { group: Some(Writers::All), ..view(servers.to_vec()) };
    let (loads, positions, now) = (Loads::default(), Positions::default(), Instant::now());
    let mut own = OwnWrites::default();
    let writer = |servers: &[ServerView], own: &OwnWrites, positions: &Positions| {
        let needs = Some(Needs { own: Some(own), all: &[], before: None, positions });
        let preferences = Preferences { needs, ..PLAIN };
        select(&group(servers), &Target::Primary, &loads, preferences, now).map(|id| id.0)
    };
    let chosen: std::collections::BTreeSet<_> = (0..1_000).map(|_| writer(&servers, &own, &positions)).collect();
    assert_eq!(chosen.into_iter().collect::<Vec<_>>(), [Some(1), Some(2), Some(3)]);
    own.was_in_group(ServerId(2), now);
    assert!((0..100).all(|_| writer(&servers, &own, &positions) == Some(2)));
    let readers = (0..1_000).map(|_| choose(&group(&servers), &loads, PLAIN));
    assert_eq!(readers.collect::<std::collections::BTreeSet<_>>().len(), 3);
    // It lost there, and the writer has what it wrote.
    let positions_now = positions.with(ServerId(1), Some((Applied::Group, false)), now + Duration::from_millis(1));
    let gather = |positions: &Positions| {
        let needs = Some(Needs { own: Some(&own), all: &[], before: None, positions });
        let preferences = Preferences { needs, gather: true, ..PLAIN };
        select(&group(&servers), &Target::Primary, &loads, preferences, now).map(|id| id.0)
    };
    assert_eq!((gather(&positions), gather(&positions_now)), (Some(2), Some(1)));
    // The others have not shown yet that they have what it wrote.
    servers[1].health = Health::Down;
    assert_eq!(writer(&servers, &own, &positions), None);
    let shown = positions.with(ServerId(3), Some((Applied::Group, false)), now + Duration::from_millis(1));
    assert_eq!(writer(&servers, &own, &shown), Some(3));
}

#[test]
fn a_member_that_has_just_become_the_writer_serves_no_read_before_it_has_shown_what_it_has() {
    let group = View { group: Some(Writers::One), ..three() };
    let (loads, positions, now) = (Loads::default(), Positions::default(), Instant::now());
    let mut own = OwnWrites::default();
    // Written on the last writer, which is no member any more.
    own.was_in_group(ServerId(4), now);
    let read = |positions: &Positions| {
        let needs = Some(Needs { own: Some(&own), all: &[], before: None, positions });
        choose(&group, &loads, Preferences { needs, ..PLAIN })
    };
    assert_eq!(read(&positions), None);
    let shown = positions.with(ServerId(1), Some((Applied::Group, false)), now + Duration::from_millis(1));
    assert_eq!(read(&shown), Some(1));
}

#[test]
fn a_named_server_is_taken_only_while_it_is_up() {
    let target = Target::Named("db3".into());
    let named = |view: &View| select(view, &target, &Loads::default(), PLAIN, Instant::now());
    assert_eq!(named(&three()), Some(ServerId(3)));
    assert_eq!(named(&view(vec![server(1, Role::Primary)])), None);
}
