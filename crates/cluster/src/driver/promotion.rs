//! The last stages of a failover and of a switchover: the new primary is promoted, and the others come to follow it.

use std::time::Instant;

use facts::view::ServerId;

use super::Driver;
use super::run::{Next, Run, RunKind};
use crate::observation::{Facts, Replication};
use crate::step::{Hook, Step, StepResult};

/// How often the outcome of a promotion is asked for.
const LEARN_MAX: u32 = 3;

/// The last stages, which failovers and switchovers have alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromotionStage {
    /// The point of no return.
    Promote,
    /// Whether a promotion with an unknown outcome took place.
    Learn,
    /// The others follow the new primary.
    Repoint,
    HookAfter,
}

impl PromotionStage {
    /// The new primary takes writes.
    pub(super) fn is_promoted(self) -> bool {
        matches!(self, PromotionStage::Repoint | PromotionStage::HookAfter)
    }
}

/// The promotion did not take place; a failover is given up then, a switchover is taken back.
pub(super) struct NotPromoted {
    pub(super) run: Box<Run>,
    pub(super) why: String,
}

impl Driver {
    /// One of these stages has ended: begins the next one, or ends the run.
    pub(super) fn promotion_stage(
        &mut self,
        now: Instant,
        run: Run,
        ended: PromotionStage,
    ) -> Result<Next<PromotionStage>, NotPromoted> {
        match ended {
            PromotionStage::Promote | PromotionStage::Learn => self.after_promote(now, run, ended).map(Some),
            PromotionStage::Repoint => Ok(self.after_repoint(run)),
            PromotionStage::HookAfter => {
                self.end_promotion(&run);
                Ok(None)
            }
        }
    }

    /// Judges the result of a promotion.
    fn after_promote(
        &mut self,
        now: Instant,
        mut run: Run,
        ended: PromotionStage,
    ) -> Result<(Run, PromotionStage), NotPromoted> {
        let Some(new) = run.new else {
            return Err(NotPromoted { run: Box::new(run), why: "no server was chosen".into() });
        };
        let facts = run.facts();
        if facts.iter().any(|(id, facts)| *id == new && is_writable(facts) && follows_nobody(facts)) {
            return Ok(self.promoted(now, run, new));
        }
        let of_new = || run.ended.iter().filter(|(step, _)| step.server() == Some(new));
        let refused =
            ended == PromotionStage::Promote && of_new().any(|(_, result)| matches!(result, Ok(StepResult::Done)));
        let error = of_new().find_map(|(_, result)| result.as_ref().err());
        let error = error.map_or_else(|| "it does not take writes".to_owned(), ToString::to_string);
        if run.again < LEARN_MAX && !refused {
            run.again += 1;
            run.todo = vec![Step::ReadFacts { server: new }];
            if run.why.is_empty() {
                run.why = error;
            }
            return Ok(run.enter(PromotionStage::Learn));
        }
        let error = if run.why.is_empty() { error } else { run.why.clone() };
        let why = format!("{} was not promoted: {error}", self.name_of(new));
        Err(NotPromoted { run: Box::new(run), why })
    }

    fn promoted(&mut self, now: Instant, mut run: Run, new: ServerId) -> (Run, PromotionStage) {
        for server in &mut self.servers {
            if server.id == new {
                (server.deposed, server.verified, server.restarted, server.lacks) = (false, true, false, None);
            } else if Some(server.id) == run.old {
                (server.deposed, server.verified) = (true, false);
            }
        }
        self.reign.appoint(new);
        if run.kind != RunKind::Restore && run.kind != RunKind::Switchover {
            self.guard.promoted(now);
            self.note_preferred(now, &run);
        }
        let follow = self.followers(&run);
        // The probes that show it are under way.
        for step in &follow {
            if let Some(index) = step.server().and_then(|id| self.index(id)) {
                self.servers[index].repair_after = Some(now + self.settings.failover.step_timeout);
            }
        }
        // Some have begun while it was promoted.
        let begun = |step: &Step| {
            let out = self.out.iter().filter(|out| run.out.contains(&out.id)).map(|out| &out.step);
            run.ended.iter().map(|(ended, _)| ended).chain(out).any(|other| other == step)
        };
        run.todo = follow.into_iter().filter(|step| !begun(step)).collect();
        run.todo.extend(
            run.old.filter(|_| self.settings.failover.events).map(|old| Step::EnableEvents { server: new, old }),
        );
        run.fenced = true;
        run.holds = false;
        run.enter(PromotionStage::Repoint)
    }

    /// The steps by which the servers that take part come to follow the new primary, those that have nothing beyond it.
    pub(super) fn followers(&self, run: &Run) -> Vec<Step> {
        let Some(new) = run.new else { return Vec::new() };
        let source = new;
        let base = self.index(new).and_then(|index| self.servers[index].history.clone());
        let mut follow = Vec::new();
        for index in 0..self.servers.len() {
            let server = &self.servers[index];
            let planned = run.kind == RunKind::Switchover;
            if server.id == new || !run.with.contains(&server.id) || (Some(server.id) == run.old && !planned) {
                continue;
            }
            let (Some(base), Some(history)) = (&base, &server.history) else { continue };
            let follows_old =
                run.old.and_then(|old| self.index(old)).is_some_and(|old| self.channel_from(index, old).is_some());
            let was_old = Some(server.id) == run.old;
            if (follows_old || was_old) && history.beyond(base).is_empty() {
                follow.push(Step::Follow { server: server.id, source });
            }
        }
        follow
    }

    /// Servers that could not be repointed are left to repairs.
    fn after_repoint(&mut self, mut run: Run) -> Next<PromotionStage> {
        if self.settings.failover.hook_after {
            run.todo = vec![self.hook(&run, Hook::After)];
            return Some(run.enter(PromotionStage::HookAfter));
        }
        self.end_promotion(&run);
        None
    }

    fn end_promotion(&mut self, run: &Run) {
        let (old, new) = (run.old.map(|id| self.name_of(id)), run.new.map(|id| self.name_of(id)));
        let (old, new) = (old.unwrap_or_else(|| "?".into()), new.unwrap_or_else(|| "?".into()));
        let text = match run.kind {
            RunKind::Restore => format!("{new} takes writes again"),
            _ => format!("{} from {old} to {new} is done", run.kind.word()),
        };
        self.finish(run, text);
    }
}

pub(super) fn is_writable(facts: &Facts) -> bool {
    !facts.read_only && !facts.super_read_only
}

fn follows_nobody(facts: &Facts) -> bool {
    matches!(&facts.replication, Replication::Channels(channels) if channels.is_empty())
}
