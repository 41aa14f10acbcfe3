//! The only entry of the deciding part: observations go in, a view and wishes come out.
//!
//! The caller's order: [`Driver::observe`] for each observation and [`Driver::tick`] now and then, each followed by
//! [`Driver::poll_output`] until it gives `None`. [`Driver::outcome`] answers each [`Output::Execute`] once, [`Driver::lease`]
//! tells of the lease whenever it is taken, renewed or lost, [`Driver::command`] asks for something.

#[cfg(test)]
pub(crate) mod script;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::analysis::{self, Known};
use crate::command::{Accepted, Command, Refused};
use crate::diagnosis::Diagnosis;
use crate::health::{HealthState, Limits};
use crate::journal::Entry;
use crate::lag::{Bounds, LagState, Verdict};
use crate::observation::{Channel, EvidenceKind, Facts, Failure, Observation, Replication, Seen};
pub use crate::settings::{Failover, Mode, PromotionRule, ServerSpec, Settings};
use crate::step::{Order, StepError, StepId, StepResult};
use crate::topology;
use crate::view::{Flavour, Health, Role, ServerId, ServerView, View};

/// What the driver wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Publish this view; its number is greater than that of the view before.
    Publish(View),
    /// Probe this server at once.
    Probe(ServerId),
    /// Carry this step out and tell the outcome by [`Driver::outcome`].
    Execute(Order),
    /// Write this down; keep the last ones for the API.
    Journal(Entry),
    /// Tell the operator.
    Log(Event),
}

/// Something that the operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// How much it matters.
    pub level: Level,
    /// The server it concerns.
    pub server: Option<Arc<str>>,
    /// In words.
    pub text: String,
}

/// How much an event matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A change, all is well.
    Info,
    /// Something should be looked at.
    Warn,
    /// Traffic suffers.
    Error,
}

struct Server {
    id: ServerId,
    spec: ServerSpec,
    health: HealthState,
    facts: Option<(Facts, Instant)>,
    failure: Option<Failure>,
    lag_state: LagState,
    lag: Option<Duration>,
}

/// Watches one cluster.
pub struct Driver {
    settings: Settings,
    servers: Vec<Server>,
    next_id: u32,
    view: View,
    /// The primary that was published last, be it down since.
    last_primary: Option<ServerId>,
    diagnoses: Vec<Diagnosis>,
    outputs: VecDeque<Output>,
}

impl Driver {
    /// Watches these servers, of which nothing is known yet.
    pub fn new(settings: Settings, servers: Vec<ServerSpec>, now: Instant) -> Driver {
        let mut driver = Driver {
            view: View::empty(&settings.cluster),
            settings,
            servers: Vec::new(),
            next_id: 0,
            last_primary: None,
            diagnoses: Vec::new(),
            outputs: VecDeque::new(),
        };
        driver.take_specs(servers);
        driver.decide(now);
        driver
    }

    /// Takes a new configuration. A server that keeps name and address keeps its identity and what is known of it; one
    /// whose address changed is another server.
    pub fn reconfigure(&mut self, settings: Settings, servers: Vec<ServerSpec>, now: Instant) {
        self.settings = settings;
        self.take_specs(servers);
        self.decide(now);
    }

    /// Takes what was seen of a server; of an unknown server it is ignored, for it may have been removed just now.
    pub fn observe(&mut self, now: Instant, observation: Observation) {
        let limits = self.limits();
        let Some(server) = self.servers.iter_mut().find(|server| server.id == observation.server) else { return };
        match observation.seen {
            Seen::Facts(facts) => {
                server.health.answered(now, &limits);
                server.facts = Some((*facts, now));
                server.failure = None;
            }
            Seen::Failure(failure) => {
                if failure.class.proves_life() {
                    server.health.answered(now, &limits);
                } else {
                    server.health.failed(&limits);
                }
                server.failure = Some(failure);
            }
            Seen::Evidence(EvidenceKind::ConnectFailed | EvidenceKind::ConnectionLost) => {
                if server.health.doubt(now) {
                    self.outputs.push_back(Output::Probe(observation.server));
                }
            }
            Seen::Evidence(EvidenceKind::ReadOnly) => {
                // Worth a look only if the server is thought to be writable; the probe decides.
                if self.view.primary == Some(observation.server) {
                    self.outputs.push_back(Output::Probe(observation.server));
                }
            }
        }
        self.decide(now);
    }

    /// Lets time pass.
    pub fn tick(&mut self, now: Instant) {
        self.decide(now);
    }

    /// How a step ended. That of a run which is over is ignored.
    pub fn outcome(&mut self, now: Instant, _id: StepId, _outcome: Result<StepResult, StepError>) {
        self.decide(now);
    }

    /// The lease is held until then; `None`: it is not held.
    pub fn lease(&mut self, now: Instant, _held_until: Option<Instant>) {
        self.decide(now);
    }

    /// Carries a wish out, or says why not.
    ///
    /// # Errors
    /// The wish is not carried out; the words say why, and nothing was changed.
    pub fn command(&mut self, _now: Instant, _command: Command) -> Result<Accepted, Refused> {
        Err(Refused::because("this version moves no primary yet"))
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The view as published last.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// What is wrong now.
    pub fn diagnoses(&self) -> &[Diagnosis] {
        &self.diagnoses
    }

    /// A server's lag as judged last, for metrics; the view's is coarser so that it does not change with every probe.
    pub fn lag(&self, id: ServerId) -> Option<Duration> {
        self.servers.iter().find(|server| server.id == id)?.lag
    }

    /// The servers as configured, with their identities.
    pub fn servers(&self) -> impl Iterator<Item = (ServerId, &ServerSpec)> {
        self.servers.iter().map(|server| (server.id, &server.spec))
    }

    fn limits(&self) -> Limits {
        Limits {
            down_after: self.settings.down_after.max(1),
            up_after: self.settings.up_after.max(1),
            interval: self.settings.interval,
        }
    }

    fn bounds(&self) -> Bounds {
        let detection = (self.settings.interval + self.settings.timeout) * (self.settings.down_after + 1);
        Bounds { max_lag: self.settings.max_lag, interval: self.settings.interval, reconnect_grace: detection }
    }

    fn take_specs(&mut self, specs: Vec<ServerSpec>) {
        let mut old = std::mem::take(&mut self.servers);
        for spec in specs {
            let same = old.iter().position(|s| s.spec.name == spec.name && s.spec.address == spec.address);
            if let Some(index) = same {
                let mut server = old.swap_remove(index);
                server.spec = spec;
                self.servers.push(server);
                continue;
            }
            let Ok(id) = u16::try_from(self.next_id) else {
                // 65,536 servers have been configured in the life of this process.
                let text = "no identity is left for this server; restart the process to use it".to_owned();
                self.log(Level::Error, Some(spec.name), text);
                continue;
            };
            self.next_id += 1;
            self.servers.push(Server {
                id: ServerId(id),
                spec,
                health: HealthState::new(),
                facts: None,
                failure: None,
                lag_state: LagState::default(),
                lag: None,
            });
        }
    }

    /// Computes the view anew and publishes it if it differs.
    fn decide(&mut self, now: Instant) {
        let previous = self.last_primary.and_then(|id| self.servers.iter().position(|server| server.id == id));
        let known: Vec<Known<'_>> = self.servers.iter().map(known).collect();
        let mut analysis = analysis::analyse(&known, previous, self.settings.standalone);
        let flavour = flavour(&self.servers);
        let primary = analysis.primary.map(|index| self.servers[index].id);
        let bounds = self.bounds();
        let mut views = Vec::with_capacity(self.servers.len());
        for index in 0..self.servers.len() {
            let (role, role_reason) = std::mem::replace(&mut analysis.roles[index], (Role::Unknown, String::new()));
            let verdict = self.judge(now, index, role, &analysis.sources, &bounds);
            let server = &mut self.servers[index];
            if verdict.broken && server.health.health() != Health::Down {
                analysis.diagnoses.push(Diagnosis::ReplicationBroken(server.spec.name.clone()));
            }
            server.lag = verdict.lag;
            let before = self.view.server(server.id);
            views.push(ServerView {
                id: server.id,
                name: server.spec.name.clone(),
                address: server.spec.address.clone(),
                resolved: server.facts.as_ref().and_then(|(facts, _)| facts.resolved),
                role,
                health: server.health.health(),
                lag: calm(before, &verdict),
                serves_reads: verdict.serves_reads,
                fenced: false,
                weight: server.spec.weight,
                zone: server.spec.zone.clone(),
                reason: reason(server, &self.settings, role, &role_reason, &verdict),
            });
        }
        let changed = self.view.primary != primary
            || self.view.flavour.as_deref() != flavour.as_ref()
            || self.view.servers[..] != views[..];
        let diagnoses = std::mem::replace(&mut self.diagnoses, analysis.diagnoses);
        if changed || self.view.number == 0 {
            let view = View {
                number: self.view.number + 1,
                cluster: self.settings.cluster.clone(),
                epoch: self.view.epoch + u64::from(primary.is_some() && primary != self.last_primary),
                primary,
                hold_writes: false,
                servers: views.into(),
                flavour: match &self.view.flavour {
                    Some(before) if Some(&**before) == flavour.as_ref() => Some(before.clone()),
                    _ => flavour.map(Arc::new),
                },
            };
            let before = std::mem::replace(&mut self.view, view.clone());
            self.outputs.push_back(Output::Publish(view));
            self.tell_changes(&before);
            self.last_primary = primary.or(self.last_primary);
        }
        self.tell_diagnoses(&diagnoses);
    }

    fn judge(&mut self, now: Instant, index: usize, role: Role, sources: &[Vec<usize>], bounds: &Bounds) -> Verdict {
        let nothing = |reason: &str| Verdict { lag: None, serves_reads: false, broken: false, reason: reason.into() };
        let down = |index: usize| self.servers[index].health.health() == Health::Down;
        if down(index) {
            return nothing("");
        }
        match role {
            Role::Primary => return Verdict { serves_reads: true, ..nothing("") },
            Role::Unknown => return nothing(""),
            Role::Replica => {}
        }
        let source_gone = !sources[index].is_empty() && sources[index].iter().all(|source| down(*source));
        let nodes: Vec<topology::Node<'_>> = self.servers.iter().map(|server| known(server).node).collect();
        let Some((facts, facts_at)) = self.servers[index].facts.as_ref() else { return nothing("") };
        let all: &[Channel] = match &facts.replication {
            Replication::Channels(channels) => channels,
            Replication::Unreadable(_) => &[],
        };
        let own: Vec<&Channel> =
            all.iter().filter(|channel| topology::source(&nodes, index, channel).is_some()).collect();
        let counting = if own.is_empty() { all.iter().collect() } else { own };
        let mut state = self.servers[index].lag_state.clone();
        let verdict = state.judge(now, bounds, facts, *facts_at, &counting, source_gone);
        self.servers[index].lag_state = state;
        verdict
    }

    fn tell_changes(&mut self, before: &View) {
        let after = self.view.clone();
        if before.primary != after.primary {
            let name = |id: ServerId| {
                [&after, before].into_iter().find_map(|view| view.server(id)).map_or("?".into(), |s| s.name.to_string())
            };
            match (before.primary, after.primary) {
                (_, Some(new)) => {
                    let text = match self.last_primary {
                        Some(old) if old == new => format!("primary is {} again", name(new)),
                        Some(old) => format!("primary is {}, after {}", name(new), name(old)),
                        None => format!("primary is {}", name(new)),
                    };
                    self.log(Level::Info, Some(name(new).into()), text);
                }
                (Some(old), None) => {
                    self.log(Level::Error, Some(name(old).into()), format!("primary {} is lost", name(old)));
                    // Whoever took over should be known at once.
                    let others = after.servers.iter().filter(|server| server.id != old).map(|server| server.id);
                    self.outputs.extend(others.map(Output::Probe));
                }
                (None, None) => {}
            }
        }
        for server in after.servers.iter() {
            let old = before.server(server.id);
            let was = old.map(|old| (old.role, old.health, old.serves_reads));
            if was == Some((server.role, server.health, server.serves_reads))
                || (old.is_none() && server.role == Role::Unknown)
            {
                continue;
            }
            let level = match server.health {
                Health::Down | Health::Suspect => Level::Warn,
                _ if server.role == Role::Replica && !server.serves_reads => Level::Warn,
                Health::Up | Health::Draining => Level::Info,
            };
            let text =
                format!("{} is {}, {}: {}", server.name, server.role.word(), server.health.word(), server.reason);
            self.log(level, Some(server.name.clone()), text);
        }
    }

    fn tell_diagnoses(&mut self, before: &[Diagnosis]) {
        let new: Vec<_> = self.diagnoses.iter().filter(|diagnosis| !before.contains(diagnosis)).cloned().collect();
        for diagnosis in new {
            let level = if diagnosis.is_severe() { Level::Error } else { Level::Warn };
            self.log(level, None, format!("{}: {diagnosis}", diagnosis.name()));
        }
        let gone: Vec<_> = before.iter().filter(|diagnosis| !self.diagnoses.contains(diagnosis)).collect();
        for diagnosis in gone {
            self.log(Level::Info, None, format!("no longer {}: {diagnosis}", diagnosis.name()));
        }
    }

    fn log(&mut self, level: Level, server: Option<Arc<str>>, text: String) {
        self.outputs.push_back(Output::Log(Event { level, server, text }));
    }
}

fn known(server: &Server) -> Known<'_> {
    let facts = server.facts.as_ref().map(|(facts, _)| facts);
    Known {
        name: &server.spec.name,
        node: topology::Node { address: &server.spec.address, resolved: facts.and_then(|facts| facts.resolved), facts },
        health: server.health.health(),
        seen: server.health.seen(),
        failure: server.failure.as_ref(),
    }
}

/// The lag that the view shows: it stands still while it changes little, so that views stay few.
fn calm(before: Option<&ServerView>, verdict: &Verdict) -> Option<Duration> {
    let new = verdict.lag?;
    match before {
        Some(ServerView { lag: Some(old), serves_reads, .. }) if *serves_reads == verdict.serves_reads => {
            let step = (*old / 4).max(Duration::from_millis(100));
            Some(if new.abs_diff(*old) < step { *old } else { new })
        }
        _ => Some(new),
    }
}

fn reason(server: &Server, settings: &Settings, role: Role, role_reason: &str, verdict: &Verdict) -> Arc<str> {
    let failure = server.failure.as_ref().map_or("", |failure| &failure.text);
    match server.health.health() {
        Health::Down if !server.health.seen() => "not probed yet".into(),
        Health::Down if server.health.successes() > 0 => {
            format!("answers again, {} of {} good probes needed", server.health.successes(), settings.up_after).into()
        }
        Health::Down => format!("does not answer: {failure}").into(),
        Health::Suspect if server.health.doubted() => "a session could not use it; a probe is under way".into(),
        Health::Suspect => {
            format!("{} of {} failed probes: {failure}", server.health.failures(), settings.down_after).into()
        }
        Health::Up | Health::Draining => match role {
            Role::Replica if !verdict.reason.is_empty() => format!("{role_reason}; {}", verdict.reason).into(),
            _ => role_reason.into(),
        },
    }
}

/// What clients can be told: the lowest version, and the capabilities that all servers have. Servers that are down
/// count with what they told last, so that the greeting does not change with every failure.
fn flavour(servers: &[Server]) -> Option<Flavour> {
    let greetings = || servers.iter().filter_map(|server| server.facts.as_ref()).map(|(facts, _)| &facts.greeting);
    let lowest = greetings().min_by_key(|greeting| greeting.number)?;
    Some(Flavour {
        mariadb: lowest.mariadb,
        greeting_version: lowest.version.clone(),
        number: lowest.number,
        capabilities: greetings().fold(!0, |all, greeting| all & greeting.capabilities),
        auth_plugin: lowest.auth_plugin.clone(),
        collation: lowest.collation,
    })
}
