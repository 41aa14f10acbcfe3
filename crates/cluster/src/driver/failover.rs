//! The stages of a failover, and of making a read-only root of the replicas the primary again.
//!
//! lease → look (nothing is done on old news) → hook → fence → recheck (nothing moves any more) → drain → promote → repoint →
//! hook. When what the new primary lacks is on a server that may not be promoted, it is fetched (`fetch.rs`) before the drain. Up to the promotion it can be given up at any point: receivers that it stopped are started again by repairs.

use std::time::Instant;

use facts::view::{Health, ServerId};

use super::Driver;
use super::run::{Kind, LEASE_MARGIN, Run, Stage};
use crate::observation::{Facts, Replication};
use crate::step::{Hook, Step, StepResult};

/// How often the outcome of a promotion is asked for.
const LEARN_MAX: u32 = 3;

impl Driver {
    /// A stage has ended: begins the next one, or ends the run.
    pub(super) fn failover_stage(&mut self, now: Instant, mut run: Run) -> Option<Run> {
        if run.stage != Stage::Lease && !run.is_promoted() && !self.holds_lease(now, LEASE_MARGIN) {
            self.give_up(now, &run, false, "the lease is lost; nothing was promoted".into());
            return None;
        }
        match run.stage {
            Stage::Lease => self.after_lease(now, run),
            Stage::Look => self.after_look(now, run),
            Stage::HookBefore => {
                if let Some((_, error)) = run.first_error() {
                    let text = format!("the hook forbids it: {error}");
                    self.give_up(now, &run, true, text);
                    return None;
                }
                Some(self.fence(now, run))
            }
            Stage::Fence => self.after_fence(now, run),
            Stage::Recheck => self.after_recheck(now, run),
            Stage::Feed => self.after_feed(now, run),
            Stage::Fetch => self.after_fetch(now, run),
            Stage::Drain => self.after_drain(now, run),
            Stage::Promote | Stage::Learn => self.after_promote(now, run),
            Stage::Repoint => self.after_repoint(run),
            Stage::HookAfter => {
                self.end_promotion(&run);
                None
            }
            Stage::Idle | Stage::Still | Stage::Undo | Stage::Attach => {
                run.todo.clear();
                self.give_up(now, &run, true, "a stage that this kind of run does not have".into());
                None
            }
        }
    }

    fn after_lease(&mut self, now: Instant, mut run: Run) -> Option<Run> {
        if let Some((_, error)) = run.first_error() {
            let text = format!("the lease is not to be had: {error}");
            self.give_up(now, &run, false, text);
            return None;
        }
        // Whether one server has all that the others have shows only when it is asked after them.
        let last = run.old.filter(|_| run.kind != Kind::Failover);
        let asked = self.servers.iter().filter(|server| {
            Some(server.id) != last
                && !server.resting()
                && (Some(server.id) == run.old || server.health.health() != Health::Down || server.answers())
        });
        run.todo = asked.map(|server| Step::ReadFacts { server: server.id }).collect();
        run.enter(Stage::Look);
        Some(run)
    }

    fn after_look(&mut self, now: Instant, mut run: Run) -> Option<Run> {
        self.learn_errors(now, &run);
        run.with.extend(run.facts().into_iter().map(|(id, _)| id));
        if let Some(last) = run.old.filter(|_| run.kind != Kind::Failover && run.again == 0) {
            run.again = 1;
            run.todo = vec![Step::ReadFacts { server: last }];
            run.enter(Stage::Look);
            return Some(run);
        }
        run.again = 0;
        if let Err((counts, text)) = self.confirm(now, &mut run) {
            self.give_up(now, &run, counts, text);
            return None;
        }
        if self.settings.failover.hook_before {
            run.todo = vec![self.hook(&run, Hook::Before)];
            run.enter(Stage::HookBefore);
            return Some(run);
        }
        Some(self.fence(now, run))
    }

    /// From here on the view has no primary and cuts the old one's sessions. Without the receivers the old primary gets no
    /// acknowledgement any more, wherever its clients are: with semi-sync that is a fence that needs nobody's consent.
    fn fence(&mut self, _now: Instant, mut run: Run) -> Run {
        if run.kind == Kind::Restore {
            run.enter(Stage::Drain);
            return run;
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
        run.enter(Stage::Fence);
        run
    }

    fn after_fence(&mut self, now: Instant, mut run: Run) -> Option<Run> {
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
        run.enter(Stage::Recheck);
        Some(run)
    }

    fn after_recheck(&mut self, now: Instant, mut run: Run) -> Option<Run> {
        self.learn_errors(now, &run);
        let read: Vec<ServerId> = run.facts().into_iter().map(|(id, _)| id).collect();
        let old = run.old;
        run.with.retain(|id| read.contains(id) || Some(*id) == old);
        self.drain(now, run)
    }

    pub(super) fn drain(&mut self, now: Instant, mut run: Run) -> Option<Run> {
        if let Err(text) = self.elect_new(now, &mut run) {
            self.give_up(now, &run, true, text);
            return None;
        }
        if let Some(from) = run.from {
            return Some(self.feed(run, from));
        }
        let new = run.new.and_then(|id| self.index(id))?;
        if let Some(history) = self.servers[new].history.as_ref().filter(|history| !history.is_drained()) {
            let position = history.received().into();
            run.todo = vec![Step::WaitApplied { server: self.servers[new].id, position }];
        }
        run.enter(Stage::Drain);
        Some(run)
    }

    fn after_drain(&mut self, now: Instant, mut run: Run) -> Option<Run> {
        let new = run.new?;
        if let Some((_, error)) = run.first_error() {
            run.failed.push((new, format!("it did not apply all that it received: {error}")));
            run.ended.clear();
            return self.drain(now, run);
        }
        run.todo = vec![Step::Promote { server: new, old: run.old.filter(|old| *old != new) }];
        // Its first write waits for one of them. Should the promotion fail they follow who has all that they have.
        if run.kind != Kind::Restore && self.acts() {
            run.todo.extend(self.followers(&run));
        }
        run.enter(Stage::Promote);
        Some(run)
    }

    /// Judges the result of a promotion; of a switchover too.
    pub(super) fn after_promote(&mut self, now: Instant, mut run: Run) -> Option<Run> {
        let new = run.new?;
        let facts = run.facts();
        if facts.iter().any(|(id, facts)| *id == new && is_writable(facts) && follows_nobody(facts)) {
            return Some(self.promoted(now, run));
        }
        let of_new = || run.ended.iter().filter(|(step, _)| step.server() == Some(new));
        let refused = run.stage == Stage::Promote && of_new().any(|(_, result)| matches!(result, Ok(StepResult::Done)));
        let error = of_new().find_map(|(_, result)| result.as_ref().err());
        let error = error.map_or_else(|| "it does not take writes".to_owned(), ToString::to_string);
        if run.again < LEARN_MAX && !refused {
            run.again += 1;
            run.todo = vec![Step::ReadFacts { server: new }];
            if run.why.is_empty() {
                run.why = error;
            }
            run.enter(Stage::Learn);
            return Some(run);
        }
        let text = format!(
            "{} was not promoted: {}",
            self.name_of(new),
            if run.why.is_empty() { error } else { run.why.clone() }
        );
        if run.kind == Kind::Switchover {
            return self.undo(now, run, text);
        }
        self.give_up(now, &run, true, text);
        None
    }

    fn promoted(&mut self, now: Instant, mut run: Run) -> Run {
        let Some(new) = run.new else { return run };
        for server in &mut self.servers {
            if server.id == new {
                (server.deposed, server.verified, server.restarted, server.lacks) = (false, true, false, None);
            } else if Some(server.id) == run.old {
                (server.deposed, server.verified) = (true, false);
            }
        }
        (self.told, self.appointed) = (None, Some(new));
        if run.kind != Kind::Restore && run.kind != Kind::Switchover {
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
        run.enter(Stage::Repoint);
        run
    }

    /// The steps by which the servers that take part come to follow the new primary, those that have nothing beyond it.
    pub(super) fn followers(&self, run: &Run) -> Vec<Step> {
        let Some(new) = run.new else { return Vec::new() };
        let source = new;
        let base = self.index(new).and_then(|index| self.servers[index].history.clone());
        let mut follow = Vec::new();
        for index in 0..self.servers.len() {
            let server = &self.servers[index];
            let planned = run.kind == Kind::Switchover;
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
    pub(super) fn after_repoint(&mut self, mut run: Run) -> Option<Run> {
        if self.settings.failover.hook_after {
            run.todo = vec![self.hook(&run, Hook::After)];
            run.enter(Stage::HookAfter);
            return Some(run);
        }
        self.end_promotion(&run);
        None
    }

    pub(super) fn end_promotion(&mut self, run: &Run) {
        let (old, new) = (run.old.map(|id| self.name_of(id)), run.new.map(|id| self.name_of(id)));
        let (old, new) = (old.unwrap_or_else(|| "?".into()), new.unwrap_or_else(|| "?".into()));
        let text = match run.kind {
            Kind::Restore => format!("{new} takes writes again"),
            _ => format!("{} from {old} to {new} is done", run.kind.word()),
        };
        self.finish(run, text);
    }
}

impl Run {
    /// The next stage, whose steps stand in `todo`.
    pub(super) fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.ended.clear();
    }
}

pub(super) fn is_writable(facts: &Facts) -> bool {
    !facts.read_only && !facts.super_read_only
}

fn follows_nobody(facts: &Facts) -> bool {
    matches!(&facts.replication, Replication::Channels(channels) if channels.is_empty())
}
