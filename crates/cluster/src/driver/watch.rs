//! When to act: the primary is lost, must be replaced, or has to be made writable again.

use std::time::{Duration, Instant};

use super::run::{Kind, Run};
use super::{Driver, Level, Output};
use crate::candidate::{self, Choice, Race, Runner};
use crate::detect::{self, Verdict, Witness};
use crate::diagnosis::Diagnosis;
use crate::journal::EntryKind;
use crate::observation::{FailureClass, Receiver};
use crate::settings::Mode;
use crate::view::{Health, ServerId};

/// Urgent probes of one server are at least so far apart.
const ASK_EVERY: Duration = Duration::from_millis(40);
/// A cluster without any primary, whose root lives and is read-only, is left alone for so long: somebody may be moving it.
const RESTORE_AFTER: Duration = Duration::from_secs(10);
/// The settings of semi-sync speak for a primary that was never seen only if it would wait at least so long.
const PATIENT_MS: u64 = 3_600_000;

impl Driver {
    /// The primary that is missing: the one that most servers follow, else the one that was published last.
    pub(super) fn root(&self, now: Instant) -> Option<usize> {
        let sources = self.sources();
        let followers = |root: usize| {
            (0..self.servers.len()).filter(|index| self.reached(*index, now) && sources[*index].contains(&root)).count()
        };
        let last = self.last_primary.and_then(|id| self.index(id));
        let best = (0..self.servers.len())
            .filter(|index| !self.servers[*index].resting())
            .map(|index| (followers(index), Some(index) == last, std::cmp::Reverse(index)))
            .max()?;
        match best {
            (0, ..) => last,
            (_, _, std::cmp::Reverse(index)) => Some(index),
        }
    }

    /// What is so with a server that does not answer.
    pub(super) fn verdict(&self, primary: usize, now: Instant) -> Verdict {
        let server = &self.servers[primary];
        let (Some(failure), Some(since)) = (&server.failure, server.failing_since) else { return Verdict::Refuses };
        let mut testimonies = Vec::new();
        for index in 0..self.servers.len() {
            let witness = &self.servers[index];
            if index == primary || witness.resting() || !witness.health.seen() || witness.failure.is_some() {
                continue;
            }
            let Some(channel) = self.channel_from(index, primary) else { continue };
            let Some((_, read)) = &witness.facts else { continue };
            if now.saturating_duration_since(*read) > (self.settings.interval + self.settings.timeout) * 2 {
                continue;
            }
            let pulse = witness.pulse(channel);
            let witness = Witness { channel, pulse: &pulse, read: *read };
            let fresh = *read >= since;
            testimonies.push((index, fresh.then(|| witness.testifies(since, self.settings.interval))));
        }
        detect::judge(failure.class, &testimonies)
    }

    pub(super) fn verdict_words(&self, primary: usize, verdict: &Verdict) -> String {
        let name = self.servers[primary].name();
        match verdict {
            Verdict::Dead => format!("{name} does not answer, and its replicas have lost it"),
            Verdict::Frozen => {
                format!("the host of {name} takes connections, {name} says nothing, and its replicas hear nothing")
            }
            Verdict::MaybeFrozen => format!("{name} does not answer, and its replicas have heard nothing for a while"),
            Verdict::Heard(by) => {
                format!("{name} does not answer here, but {} still hears it", self.servers[*by].name())
            }
            Verdict::NoWitness => format!("{name} does not answer, and no replica can tell whether it lives"),
            Verdict::AskFirst(_) => format!("{name} does not answer; its replicas are being asked"),
            Verdict::Refuses => format!("{name} fails in a way that is no sign of death"),
        }
    }

    /// Looks whether something is to be done, and begins it.
    pub(super) fn watch(&mut self, now: Instant) {
        let mut found = Vec::new();
        let busy = self.main_run().is_some();
        let elected = self.view.primary.and_then(|id| self.index(id));
        let lost = match elected {
            Some(primary) if self.servers[primary].failing_since.is_some() => Some(primary),
            Some(_) => None,
            None => self.root(now),
        };
        if elected.is_some() || !self.servers.iter().all(|server| server.health.seen()) {
            self.headless_since = None;
        } else {
            self.headless_since.get_or_insert(now);
        }
        if let Some(primary) = lost.filter(|_| !self.settings.standalone && self.settings.failover.mode != Mode::Off) {
            if !busy {
                self.watch_lost(now, primary, &mut found);
            }
        } else {
            self.advised = None;
        }
        for server in &self.servers {
            if let Some(ahead) = &server.ahead {
                found.push(Diagnosis::ServerAhead(server.name().clone(), ahead.clone()));
            }
            if let Some(lacks) = server.lacks.as_ref().filter(|_| server.answers()) {
                found.push(Diagnosis::PrimaryBehind(server.name().clone(), lacks.clone()));
            }
        }
        self.findings = found;
        if !busy && self.main_run().is_none() {
            self.repair(now);
        }
    }

    fn watch_lost(&mut self, now: Instant, primary: usize, found: &mut Vec<Diagnosis>) {
        let server = &self.servers[primary];
        if !server.health.seen() || server.resting() {
            return;
        }
        let name = server.name().clone();
        let (kind, words) = if server.failing_since.is_some() {
            let verdict = self.verdict(primary, now);
            let words = self.verdict_words(primary, &verdict);
            match verdict {
                Verdict::Dead => found.push(Diagnosis::PrimaryDead(name)),
                Verdict::Frozen => found.push(Diagnosis::PrimaryFrozen(name)),
                Verdict::Heard(by) => {
                    found.push(Diagnosis::PrimaryUnreachable(name, self.servers[by].name().clone()));
                    self.ask(now, by);
                    return;
                }
                Verdict::AskFirst(unread) => {
                    unread.into_iter().for_each(|index| self.ask(now, index));
                    return;
                }
                Verdict::NoWitness => {
                    found.push(Diagnosis::FailoverBlocked(words.into()));
                    return;
                }
                Verdict::MaybeFrozen => {}
                Verdict::Refuses => return,
            }
            (Kind::Failover, words)
        } else if server.answers() && self.lacks(primary, now).is_some() && !server.verified {
            let lacks = self.lacks(primary, now).unwrap_or_default();
            (Kind::Replace, format!("{name} lacks what others have: {lacks}"))
        } else if server.answers() && !server.takes_writes() && self.sources()[primary].is_empty() {
            let long = self.headless_since.is_some_and(|since| now.saturating_duration_since(since) >= RESTORE_AFTER);
            if !long || self.hears_another(primary, now) {
                return;
            }
            (Kind::Restore, format!("{name} is read-only, the others follow it, and nobody takes writes"))
        } else {
            return;
        };
        self.act_on(now, primary, kind, words, found);
    }

    fn act_on(&mut self, now: Instant, primary: usize, kind: Kind, words: String, found: &mut Vec<Diagnosis>) {
        let mut run = self.new_run(kind, Some(self.servers[primary].id));
        if let Err(why) = self.precheck(now, &mut run) {
            found.push(Diagnosis::FailoverBlocked(why.into()));
            return;
        }
        if self.settings.failover.mode == Mode::Advise {
            let plan = self.plan_words(&run).join(", ");
            let text = format!("{words}; in mode auto Sqluice would now: {plan}");
            if self.advised.as_ref() != Some(&text) {
                self.log(Level::Warn, Some(self.servers[primary].name().clone()), text.clone());
                self.note(0, EntryKind::Advice, Some(self.servers[primary].name().clone()), text.clone());
                self.advised = Some(text);
            }
            return;
        }
        if self.guard.pauses(now) {
            return;
        }
        run.new = None;
        self.begin(now, run, words);
    }

    /// Whether an automatic run could succeed, judged by what is known without asking again.
    fn precheck(&self, now: Instant, run: &mut Run) -> Result<(), String> {
        if let Some(why) = self.guard.forbids(now, &self.settings.failover) {
            return Err(why);
        }
        self.enough(now, None)?;
        if self.settings.failover.semi_sync_required {
            self.lossless(run.old, &|id| self.index(id).is_some_and(|index| self.reached(index, now)))?;
        }
        if run.kind == Kind::Restore {
            run.new = run.old;
            return Ok(());
        }
        let choice = self.choose(now, run, false);
        match choice.chosen {
            Some(index) => {
                run.new = Some(self.servers[index].id);
                Ok(())
            }
            None => Err(format!("no server can be promoted: {}", self.choice_words(&choice).join("; "))),
        }
    }

    /// Another server than this root is heard by a replica that is reached.
    fn hears_another(&self, root: usize, now: Instant) -> bool {
        (0..self.servers.len()).filter(|index| self.reached(*index, now)).any(|index| {
            let nodes = self.nodes();
            self.servers[index].channels().iter().any(|channel| {
                channel.receiver == Receiver::Running
                    && crate::topology::source(&nodes, index, channel)
                        .is_some_and(|source| source != root && !self.reached(source, now))
            })
        })
    }

    /// Whether enough servers are reached: more than half of all, or one of two.
    pub(super) fn enough(&self, now: Instant, with: Option<&[ServerId]>) -> Result<(), String> {
        if !self.settings.failover.majority_required {
            return Ok(());
        }
        let all = self.servers.iter().filter(|server| !server.resting()).count();
        let counts = |index: &usize| match with {
            Some(with) => with.contains(&self.servers[*index].id),
            None => self.reached(*index, now),
        };
        let reached = (0..self.servers.len()).filter(counts).count();
        let enough = if all == 2 { reached >= 1 } else { reached * 2 > all };
        if enough {
            Ok(())
        } else {
            Err(format!("only {reached} of {all} servers are reached; more than half is needed"))
        }
    }

    /// Whether no acknowledged write can be missing on all servers that are reached. `old` was the primary.
    pub(super) fn lossless(&self, old: Option<ServerId>, reached: &dyn Fn(ServerId) -> bool) -> Result<(), String> {
        let needed = self.acks_needed(old)?;
        // A write is acknowledged once the primary and so many others have it: it can be missing only if all of these are.
        let missing = self
            .servers
            .iter()
            .filter(|server| !reached(server.id))
            .filter(|server| {
                let replies = server.told().and_then(|facts| facts.details.semi_sync.replica_enabled);
                Some(server.id) == old || replies != Some(false)
            })
            .count();
        if missing <= needed as usize {
            return Ok(());
        }
        Err(format!(
            "{missing} servers are not reached, and a write needs only {} to be acknowledged: those may have some that \
             nobody else has",
            needed + 1
        ))
    }

    fn acks_needed(&self, old: Option<ServerId>) -> Result<u32, String> {
        let old = old.and_then(|id| self.index(id)).map(|index| &self.servers[index]);
        if let Some((server, facts)) = old.and_then(|old| Some((old, old.told()?))) {
            let semi_sync = &facts.details.semi_sync;
            // A root that is read-only now, or was just started, has nobody to wait for.
            let idle = !server.takes_writes() || server.restarted;
            if semi_sync.source_active != Some(true) && !(idle && semi_sync.source_enabled == Some(true)) {
                return Err(format!("semi-sync was not active on {} when it was last seen", server.name()));
            }
            if semi_sync.after_sync != Some(true) {
                return Err(format!("{} does not wait before others see a write (AFTER_SYNC)", server.name()));
            }
            return Ok(semi_sync.acks_needed.unwrap_or(1));
        }
        // It was never seen: the settings of the others have to speak for it.
        let mut least = None;
        for server in &self.servers {
            let Some(facts) = server.told() else { continue };
            let semi_sync = &facts.details.semi_sync;
            let good = semi_sync.source_enabled == Some(true)
                && semi_sync.after_sync == Some(true)
                && semi_sync.timeout_ms.is_some_and(|timeout| timeout >= PATIENT_MS);
            if !good {
                return Err("the primary was never seen, and not all others are set up for lossless semi-sync".into());
            }
            let acks = semi_sync.acks_needed.unwrap_or(1);
            least = Some(least.map_or(acks, |least: u32| least.min(acks)));
        }
        least.ok_or_else(|| "no server has told anything".to_owned())
    }

    /// Chooses the next primary, among those that take part in the run or, before it has any, all that are reached.
    pub(super) fn choose(&self, now: Instant, run: &Run, planned: bool) -> Choice {
        let old = run.old.and_then(|id| self.index(id));
        let mut runners = Vec::new();
        for (index, server) in self.servers.iter().enumerate() {
            if Some(index) == old {
                continue;
            }
            let takes_part = if run.with.is_empty() { self.reached(index, now) } else { run.with.contains(&server.id) };
            let nodes = self.nodes();
            let channel = old.and_then(|old| self.channel_from(index, old)).or_else(|| {
                let mut channels = server.channels().iter();
                channels.find(|channel| crate::topology::source(&nodes, index, channel).is_some())
            });
            let runner = Runner {
                name: server.name(),
                rule: server.spec.promotion,
                facts: server.told().filter(|_| takes_part),
                history: server.history.as_ref().filter(|_| takes_part),
                channel,
                lag: if planned { server.lag } else { server.lag_with_source },
                resting: server.wanted != super::server::Use::Normal,
                deposed: server.deposed,
                failed: run.failed.iter().find(|(id, _)| *id == server.id).map(|(_, why)| &**why),
            };
            runners.push((index, runner));
        }
        let old = old.and_then(|old| Some((self.servers[old].told()?, self.servers[old].history.as_ref()?)));
        let lag_max = if planned { self.settings.max_lag } else { self.settings.failover.lag_max };
        let wanted = run.wanted.and_then(|id| self.index(id));
        candidate::choose(&Race { old, lag_max, wanted, force: run.force, planned }, &runners)
    }

    pub(super) fn choice_words(&self, choice: &Choice) -> Vec<String> {
        choice.others.iter().map(|(index, why)| format!("not {}: {why}", self.servers[*index].name())).collect()
    }

    /// Asks for an urgent probe, unless one was asked for just now.
    pub(super) fn ask(&mut self, now: Instant, index: usize) {
        let server = &mut self.servers[index];
        if server.asked.is_some_and(|at| now.saturating_duration_since(at) < ASK_EVERY) {
            return;
        }
        server.asked = Some(now);
        self.outputs.push_back(Output::Probe(server.id));
    }

    /// The primary stopped answering just now: it and its replicas are asked at once, and again and again until it is clear.
    pub(super) fn look_closely(&mut self, now: Instant) {
        if self.settings.failover.mode == Mode::Off || self.settings.standalone {
            return;
        }
        let Some(primary) = self.last_primary.and_then(|id| self.index(id)) else { return };
        let server = &self.servers[primary];
        let refuses = server.failure.as_ref().is_some_and(|failure| failure.class.proves_life());
        if server.failing_since.is_none()
            || refuses
            || server.health.health() == Health::Down
            || self.main_run().is_some()
        {
            return;
        }
        let slow = server.failure.as_ref().is_some_and(|failure| failure.class == FailureClass::Timeout);
        for index in 0..self.servers.len() {
            let heard = self.servers[index]
                .facts
                .as_ref()
                .is_some_and(|(_, at)| Some(*at) >= self.servers[primary].failing_since);
            if index == primary || !heard || slow {
                self.ask(now, index);
            }
        }
    }
}
