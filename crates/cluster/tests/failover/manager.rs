//! One instance of Sqluice: a driver, probes, hands that carry steps out, and a client that writes where the view says.

use std::time::{Duration, Instant};

use facts::evidence::{Evidence, EvidenceKind};
use facts::view::{ServerId, ServerIds, View};

use cluster::driver::{Driver, Output, ServerSpec, Settings};
use cluster::memory::Memory;
use cluster::observation::{Failure, FailureClass, NotWritten, Observation, ObservationKind, WriteTrouble};
use cluster::step::{ErrorKind, Order, Step, StepError, StepResult};

use crate::dice::Dice;
use crate::world::World;

const LEASE_MS: u64 = 3_000;
const RENEW_MS: u64 = 1_000;
const PROBE_TIMEOUT_MS: u64 = 1_000;
const INTERVAL_MS: u64 = 500;

struct Probe {
    next_ms: u64,
    /// When it is answered, or given up.
    ends_ms: Option<u64>,
    had_connection: bool,
}

struct Work {
    order: Order,
    starts_ms: u64,
    ends_ms: u64,
}

pub struct Manager {
    pub number: usize,
    pub driver: Option<Driver>,
    pub view: View,
    settings: Settings,
    specs: Vec<ServerSpec>,
    probes: Vec<Probe>,
    work: Vec<Work>,
    lease_until_ms: Option<u64>,
    renew_ms: u64,
    tick_ms: u64,
    client_ms: u64,
    heartbeat_ms: u64,
    /// The state that outlives the process.
    memory: Memory,
    origin: Instant,
}

impl Manager {
    pub fn new(number: usize, settings: Settings, specs: Vec<ServerSpec>, origin: Instant) -> Manager {
        Manager {
            number,
            driver: None,
            view: View::empty("main"),
            settings,
            specs,
            probes: Vec::new(),
            work: Vec::new(),
            lease_until_ms: None,
            renew_ms: 0,
            tick_ms: 0,
            client_ms: 0,
            heartbeat_ms: 0,
            memory: Memory::default(),
            origin,
        }
    }

    pub fn at(&self, ms: u64) -> Instant {
        self.origin + Duration::from_millis(ms)
    }

    pub fn start(&mut self, world: &mut World) {
        let now = self.at(world.now_ms);
        let mut driver = Driver::new(self.settings.clone(), self.specs.clone(), ServerIds::default(), now);
        driver.recall(self.memory.clone());
        self.driver = Some(driver);
        let probe = |_| Probe { next_ms: world.now_ms, ends_ms: None, had_connection: false };
        self.probes = (0..self.specs.len()).map(probe).collect();
        self.view = View::empty("main");
        self.act(world);
    }

    /// The process dies: what it was doing to servers may or may not happen.
    pub fn crash(&mut self, world: &mut World) {
        self.driver = None;
        self.work.clear();
        self.lease_until_ms = None;
        for server in 0..world.servers.len() {
            world.end_sessions(server, Some(self.number));
        }
        self.view = View::empty("main");
    }

    fn reaches(&self, world: &World, server: usize) -> bool {
        world.connected(world.servers.len() + self.number, server)
    }

    pub fn step(&mut self, world: &mut World, dice: &mut Dice) {
        if self.driver.is_none() {
            return;
        }
        self.probe(world, dice);
        self.renew(world);
        self.do_work(world, dice);
        if world.now_ms >= self.tick_ms {
            self.tick_ms = world.now_ms + 200;
            let now = self.at(world.now_ms);
            if let Some(driver) = &mut self.driver {
                driver.tick(now);
            }
            self.act(world);
        }
        self.write(world, dice);
    }

    fn write(&mut self, world: &mut World, dice: &mut Dice) {
        let Some(primary) = self.view.primary.map(|id| usize::from(id.0)) else { return };
        if world.now_ms >= self.heartbeat_ms {
            self.heartbeat_ms = world.now_ms + INTERVAL_MS;
            world.write(self.number, primary, false);
            self.tell_of_heartbeat(world, primary);
        }
        if world.now_ms < self.client_ms || self.view.hold_writes {
            return;
        }
        self.client_ms = world.now_ms + dice.between(30, 90);
        world.write(self.number, primary, true);
        let refused = self.reaches(world, primary) && !world.servers[primary].up;
        if refused && let Some(driver) = &mut self.driver {
            let evidence = Evidence { server: ServerId(primary as u16), kind: EvidenceKind::ConnectFailed };
            let now = self.origin + Duration::from_millis(world.now_ms);
            driver.observe(now, Observation::of_session(evidence, now));
            self.act(world);
        }
    }

    /// A heartbeat that hangs is told; that one was written is told as well.
    fn tell_of_heartbeat(&mut self, world: &mut World, primary: usize) {
        let there = &world.servers[primary];
        if !self.reaches(world, primary) || !there.works() || there.read_only {
            return;
        }
        let seen = match there.full {
            true => ObservationKind::NotWritten(NotWritten { trouble: WriteTrouble::Stuck, text: "it hangs".into() }),
            false => ObservationKind::Written,
        };
        let now = self.at(world.now_ms);
        if let Some(driver) = &mut self.driver {
            driver.observe(now, Observation { server: ServerId(primary as u16), asked: now, seen });
        }
        self.act(world);
    }

    fn probe(&mut self, world: &mut World, dice: &mut Dice) {
        for server in 0..self.probes.len() {
            let (now_ms, reaches) = (world.now_ms, self.reaches(world, server));
            let probe = &mut self.probes[server];
            let Some(ends_ms) = probe.ends_ms else {
                if now_ms >= probe.next_ms {
                    probe.next_ms = now_ms + dice.between(INTERVAL_MS * 9 / 10, INTERVAL_MS * 11 / 10);
                    let good = reaches && !world.servers[server].frozen;
                    probe.ends_ms = Some(now_ms + if good { 0 } else { PROBE_TIMEOUT_MS });
                }
                continue;
            };
            if now_ms < ends_ms {
                continue;
            }
            probe.ends_ms = None;
            let there = &world.servers[server];
            let failure = |class: FailureClass| Failure { class, text: class.word().into() };
            let fails = |class| ObservationKind::Failure(failure(class));
            let seen = match (reaches, there.up, there.frozen) {
                (false, ..) if probe.had_connection => ObservationKind::FailedTwice(failure(FailureClass::Timeout)),
                (false, ..) => fails(FailureClass::Timeout),
                (true, false, _) => fails(FailureClass::Refused),
                (true, true, true) if probe.had_connection => {
                    ObservationKind::FailedTwice(failure(FailureClass::Silent))
                }
                (true, true, true) => fails(FailureClass::Silent),
                (true, true, false) => ObservationKind::Facts(Box::new(there.facts(now_ms))),
            };
            probe.had_connection = matches!(seen, ObservationKind::Facts(_));
            let (now, id) = (self.at(now_ms), ServerId(server as u16));
            if let Some(driver) = &mut self.driver {
                driver.observe(now, Observation { server: id, asked: now, seen });
            }
            self.act(world);
        }
    }

    fn renew(&mut self, world: &mut World) {
        let Some(until) = self.lease_until_ms else { return };
        if world.now_ms >= self.renew_ms {
            self.renew_ms = world.now_ms + RENEW_MS;
            self.take_lease(world);
        } else if world.now_ms >= until {
            self.lease_until_ms = None;
        } else {
            return;
        }
        let (now, until) = (self.at(world.now_ms), self.lease_until_ms.map(|ms| self.at(ms)));
        if let Some(driver) = &mut self.driver {
            driver.lease(now, until);
        }
        self.act(world);
    }

    fn take_lease(&mut self, world: &mut World) -> bool {
        let (now_ms, me) = (world.now_ms, self.number);
        let free = |lock: Option<(usize, u64)>| lock.is_none_or(|(holder, until)| holder == me || until <= now_ms);
        let mine: Vec<usize> = (0..world.servers.len())
            .filter(|server| self.reaches(world, *server) && world.servers[*server].works())
            .filter(|server| free(world.servers[*server].lock))
            .collect();
        if mine.len() * 2 <= world.servers.len() {
            return false;
        }
        for server in mine {
            world.servers[server].lock = Some((me, now_ms + LEASE_MS));
        }
        self.lease_until_ms = Some(now_ms + LEASE_MS - 100);
        self.renew_ms = now_ms + RENEW_MS;
        true
    }

    /// Does what the driver wants.
    pub fn act(&mut self, world: &mut World) {
        while let Some(output) = self.driver.as_mut().and_then(Driver::poll_output) {
            let me = format!("m{}", self.number + 1);
            match output {
                Output::CatchUp(_) => unreachable!("no group"),
                Output::Publish(view) => {
                    for server in view.servers.iter().filter(|server| server.fenced) {
                        world.end_sessions(usize::from(server.id.0), Some(self.number));
                    }
                    if view.primary != self.view.primary || view.hold_writes != self.view.hold_writes {
                        let primary = view.primary.map_or("nobody".into(), |id| format!("s{}", id.0 + 1));
                        let holds = if view.hold_writes { ", new writes held" } else { "" };
                        world.tell(format!(
                            "{me}: view {}: primary {primary}{holds}, epoch {}",
                            view.number, view.epoch
                        ));
                    }
                    self.view = view;
                }
                Output::Probe(id) => {
                    let probe = &mut self.probes[usize::from(id.0)];
                    probe.next_ms = probe.next_ms.min(world.now_ms + 2 * crate::world::STEP_MS);
                }
                Output::Log(_) => {}
                Output::Remember(memory) => self.memory = memory,
                Output::Journal(entry) => {
                    let server = entry.server.as_deref().unwrap_or("");
                    world.tell(format!("{me}: run {} {} {server}: {}", entry.run, entry.kind.word(), entry.text));
                }
                Output::Execute(order) => {
                    let starts_ms = world.now_ms + 10 + (order.id.0 * 7919 + world.now_ms) % 30;
                    let ends_ms = world.now_ms + order.timeout.as_millis() as u64;
                    self.work.push(Work { order, starts_ms, ends_ms });
                }
            }
        }
    }

    fn do_work(&mut self, world: &mut World, dice: &mut Dice) {
        let mut index = 0;
        while index < self.work.len() {
            let work = &self.work[index];
            if world.now_ms < work.starts_ms {
                index += 1;
                continue;
            }
            let (order, ends_ms) = (work.order.clone(), work.ends_ms);
            let Some(mut outcome) = self.try_step(world, &order, ends_ms, dice) else {
                index += 1;
                continue;
            };
            self.work.remove(index);
            // Done, and the answer is lost on the way.
            if order.step.changes() && outcome.is_ok() && dice.percent(2) {
                outcome = Err(StepError { kind: ErrorKind::Timeout, text: "the connection broke".into() });
            }
            let now = self.at(world.now_ms);
            if let Some(driver) = &mut self.driver {
                driver.outcome(now, order.id, outcome);
            }
            self.act(world);
        }
    }

    /// `None`: not over yet.
    fn try_step(
        &mut self,
        world: &mut World,
        order: &Order,
        ends_ms: u64,
        dice: &mut Dice,
    ) -> Option<Result<StepResult, StepError>> {
        let error = |kind, text: &str| Some(Err(StepError { kind, text: text.into() }));
        let late = world.now_ms >= ends_ms;
        match order.step {
            Step::TakeLease => {
                return match self.take_lease(world) {
                    true => Some(Ok(StepResult::Lease { held_until: self.at(self.lease_until_ms?) })),
                    false => error(ErrorKind::LeaseLost, "no majority"),
                };
            }
            Step::ReleaseLease | Step::RunHook { .. } => return Some(Ok(StepResult::Done)),
            _ => {}
        }
        let server = usize::from(order.step.server()?.0);
        if !self.reaches(world, server) {
            return if late { error(ErrorKind::Unreachable(FailureClass::Timeout), "no route") } else { None };
        }
        if !world.servers[server].up {
            return error(ErrorKind::Unreachable(FailureClass::Refused), "refused");
        }
        if world.servers[server].frozen {
            return if late { error(ErrorKind::Unreachable(FailureClass::Silent), "silent") } else { None };
        }
        if order.step.changes() && order.not_after.is_some_and(|end| self.at(world.now_ms) >= end) {
            return error(ErrorKind::LeaseLost, "it ended");
        }
        let (now_ms, me) = (world.now_ms, self.number);
        let there = &mut world.servers[server];
        match &order.step {
            Step::ReadFacts { .. } => Some(Ok(StepResult::Facts(Box::new(there.facts(now_ms))))),
            Step::SetReadOnly { on: true, .. } => {
                // Nothing helps but room.
                if there.full && !there.read_only {
                    return if late { error(ErrorKind::Timeout, "its disk is full") } else { None };
                }
                if there.waiting.is_empty() || there.read_only {
                    there.read_only = true;
                    return Some(Ok(StepResult::Done));
                }
                // Commits that wait for an acknowledgement are ended when they are in the way for too long.
                if now_ms + 1_500 >= ends_ms {
                    there.waiting.clear();
                }
                if late { error(ErrorKind::Timeout, "commits are in the way") } else { None }
            }
            Step::SetReadOnly { .. } => {
                there.read_only = false;
                there.promoted_ms = now_ms;
                Some(Ok(StepResult::Done))
            }
            Step::EndClients { .. } => {
                let count = there.waiting.len() as u32;
                there.waiting.clear();
                Some(Ok(StepResult::Ended(count)))
            }
            Step::WaitIdle { .. } => match there.waiting.iter().any(|waiting| waiting.manager == Some(me)) {
                false => Some(Ok(StepResult::Done)),
                true if late => error(ErrorKind::Timeout, "still busy"),
                true => None,
            },
            Step::StopReceiver { .. } => {
                if let Some(feed) = &mut there.feed {
                    (feed.receiving, feed.connected) = (false, false);
                }
                Some(Ok(StepResult::Done))
            }
            Step::WaitApplied { position, .. } => {
                if there.is_drained() && there.has_position(position) {
                    return Some(Ok(StepResult::Done));
                }
                if late { error(ErrorKind::Timeout, "not applied") } else { None }
            }
            Step::Promote { .. } => {
                if there.feed.as_ref().is_some_and(|feed| feed.receiving) && dice.percent(50) {
                    // Stopping takes a moment; something may still arrive before.
                    there.feed.iter_mut().for_each(|feed| (feed.receiving, feed.connected) = (false, false));
                    return None;
                }
                there.feed.iter_mut().for_each(|feed| (feed.receiving, feed.connected) = (false, false));
                if !there.is_drained() {
                    return error(ErrorKind::Failed, "not everything that was received is applied");
                }
                there.forget_replication();
                (there.read_only, there.promoted_ms) = (false, now_ms);
                let facts = Box::new(there.facts(now_ms));
                world.tell(format!("        s{} is writable", server + 1));
                Some(Ok(StepResult::Facts(facts)))
            }
            Step::DisableEvents { .. } | Step::EnableEvents { .. } => Some(Ok(StepResult::Done)),
            Step::SetGroupPrimary { .. } => error(ErrorKind::Failed, "it belongs to no group"),
            Step::Follow { source, .. } => {
                there.follow(usize::from(source.0));
                Some(Ok(StepResult::Done))
            }
            Step::TakeLease | Step::ReleaseLease | Step::RunHook { .. } => None,
        }
    }
}
