//! Putting servers back: old primaries that return, replicas that follow the wrong server, receivers that an interrupted run
//! left stopped.

use std::time::{Duration, Instant};

use facts::view::{Health, ServerId};

use super::Driver;
use super::run::{LEASE_MARGIN, Next, Run, RunKind};
use super::server::Server;
use crate::journal::EntryKind;
use crate::observation::{Channel, Receiver};
use crate::step::Step;

/// First wait after a repair that failed; each further one doubles it.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest of these waits.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A read-only server that follows no other, and is not known as a former primary, is left alone for so long: somebody may be
/// setting it up.
const STRANGER_AFTER: Duration = Duration::from_secs(10);

/// The stages of a rejoin: a server is put right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RejoinStage {
    /// The lease is taken.
    Lease,
    /// All servers but the primary are asked again.
    Look,
    /// The primary is asked after them.
    Recheck,
    /// The server is made read-only, and its clients are cut.
    Fence,
    /// The server follows the primary.
    Attach,
}

impl Driver {
    /// Begins what repairs are due.
    pub(super) fn repair(&mut self, now: Instant) {
        let primary = self.healthy_primary(now);
        self.reign.note_well(now, primary.is_some());
        if !self.acts()
            || self.reign.external_primary().is_some_and(|named| self.view.primary != Some(named))
            || self.lease_was_refused(now)
        {
            return;
        }
        for index in 0..self.servers.len() {
            let server = &self.servers[index];
            let waits = server.repair_after.is_some_and(|after| now < after);
            if waits || !self.reached(index, now) || self.runs.iter().any(|run| run.old == Some(server.id)) {
                continue;
            }
            let Some(why) = self.needs_repair(now, index, primary) else { continue };
            let run = Driver::new_run(RunKind::Rejoin, Some(self.servers[index].id));
            self.servers[index].repair_after = Some(now + PAUSE);
            self.begin(now, run, why);
        }
    }

    fn healthy_primary(&self, now: Instant) -> Option<usize> {
        let primary = self.view.primary.and_then(|id| self.index(id))?;
        let server = &self.servers[primary];
        let well = server.health.health() == Health::Up && server.verified && server.takes_writes();
        (well && self.reached(primary, now)).then_some(primary)
    }

    /// Why this server needs something, in words.
    fn needs_repair(&self, now: Instant, index: usize, primary: Option<usize>) -> Option<String> {
        if Some(index) == primary {
            return None;
        }
        let server = &self.servers[index];
        let (name, sources) = (server.name(), self.sources());
        let alone = sources[index].is_empty();
        if server.takes_writes() && (alone || server.deposed) && (primary.is_some() || server.deposed) {
            return Some(format!("{name} takes writes and is not the primary: it is fenced"));
        }
        if !alone && self.was_left_stopped(index) {
            return Some(format!("the receiver of {name} was left stopped"));
        }
        let primary = primary.filter(|_| self.settings.failover.rejoin)?;
        if alone {
            let known = server.deposed || self.reign.is_well_for(now, STRANGER_AFTER);
            let empty = server.reported().is_none_or(|facts| facts.gtid_executed.is_empty());
            return (server.channels().is_empty() && known && !empty && !server.takes_writes())
                .then(|| format!("{name} follows no server"));
        }
        if leads_to(&sources, index, primary) {
            let waits = !sources[index].contains(&primary) && self.lacks_acknowledgers(now, primary, &sources);
            let words = "its writes wait for acknowledgements that only direct replicas give";
            return waits.then(|| format!("{name} follows the primary over another server, and {words}"));
        }
        let source = *sources[index].first()?;
        // A server that led nowhere when it was last seen, such as the primary before, need not be down for that.
        let was_root = self.servers[source].facts.is_some() && sources[source].is_empty();
        let lost = self.servers[source].health.health() == Health::Down
            || (self.servers[source].failing_since.is_some() && was_root)
            || self.servers[source].deposed
            || (self.servers[source].answers() && sources[source].is_empty());
        lost.then(|| format!("{name} follows {}, which follows no server", self.servers[source].name()))
    }

    /// Its receiver is stopped, or another of its threads, and nothing but a run that was interrupted explains that.
    fn was_left_stopped(&self, index: usize) -> bool {
        let server = &self.servers[index];
        let is_drained = || server.history.as_ref().is_some_and(|history| history.is_drained());
        server.channels().iter().any(|channel| {
            is_stopped(server, channel)
                // Stopped while its source was dead, it keeps the error of its last try.
                && (channel.receiver_error.is_empty() || channel.receiver_lost_source)
                && channel.applier_error.is_empty()
        }) && (server.half_attached || is_drained())
    }

    /// A stage has ended: begins the next one, or ends the run.
    pub(super) fn rejoin_stage(&mut self, now: Instant, mut run: Run, ended: RejoinStage) -> Next<RejoinStage> {
        let index = run.old.and_then(|id| self.index(id))?;
        let id = self.servers[index].id;
        if ended != RejoinStage::Lease && !self.holds_lease(now, LEASE_MARGIN) {
            return self.put_off(now, &run, "the lease is lost".into());
        }
        let matters = |step: &Step| {
            let events = matches!(step, Step::DisableEvents { .. });
            !events && (ended != RejoinStage::Look || step.server() == Some(id))
        };
        let failed = run.errors().find(|(step, _)| matters(step)).map(|(step, error)| match step {
            Step::TakeLease => (None, format!("the lease is not to be had: {error}")),
            step => (step.server(), format!("{}: {error}", self.step_words(step))),
        });
        if let Some((server, text)) = failed {
            // The receiver that was left stopped has lost its source besides: only when it is started it can say so, and until it does
            // no server takes that source's place.
            let source = server.filter(|asked| ended == RejoinStage::Recheck && self.follows(index, *asked));
            return match source.filter(|_| self.was_left_stopped(index) && !self.servers[index].takes_writes()) {
                Some(source) => Some(attach(run, id, source)),
                None => self.put_off(now, &run, text),
            };
        }
        match ended {
            RejoinStage::Lease => {
                run.todo = self.all_but_the_primary(now, id);
                Some(run.enter(RejoinStage::Look))
            }
            RejoinStage::Look => {
                // The primary is read after it, so what the primary lacks then it does not have.
                if let Some(primary) = self.view.primary.filter(|primary| *primary != id) {
                    run.todo = vec![Step::ReadFacts { server: primary }];
                }
                Some(run.enter(RejoinStage::Recheck))
            }
            RejoinStage::Recheck => self.after_both(now, run, index),
            RejoinStage::Fence => {
                run.todo = self.all_but_the_primary(now, id);
                Some(run.enter(RejoinStage::Look))
            }
            RejoinStage::Attach => {
                let server = &mut self.servers[index];
                (server.repair_failures, server.ahead) = (0, None);
                // The probe that shows it is under way.
                server.repair_after = Some(now + PAUSE);
                let text = format!("{} is a replica", self.servers[index].name());
                self.finish(&run, text);
                self.ask(now, index);
                None
            }
        }
    }

    /// Whether the first source of this server is that one.
    fn follows(&self, index: usize, source: ServerId) -> bool {
        self.sources()[index].first().is_some_and(|first| self.servers[*first].id == source)
    }

    /// Fewer servers follow the primary directly than have to acknowledge its writes.
    fn lacks_acknowledgers(&self, now: Instant, primary: usize, sources: &[Vec<usize>]) -> bool {
        let semi_sync = self.servers[primary].reported().map(|facts| facts.details.semi_sync).unwrap_or_default();
        let needed = if semi_sync.source_enabled == Some(true) { semi_sync.acks_needed.unwrap_or(1) } else { 0 };
        let direct = (0..sources.len()).filter(|index| self.reached(*index, now) && sources[*index].contains(&primary));
        direct.count() < needed as usize
    }

    /// All servers are asked again before one is put right: who is the primary may have changed unseen.
    fn all_but_the_primary(&self, now: Instant, id: ServerId) -> Vec<Step> {
        let primary = self.view.primary;
        let asked = (0..self.servers.len())
            .map(|index| (index, self.servers[index].id))
            .filter(|(index, server)| *server == id || (Some(*server) != primary && self.reached(*index, now)));
        asked.map(|(_, server)| Step::ReadFacts { server }).collect()
    }

    fn after_both(&mut self, now: Instant, mut run: Run, index: usize) -> Next<RejoinStage> {
        let server = &self.servers[index];
        let id = server.id;
        let primary = self.view.primary.and_then(|id| self.index(id)).filter(|primary| *primary != index);
        let primary =
            primary.filter(|primary| self.servers[*primary].takes_writes() && self.servers[*primary].answers());
        if server.takes_writes() {
            if primary.is_none() && !server.deposed {
                return self.put_off(now, &run, "there is no primary beside it any more".into());
            }
            run.fenced = true;
            // A client that waits for an acknowledgement that never comes would keep the server from becoming read-only.
            run.todo = vec![
                Step::EndClients { server: id },
                Step::SetReadOnly { server: id, on: true, cut: true },
                Step::EndClients { server: id },
            ];
            return Some(run.enter(RejoinStage::Fence));
        }
        let sources = self.sources();
        let stopped = server.channels().iter().any(|channel| is_stopped(server, channel));
        // A receiver that was stopped goes on with the source it has; whether that is the right one shows afterwards.
        if let Some(source) = sources[index].first().filter(|_| stopped)
            && primary.is_none_or(|primary| leads_to(&sources, index, primary))
        {
            return Some(attach(run, id, self.servers[*source].id));
        }
        let Some(primary) = primary else {
            return self.put_off(now, &run, "there is no primary to follow".into());
        };
        let direct = sources[index].contains(&primary) || !self.lacks_acknowledgers(now, primary, &sources);
        if direct && leads_to(&sources, index, primary) {
            let text = format!("{} follows the primary already", server.name());
            self.finish(&run, text);
            return None;
        }
        let (Some(here), Some(base)) = (&server.history, &self.servers[primary].history) else {
            return self.put_off(now, &run, "a position cannot be read".into());
        };
        let extra = here.beyond(base);
        let reached = |id: ServerId| self.index(id).is_some_and(|index| self.reached(index, now));
        let needs_proof = self.settings.failover.semi_sync_required && !run.ordered;
        if needs_proof
            && !extra.is_empty()
            && self.may_be_acknowledged(Some(self.servers[primary].id), &reached, &extra)
        {
            let text = format!("{} has {extra}, for which clients may have got an OK", server.name());
            let primary = &mut self.servers[primary];
            (primary.verified, primary.doubted_since, primary.lacks) = (false, None, Some(text.clone().into()));
            return self.put_off(now, &run, text);
        }
        if !extra.is_empty() {
            let text = format!(
                "{} has transactions that the primary {} lacks: {extra}; it is kept out and has to be seeded anew",
                server.name(),
                self.servers[primary].name()
            );
            self.servers[index].deposed = true;
            self.servers[index].ahead = Some(extra.to_string().into());
            return self.put_off(now, &run, text);
        }
        let source = self.servers[primary].id;
        let was_primary = sources[index].is_empty() && self.settings.failover.events;
        let (mut run, stage) = attach(run, id, source);
        if was_primary {
            run.todo.insert(0, Step::DisableEvents { server: id });
        }
        Some((run, stage))
    }

    fn put_off(&mut self, now: Instant, run: &Run, text: String) -> Next<RejoinStage> {
        if let Some(index) = run.old.and_then(|id| self.index(id)) {
            let server = &mut self.servers[index];
            server.repair_after = Some(now + (PAUSE * 2u32.pow(server.repair_failures.min(6))).min(PAUSE_MAX));
            server.repair_failures = server.repair_failures.saturating_add(1);
        }
        let server = run.old.map(|id| self.name_of(id));
        self.note(run.id, EntryKind::Aborted(run.kind.word()), server, text);
        None
    }
}

/// Whether a run may have left this channel stopped. Somebody who stops a replica stops both of its threads; so does a server before it
/// follows another one.
fn is_stopped(server: &Server, channel: &Channel) -> bool {
    match channel.receiver {
        Receiver::Stopped => channel.applier_running || server.half_attached,
        Receiver::Running | Receiver::Connecting => server.half_attached && !channel.applier_running,
    }
}

fn attach(mut run: Run, server: ServerId, source: ServerId) -> (Run, RejoinStage) {
    run.todo = vec![Step::Follow { server, source }];
    run.enter(RejoinStage::Attach)
}

/// Whether following sources from `start` leads to `end`.
pub(super) fn leads_to(sources: &[Vec<usize>], start: usize, end: usize) -> bool {
    let mut visited = vec![false; sources.len()];
    let mut open = sources[start].clone();
    while let Some(index) = open.pop() {
        if index == end {
            return true;
        }
        if !std::mem::replace(&mut visited[index], true) {
            open.extend(&sources[index]);
        }
    }
    false
}
