//! Cases of writes of sessions, and of reports of servers.

use super::*;
use facts::gtid::mariadb::Gtids;
use facts::view::{Health, Role, ServerView};

use crate::testing::{self, server};

const PRIMARY: ServerId = ServerId(0);
const REPLICA: ServerId = ServerId(1);
const OTHER: ServerId = ServerId(2);
const WINDOW: Duration = Duration::from_secs(5);

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn reported(server: ServerId, sequence: u64, logs: bool) -> Option<(Applied, bool)> {
    let all = Gtids::parse(&format!("0-1-{sequence}")).unwrap();
    let replicated = if server == PRIMARY { Gtids::default() } else { all.clone() };
    Some((Applied::MariaDb { server: u32::from(server.0) + 1, replicated, current: all }, logs))
}

fn view(primary: Health) -> View {
    let [first, replica] = [server(PRIMARY.0, Role::Primary), server(REPLICA.0, Role::Replica)];
    testing::view(vec![ServerView { health: primary, serves_reads: true, ..first }, replica])
}

struct Case {
    start: Instant,
    positions: Positions,
    own: OwnWrites,
    before: Option<ServerId>,
}

impl Case {
    fn new() -> Case {
        Case {
            start: Instant::now() + ms(1_000),
            positions: Positions::default(),
            own: OwnWrites::default(),
            before: None,
        }
    }

    fn at(&self, at_ms: u64) -> Instant {
        self.start + ms(at_ms)
    }

    fn tell(&mut self, at_ms: u64, server: ServerId, sequence: u64) {
        self.positions = self.positions.with(server, reported(server, sequence, true), self.at(at_ms));
    }

    fn wrote(&mut self, sequence: u64) {
        let start = self.start;
        self.own.tell(WrittenGtids::parse(true, &format!("0-1-{sequence}")).unwrap(), || start);
    }

    fn settle(&mut self, at_ms: u64, view: &View) {
        self.own.settle(view, &self.positions, WINDOW, self.start + ms(at_ms));
    }

    fn lacking(&self, server: ServerId) -> Option<Reason> {
        let (own, positions) = (Some(&self.own), &self.positions);
        Needs { own, all: &[], before: self.before, positions }.lacking(server)
    }
}

#[test]
fn a_read_goes_where_the_write_is() {
    let mut case = Case::new();
    assert_eq!(case.lacking(REPLICA), None, "nothing was written");
    case.wrote(7);
    assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite), "it has reported nothing yet");
    case.tell(0, REPLICA, 6);
    assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite));
    case.tell(1, REPLICA, 7);
    assert_eq!(case.lacking(REPLICA), None);
    case.tell(2, REPLICA, 5);
    assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite), "it was rebuilt from an older copy");
}

#[test]
fn a_write_on_a_former_primary_that_is_reported_late_is_no_step_back() {
    let mut case = Case::new();
    let tell = |case: &mut Case, text: &str, at_ms: u64| {
        let at = case.at(at_ms);
        case.own.tell_of_many(WrittenGtids::parse(true, text).unwrap(), WRITTEN_MAX, || at);
    };
    tell(&mut case, "0-3-15", 0);
    tell(&mut case, "0-1-11", 1);
    case.tell(2, REPLICA, 14);
    assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite));
    let awaited = Needs { own: Some(&case.own), all: &[], before: None, positions: &case.positions }.awaited(REPLICA);
    assert_eq!(awaited.as_deref(), Some("0-3-15"));
    // They were lost, for nothing is told of them for so long.
    tell(&mut case, "0-1-12", 60_000);
    assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite));
    tell(&mut case, "0-1-13", 60_001);
    assert_eq!(case.lacking(REPLICA), None);
}

#[test]
fn a_replica_can_be_asked_to_wait_for_what_positions_tell() {
    let mut case = Case::new();
    let awaited = |case: &Case, all: &[SharedWrites]| {
        let (own, positions) = (Some(&case.own), &case.positions);
        Needs { own, all, before: case.before, positions }.awaited(REPLICA)
    };
    case.wrote(7);
    assert_eq!(awaited(&case, &[]), None, "it has reported nothing yet");
    case.tell(0, REPLICA, 6);
    assert_eq!(awaited(&case, &[]).as_deref(), Some("0-1-7"));
    let others = arc_swap::ArcSwap::from_pointee(OwnWrites::default());
    let mut later = OwnWrites::default();
    later.tell(WrittenGtids::parse(true, "0-1-9").unwrap(), Instant::now);
    others.store(Arc::new(later));
    assert_eq!(awaited(&case, &[others.load()]).as_deref(), Some("0-1-9"), "all are behind the last one");
    case.tell(1, REPLICA, 7);
    assert_eq!(awaited(&case, &[]), None, "it has it");
    // A replica cannot wait for writes without a position, nor for data that was read.
    case.wrote(8);
    let at = case.at(2);
    case.own.wrote_unreported(PRIMARY, at);
    assert_eq!(awaited(&case, &[]), None);
    case.own.unreported.clear();
    case.own.saw(PRIMARY, at);
    assert_eq!(awaited(&case, &[]), None);
    case.own.seen = Seen::Nothing;
    assert_eq!(awaited(&case, &[]).as_deref(), Some("0-1-8"));
    case.own.wrote_unlogged();
    assert_eq!(awaited(&case, &[]), None, "it will never have it");
}

#[test]
fn a_write_without_a_position_is_covered_by_what_its_server_tells_next() {
    let (mut case, view) = (Case::new(), view(Health::Up));
    case.tell(0, PRIMARY, 5);
    case.tell(0, REPLICA, 5);
    let written = case.at(10);
    case.own.wrote_unreported(PRIMARY, written);
    case.settle(10_000, &view);
    assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite), "time alone does not help");
    case.tell(20, PRIMARY, 6);
    case.settle(20, &view);
    assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite));
    case.tell(30, REPLICA, 6);
    assert_eq!(case.lacking(REPLICA), None);
    // A write while the primary is being asked is not in the answer.
    let written = case.at(41);
    case.own.wrote_unreported(PRIMARY, written);
    case.tell(40, PRIMARY, 6);
    case.settle(50, &view);
    assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite));
}

#[test]
fn writes_without_positions_on_two_servers_are_both_covered() {
    let (mut case, view) = (Case::new(), view(Health::Up));
    let (first, second) = (case.at(10), case.at(11));
    // The primary has moved, and the word of the former one comes late.
    case.own.wrote_unreported(REPLICA, second);
    case.own.wrote_unreported(PRIMARY, first);
    case.tell(20, PRIMARY, 5);
    case.tell(20, OTHER, 9);
    case.settle(30, &view);
    assert_eq!(case.lacking(OTHER), Some(Reason::OwnWrite), "nobody knows yet what the other one has");
    let current = Gtids::parse("0-2-10").unwrap();
    let applied = Applied::MariaDb { server: 2, replicated: Gtids::parse("0-1-5").unwrap(), current };
    case.positions = case.positions.with(REPLICA, Some((applied, true)), case.at(31));
    case.settle(40, &view);
    assert!(!case.own.awaits_position());
    assert_eq!(case.lacking(OTHER), Some(Reason::OwnWrite));
    // The former primary's word alone does not take the other one's away.
    case.own.wrote_unreported(PRIMARY, second);
    case.settle(50, &view);
    assert_eq!(case.lacking(OTHER), Some(Reason::OwnWrite));
    case.tell(60, OTHER, 10);
    assert_eq!(case.lacking(OTHER), None);
}

#[test]
fn without_gtids_the_primary_serves_for_a_while() {
    let (mut case, view) = (Case::new(), view(Health::Up));
    let written = case.at(0);
    case.own.wrote_unreported(PRIMARY, written);
    case.settle(4_999, &view);
    assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite));
    case.settle(5_000, &view);
    assert_eq!(case.lacking(REPLICA), None);
    // Without a binary log there are positions of what came from elsewhere, but none of writes.
    let asked = case.at(6_000);
    case.positions = case.positions.with(PRIMARY, reported(PRIMARY, 9, false), asked);
    let written = case.at(5_500);
    case.own.wrote_unreported(PRIMARY, written);
    case.settle(6_000, &view);
    assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite));
    case.settle(10_500, &view);
    assert_eq!(case.lacking(REPLICA), None);
}

#[test]
fn a_lost_server_is_not_waited_for() {
    let mut case = Case::new();
    case.tell(20, PRIMARY, 6);
    case.tell(20, REPLICA, 6);
    let written = case.at(10);
    case.own.wrote_unreported(OTHER, written);
    case.settle(30, &view(Health::Up));
    assert_eq!(case.lacking(REPLICA), None);
}

#[test]
fn what_passed_the_binary_log_stays_on_its_server() {
    let (mut case, view) = (Case::new(), view(Health::Up));
    case.own.wrote_unlogged();
    case.tell(0, PRIMARY, 5);
    case.tell(0, REPLICA, 5);
    case.settle(1_000_000, &view);
    assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite));
}

#[test]
fn what_was_read_on_the_primary_stays_there_until_replicas_have_it() {
    let (mut case, view) = (Case::new(), view(Health::Up));
    case.tell(0, PRIMARY, 5);
    case.tell(0, REPLICA, 5);
    let read = case.at(10);
    case.own.saw(PRIMARY, read);
    case.settle(11, &view);
    assert_eq!(case.lacking(REPLICA), Some(Reason::EarlierRead), "nobody knows what it has seen");
    case.tell(20, PRIMARY, 6);
    case.settle(20, &view);
    assert_eq!(case.lacking(REPLICA), Some(Reason::EarlierRead));
    case.tell(21, REPLICA, 6);
    assert_eq!(case.lacking(REPLICA), None);
    // A commit of its own covers what was read before.
    let read = case.at(30);
    case.own.saw(PRIMARY, read);
    case.wrote(7);
    case.tell(31, REPLICA, 7);
    assert_eq!(case.lacking(REPLICA), None);
    // A server without positions cannot be compared.
    let read = case.at(40);
    case.own.saw(OTHER, read);
    case.settle(41, &view);
    assert_eq!(case.lacking(REPLICA), None);
}

#[test]
fn a_member_of_a_group_has_what_was_written_before_it_was_asked() {
    let mut case = Case::new();
    let ask = |case: &mut Case, at_ms: u64, server: ServerId| {
        let asked = case.at(at_ms);
        case.positions = case.positions.with(server, Some((Applied::Group, false)), asked);
    };
    ask(&mut case, 0, REPLICA);
    assert_eq!(case.lacking(REPLICA), None, "nothing was written");
    let written = case.at(10);
    case.own.was_in_group(PRIMARY, written);
    assert_eq!((case.lacking(REPLICA), case.lacking(PRIMARY)), (Some(Reason::OwnWrite), None));
    ask(&mut case, 10, REPLICA);
    assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite), "it was asked in the same moment");
    ask(&mut case, 11, REPLICA);
    assert_eq!(case.lacking(REPLICA), None);
    assert_eq!(case.lacking(OTHER), Some(Reason::OwnWrite), "it was never asked");
}

#[test]
fn a_member_that_has_just_become_the_writer_may_lack_what_the_last_one_did() {
    let mut case = Case::new();
    let ask = |case: &mut Case, at_ms: u64, server: ServerId| {
        let asked = case.at(at_ms);
        case.positions = case.positions.with(server, Some((Applied::Group, false)), asked);
    };
    let lacks = |case: &Case, all: &SharedWrites, server: ServerId| {
        let needs = Needs { own: None, all: std::slice::from_ref(all), before: None, positions: &case.positions };
        needs.lacking(server)
    };
    let shared = |writes: &OwnWrites| arc_swap::ArcSwap::from_pointee(writes.clone()).load();
    ask(&mut case, 5, OTHER);
    let mut all = OwnWrites::default();
    // One session still writes on the old writer when the other one has been asked; the next writes on the new one already.
    all.was_in_group(REPLICA, case.at(10));
    all.was_in_group(OTHER, case.at(20));
    assert_eq!(lacks(&case, &shared(&all), OTHER), Some(Reason::ClusterWrite), "it has not shown the first one");
    ask(&mut case, 11, OTHER);
    assert_eq!(lacks(&case, &shared(&all), OTHER), None, "the second one is its own");
    assert_eq!(lacks(&case, &shared(&all), REPLICA), Some(Reason::ClusterWrite));
    // However late it is noted.
    all.was_in_group(REPLICA, case.at(15));
    assert_eq!(lacks(&case, &shared(&all), OTHER), Some(Reason::ClusterWrite));
    ask(&mut case, 16, OTHER);
    assert_eq!(lacks(&case, &shared(&all), OTHER), None);
    // Any session may have made writes that were not noted.
    all.was_all_over_group(OTHER, case.at(30));
    assert_eq!(lacks(&case, &shared(&all), OTHER), Some(Reason::ClusterWrite));
    ask(&mut case, 31, OTHER);
    assert_eq!(lacks(&case, &shared(&all), OTHER), None);
}

#[test]
fn reads_do_not_go_back() {
    let mut case = Case::new();
    case.tell(0, REPLICA, 9);
    case.tell(100, OTHER, 5);
    case.tell(100, REPLICA, 9);
    case.before = Some(REPLICA);
    assert_eq!(case.lacking(OTHER), Some(Reason::EarlierRead));
    assert_eq!(case.lacking(REPLICA), None, "a server is never behind itself");
    case.before = Some(OTHER);
    assert_eq!(case.lacking(OTHER), None);
}
