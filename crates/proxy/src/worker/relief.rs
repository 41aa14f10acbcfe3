//! The relief of a worker while it is under way: first it measures its sessions, then some of them move.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use foldhash::fast::RandomState;
use tokio::sync::Notify;

/// The relief of a worker. Most of the time there is none.
#[derive(Debug, Default)]
pub struct WorkerRelief {
    step: RefCell<Option<Step>>,
    /// No session is waited for any more.
    over: Notify,
}

#[derive(Debug)]
enum Step {
    /// The time that each session has taken, in nanoseconds.
    Measures(HashMap<u32, u64, RandomState>),
    /// These sessions move.
    Moves(Moves),
}

#[derive(Debug)]
struct Moves {
    /// The worker that gets them.
    to: usize,
    /// Those that are still here.
    sessions: HashSet<u32, RandomState>,
    /// How many have moved.
    moved: usize,
}

impl WorkerRelief {
    /// Whether one is under way.
    pub fn is_on(&self) -> bool {
        self.step.borrow().is_some()
    }

    /// From now on the time of each session is measured.
    pub fn measure(&self) {
        *self.step.borrow_mut() = Some(Step::Measures(HashMap::default()));
    }

    /// The time that each session has taken since, in nanoseconds. Nothing is measured any more.
    pub fn measured(&self) -> Vec<(u32, u64)> {
        match self.step.take() {
            Some(Step::Measures(costs)) => costs.into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// A session's turn begins: the moment, if it is measured.
    #[cold]
    pub fn begin_turn(&self) -> Option<Instant> {
        matches!(*self.step.borrow(), Some(Step::Measures(_))).then(Instant::now)
    }

    /// A session's turn is over.
    #[cold]
    pub fn end_turn(&self, session: u32, begun: Instant) {
        if let Some(Step::Measures(costs)) = &mut *self.step.borrow_mut() {
            *costs.entry(session).or_insert(0) += u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        }
    }

    /// These sessions move to this worker, as soon as they can.
    pub fn move_to(&self, to: usize, sessions: &[u32]) {
        *self.step.borrow_mut() =
            Some(Step::Moves(Moves { to, sessions: sessions.iter().copied().collect(), moved: 0 }));
    }

    /// The worker that this session moves to, if it does.
    pub fn target_of(&self, session: u32) -> Option<usize> {
        match &*self.step.borrow() {
            Some(Step::Moves(moves)) if moves.sessions.contains(&session) => Some(moves.to),
            _ => None,
        }
    }

    /// This session is not waited for any more: it moves now, or it stays or is over.
    pub fn settle(&self, session: u32, moves: bool) {
        if let Some(Step::Moves(all)) = &mut *self.step.borrow_mut()
            && all.sessions.remove(&session)
        {
            all.moved += usize::from(moves);
            if all.sessions.is_empty() {
                self.over.notify_one();
            }
        }
    }

    /// Waits until all have moved, at most this long. Then it is over. Gives how many have.
    pub async fn wait(&self, limit: Duration) -> usize {
        let all_are_gone = async {
            while matches!(&*self.step.borrow(), Some(Step::Moves(all)) if !all.sessions.is_empty()) {
                self.over.notified().await;
            }
        };
        // Sessions in a transaction, or that wait for a server, stay.
        let _ = tokio::time::timeout(limit, all_are_gone).await;
        match self.step.take() {
            Some(Step::Moves(all)) => all.moved,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sessions_are_measured_and_move_once() {
        let relief = WorkerRelief::default();
        assert!(!relief.is_on() && relief.begin_turn().is_none() && relief.target_of(1).is_none());
        relief.measure();
        for session in [1, 2, 1] {
            let begun = relief.begin_turn().unwrap();
            relief.end_turn(session, begun.checked_sub(Duration::from_millis(5)).unwrap());
        }
        let costs: HashMap<u32, u64> = relief.measured().into_iter().collect();
        assert!(costs.len() == 2 && costs[&1] >= 10_000_000 && costs[&2] >= 5_000_000, "{costs:?}");
        relief.move_to(7, &[1, 2]);
        assert_eq!((relief.target_of(1), relief.target_of(3)), (Some(7), None));
        relief.settle(1, true);
        assert_eq!((relief.target_of(1), relief.target_of(2)), (None, Some(7)));
        assert_eq!(relief.wait(Duration::ZERO).await, 1);
        assert!(!relief.is_on() && relief.target_of(2).is_none(), "it was waited for no longer");
        relief.move_to(7, &[4]);
        relief.settle(4, false);
        assert_eq!(relief.wait(Duration::from_secs(60)).await, 0);
        assert!(!relief.is_on());
    }
}
