//! Which replicas may serve a session's reads: those that are known to have what the session has written, and that do not
//! take it back behind what it has read.
//!
//! The rule is a pure function of what the session did and of what servers told last, so every case is a test.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::Guard;
use cluster::gtid::mysql::WRITTEN_MAX;
use cluster::gtid::{Applied, Written};
use cluster::positions::Positions;
use cluster::view::{ServerId, View};

use super::read_write_split::Reason;

/// The longest list of positions that a server is asked to wait for, in bytes.
const AWAITED_MAX: usize = 4096;

/// What a session has written, as far as servers told.
#[derive(Clone, Debug, Default)]
pub struct OwnWrites {
    /// Positions that servers told with the replies to writes.
    told: Option<Written>,
    /// The last write of which no position was told, and that no server's position is known to cover yet.
    untold: Option<Untold>,
    /// Where a server was when writes without a position were surely done.
    since: Option<Arc<Applied>>,
    /// What was read on the primary for the statement's own sake, in a transaction or with locks.
    seen: Seen,
    /// Something was written past the binary log (`sql_log_bin = 0`): it stays on its server for good.
    unlogged: bool,
    /// In a Galera group: where and when it has last written, or read for the statement's own sake. Another member has it
    /// when it has shown, asked after that, that it has all that was written anywhere.
    in_group: Option<Untold>,
}

/// A write of which no position was told.
#[derive(Clone, Copy, Debug)]
struct Untold {
    server: ServerId,
    /// When its reply was over.
    at: Instant,
}

/// What a session knows to exist although it may have been written by others.
#[derive(Clone, Debug, Default)]
enum Seen {
    /// Nothing, or no more than what its own writes come behind.
    #[default]
    Nothing,
    /// Whatever the server had at this moment; it has not told its position since.
    At(ServerId, Instant),
    /// What a server told after that moment.
    Within(Arc<Applied>),
}

impl OwnWrites {
    /// A server told the position of a write.
    pub fn tell(&mut self, written: Written) {
        self.tell_of_many(written, WRITTEN_MAX);
        // A commit comes behind all that its session could read before it.
        self.seen = Seen::Nothing;
    }

    /// A server told the position of a write of one of many sessions; of each MySQL server so many intervals are kept.
    pub fn tell_of_many(&mut self, written: Written, intervals_max: usize) {
        match &mut self.told {
            Some(told) => told.add(written, intervals_max),
            None => self.told = Some(written),
        }
    }

    /// The session has read on the primary, in a transaction or with locks.
    pub fn saw(&mut self, server: ServerId, at: Instant) {
        self.seen = Seen::At(server, at);
    }

    /// Something may have been written, and no position was told.
    pub fn wrote_untold(&mut self, server: ServerId, at: Instant) {
        self.untold = Some(Untold { server, at });
    }

    /// Something may have been written, or was read for the statement's own sake, in a Galera group.
    pub fn was_in_group(&mut self, server: ServerId, at: Instant) {
        // Of several sessions the last one counts, however late it is noted.
        if self.in_group.is_none_or(|last| last.at <= at) {
            self.in_group = Some(Untold { server, at });
        }
    }

    /// Where it was last in its Galera group.
    pub fn member(&self) -> Option<ServerId> {
        self.in_group.map(|last| last.server)
    }

    /// Something was written past the binary log.
    pub fn wrote_unlogged(&mut self) {
        self.unlogged = true;
    }

    /// Something was written past the binary log: only its server will ever have it.
    pub fn is_unlogged(&self) -> bool {
        self.unlogged
    }

    /// There is a write, or a read, whose position is not known yet.
    pub fn awaits_position(&self) -> bool {
        self.untold.is_some() || matches!(self.seen, Seen::At(..))
    }

    /// Replaces a write without a position by its server's own, once that was asked for behind the write. On a server that
    /// tells no positions of writes only time helps: the write is forgotten after `window`.
    pub fn settle(&mut self, view: &View, positions: &Positions, window: Duration, now: Instant) {
        self.settle_seen(positions);
        let Some(untold) = self.untold else { return };
        // Its server may be gone: whatever was saved of the write is on the primary then.
        let lives = |server: ServerId| view.server(server).is_some_and(|known| known.health.answers());
        let server = if lives(untold.server) { untold.server } else { view.primary.unwrap_or(untold.server) };
        let Some(position) = positions.of(server).filter(|position| position.tells_writes) else {
            if now.saturating_duration_since(untold.at) >= window {
                self.untold = None;
            }
            return;
        };
        if position.asked > untold.at {
            self.since = Some(position.applied.clone());
            self.untold = None;
        }
    }

    /// Replaces the moment of a read by the first position that its server told when asked after it. What a server without
    /// positions has shown cannot be compared.
    fn settle_seen(&mut self, positions: &Positions) {
        let Seen::At(server, at) = self.seen else { return };
        match positions.of(server) {
            Some(position) if position.asked <= at => {}
            Some(position) => self.seen = Seen::Within(position.applied.clone()),
            None => self.seen = Seen::Nothing,
        }
    }

    /// Whether a server has all that the session has read on the primary.
    fn reads_are_on(&self, applied: Option<&Applied>) -> bool {
        match &self.seen {
            Seen::Nothing => true,
            Seen::At(..) => false,
            Seen::Within(seen) => applied.is_some_and(|applied| applied.is_not_before(seen)),
        }
    }

    /// Whether a server has all of it but for writes whose positions are known, for which it can be asked to wait.
    fn lacks_told_at_most(&self, applied: &Applied) -> bool {
        self.in_group.is_none()
            && !self.unlogged
            && self.untold.is_none()
            && self.since.as_ref().is_none_or(|since| applied.has_all_written_on(since))
    }

    fn are_on(&self, applied: Option<&Applied>) -> bool {
        // What is written in a group is told by no position.
        let Some(applied) = applied.filter(|applied| **applied != Applied::Group) else {
            return self.told.is_none() && self.untold.is_none() && self.since.is_none() && !self.unlogged;
        };
        !self.unlogged
            && self.untold.is_none()
            && self.told.as_ref().is_none_or(|told| applied.has(told))
            && self.since.as_ref().is_none_or(|since| applied.has_all_written_on(since))
    }
}

/// Writes that workers share. Reading them counts nothing that other workers count, too.
pub type SharedWrites = Guard<Arc<OwnWrites>>;

/// What a session's next read must find.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    /// What the session has written.
    pub own: Option<&'a OwnWrites>,
    /// What all sessions have written, as far as the read must see that.
    pub all: &'a [SharedWrites],
    /// Where it has read last.
    pub before: Option<ServerId>,
    /// What servers told last.
    pub positions: &'a Positions,
}

impl Needs<'_> {
    /// Why this replica must not serve the read; `None` if it may.
    pub fn lacking(&self, server: ServerId) -> Option<Reason> {
        let has_shown = |last: Untold| self.positions.of(server).is_some_and(|position| position.asked > last.at);
        if let Some(last) = self.own.and_then(|own| own.in_group)
            && last.server != server
            && !has_shown(last)
        {
            return Some(Reason::OwnWrite);
        }
        // Of the writes of all only the last one's member is known, and others may have written elsewhere.
        if self.all.iter().filter_map(|all| all.in_group).any(|last| !has_shown(last)) {
            return Some(Reason::ClusterWrite);
        }
        let applied = || self.positions.of(server).map(|position| &*position.applied);
        if self.own.is_some_and(|own| !own.are_on(applied())) {
            return Some(Reason::OwnWrite);
        }
        if self.all.iter().any(|all| !all.are_on(applied())) {
            return Some(Reason::ClusterWrite);
        }
        if self.own.is_some_and(|own| !own.reads_are_on(applied())) {
            return Some(Reason::EarlierRead);
        }
        match self.before {
            Some(before) if before != server && self.positions.is_behind(server, before) => Some(Reason::EarlierRead),
            _ => None,
        }
    }

    /// What this replica must apply to serve the read, as its function for waiting takes it. `None` if it lacks something for
    /// which it cannot be asked to wait, or nothing.
    pub fn awaited(&self, server: ServerId) -> Option<String> {
        let applied = &*self.positions.of(server)?.applied;
        let written = || self.own.into_iter().chain(self.all.iter().map(|all| &***all));
        let goes_back = self.own.is_some_and(|own| !own.reads_are_on(Some(applied)))
            || self.before.is_some_and(|before| before != server && self.positions.is_behind(server, before));
        if goes_back || !written().all(|written| written.lacks_told_at_most(applied)) {
            return None;
        }
        applied.awaits(written().filter_map(|written| written.told.as_ref())).filter(|text| text.len() <= AWAITED_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::gtid::mariadb::Gtids;
    use cluster::view::{Health, Role, ServerView};

    const PRIMARY: ServerId = ServerId(0);
    const REPLICA: ServerId = ServerId(1);
    const OTHER: ServerId = ServerId(2);
    const WINDOW: Duration = Duration::from_secs(5);

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn told(server: ServerId, sequence: u64, logs: bool) -> Option<(Applied, bool)> {
        let all = Gtids::parse(&format!("0-1-{sequence}")).unwrap();
        let replicated = if server == PRIMARY { Gtids::default() } else { all.clone() };
        Some((Applied::MariaDb { server: u32::from(server.0) + 1, replicated, current: all }, logs))
    }

    fn view(primary: Health) -> View {
        let server = |id: ServerId, role, health| ServerView {
            id,
            name: format!("db{}", id.0).into(),
            address: "".into(),
            resolved: None,
            role,
            health,
            lag: None,
            serves_reads: true,
            fenced: false,
            weight: 100,
            zone: "".into(),
            reason: "".into(),
        };
        let servers =
            [server(PRIMARY, Role::Primary, primary), server(REPLICA, Role::Replica, Health::Up)].into_iter().collect();
        View { primary: Some(PRIMARY), servers, ..View::empty("main") }
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
            self.positions = self.positions.with(server, told(server, sequence, true), self.at(at_ms));
        }

        fn wrote(&mut self, sequence: u64) {
            self.own.tell(Written::parse(true, &format!("0-1-{sequence}")).unwrap());
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
        assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite), "it has told nothing yet");
        case.tell(0, REPLICA, 6);
        assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite));
        case.tell(1, REPLICA, 7);
        assert_eq!(case.lacking(REPLICA), None);
        case.tell(2, REPLICA, 5);
        assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite), "it was rebuilt from an older copy");
    }

    #[test]
    fn a_replica_can_be_asked_to_wait_for_what_positions_tell() {
        let mut case = Case::new();
        let awaited = |case: &Case, all: &[SharedWrites]| {
            let (own, positions) = (Some(&case.own), &case.positions);
            Needs { own, all, before: case.before, positions }.awaited(REPLICA)
        };
        case.wrote(7);
        assert_eq!(awaited(&case, &[]), None, "it has told nothing yet");
        case.tell(0, REPLICA, 6);
        assert_eq!(awaited(&case, &[]).as_deref(), Some("0-1-7"));
        let others = arc_swap::ArcSwap::from_pointee(OwnWrites::default());
        let mut later = OwnWrites::default();
        later.tell(Written::parse(true, "0-1-9").unwrap());
        others.store(Arc::new(later));
        assert_eq!(awaited(&case, &[others.load()]).as_deref(), Some("0-1-9"), "all are behind the last one");
        case.tell(1, REPLICA, 7);
        assert_eq!(awaited(&case, &[]), None, "it has it");
        // What no position tells, and what was read, cannot be asked for.
        case.wrote(8);
        let at = case.at(2);
        case.own.wrote_untold(PRIMARY, at);
        assert_eq!(awaited(&case, &[]), None);
        case.own.untold = None;
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
        case.own.wrote_untold(PRIMARY, written);
        case.settle(10_000, &view);
        assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite), "time alone does not help");
        case.tell(20, PRIMARY, 6);
        case.settle(20, &view);
        assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite));
        case.tell(30, REPLICA, 6);
        assert_eq!(case.lacking(REPLICA), None);
        // A write while the primary is being asked is not in the answer.
        let written = case.at(41);
        case.own.wrote_untold(PRIMARY, written);
        case.tell(40, PRIMARY, 6);
        case.settle(50, &view);
        assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite));
    }

    #[test]
    fn without_gtids_the_primary_serves_for_a_while() {
        let (mut case, view) = (Case::new(), view(Health::Up));
        let written = case.at(0);
        case.own.wrote_untold(PRIMARY, written);
        case.settle(4_999, &view);
        assert_eq!(case.lacking(REPLICA), Some(Reason::OwnWrite));
        case.settle(5_000, &view);
        assert_eq!(case.lacking(REPLICA), None);
        // Without a binary log there are positions of what came from elsewhere, but none of writes.
        let asked = case.at(6_000);
        case.positions = case.positions.with(PRIMARY, told(PRIMARY, 9, false), asked);
        let written = case.at(5_500);
        case.own.wrote_untold(PRIMARY, written);
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
        case.own.wrote_untold(OTHER, written);
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
}
