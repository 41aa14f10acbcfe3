//! When to act: the primary is lost, must be replaced, or has to be made writable again.

use std::time::{Duration, Instant};

use facts::view::{Health, ServerId};

use super::repair::leads_to;
use super::run::{Run, RunKind};
use super::server::{Server, Use};
use super::{Driver, Level, Output};
use crate::candidate::{self, Choice, Race, Runner};
use crate::detect::{self, Verdict, Witness};
use crate::diagnosis::Diagnosis;
use crate::history::Extra;
use crate::journal::EntryKind;
use crate::observation::{FailureClass, Receiver};
use crate::settings::Mode;

/// Urgent probes of one server are at least so far apart.
const ASK_EVERY: Duration = Duration::from_millis(40);
/// A replica that still hears a primary which does not answer here is asked urgently for so long.
const URGENT_FOR: Duration = Duration::from_secs(5);
/// A replica should hear from its source at least this often.
const HEARTBEAT_MAX: Duration = Duration::from_secs(2);
/// A cluster without any primary, whose root lives and is read-only, is left alone for so long: somebody may be moving it.
const RESTORE_AFTER: Duration = Duration::from_secs(10);

/// The period in which a replica hears from an idle source, when it is too long to find a vanished host soon.
fn slow_heartbeat(server: &Server) -> Option<u64> {
    let periods = server.channels().iter().filter_map(|channel| channel.heartbeat_period);
    let slow = |period: &Duration| period.is_zero() || *period > HEARTBEAT_MAX;
    periods.filter(slow).map(|period| period.as_secs()).max_by_key(|seconds| (*seconds == 0, *seconds))
}

impl Driver {
    /// The primary that is missing: the one that most servers follow, else the one that was published last.
    pub(super) fn root(&self, now: Instant) -> Option<usize> {
        let mut sources = self.sources();
        // A former source of a server that does not answer proves nothing: the server may have been promoted since.
        let silent = sources.iter_mut().enumerate().filter(|(index, _)| !self.reached(*index, now));
        silent.for_each(|(_, followed)| followed.clear());
        let followers = |root: usize| {
            (0..self.servers.len()).filter(|index| *index != root && leads_to(&sources, *index, root)).count()
        };
        let last = self.reign.last_primary().and_then(|id| self.index(id));
        let best = (0..self.servers.len())
            .filter(|index| !self.servers[*index].resting())
            .map(|index| (followers(index), Some(index) == last, std::cmp::Reverse(index)))
            .max()?;
        match best {
            (0, ..) => last.or_else(|| self.complete(now)),
            (_, _, std::cmp::Reverse(index)) => Some(index),
        }
    }

    /// No server follows another one, and none is remembered: with semi-sync a server that has all writes for which clients can
    /// have got an OK is as good as the last primary.
    fn complete(&self, now: Instant) -> Option<usize> {
        let known = |index: &usize| {
            let server = &self.servers[*index];
            let empty = server.reported().is_none_or(|facts| facts.gtid_executed.is_empty());
            self.reached(*index, now) && server.channels().is_empty() && !server.takes_writes() && !empty
        };
        let all = self.settings.failover.semi_sync_required;
        (0..self.servers.len()).filter(|_| all).filter(known).find(|index| self.lacks(*index, now).is_none())
    }

    /// The verdict on a server that does not answer.
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

    /// The primary runs no events, and another server would: its setting was not carried over, or was not alike before.
    fn stopped_events(&self, primary: usize) -> Option<Diagnosis> {
        let runs = |server: &Server| server.reported().and_then(|facts| facts.details.event_scheduler);
        let failover = &self.settings.failover;
        if !failover.events || failover.mode == Mode::Off || runs(&self.servers[primary]) != Some(false) {
            return None;
        }
        let other = self.servers.iter().find(|server| runs(server) == Some(true))?;
        Some(Diagnosis::EventsStopped(self.servers[primary].name().clone(), other.name().clone()))
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
        let vacant = elected.is_none() && self.servers.iter().all(|server| server.health.seen());
        self.reign.note_vacant(now, vacant);
        if let Some(primary) = lost.filter(|_| !self.settings.standalone && self.settings.failover.mode != Mode::Off) {
            if !busy {
                self.watch_lost(now, primary, &mut found);
            }
        } else if !elected.is_some_and(|primary| self.watch_writes(now, primary, busy, &mut found)) {
            self.advised = None;
        }
        found.extend(elected.and_then(|primary| self.stopped_events(primary)));
        for server in &self.servers {
            if let Some(ahead) = &server.ahead {
                found.push(Diagnosis::ServerAhead(server.name().clone(), ahead.clone()));
            }
            if let Some(seconds) = slow_heartbeat(server).filter(|_| self.settings.failover.mode != Mode::Off) {
                found.push(Diagnosis::SlowHeartbeat(server.name().clone(), seconds));
            }
            let unlogged =
                server.answers() && server.reported().is_some_and(|facts| facts.details.logs_statements == Some(false));
            if unlogged && self.settings.failover.mode == Mode::Auto {
                found.push(Diagnosis::StatementsUnlogged(server.name().clone()));
            }
            if let Some(lacks) = server.lacks.as_ref().filter(|_| server.answers()) {
                found.push(Diagnosis::PrimaryBehind(server.name().clone(), lacks.clone()));
            }
        }
        self.findings = found;
        if !busy && self.main_run().is_none() {
            self.move_on_to_preferred(now);
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
                    // At first it may just not have noticed yet.
                    let since = self.servers[primary].failing_since;
                    if since.is_some_and(|since| now.saturating_duration_since(since) < URGENT_FOR) {
                        self.ask(now, by);
                    }
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
            (RunKind::Failover, words)
        } else if server.answers() && self.lacks(primary, now).is_some() && !server.verified {
            let lacks = self.lacks(primary, now).unwrap_or_default();
            (RunKind::Replace, format!("{name} lacks what others have: {lacks}"))
        } else if server.answers() && !server.takes_writes() && self.sources()[primary].is_empty() {
            let long = self.reign.is_vacant_for(now, RESTORE_AFTER);
            if !long || self.hears_another(primary, now) {
                return;
            }
            (RunKind::Restore, format!("{name} is read-only, the others follow it, and no server takes writes"))
        } else {
            return;
        };
        self.act_on(now, primary, kind, words, found);
    }

    pub(super) fn act_on(
        &mut self,
        now: Instant,
        primary: usize,
        kind: RunKind,
        words: String,
        found: &mut Vec<Diagnosis>,
    ) {
        let mut run = Driver::new_run(kind, Some(self.servers[primary].id));
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
        if self.guard.pauses(now) || self.lease_was_refused(now) {
            return;
        }
        (run.new, run.from) = (None, None);
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
        if run.kind == RunKind::Restore {
            run.new = run.old;
            return Ok(());
        }
        let choice = self.choose(now, run, false);
        match choice.candidate() {
            Some(index) => {
                run.new = Some(self.servers[index].id);
                run.from = choice.fetch.map(|fetch| self.servers[fetch.from].id);
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
                facts: server.reported().filter(|_| takes_part),
                history: server.history.as_ref().filter(|_| takes_part),
                ahead: server.ahead.is_some(),
                channel,
                lag: if planned { server.lag } else { server.lag_with_source },
                resting: server.wanted != Use::Normal,
                deposed: server.deposed,
                failed: run.failed.iter().find(|(id, _)| *id == server.id).map(|(_, why)| &**why),
            };
            runners.push((index, runner));
        }
        let old_index = old;
        let old = old.and_then(|old| Some((self.servers[old].reported()?, self.servers[old].history.as_ref()?)));
        let lag_max = if planned { self.settings.max_lag } else { self.settings.failover.lag_max };
        let wanted = run.wanted.and_then(|id| self.index(id));
        let reached = |id: ServerId| match run.with.is_empty() {
            true => self.index(id).is_some_and(|index| self.reached(index, now)),
            false => run.with.contains(&id),
        };
        // Without semi-sync what a server has that does not follow the old primary is another story.
        let counts = |index: usize, extra: &Extra| match self.settings.failover.semi_sync_required {
            true => self.may_be_acknowledged(run.old, &reached, extra),
            false => old_index.is_none_or(|old| self.channel_from(index, old).is_some()),
        };
        candidate::choose(&Race { old, lag_max, wanted, force: run.force, planned, counts: &counts }, &runners)
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

    /// A server that takes writes is verified by what it tells after all others; while there is no primary it is asked at once.
    pub(super) fn ask_unverified(&mut self, now: Instant) {
        if self.view.primary.is_some() || !self.acts() || !self.servers.iter().all(|server| server.health.seen()) {
            return;
        }
        for index in 0..self.servers.len() {
            let server = &self.servers[index];
            let unsure = server.answers() && server.takes_writes() && !server.verified && server.lacks.is_none();
            let Some(since) = server.doubted_since.filter(|_| unsure && !server.deposed) else { continue };
            let first: Vec<usize> = self.waits_for(index, since, now).collect();
            match first.is_empty() {
                true => self.ask(now, index),
                false => first.into_iter().for_each(|other| self.ask(now, other)),
            }
        }
    }

    /// The primary stopped answering just now: its replicas are asked at once, and again and again until it is clear.
    pub(super) fn look_closely(&mut self, now: Instant) {
        if self.settings.failover.mode == Mode::Off || self.settings.standalone {
            return;
        }
        let Some(primary) = self.reign.last_primary().and_then(|id| self.index(id)) else { return };
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
            // The run's own look is the second one at the primary: urgent probes of it would only make it down sooner.
            if index != primary && (!heard || slow) {
                self.ask(now, index);
            }
        }
    }
}
