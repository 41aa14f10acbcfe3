//! The applied position of each server, by its last report: the snapshot by which reads that need a write find a server.
//!
//! It is apart from the view, for it changes many times a second while sessions need it, and no task has to be woken.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::gtid::Applied;
use crate::view::ServerId;

/// A server is compared with another one's report of at least this long before: of two that are asked at the same time, the
/// replica is always a little behind.
pub const APART: Duration = Duration::from_millis(20);

/// The most that is remembered of one server, should it be asked more often than expected.
const HISTORY_MAX: usize = 8;

/// The last position of one server.
#[derive(Clone, Debug)]
pub struct Position {
    /// The transactions that it has applied.
    pub applied: Arc<Applied>,
    /// It tells the position of each write: its binary log is on, and on MySQL GTIDs are.
    pub tells_writes: bool,
    /// When it was asked: it has at least this since then.
    pub asked: Instant,
    /// The positions before, the oldest first: back to the last that is [`APART`] older than this.
    before: Vec<(Arc<Applied>, Instant)>,
    /// Servers whose reads would go back in time if they went on here.
    behind: Vec<ServerId>,
}

impl Position {
    /// Its last report to a question before `at`.
    fn as_of(&self, at: Instant) -> Option<&Applied> {
        if self.asked <= at {
            return Some(&self.applied);
        }
        self.before.iter().rev().find(|(_, asked)| *asked <= at).map(|(applied, _)| &**applied)
    }
    /// The positions to remember after a new report.
    fn history(&self, asked: Instant) -> Vec<(Arc<Applied>, Instant)> {
        let mut before = self.before.clone();
        before.push((self.applied.clone(), self.asked));
        let enough = |(_, at): &(Arc<Applied>, Instant)| asked.saturating_duration_since(*at) >= APART;
        let needless = before.iter().rposition(enough).unwrap_or(0).max(before.len().saturating_sub(HISTORY_MAX));
        before.drain(..needless);
        before
    }
}

/// The last positions of all servers.
#[derive(Clone, Debug, Default)]
pub struct Positions {
    /// By [`ServerId`].
    servers: Vec<Option<Arc<Position>>>,
}

impl Positions {
    /// The last position of this server; `None` while it reported nothing that can be compared.
    pub fn of(&self, server: ServerId) -> Option<&Position> {
        self.servers.get(usize::from(server.0))?.as_deref()
    }

    /// Whether reads that move to `server` from another one would go back in time, as far as both have reported. A server that
    /// reports nothing, or had reported nothing yet, is not compared.
    pub fn is_behind(&self, server: ServerId, other: ServerId) -> bool {
        self.of(server).is_some_and(|here| here.behind.contains(&other))
    }

    /// These positions with a server's report to the question at `asked`; `None` is that it has no position. The newest
    /// word counts, also when it is behind an older one: the server may have been rebuilt.
    pub fn with(&self, server: ServerId, reported: Option<(Applied, bool)>, asked: Instant) -> Positions {
        let mut positions = self.clone();
        let index = usize::from(server.0);
        let old = positions.servers.get(index).cloned().flatten();
        if old.as_ref().is_some_and(|old| old.asked > asked) {
            return positions;
        }
        if positions.servers.len() <= index {
            positions.servers.resize(index + 1, None);
        }
        positions.servers[index] = reported.map(|(applied, tells_writes)| {
            let applied = match &old {
                Some(old) if *old.applied == applied => old.applied.clone(),
                _ => Arc::new(applied),
            };
            let others = self.servers.iter().enumerate().filter(|(other, _)| *other != index);
            let behind = others.filter_map(|(other, known)| {
                let then = known.as_ref()?.as_of(asked.checked_sub(APART)?)?;
                let id = ServerId(u16::try_from(other).ok()?);
                (!applied.is_not_before(then)).then_some(id)
            });
            let behind = behind.collect();
            let before = old.map(|old| old.history(asked)).unwrap_or_default();
            Arc::new(Position { applied, tells_writes, asked, before, behind })
        });
        positions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gtid::mariadb::Gtids;

    const PRIMARY: ServerId = ServerId(0);
    const REPLICA: ServerId = ServerId(1);

    fn reported(server: ServerId, sequence: u64) -> Option<(Applied, bool)> {
        let gtids = |text: String| Gtids::parse(&text).unwrap();
        let all = gtids(format!("0-1-{sequence}"));
        let replicated = if server == PRIMARY { Gtids::default() } else { all.clone() };
        Some((Applied::MariaDb { server: u32::from(server.0) + 1, replicated, current: all }, true))
    }

    struct Board {
        start: Instant,
        positions: Positions,
    }

    impl Board {
        fn new() -> Board {
            Board { start: Instant::now(), positions: Positions::default() }
        }

        fn tell(&mut self, at_ms: u64, server: ServerId, sequence: u64) -> bool {
            let asked = self.start + Duration::from_millis(1_000 + at_ms);
            self.positions = self.positions.with(server, reported(server, sequence), asked);
            !self.positions.is_behind(REPLICA, PRIMARY)
        }
    }

    #[test]
    fn a_replica_is_compared_with_what_the_primary_reported_a_little_before() {
        let mut board = Board::new();
        board.tell(0, PRIMARY, 10);
        assert!(!board.tell(30, REPLICA, 9));
        assert!(board.tell(40, REPLICA, 10));
        board.tell(50, PRIMARY, 20);
        assert!(board.tell(51, REPLICA, 11), "what the primary told just now is not there yet");
        assert!(!board.tell(71, REPLICA, 19));
        assert!(board.tell(72, REPLICA, 20));
    }

    #[test]
    fn who_is_asked_often_is_remembered_long_enough() {
        let mut board = Board::new();
        for at in 0..50 {
            board.tell(at * 10, PRIMARY, 100 + at);
        }
        assert!(!board.tell(495, REPLICA, 146) && board.tell(495, REPLICA, 147), "the primary told 147 at 470 ms");
        assert!(board.positions.of(PRIMARY).unwrap().before.len() <= 3);
    }

    #[test]
    fn the_newest_word_counts_although_it_is_a_step_back() {
        let mut board = Board::new();
        board.tell(0, PRIMARY, 10);
        assert!(board.tell(30, REPLICA, 10));
        assert!(!board.tell(40, REPLICA, 3), "rebuilt");
        assert!(!board.tell(35, REPLICA, 10), "an answer that was overtaken");
        let asked = board.start + Duration::from_millis(1_090);
        board.positions = board.positions.with(REPLICA, None, asked);
        assert!(board.positions.of(REPLICA).is_none());
        assert!(!board.positions.is_behind(REPLICA, PRIMARY), "who tells nothing is not compared");
    }
}
