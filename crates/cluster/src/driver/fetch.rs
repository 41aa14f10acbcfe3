//! No server that may be promoted has all the data, and one that may not has it: the new primary first replicates from that one.
//!
//! Otherwise a replica that must not become the primary, and was the one to acknowledge the last writes, would keep the cluster
//! without a primary until somebody comes.

use std::sync::Arc;
use std::time::Instant;

use facts::view::ServerId;

use super::Driver;
use super::failover::FailoverStage;
use super::run::{Next, Run};
use crate::journal::EntryKind;
use crate::step::{ErrorKind, Step};

/// How often the new primary is ordered once more to follow the server that has the data, when the order took too long.
const AGAIN_MAX: u32 = 3;

impl Driver {
    /// The server that has the data applies it, so that it is in its binary log.
    pub(super) fn feed(&mut self, mut run: Run, from: ServerId) -> Next<FailoverStage> {
        let new = run.new?;
        let words = format!("{} gets what it lacks from {}", self.name_of(new), self.name_of(from));
        self.note(run.id, EntryKind::Decision, Some(self.name_of(new)), words);
        let history = self.index(from).and_then(|index| self.servers[index].history.as_ref());
        let position = history.filter(|history| !history.is_drained()).map(|history| history.received().into());
        run.todo = position.into_iter().map(|position| Step::WaitApplied { server: from, position }).collect();
        run.todo.push(Step::ReadFacts { server: from });
        Some(run.enter(FailoverStage::Feed))
    }

    pub(super) fn after_feed(&mut self, now: Instant, mut run: Run) -> Next<FailoverStage> {
        let (new, from) = (run.new?, run.from?);
        let facts = run.facts();
        let position: Option<Arc<str>> =
            facts.iter().find(|(id, _)| *id == from).map(|(_, facts)| facts.gtid_executed.clone());
        let (None, Some(position)) = (run.first_error(), position) else {
            return self.not_fetched(now, run);
        };
        run.position = position;
        run.todo = vec![Step::Follow { server: new, source: from }];
        Some(run.enter(FailoverStage::Turn))
    }

    /// MySQL's receiver may take seconds to stop while its source is dead, longer than a step may. The stop goes on, and the next
    /// try finds it done.
    pub(super) fn after_turn(&mut self, now: Instant, mut run: Run) -> Next<FailoverStage> {
        let (new, from) = (run.new?, run.from?);
        match run.first_error().map(|(_, error)| error.kind) {
            Some(ErrorKind::Timeout) if run.again < AGAIN_MAX => {
                run.again += 1;
                run.todo = vec![Step::Follow { server: new, source: from }];
                return Some(run.enter(FailoverStage::Turn));
            }
            Some(_) => return self.not_fetched(now, run),
            None => {}
        }
        run.again = 0;
        run.todo = vec![Step::WaitApplied { server: new, position: run.position.clone() }];
        Some(run.enter(FailoverStage::Fetch))
    }

    /// Everything is looked at anew: others may lack something too, or have more.
    pub(super) fn after_fetch(&mut self, now: Instant, mut run: Run) -> Next<FailoverStage> {
        if run.first_error().is_some() {
            return self.not_fetched(now, run);
        }
        run.fetched.extend(run.new);
        let others = run.with.iter().filter(|id| Some(**id) != run.old);
        run.todo = others.map(|server| Step::ReadFacts { server: *server }).collect();
        Some(run.enter(FailoverStage::Recheck))
    }

    fn not_fetched(&mut self, now: Instant, mut run: Run) -> Next<FailoverStage> {
        let (new, from) = (run.new?, run.from?);
        let error = run.first_error().map_or_else(|| "it reported nothing".to_owned(), |(_, error)| error.to_string());
        run.failed.push((new, format!("it could not get what it lacks from {}: {error}", self.name_of(from))));
        run.ended.clear();
        run.again = 0;
        self.drain(now, run)
    }
}
