//! The state of one server, and how the driver learns it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::view::{Health, ServerId};

use super::Driver;
use super::writes::Unwritable;
use crate::candidate;
use crate::detect::Pulse;
use crate::health::HealthState;
use crate::history::History;
use crate::lag::LagState;
use crate::observation::{Channel, Facts, Failure, FailureClass, Replication};
use crate::settings::{Mode, ServerSpec};
use crate::topology::{self, Node};

/// `Uptime` counts whole seconds, and its reading takes time.
const UPTIME_SLACK: Duration = Duration::from_secs(2);
/// A server that was started less than this ago, as seen for the first time, may have lost something just now.
const FRESH_START_S: u64 = 60;

pub(super) use crate::memory::ServerUse as Use;

/// One server.
pub(super) struct Server {
    pub(super) id: ServerId,
    pub(super) spec: ServerSpec,
    pub(super) health: HealthState,
    pub(super) facts: Option<(Facts, Instant)>,
    /// Of these facts.
    pub(super) history: Option<History>,
    pub(super) failure: Option<Failure>,
    /// Since when no probe succeeded.
    pub(super) failing_since: Option<Instant>,
    /// Two questions in a row, over different connections, were not answered.
    pub(super) confirmed: bool,
    /// Signs of life by channel: name, host and port of its source.
    pub(super) pulses: BTreeMap<(Arc<str>, Arc<str>, u16), Pulse>,
    pub(super) lag_state: LagState,
    pub(super) lag: Option<Duration>,
    /// The last lag that was known while its source answered.
    pub(super) lag_with_source: Option<Duration>,
    pub(super) wanted: Use,
    /// It was the primary, and may not be used until it follows another.
    pub(super) deposed: bool,
    /// It has what the others have, as far as they are reached: it may be the primary.
    pub(super) verified: bool,
    /// Since when it is not: others must be read after this, and it after them.
    pub(super) doubted_since: Option<Instant>,
    /// The data that it lacks, in words, if that was found.
    pub(super) lacks: Option<Arc<str>>,
    /// It was started anew and may have lost what was not on disk.
    pub(super) restarted: bool,
    /// Repairs of it wait until then.
    pub(super) repair_after: Option<Instant>,
    pub(super) repair_failures: u32,
    /// It was to follow a server, and nobody knows whether that was done to its end: its threads may have been left stopped.
    pub(super) half_attached: bool,
    /// The reason why it cannot be attached, in words.
    pub(super) ahead: Option<Arc<str>>,
    /// It has all that was written anywhere before this moment, in a Galera group.
    pub(super) caught_up: Option<Instant>,
    /// Writes to it fail or hang.
    pub(super) unwritable: Option<Unwritable>,
    /// How often in a row it has reported that it has applied all that came from its replication group.
    pub(super) idle_answers: u32,
    /// When an urgent probe was asked for last.
    pub(super) asked: Option<Instant>,
    /// When a step has changed it last.
    pub(super) changed: Option<Instant>,
}

impl Server {
    pub(super) fn new(id: ServerId, spec: ServerSpec) -> Server {
        Server {
            id,
            spec,
            health: HealthState::new(),
            facts: None,
            history: None,
            failure: None,
            failing_since: None,
            confirmed: false,
            pulses: BTreeMap::new(),
            lag_state: LagState::default(),
            lag: None,
            lag_with_source: None,
            wanted: Use::Normal,
            deposed: false,
            verified: false,
            doubted_since: None,
            lacks: None,
            restarted: false,
            repair_after: None,
            repair_failures: 0,
            half_attached: false,
            ahead: None,
            caught_up: None,
            unwritable: None,
            idle_answers: 0,
            asked: None,
            changed: None,
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.spec.name
    }

    pub(super) fn reported(&self) -> Option<&Facts> {
        self.facts.as_ref().map(|(facts, _)| facts)
    }

    /// It has been silent on two connections already.
    pub(super) fn is_silent(&self) -> bool {
        let silent = |failure: &Failure| matches!(failure.class, FailureClass::Silent | FailureClass::Timeout);
        self.confirmed && self.failure.as_ref().is_some_and(silent)
    }

    /// It answered its last probe completely.
    pub(super) fn answers(&self) -> bool {
        self.facts.is_some() && self.failure.is_none()
    }

    pub(super) fn takes_writes(&self) -> bool {
        self.reported().is_some_and(|facts| !facts.read_only && !facts.super_read_only)
    }

    /// The use that an operator wants of it, in words.
    pub(super) fn use_words(&self) -> &'static str {
        match self.wanted {
            Use::Normal => "used",
            Use::Draining => "drained",
            Use::Maintenance => "in maintenance",
        }
    }

    pub(super) fn resting(&self) -> bool {
        self.wanted == Use::Maintenance
    }

    pub(super) fn channels(&self) -> &[Channel] {
        match self.reported().map(|facts| &facts.replication) {
            Some(Replication::Channels(channels)) => channels,
            Some(Replication::Unreadable(_)) | None => &[],
        }
    }

    pub(super) fn pulse(&self, channel: &Channel) -> Pulse {
        let key = (channel.name.clone(), channel.source_host.clone(), channel.source_port);
        self.pulses.get(&key).cloned().unwrap_or_default()
    }

    fn note_restart(&mut self, now: Instant, new: Option<u64>) {
        let Some(new) = new else { return };
        let before = self.facts.as_ref().and_then(|(facts, at)| Some((facts.details.uptime_s?, *at)));
        self.restarted |= match before {
            None => new < FRESH_START_S,
            Some((old, at)) => {
                let expected = Duration::from_secs(old) + now.saturating_duration_since(at);
                Duration::from_secs(new) + UPTIME_SLACK < expected
            }
        };
    }
}

impl Driver {
    pub(super) fn index(&self, id: ServerId) -> Option<usize> {
        self.servers.iter().position(|server| server.id == id)
    }

    pub(super) fn name_of(&self, id: ServerId) -> Arc<str> {
        self.index(id).map_or_else(|| "?".into(), |index| self.servers[index].name().clone())
    }

    pub(super) fn nodes(&self) -> Vec<Node<'_>> {
        let node = |server| -> Node<'_> {
            let server: &Server = server;
            let facts = server.reported();
            Node { address: &server.spec.address, resolved: facts.and_then(|facts| facts.resolved), facts }
        };
        self.servers.iter().map(node).collect()
    }

    /// The servers that each one follows, by index.
    pub(super) fn sources(&self) -> Vec<Vec<usize>> {
        topology::sources(&self.nodes())
    }

    /// The channel of server `index` that comes from server `source`.
    pub(super) fn channel_from(&self, index: usize, source: usize) -> Option<&Channel> {
        let nodes = self.nodes();
        self.servers[index].channels().iter().find(|channel| topology::source(&nodes, index, channel) == Some(source))
    }

    /// It answers now, and counts.
    pub(super) fn reached(&self, index: usize, now: Instant) -> bool {
        let server = &self.servers[index];
        let fresh = (self.settings.interval + self.settings.timeout) * 2;
        let recent = server.facts.as_ref().is_some_and(|(_, at)| now.saturating_duration_since(*at) <= fresh);
        server.answers() && recent && !server.resting()
    }

    /// Takes facts in, from a probe or from a step.
    pub(super) fn learn(&mut self, now: Instant, index: usize, facts: Facts) {
        let limits = self.limits();
        let server = &mut self.servers[index];
        server.note_restart(now, facts.details.uptime_s);
        if server.restarted && server.verified {
            (server.verified, server.doubted_since) = (false, None);
        }
        server.health.answered(now, &limits);
        server.failure = None;
        server.failing_since = None;
        server.confirmed = false;
        server.history = History::of(&facts);
        let group = |facts: &Facts| facts.details.group_replication.clone();
        let before = server.reported().and_then(group);
        server.idle_answers = group(&facts).map_or(0, |own| own.idle_for(before.as_ref(), server.idle_answers));
        if let Replication::Channels(channels) = &facts.replication {
            // Stopped from now on, it was stopped by somebody else.
            server.half_attached &= !channels.iter().any(Channel::works);
            let key = |channel: &Channel| (channel.name.clone(), channel.source_host.clone(), channel.source_port);
            server.pulses.retain(|known, _| channels.iter().any(|channel| key(channel) == *known));
            for channel in channels {
                server.pulses.entry(key(channel)).or_default().note(now, channel.life);
            }
        }
        if server.health.health() == Health::Up && !facts.read_only && !facts.super_read_only && !server.deposed {
            let semi_sync = &facts.details.semi_sync;
            let lossless = semi_sync.source_active == Some(true) && semi_sync.after_sync == Some(true);
            if lossless {
                self.acks_seen = Some(semi_sync.acks_needed.unwrap_or(1));
            } else if self.view.primary == Some(server.id) && !server.restarted {
                self.acks_seen = None;
            }
        }
        server.facts = Some((facts, now));
        self.verify(index, now);
    }

    /// Takes a failure in. `counts`: it was a probe.
    pub(super) fn learn_failure(&mut self, now: Instant, index: usize, failure: Failure, counts: bool) {
        let limits = self.limits();
        let server = &mut self.servers[index];
        if failure.class.proves_life() {
            server.health.answered(now, &limits);
            (server.failing_since, server.confirmed) = (None, false);
        } else {
            if counts {
                server.health.failed(&limits);
                server.confirmed |= server.failing_since.is_some();
            }
            server.failing_since.get_or_insert(now);
            if server.health.health() == Health::Down {
                (server.verified, server.doubted_since) = (false, None);
            }
        }
        server.failure = Some(failure);
    }

    /// A server that takes writes and is to be the primary must have what the others have. It is read after them, so what
    /// it lacks then it has lost, or never had.
    fn verify(&mut self, index: usize, now: Instant) {
        let server = &self.servers[index];
        if !server.takes_writes() {
            let server = &mut self.servers[index];
            (server.verified, server.doubted_since, server.lacks) = (false, None, None);
            return;
        }
        if server.verified {
            return;
        }
        let named = self.reign.external_primary() == Some(server.id);
        if self.settings.failover.mode != Mode::Auto || named {
            let server = &mut self.servers[index];
            (server.verified, server.lacks) = (true, None);
            return;
        }
        let since = *self.servers[index].doubted_since.get_or_insert(now);
        if self.waits_for(index, since, now).next().is_some() {
            return;
        }
        let server = &self.servers[index];
        let lacks = self.lacks(index, now);
        let enough = !server.restarted
            || !self.settings.failover.semi_sync_required
            || self
                .lossless(Some(server.id), &|id| self.index(id).is_some_and(|index| self.reached(index, now)))
                .is_ok();
        let server = &mut self.servers[index];
        server.verified = lacks.is_none() && enough;
        server.restarted &= !server.verified;
        server.lacks = lacks.or((!enough).then(|| {
            "it was started anew, and too few servers are reached to tell whether it lost acknowledged writes".into()
        }));
    }

    /// The servers that have to tell something before another one can be verified.
    pub(super) fn waits_for(&self, index: usize, since: Instant, now: Instant) -> impl Iterator<Item = usize> {
        (0..self.servers.len()).filter(move |other| {
            let server = &self.servers[*other];
            let unseen = !server.health.seen() && !server.resting();
            let read = server.facts.as_ref().is_some_and(|(_, at)| *at > since);
            *other != index && (unseen || (self.reached(*other, now) && !read))
        })
    }

    /// The data that other reached servers have and this one lacks, in words, unless no client can have got an OK for it.
    pub(super) fn lacks(&self, index: usize, now: Instant) -> Option<Arc<str>> {
        let here = self.servers[index].history.as_ref()?;
        let last = self.reign.last_primary().and_then(|id| self.index(id));
        let reference = last.and_then(|last| self.servers[last].history.as_ref());
        let sources = self.sources();
        let reached = |id: ServerId| self.index(id).is_some_and(|index| self.reached(index, now));
        let followers = sources.iter().filter(|sources| sources.contains(&index)).count();
        let followed = (followers + 1) * 2 > self.servers.len();
        (0..self.servers.len()).filter(|other| *other != index && self.reached(*other, now)).find_map(|other| {
            let server = &self.servers[other];
            let there = server.history.as_ref()?;
            let is_replica = !server.channels().is_empty();
            let extra = match reference {
                Some(_) => candidate::beyond(there, here, is_replica, reference),
                // Nothing is known from before: what its own replica has written itself does not count.
                None if sources[other].contains(&index) => there.split(there.beyond(here)).1,
                None => there.beyond(here),
            };
            // Without semi-sync the server that most follow is meant, whatever others have beside it.
            let beside = !self.settings.failover.semi_sync_required
                && !sources[other].contains(&index)
                && (followed || last == Some(index) || server.deposed);
            let counts = !beside
                && server.ahead.is_none()
                && self.may_be_acknowledged(Some(self.servers[index].id), &reached, &extra);
            (!extra.is_empty() && counts).then(|| format!("{} has {extra}", server.name()).into())
        })
    }
}
