//! Which replicas may serve a session's reads: those that are known to have what the session has written, and that do not
//! take it back behind what it has read.
//!
//! The rule is a pure function of what the session did and of the servers' last reports, so every case is a test.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::Guard;
use facts::gtid::mysql::WRITTEN_MAX;
use facts::gtid::{Applied, WrittenGtids};
use facts::positions::Positions;
use facts::view::{ServerId, View};

use super::reason::Reason;

/// The longest list of positions that a server is asked to wait for, in bytes.
const AWAITED_MAX: usize = 4096;

/// When the primary has moved, writes on the former one may be reported after writes on the new one: by other sessions, or by a
/// connection that reports late. For so long both count.
const LATE_MAX: Duration = Duration::from_secs(60);

/// The writes of a session, as far as servers reported them.
#[derive(Clone, Debug, Default)]
pub struct OwnWrites {
    /// Positions that servers reported with the replies to writes.
    reported: Option<WrittenGtids>,
    /// Positions with higher numbers than the last one, which another server reported, and since when they are. Either that
    /// server's writes are lost, or the last one was reported late.
    overtaken: Option<(WrittenGtids, Instant)>,
    /// On each server: the last write without a reported position, which no server's position is known to cover yet.
    unreported: Vec<Unreported>,
    /// Where servers were when writes without a position were surely done.
    since: Vec<Since>,
    /// The reads on the primary for the statement's own sake, in a transaction or with locks.
    seen: Seen,
    /// Something was written past the binary log (`sql_log_bin = 0`): it stays on its server for good.
    unlogged: bool,
    /// In a Galera group: where and when it has last written, or read for the statement's own sake. Another member has it
    /// when it has shown, asked after that, that it has all that was written anywhere.
    in_group: Option<Unreported>,
    /// The last time on any other member than that one, which itself need not have it: it may have become the writer since.
    elsewhere: Option<Instant>,
}

/// A write without a reported position.
#[derive(Clone, Copy, Debug)]
struct Unreported {
    server: ServerId,
    /// When its reply was over.
    at: Instant,
}

/// The position that a server reported after writes without one.
#[derive(Clone, Debug)]
struct Since {
    server: ServerId,
    applied: Arc<Applied>,
    /// When that was known.
    at: Instant,
}

/// The data that a session has seen, although others may have written it.
#[derive(Clone, Debug, Default)]
enum Seen {
    /// Nothing, or no more than what its own writes come behind.
    #[default]
    Nothing,
    /// All that the server had at this moment; it has not reported its position since.
    At(ServerId, Instant),
    /// The position that a server reported after that moment.
    Within(Arc<Applied>),
}

impl OwnWrites {
    /// A server reported the position of a write. The time is asked for only after a change of the primary.
    pub fn tell(&mut self, written: WrittenGtids, now: impl Fn() -> Instant) {
        self.tell_of_many(written, WRITTEN_MAX, now);
        // A commit comes behind all that its session could read before it.
        self.seen = Seen::Nothing;
    }

    /// A server reported the position of a write of one of many sessions; of each MySQL server so many intervals are kept.
    pub fn tell_of_many(&mut self, written: WrittenGtids, intervals_max: usize, now: impl Fn() -> Instant) {
        let Some(reported) = &mut self.reported else {
            self.reported = Some(written);
            return;
        };
        match (reported.add(written, intervals_max), &mut self.overtaken) {
            (Some(higher), Some((words, since))) => {
                words.add_highest(higher);
                *since = now();
            }
            (Some(higher), none) => *none = Some((higher, now())),
            (None, words) => _ = words.take_if(|(_, since)| now().saturating_duration_since(*since) >= LATE_MAX),
        }
    }

    /// All reported positions.
    fn all_reported(&self) -> impl Iterator<Item = &WrittenGtids> {
        self.reported.iter().chain(self.overtaken.as_ref().map(|(words, _)| words))
    }

    /// The session has read on the primary, in a transaction or with locks.
    pub fn saw(&mut self, server: ServerId, at: Instant) {
        self.seen = Seen::At(server, at);
    }

    /// There may be a write without a reported position.
    pub fn wrote_unreported(&mut self, server: ServerId, at: Instant) {
        match self.unreported.iter_mut().find(|unreported| unreported.server == server) {
            Some(unreported) => unreported.at = unreported.at.max(at),
            None => self.unreported.push(Unreported { server, at }),
        }
    }

    /// Something may have been written, or was read for the statement's own sake, in a Galera group.
    pub fn was_in_group(&mut self, server: ServerId, at: Instant) {
        // Of several sessions the last one counts, however late it is noted.
        let before = match self.in_group {
            Some(last) if last.at > at => (last.server != server).then_some(at),
            last => {
                self.in_group = Some(Unreported { server, at });
                last.filter(|last| last.server != server).map(|last| last.at)
            }
        };
        self.elsewhere = self.elsewhere.max(before);
    }

    /// Anything may have been written anywhere in a Galera group until this moment.
    pub fn was_all_over_group(&mut self, server: ServerId, at: Instant) {
        self.was_in_group(server, at);
        self.elsewhere = self.elsewhere.max(Some(at));
    }

    /// Whether a member lacks some of it, as far as it has shown that it has all that was written until `shown`.
    fn may_lack_in_group(&self, server: ServerId, shown: Option<Instant>) -> bool {
        let Some(last) = self.in_group else { return false };
        let until = if last.server == server { self.elsewhere } else { Some(last.at) };
        until.is_some_and(|until| shown.is_none_or(|shown| shown <= until))
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
        !self.unreported.is_empty() || matches!(self.seen, Seen::At(..))
    }

    /// Replaces a write without a position by its server's own, once that was asked for behind the write. On a server that
    /// tells no positions of writes only time helps: the write is forgotten after `window`.
    pub fn settle(&mut self, view: &View, positions: &Positions, window: Duration, now: Instant) {
        self.settle_seen(positions);
        let mut unreported = std::mem::take(&mut self.unreported);
        unreported.retain(|unreported| !self.settle_unreported(*unreported, view, positions, (window, now)));
        self.unreported = unreported;
    }

    /// Whether this write has been covered, or was forgotten.
    fn settle_unreported(
        &mut self,
        unreported: Unreported,
        view: &View,
        positions: &Positions,
        (window, now): (Duration, Instant),
    ) -> bool {
        // Its server may be gone: whatever was saved of the write is on the primary then.
        let lives = |server: ServerId| view.server(server).is_some_and(|known| known.health.answers());
        let server =
            if lives(unreported.server) { unreported.server } else { view.primary.unwrap_or(unreported.server) };
        let Some(position) = positions.of(server).filter(|position| position.tells_writes) else {
            return now.saturating_duration_since(unreported.at) >= window;
        };
        let covers = position.asked > unreported.at;
        if covers {
            self.since.retain(|since| since.server != server && now.saturating_duration_since(since.at) < LATE_MAX);
            self.since.push(Since { server, applied: position.applied.clone(), at: now });
        }
        covers
    }

    /// Replaces the moment of a read by the first position that its server reported when asked after it. Reads of a server without
    /// positions cannot be compared.
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
    fn lacks_reported_at_most(&self, applied: &Applied) -> bool {
        self.in_group.is_none() && !self.unlogged && self.unreported.is_empty() && self.has_all_since(applied)
    }

    /// Whether a server has all writes without a position.
    fn has_all_since(&self, applied: &Applied) -> bool {
        self.since.iter().all(|since| applied.has_all_written_on(&since.applied))
    }

    fn are_on(&self, applied: Option<&Applied>) -> bool {
        // Servers report no position for a write in a group.
        let Some(applied) = applied.filter(|applied| **applied != Applied::Group) else {
            return self.reported.is_none() && self.unreported.is_empty() && self.since.is_empty() && !self.unlogged;
        };
        !self.unlogged
            && self.unreported.is_empty()
            && self.all_reported().all(|reported| applied.has(reported))
            && self.has_all_since(applied)
    }
}

/// Writes that workers share. Reading them counts nothing that other workers count, too.
pub type SharedWrites = Guard<Arc<OwnWrites>>;

/// The data that a session's next read must find.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    /// The session's own writes.
    pub own: Option<&'a OwnWrites>,
    /// The writes of all sessions, as far as the read must see them.
    pub all: &'a [SharedWrites],
    /// Where it has read last.
    pub before: Option<ServerId>,
    /// The positions that servers reported last.
    pub positions: &'a Positions,
}

impl Needs<'_> {
    /// Why this replica must not serve the read; `None` if it may.
    pub fn lacking(&self, server: ServerId) -> Option<Reason> {
        let shown = || self.positions.of(server).map(|position| position.asked);
        let may_lack = |written: &OwnWrites| written.in_group.is_some() && written.may_lack_in_group(server, shown());
        if self.own.is_some_and(may_lack) {
            return Some(Reason::OwnWrite);
        }
        if self.all.iter().any(|all| may_lack(all)) {
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

    /// The positions that this replica must apply to serve the read, as its function for waiting takes them. `None` if it
    /// lacks something for which it cannot be asked to wait, or nothing.
    pub fn awaited(&self, server: ServerId) -> Option<String> {
        let applied = &*self.positions.of(server)?.applied;
        let written = || self.own.into_iter().chain(self.all.iter().map(|all| &***all));
        let goes_back = self.own.is_some_and(|own| !own.reads_are_on(Some(applied)))
            || self.before.is_some_and(|before| before != server && self.positions.is_behind(server, before));
        if goes_back || !written().all(|written| written.lacks_reported_at_most(applied)) {
            return None;
        }
        applied.awaits(written().flat_map(OwnWrites::all_reported)).filter(|text| text.len() <= AWAITED_MAX)
    }
}

#[cfg(test)]
mod tests;
