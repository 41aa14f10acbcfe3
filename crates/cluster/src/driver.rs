//! The only entry of the deciding part: observations go in, a view and orders come out.
//!
//! The caller's order: [`Driver::observe`] for each observation and [`Driver::tick`] now and then, each followed by
//! [`Driver::poll_output`] until it gives `None`. [`Driver::outcome`] answers each [`Output::Execute`] once, [`Driver::lease`]
//! tells of the lease whenever it is taken, renewed or lost, [`Driver::command`] asks for something.

mod commands;
mod elect;
mod failover;
mod fetch;
mod group;
mod group_writer;
mod held_lease;
mod preferred;
mod promotion;
mod proof;
mod publish;
mod reign;
mod repair;
#[cfg(test)]
mod replacing;
mod run;
#[cfg(test)]
pub(crate) mod script;
mod server;
#[cfg(test)]
mod simulation;
mod steps;
mod switchover;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod two_phases;
mod watch;
mod words;
mod writes;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::evidence::EvidenceKind;
use facts::view::{ServerId, ServerIds, View};

use self::group_writer::GroupWriter;
use self::held_lease::HeldLease;
use self::reign::Reign;
use self::run::Run;
use self::server::Server;
use self::steps::Out;
use crate::diagnosis::Diagnosis;
use crate::guard::Guard;
use crate::health::Limits;
use crate::journal::{EntryKind, JournalEntry};
use crate::lag::Bounds;
use crate::memory::{Memory, ServerUse};
use crate::observation::{Observation, ObservationKind};
pub use crate::settings::{Failover, GroupKind, Mode, PromotionRule, ServerSpec, Settings};
use crate::step::{Order, StepError, StepId, StepResult};
use facts::command::{Accepted, Command, Refused};

/// A request of the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Publish this view; its number is greater than that of the view before.
    Publish(View),
    /// Probe this server at once.
    Probe(ServerId),
    /// Have this member of a Galera group show that it has all that was written before now, and tell the moment by
    /// [`ObservationKind::CaughtUp`].
    CatchUp(ServerId),
    /// Carry this step out and tell the outcome by [`Driver::outcome`].
    Execute(Order),
    /// Write this down; keep the last ones for the API.
    Journal(JournalEntry),
    /// Keep this for the next process, in place of what was kept before.
    Remember(Memory),
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
    /// A primary, a role, a health or a diagnosis changed. The journal does not have it.
    pub is_state: bool,
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

/// How often runs are moved on, and new ones looked for, after one event. The limit is there for mistakes.
const SETTLE_ROUNDS_MAX: u32 = 16;

/// Watches one cluster.
pub struct Driver {
    settings: Settings,
    servers: Vec<Server>,
    ids: ServerIds,
    view: View,
    /// The primary of servers that replicate, as it is or should be.
    reign: Reign,
    /// The same for a group that decides by itself.
    group_writer: GroupWriter,
    lease: HeldLease,
    diagnoses: Vec<Diagnosis>,
    /// Those of them that concern failover.
    findings: Vec<Diagnosis>,
    /// The last advice, so that it is given once.
    advised: Option<String>,
    runs: Vec<Run>,
    /// Steps that are out, also those of runs that are over: their servers are busy.
    out: Vec<Out>,
    next_run: u64,
    next_step: u64,
    guard: Guard,
    /// How many replicas acknowledged the writes of the last primary that was seen to wait for them.
    acks_seen: Option<u32>,
    /// How often a bound of turns was reached.
    unsettled: u64,
    /// The memory that was given out to be kept.
    remembered: Memory,
    outputs: VecDeque<Output>,
}

impl Driver {
    /// Watches these servers, of which nothing is known yet; each gets the next of `ids`.
    pub fn new(settings: Settings, servers: Vec<ServerSpec>, ids: ServerIds, now: Instant) -> Driver {
        let mut driver = Driver {
            view: View::empty(&settings.cluster),
            settings,
            servers: Vec::new(),
            ids,
            reign: Reign::default(),
            group_writer: GroupWriter::default(),
            lease: HeldLease::default(),
            diagnoses: Vec::new(),
            findings: Vec::new(),
            advised: None,
            runs: Vec::new(),
            out: Vec::new(),
            next_run: 0,
            next_step: 0,
            guard: Guard::default(),
            acks_seen: None,
            unsettled: 0,
            remembered: Memory::default(),
            outputs: VecDeque::new(),
        };
        driver.take_specs(servers);
        driver.decide(now);
        driver
    }

    /// Goes on from what an earlier process kept: a cool-down is not over, epochs and numbers of runs are not given again, and servers that
    /// an operator has taken out stay so. To be called before anything is observed.
    pub fn recall(&mut self, memory: Memory) {
        self.view.epoch = memory.epoch;
        self.next_run = memory.runs;
        self.guard.recall(memory.promoted, memory.failures);
        for (name, wanted) in &memory.uses {
            let Some(server) = self.servers.iter_mut().find(|server| server.spec.name == *name) else { continue };
            server.wanted = *wanted;
            let text = format!("{name} is still {}: an operator ordered it before this process", server.use_words());
            self.log(Level::Info, Some(name.clone()), text);
        }
        for output in &mut self.outputs {
            if let Output::Publish(view) = output {
                view.epoch = memory.epoch;
            }
        }
        self.remembered = memory;
    }

    /// Takes a new configuration. A server that keeps name and address keeps its identity and what is known of it; one
    /// whose address changed is another server.
    pub fn reconfigure(&mut self, settings: Settings, servers: Vec<ServerSpec>, now: Instant) {
        self.settings = settings;
        self.take_specs(servers);
        // A run without an order is not finished against the operator's will, unless it is past the promotion.
        let acts = self.acts();
        let (kept, dropped) =
            std::mem::take(&mut self.runs).into_iter().partition(|run: &Run| run.ordered || run.is_promoted() || acts);
        self.runs = kept;
        for run in dropped {
            let text = "the configuration does not want it any more; nothing was promoted".to_owned();
            self.note(run.id, EntryKind::Aborted(run.kind.word()), run.old.map(|id| self.name_of(id)), text);
        }
        self.settle(now);
    }

    /// Takes what was seen of a server; of an unknown server it is ignored, for it may have been removed just now.
    pub fn observe(&mut self, now: Instant, observation: Observation) {
        let Some(index) = self.index(observation.server) else { return };
        let outdated = self.servers[index].changed.is_some_and(|changed| observation.asked < changed);
        match observation.seen {
            // It was asked before a step changed it: a new primary would look read-only once more.
            ObservationKind::Facts(_) if outdated => self.outputs.push_back(Output::Probe(observation.server)),
            ObservationKind::Facts(facts) => self.learn(now, index, *facts),
            ObservationKind::Failure(failure) => self.learn_failure(now, index, failure, true),
            ObservationKind::FailedTwice(failure) => {
                self.learn_failure(now, index, failure, true);
                self.servers[index].confirmed = self.servers[index].failing_since.is_some();
            }
            ObservationKind::Evidence(EvidenceKind::ConnectFailed | EvidenceKind::ConnectionLost) => {
                if self.servers[index].health.doubt(now) {
                    self.outputs.push_back(Output::Probe(observation.server));
                }
            }
            ObservationKind::CaughtUp(asked) => self.learn_caught_up(index, asked),
            ObservationKind::Written => self.servers[index].unwritable = None,
            ObservationKind::NotWritten(seen) => self.learn_not_written(now, index, seen),
            ObservationKind::Evidence(EvidenceKind::NotInGroup) => self.ask(now, index),
            ObservationKind::Evidence(EvidenceKind::ReadOnly) => {
                // Worth a look only if the server is thought to be writable; the probe decides.
                if self.view.primary == Some(observation.server) {
                    self.outputs.push_back(Output::Probe(observation.server));
                }
            }
        }
        self.look_closely(now);
        self.settle(now);
        self.ask_unverified(now);
    }

    /// Lets time pass.
    pub fn tick(&mut self, now: Instant) {
        self.settle(now);
    }

    /// How a step ended. That of a run which is over changes nothing.
    pub fn outcome(&mut self, now: Instant, id: StepId, outcome: Result<StepResult, StepError>) {
        self.end_step(now, id, outcome);
        self.settle(now);
    }

    /// The lease is held until then; `None`: it is not held.
    pub fn lease(&mut self, now: Instant, held_until: Option<Instant>) {
        self.lease.hold(held_until);
        self.settle(now);
    }

    /// Carries a command out, or says why not.
    ///
    /// # Errors
    /// The command is not carried out; the words say why, and nothing was changed.
    pub fn command(&mut self, now: Instant, command: Command) -> Result<Accepted, Refused> {
        let answer = self.obey(now, command);
        self.settle(now);
        answer
    }

    /// The next thing to do.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The view as published last.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The present diagnoses.
    pub fn diagnoses(&self) -> &[Diagnosis] {
        &self.diagnoses
    }

    /// The end of the cool-down, if there is one now.
    pub fn cooldown_until(&self, now: Instant) -> Option<Instant> {
        self.guard.cooldown_until(now, &self.settings.failover)
    }

    /// So many failovers have failed in a row that an operator must acknowledge them before the next.
    pub fn has_stopped(&self) -> bool {
        self.guard.has_stopped(&self.settings.failover)
    }

    /// How often runs were not settled within their bounds of turns. Anything but 0 is a mistake of this program.
    pub fn unsettled(&self) -> u64 {
        self.unsettled
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

    /// Moves what is under way, publishes, looks for what is to be done, and orders steps; a view always comes before the steps
    /// that rely on it.
    fn settle(&mut self, now: Instant) {
        self.settle_runs(now);
        self.decide(now);
        let (promoted, failures) = self.guard.memory();
        let taken_out = self.servers.iter().filter(|server| server.wanted != ServerUse::Normal);
        let uses = taken_out.map(|server| (server.spec.name.clone(), server.wanted)).collect();
        let memory = Memory { epoch: self.view.epoch, runs: self.next_run, promoted, failures, uses };
        if self.remembered != memory {
            self.remembered = memory.clone();
            self.outputs.push_back(Output::Remember(memory));
        }
    }

    /// A run whose steps all ended at once is moved on at once.
    fn settle_runs(&mut self, now: Instant) {
        for _ in 0..SETTLE_ROUNDS_MAX {
            self.advance(now);
            self.decide(now);
            self.watch(now);
            self.order_steps(now);
            if !self.runs.iter().any(Run::is_due) {
                return;
            }
        }
        self.note_unsettled(format!(
            "runs are not settled after {SETTLE_ROUNDS_MAX} rounds; they go on with the next event"
        ));
    }

    /// Counts and logs that a bound of turns was reached, which is a mistake of this program.
    fn note_unsettled(&mut self, text: String) {
        self.unsettled += 1;
        self.log(Level::Error, None, text);
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
            let Some(id) = self.ids.next_id() else {
                // 65,535 servers have been configured in the life of this process.
                let text = "no identity is left for this server; restart the process to use it".to_owned();
                self.log(Level::Error, Some(spec.name), text);
                continue;
            };
            self.servers.push(Server::new(id, spec));
        }
    }
}
