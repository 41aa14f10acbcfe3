//! The stages of a switchover.
//!
//! lease → look → hook → hold and wait for running work → fence → recheck → drain → the old primary stood still → promote →
//! repoint → hook. Up to the promotion it is taken back when something fails: the old primary is made writable again.

use std::sync::Arc;
use std::time::Instant;

use facts::view::ServerId;

use super::Driver;
use super::run::{LEASE_MARGIN, Run, Stage};
use crate::journal::EntryKind;
use crate::step::{ErrorKind, Hook, Step};

/// How often the new primary waits for what the old one still wrote, and how often cutting clients is repeated.
const AGAIN_MAX: u32 = 3;

impl Driver {
    /// A stage has ended: begins the next one, or ends the run.
    pub(super) fn switchover_stage(&mut self, now: Instant, mut run: Run) -> Option<Run> {
        let touched = matches!(run.stage, Stage::Fence | Stage::Recheck | Stage::Drain | Stage::Still);
        if run.stage != Stage::Lease
            && run.stage != Stage::Undo
            && !run.is_promoted()
            && !self.holds_lease(now, LEASE_MARGIN)
        {
            let text = "the lease is lost; nothing was promoted".to_owned();
            if touched {
                return self.undo(now, run, text);
            }
            self.give_up(now, &run, false, text);
            return None;
        }
        let old = run.old?;
        match run.stage {
            Stage::Lease => {
                if let Some((_, error)) = run.first_error() {
                    let text = format!("the lease is not to be had: {error}");
                    self.give_up(now, &run, false, text);
                    return None;
                }
                let asked = self.servers.iter().filter(|server| server.answers() && !server.resting());
                run.todo = asked.map(|server| Step::ReadFacts { server: server.id }).collect();
                run.enter(Stage::Look);
                Some(run)
            }
            Stage::Look => self.after_planned_look(now, run),
            Stage::HookBefore => {
                if let Some((_, error)) = run.first_error() {
                    let text = format!("the hook forbids it: {error}");
                    self.give_up(now, &run, false, text);
                    return None;
                }
                Some(hold(run))
            }
            Stage::Idle => {
                // Whatever still runs after the bound is cut.
                run.fenced = true;
                run.todo = read_only(old);
                if self.settings.failover.events {
                    // Before its position counts: on MariaDB an event of a privileged user writes on a server that is read-only.
                    run.todo.insert(0, Step::DisableEvents { server: old });
                }
                run.enter(Stage::Fence);
                Some(run)
            }
            Stage::Fence => self.after_planned_fence(now, run),
            Stage::Recheck => {
                let position =
                    run.facts().iter().find(|(id, _)| *id == old).map(|(_, facts)| facts.gtid_executed.clone());
                let (Some(position), Some(new)) = (position, run.new) else {
                    let text = "the old primary does not tell its position".to_owned();
                    return self.undo(now, run, text);
                };
                run.position = position.clone();
                run.todo = vec![Step::WaitApplied { server: new, position }];
                run.enter(Stage::Drain);
                Some(run)
            }
            Stage::Drain => {
                if let Some((_, error)) = run.first_error() {
                    let text = format!("the new primary did not get to the position of the old one: {error}");
                    return self.undo(now, run, text);
                }
                run.todo = vec![Step::ReadFacts { server: old }];
                run.enter(Stage::Still);
                Some(run)
            }
            Stage::Still => self.after_still(now, run),
            Stage::Promote | Stage::Learn => self.after_promote(now, run),
            Stage::Repoint => self.after_repoint(run),
            Stage::HookAfter => {
                self.end_promotion(&run);
                None
            }
            Stage::Undo => {
                let failed = run.errors().find(|(step, _)| matches!(step, Step::SetReadOnly { .. }));
                let text = match failed {
                    Some((_, error)) => {
                        format!("{}; and the old primary could not be made writable again: {error}", run.why)
                    }
                    None => format!("{}; the old primary takes writes again", run.why),
                };
                self.give_up(now, &run, false, text);
                None
            }
            Stage::Attach | Stage::Feed | Stage::Fetch => None,
        }
    }

    fn after_planned_look(&mut self, now: Instant, mut run: Run) -> Option<Run> {
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
        let semi_sync = self.servers[chosen].told().map(|facts| facts.details.semi_sync).unwrap_or_default();
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
            run.enter(Stage::HookBefore);
            return Some(run);
        }
        Some(hold(run))
    }

    fn after_planned_fence(&mut self, now: Instant, mut run: Run) -> Option<Run> {
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
                run.enter(Stage::Fence);
                Some(run)
            }
            Some((_, error)) => self.undo(now, run, format!("the old primary could not be made read-only: {error}")),
            None => {
                run.again = 0;
                run.todo = vec![Step::ReadFacts { server: old }];
                run.enter(Stage::Recheck);
                Some(run)
            }
        }
    }

    fn after_still(&mut self, now: Instant, mut run: Run) -> Option<Run> {
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
                run.enter(Stage::Promote);
                Some(run)
            }
            Some(position) if run.again < AGAIN_MAX => {
                run.again += 1;
                run.position = position.clone();
                run.todo = vec![Step::EndClients { server: old }, Step::WaitApplied { server: new, position }];
                run.enter(Stage::Drain);
                Some(run)
            }
            Some(_) => self.undo(now, run, "the old primary is written to although it is read-only".into()),
            None => self.undo(now, run, "the old primary does not answer any more, or takes writes".into()),
        }
    }

    /// Takes a switchover back. The error of a switchover does not count against automatic failover.
    pub(super) fn undo(&mut self, _now: Instant, mut run: Run, why: String) -> Option<Run> {
        let old = run.old?;
        self.note(run.id, EntryKind::Decision, Some(self.name_of(old)), format!("taken back: {why}"));
        run.why = why;
        run.todo = vec![Step::SetReadOnly { server: old, on: false, cut: false }];
        if matches!(run.stage, Stage::Promote | Stage::Learn) {
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
        run.enter(Stage::Undo);
        Some(run)
    }
}

/// The old primary becomes read-only when what it has begun is acknowledged, and then its clients are ended.
fn read_only(server: ServerId) -> Vec<Step> {
    vec![Step::SetReadOnly { server, on: true, cut: false }, Step::EndClients { server }]
}

/// New writes are held from here on, while what runs may end.
fn hold(mut run: Run) -> Run {
    run.holds = true;
    run.todo = run.old.map(|server| Step::WaitIdle { server }).into_iter().collect();
    run.enter(Stage::Idle);
    run
}
