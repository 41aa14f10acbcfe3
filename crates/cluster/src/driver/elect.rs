//! Within a failover: whether its reason still stands, and who is promoted.

use std::time::Instant;

use super::Driver;
use super::run::{Run, RunKind};
use super::steps::class_of;
use crate::detect::Verdict;
use crate::journal::EntryKind;
use crate::observation::Failure;
use crate::step::Step;

impl Driver {
    pub(super) fn learn_errors(&mut self, now: Instant, run: &Run) {
        for (step, result) in &run.ended {
            if let (Step::ReadFacts { server }, Err(error)) = (step, result)
                && let Some(index) = self.index(*server)
            {
                let failure = Failure { class: class_of(error), text: error.text.clone() };
                self.learn_failure(now, index, failure, false);
            }
        }
    }

    /// Whether the reason for the run stands after a fresh look, and who is to be promoted. The error says whether it counts as
    /// a failed attempt.
    pub(super) fn confirm(&mut self, now: Instant, run: &mut Run) -> Result<(), (bool, String)> {
        let needless = |text: String| (false, text);
        let Some(old) = run.old.and_then(|id| self.index(id)) else {
            return Err(needless("the server is no longer configured".into()));
        };
        let name = self.servers[old].name().clone();
        let answers = run.old.is_some_and(|id| run.with.contains(&id));
        match run.kind {
            RunKind::Failover if run.force => {}
            RunKind::Failover if answers => {
                let Some(words) = self.must_be_replaced(now, old) else {
                    return Err(needless(format!("{name} answers after all")));
                };
                self.note(run.id, EntryKind::Decision, Some(name), words);
                // Steps on the old primary would wait for its disk. Without the receivers it acknowledges nothing.
                run.with.retain(|id| Some(*id) != run.old);
            }
            RunKind::Failover => {
                let verdict = self.verdict(old, now);
                if !matches!(verdict, Verdict::Dead | Verdict::Frozen) {
                    return Err(needless(self.verdict_words(old, &verdict)));
                }
                let words = self.verdict_words(old, &verdict);
                self.note(run.id, EntryKind::Decision, Some(name), words);
            }
            RunKind::Replace => {
                if !answers {
                    return Err(needless(format!("{name} does not answer any more")));
                }
                if self.lacks(old, now).is_none() {
                    return Err(needless(format!("{name} lacks nothing after all")));
                }
            }
            RunKind::Restore => {
                if !answers || self.servers[old].takes_writes() {
                    return Err(needless(format!("{name} is not read-only, or does not answer")));
                }
                if let Some(lacks) = self.lacks(old, now).filter(|_| !run.force) {
                    return Err(needless(format!("{name} lacks something: {lacks}")));
                }
            }
            RunKind::Switchover | RunKind::Rejoin => {}
        }
        let taken = self.servers.iter().find(|server| {
            server.channels().is_empty()
                && Some(server.id) != run.old
                && run.with.contains(&server.id)
                && server.takes_writes()
                && server.verified
                && !server.deposed
        });
        if let Some(other) = taken.filter(|_| !run.force) {
            return Err(needless(format!("{} takes writes already", other.name())));
        }
        self.elect_new(now, run).map_err(needless)
    }

    /// Chooses who is promoted among those that take part, when enough do.
    pub(super) fn elect_new(&mut self, now: Instant, run: &mut Run) -> Result<(), String> {
        let with = run.with.clone();
        if !run.force {
            self.enough(now, Some(&with))?;
            if self.settings.failover.semi_sync_required && !run.ordered {
                self.lossless(run.old, &|server| with.contains(&server))?;
            }
        }
        if run.kind == RunKind::Restore {
            run.new = run.old;
            return Ok(());
        }
        let mut choice = self.choose(now, run, false);
        // A server that has fetched and still lacks something has had its turn.
        while let Some(by) = choice.fetch.map(|fetch| self.servers[fetch.by].id).filter(|by| run.fetched.contains(by)) {
            run.failed.push((by, "it lacks something although it has fetched what it lacked".to_owned()));
            choice = self.choose(now, run, false);
        }
        let Some(chosen) = choice.candidate() else {
            let reasons: Vec<String> = self.choice_words(&choice);
            return Err(format!("no server can be promoted: {}", reasons.join("; ")));
        };
        run.from = choice.fetch.map(|fetch| self.servers[fetch.from].id);
        let new = self.servers[chosen].id;
        if run.new != Some(new) {
            let others = self.choice_words(&choice);
            let others = if others.is_empty() { String::new() } else { format!("; {}", others.join("; ")) };
            let text = format!("{} is to be promoted{others}", self.servers[chosen].name());
            self.note(run.id, EntryKind::Decision, Some(self.servers[chosen].name().clone()), text);
        }
        run.new = Some(new);
        Ok(())
    }
}
