//! The stages of a switchover.
//!
//! lease → look → hook → hold and wait for running work → fence → recheck → drain → the old primary stood still → promote →
//! repoint → hook. Up to the promotion it is taken back when something fails: the old primary is made writable again.

use std::sync::Arc;
use std::time::Instant;

use facts::view::ServerId;

use super::Driver;
use super::promotion::{NotPromoted, PromotionStage};
use super::run::{LEASE_MARGIN, Next, Run};
use crate::journal::EntryKind;
use crate::step::{ErrorKind, Hook, Step};

/// How often the new primary waits for what the old one still wrote, and how often cutting clients is repeated.
const AGAIN_MAX: u32 = 3;

/// The stages of a switchover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SwitchoverStage {
    /// The lease is taken.
    Lease,
    /// All servers are asked again.
    Look,
    HookBefore,
    /// New writes are held, and running statements end.
    Idle,
    /// The old primary is made read-only, and its clients are cut.
    Fence,
    /// The position of the old primary is read now that no client writes.
    Recheck,
    /// The new primary applies what it received.
    Drain,
    /// Whether the old primary has stood still.
    Still,
    Promotion(PromotionStage),
    /// The switchover is taken back.
    Undo,
}

impl SwitchoverStage {
    /// The old primary is not, or may not be, as it was.
    fn has_fenced(self) -> bool {
        use SwitchoverStage::{Drain, Fence, Recheck, Still};
        matches!(self, Fence | Recheck | Drain | Still)
    }

    /// Without the lease nothing of this stage may go on.
    fn needs_lease(self) -> bool {
        match self {
            SwitchoverStage::Lease | SwitchoverStage::Undo => false,
            SwitchoverStage::Promotion(stage) => !stage.is_promoted(),
            _ => true,
        }
    }
}

impl Driver {
    /// A stage has ended: begins the next one, or ends the run.
    pub(super) fn switchover_stage(&mut self, now: Instant, run: Run, ended: SwitchoverStage) -> Next<SwitchoverStage> {
        if ended.needs_lease() && !self.holds_lease(now, LEASE_MARGIN) {
            let text = "the lease is lost; nothing was promoted".to_owned();
            if ended.has_fenced() {
                return self.undo(run, ended, text);
            }
            self.give_up(now, &run, false, text);
            return None;
        }
        match ended {
            SwitchoverStage::Lease => self.after_planned_lease(now, run),
            SwitchoverStage::Look => self.after_planned_look(now, run),
            SwitchoverStage::HookBefore => {
                if let Some((_, error)) = run.first_error() {
                    let text = format!("the hook forbids it: {error}");
                    self.give_up(now, &run, false, text);
                    return None;
                }
                Some(hold(run))
            }
            SwitchoverStage::Idle => self.after_idle(run),
            SwitchoverStage::Fence => self.after_planned_fence(run, ended),
            SwitchoverStage::Recheck => self.after_planned_recheck(run, ended),
            SwitchoverStage::Drain => self.after_planned_drain(run, ended),
            SwitchoverStage::Still => self.after_still(run, ended),
            SwitchoverStage::Promotion(stage) => match self.promotion_stage(now, run, stage) {
                Ok(next) => next.map(|(run, stage)| (run, SwitchoverStage::Promotion(stage))),
                Err(NotPromoted { run, why }) => self.undo(*run, ended, why),
            },
            SwitchoverStage::Undo => {
                self.after_undo(now, &run);
                None
            }
        }
    }

    fn after_planned_lease(&mut self, now: Instant, mut run: Run) -> Next<SwitchoverStage> {
        if let Some((_, error)) = run.first_error() {
            let text = format!("the lease is not to be had: {error}");
            self.give_up(now, &run, false, text);
            return None;
        }
        let asked = self.servers.iter().filter(|server| server.answers() && !server.resting());
        run.todo = asked.map(|server| Step::ReadFacts { server: server.id }).collect();
        Some(run.enter(SwitchoverStage::Look))
    }

    /// Whatever still runs after the bound is cut.
    fn after_idle(&self, mut run: Run) -> Next<SwitchoverStage> {
        let old = run.old?;
        run.fenced = true;
        run.todo = read_only(old);
        if self.settings.failover.events {
            // Before its position counts: on MariaDB an event of a privileged user writes on a server that is read-only.
            run.todo.insert(0, Step::DisableEvents { server: old });
        }
        Some(run.enter(SwitchoverStage::Fence))
    }

    fn after_planned_recheck(&mut self, mut run: Run, ended: SwitchoverStage) -> Next<SwitchoverStage> {
        let old = run.old?;
        let position = run.facts().iter().find(|(id, _)| *id == old).map(|(_, facts)| facts.gtid_executed.clone());
        let (Some(position), Some(new)) = (position, run.new) else {
            return self.undo(run, ended, "the old primary does not tell its position".into());
        };
        run.position = position.clone();
        run.todo = vec![Step::WaitApplied { server: new, position }];
        Some(run.enter(SwitchoverStage::Drain))
    }

    fn after_planned_drain(&mut self, mut run: Run, ended: SwitchoverStage) -> Next<SwitchoverStage> {
        let old = run.old?;
        if let Some((_, error)) = run.first_error() {
            let text = format!("the new primary did not get to the position of the old one: {error}");
            return self.undo(run, ended, text);
        }
        run.todo = vec![Step::ReadFacts { server: old }];
        Some(run.enter(SwitchoverStage::Still))
    }

    fn after_undo(&mut self, now: Instant, run: &Run) {
        let failed = run.errors().find(|(step, _)| matches!(step, Step::SetReadOnly { .. }));
        let text = match failed {
            Some((_, error)) => format!("{}; and the old primary could not be made writable again: {error}", run.why),
            None => format!("{}; the old primary takes writes again", run.why),
        };
        self.give_up(now, run, false, text);
    }

    fn after_planned_look(&mut self, now: Instant, mut run: Run) -> Next<SwitchoverStage> {
        run.with = run.facts().into_iter().map(|(id, _)| id).collect();
        let old = run.old.and_then(|id| self.index(id));
        let well =
            run.old.is_some_and(|id| run.with.contains(&id)) && old.is_some_and(|old| self.servers[old].takes_writes());
        if !well {
            self.give_up(now, &run, false, "the primary does not answer, or is read-only".into());
            return None;
        }
        let choice = self.choose(now, &run, true);
        let Some(chosen) = choice.chosen else {
            let text = format!("no server can be promoted: {}", self.choice_words(&choice).join("; "));
            self.give_up(now, &run, false, text);
            return None;
        };
        let semi_sync = self.servers[chosen].reported().map(|facts| facts.details.semi_sync).unwrap_or_default();
        let needed = if semi_sync.source_enabled == Some(true) { semi_sync.acks_needed.unwrap_or(1) } else { 0 };
        if run.with.len() <= needed as usize {
            let text = format!("the new primary's writes would wait for {needed} replicas, and fewer are reached");
            self.give_up(now, &run, false, text);
            return None;
        }
        run.new = Some(self.servers[chosen].id);
        let name = self.servers[chosen].name().clone();
        self.note(run.id, EntryKind::Decision, Some(name.clone()), format!("{name} is to be promoted"));
        if self.settings.failover.hook_before {
            run.todo = vec![self.hook(&run, Hook::Before)];
            return Some(run.enter(SwitchoverStage::HookBefore));
        }
        Some(hold(run))
    }

    fn after_planned_fence(&mut self, mut run: Run, ended: SwitchoverStage) -> Next<SwitchoverStage> {
        let old = run.old?;
        let failed = run.ended.iter().find_map(|(step, result)| match (step, result) {
            (Step::SetReadOnly { .. }, Err(error)) => Some((error.kind, error.to_string())),
            _ => None,
        });
        match failed {
            // Somebody's write was in its way; the clients have been cut by now.
            Some((ErrorKind::Timeout, _)) if run.again < AGAIN_MAX => {
                run.again += 1;
                run.todo = read_only(old);
                Some(run.enter(SwitchoverStage::Fence))
            }
            Some((_, error)) => self.undo(run, ended, format!("the old primary could not be made read-only: {error}")),
            None => {
                run.again = 0;
                run.todo = vec![Step::ReadFacts { server: old }];
                Some(run.enter(SwitchoverStage::Recheck))
            }
        }
    }

    fn after_still(&mut self, mut run: Run, ended: SwitchoverStage) -> Next<SwitchoverStage> {
        let (old, new) = (run.old?, run.new?);
        let position: Option<Arc<str>> = run
            .facts()
            .iter()
            .find(|(id, facts)| *id == old && !super::promotion::is_writable(facts))
            .map(|(_, facts)| facts.gtid_executed.clone());
        match position {
            Some(position) if position == run.position => {
                run.again = 0;
                run.todo = vec![Step::Promote { server: new, old: Some(old) }];
                // Its first write waits for one of them. The old primary stays as it is: it may be needed again.
                let others = self.followers(&run).into_iter().filter(|step| step.server() != Some(old));
                run.todo.extend(others);
                Some(run.enter(SwitchoverStage::Promotion(PromotionStage::Promote)))
            }
            Some(position) if run.again < AGAIN_MAX => {
                run.again += 1;
                run.position = position.clone();
                run.todo = vec![Step::EndClients { server: old }, Step::WaitApplied { server: new, position }];
                Some(run.enter(SwitchoverStage::Drain))
            }
            Some(_) => self.undo(run, ended, "the old primary is written to although it is read-only".into()),
            None => self.undo(run, ended, "the old primary does not answer any more, or takes writes".into()),
        }
    }

    /// Takes a switchover back. The error of a switchover does not count against automatic failover.
    fn undo(&mut self, mut run: Run, ended: SwitchoverStage, why: String) -> Next<SwitchoverStage> {
        let old = run.old?;
        self.note(run.id, EntryKind::Decision, Some(self.name_of(old)), format!("taken back: {why}"));
        run.why = why;
        run.todo = vec![Step::SetReadOnly { server: old, on: false, cut: false }];
        if matches!(ended, SwitchoverStage::Promotion(_)) {
            // They have begun to follow the new one, and the old one's writes wait for them.
            let moved = run.with.iter().filter(|id| **id != old && Some(**id) != run.new);
            let follows = |id: &ServerId| {
                let (server, old) = (self.index(*id)?, self.index(old)?);
                self.channel_from(server, old)
            };
            run.todo
                .extend(moved.filter(|id| follows(id).is_some()).map(|id| Step::Follow { server: *id, source: old }));
        }
        if self.settings.failover.events {
            run.todo.push(Step::EnableEvents { server: old, old });
        }
        Some(run.enter(SwitchoverStage::Undo))
    }
}

/// The old primary becomes read-only when what it has begun is acknowledged, and then its clients are ended.
fn read_only(server: ServerId) -> Vec<Step> {
    vec![Step::SetReadOnly { server, on: true, cut: false }, Step::EndClients { server }]
}

/// New writes are held from here on, while what runs may end.
fn hold(mut run: Run) -> (Run, SwitchoverStage) {
    run.holds = true;
    run.todo = run.old.map(|server| Step::WaitIdle { server }).into_iter().collect();
    run.enter(SwitchoverStage::Idle)
}
