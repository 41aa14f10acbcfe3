//! The stages of a failover, and of making a read-only root of the replicas the primary again.
//!
//! lease → look (nothing is done on old news) → hook → fence → recheck (nothing moves any more) → drain → promote → repoint →
//! hook. When what the new primary lacks is on a server that may not be promoted, it is fetched (`fetch.rs`) before the drain. Up to the promotion it can be given up at any point: receivers that it stopped are started again by repairs.

use std::time::Instant;

use facts::view::{Health, ServerId};

use super::Driver;
use super::promotion::{NotPromoted, PromotionStage};
use super::run::{LEASE_MARGIN, Next, Run, RunKind};
use crate::step::{Hook, Step};

/// The stages of a failover. A restoration goes from the look to the drain: it fences no server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailoverStage {
    /// The lease is taken.
    Lease,
    /// All servers are asked again.
    Look,
    HookBefore,
    /// The old primary is made read-only, its clients are cut, receivers are stopped.
    Fence,
    /// Facts are read again now that no step moves anything any more.
    Recheck,
    /// A server that may not be promoted applies what only it has received.
    Feed,
    /// The new primary becomes a replica of that server.
    Turn,
    /// The new primary gets what it lacks from there.
    Fetch,
    /// The new primary applies what it received.
    Drain,
    Promotion(PromotionStage),
}

impl Driver {
    /// A stage has ended: begins the next one, or ends the run.
    pub(super) fn failover_stage(&mut self, now: Instant, run: Run, ended: FailoverStage) -> Next<FailoverStage> {
        if ended != FailoverStage::Lease && !run.is_promoted() && !self.holds_lease(now, LEASE_MARGIN) {
            self.give_up(now, &run, false, "the lease is lost; nothing was promoted".into());
            return None;
        }
        match ended {
            FailoverStage::Lease => self.after_lease(now, run),
            FailoverStage::Look => self.after_look(now, run),
            FailoverStage::HookBefore => {
                if let Some((_, error)) = run.first_error() {
                    let text = format!("the hook forbids it: {error}");
                    self.give_up(now, &run, true, text);
                    return None;
                }
                Some(self.fence(run))
            }
            FailoverStage::Fence => self.after_fence(now, run),
            FailoverStage::Recheck => self.after_recheck(now, run),
            FailoverStage::Feed => self.after_feed(now, run),
            FailoverStage::Turn => self.after_turn(now, run),
            FailoverStage::Fetch => self.after_fetch(now, run),
            FailoverStage::Drain => self.after_drain(now, run),
            FailoverStage::Promotion(ended) => match self.promotion_stage(now, run, ended) {
                Ok(next) => next.map(|(run, stage)| (run, FailoverStage::Promotion(stage))),
                Err(NotPromoted { run, why }) => {
                    self.give_up(now, &run, true, why);
                    None
                }
            },
        }
    }

    fn after_lease(&mut self, now: Instant, mut run: Run) -> Next<FailoverStage> {
        if let Some((_, error)) = run.first_error() {
            let text = format!("the lease is not to be had: {error}");
            self.give_up(now, &run, false, text);
            return None;
        }
        // Whether one server has all that the others have shows only when it is asked after them.
        let last = run.old.filter(|_| run.kind != RunKind::Failover);
        let asked = self.servers.iter().filter(|server| {
            Some(server.id) != last
                && !server.resting()
                && (Some(server.id) == run.old || server.health.health() != Health::Down || server.answers())
        });
        run.todo = asked.map(|server| Step::ReadFacts { server: server.id }).collect();
        Some(run.enter(FailoverStage::Look))
    }

    fn after_look(&mut self, now: Instant, mut run: Run) -> Next<FailoverStage> {
        self.learn_errors(now, &run);
        run.with.extend(run.facts().into_iter().map(|(id, _)| id));
        if let Some(last) = run.old.filter(|_| run.kind != RunKind::Failover && run.again == 0) {
            run.again = 1;
            run.todo = vec![Step::ReadFacts { server: last }];
            return Some(run.enter(FailoverStage::Look));
        }
        run.again = 0;
        if let Err((counts, text)) = self.confirm(now, &mut run) {
            self.give_up(now, &run, counts, text);
            return None;
        }
        if self.settings.failover.hook_before {
            run.todo = vec![self.hook(&run, Hook::Before)];
            return Some(run.enter(FailoverStage::HookBefore));
        }
        Some(self.fence(run))
    }

    /// From here on the view has no primary and cuts the old one's sessions. Without the receivers the old primary gets no
    /// acknowledgement any more, wherever its clients are: with semi-sync that is a fence that needs no consent of the old primary.
    fn fence(&mut self, mut run: Run) -> (Run, FailoverStage) {
        if run.kind == RunKind::Restore {
            return run.enter(FailoverStage::Drain);
        }
        run.fenced = true;
        let old = run.old.filter(|old| run.with.contains(old));
        run.todo = old
            .into_iter()
            .flat_map(|server| {
                let end = Step::EndClients { server };
                [end.clone(), Step::SetReadOnly { server, on: true, cut: true }, end]
            })
            .collect();
        for id in run.with.clone() {
            let Some(index) = self.index(id).filter(|_| Some(id) != run.old) else { continue };
            // Those behind a replica that lives give the old primary no acknowledgement.
            let sources = &self.sources()[index];
            let behind = sources
                .iter()
                .any(|source| Some(self.servers[*source].id) != run.old && self.servers[*source].answers());
            if !sources.is_empty() && !behind {
                run.todo.push(Step::StopReceiver { server: id });
            }
        }
        run.enter(FailoverStage::Fence)
    }

    fn after_fence(&mut self, now: Instant, mut run: Run) -> Next<FailoverStage> {
        let mut unfenced = None;
        for (step, result) in &run.ended {
            if let Err(error) = result {
                match step {
                    Step::StopReceiver { server } => run.with.retain(|id| id != server),
                    Step::SetReadOnly { .. } if !run.force => unfenced = Some(error.to_string()),
                    _ => {}
                }
            }
        }
        if let Some(error) = unfenced {
            self.give_up(now, &run, true, format!("the old primary could not be made read-only: {error}"));
            return None;
        }
        let others = run.with.iter().filter(|id| Some(**id) != run.old);
        run.todo = others.map(|server| Step::ReadFacts { server: *server }).collect();
        Some(run.enter(FailoverStage::Recheck))
    }

    fn after_recheck(&mut self, now: Instant, mut run: Run) -> Next<FailoverStage> {
        self.learn_errors(now, &run);
        let read: Vec<ServerId> = run.facts().into_iter().map(|(id, _)| id).collect();
        let old = run.old;
        run.with.retain(|id| read.contains(id) || Some(*id) == old);
        self.drain(now, run)
    }

    pub(super) fn drain(&mut self, now: Instant, mut run: Run) -> Next<FailoverStage> {
        if let Err(text) = self.elect_new(now, &mut run) {
            self.give_up(now, &run, true, text);
            return None;
        }
        if let Some(from) = run.from {
            return self.feed(run, from);
        }
        let new = run.new.and_then(|id| self.index(id))?;
        if let Some(history) = self.servers[new].history.as_ref().filter(|history| !history.is_drained()) {
            let position = history.received().into();
            run.todo = vec![Step::WaitApplied { server: self.servers[new].id, position }];
        }
        Some(run.enter(FailoverStage::Drain))
    }

    fn after_drain(&mut self, now: Instant, mut run: Run) -> Next<FailoverStage> {
        let new = run.new?;
        if let Some((_, error)) = run.first_error() {
            run.failed.push((new, format!("it did not apply all that it received: {error}")));
            run.ended.clear();
            return self.drain(now, run);
        }
        run.todo = vec![Step::Promote { server: new, old: run.old.filter(|old| *old != new) }];
        // Its first write waits for one of them. Should the promotion fail they follow who has all that they have.
        if run.kind != RunKind::Restore && self.acts() {
            run.todo.extend(self.followers(&run));
        }
        Some(run.enter(FailoverStage::Promotion(PromotionStage::Promote)))
    }
}
