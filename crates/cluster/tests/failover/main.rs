//! Whole clusters that fail at random, from a seed: replication, networks, several instances of Sqluice.
//!
//! `seeds.rs` has the test, and the variables that say which seeds it tries.

extern crate sqluice_cluster as cluster;

mod dice;
mod manager;
mod seeds;
mod server;
mod world;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use facts::view::ServerId;

use cluster::diagnosis::Diagnosis;
use cluster::driver::{Failover, Mode, PromotionRule, ServerSpec, Settings};
use facts::command::Command;

use crate::dice::Dice;
use crate::manager::Manager;
use crate::server::{Feed, Server};
use crate::world::{STEP_MS, World};

/// How long faults happen.
const STORM_MS: u64 = 25_000;
/// How long the cluster may take afterwards until all is well.
const CALM_MS_MAX: u64 = 90_000;

struct Play {
    world: World,
    managers: Vec<Manager>,
    dice: Dice,
    semi_sync: bool,
    /// Events that end later: the moment, and the event.
    later: Vec<(u64, Later)>,
}

#[derive(Clone, Copy, Debug)]
enum Later {
    Start(usize),
    Wake(usize),
    Empty(usize),
    Join(usize, usize),
    Mend(usize),
    Instance(usize),
}

impl Play {
    fn new(seed: u64) -> Play {
        let mut dice = Dice::new(seed);
        let mariadb = dice.percent(50);
        let semi_sync = dice.percent(75);
        // MariaDB waits for one replica only, which is a majority of three.
        let count = if semi_sync && mariadb { 3 } else { dice.between(3, 7) as usize };
        let managers = if semi_sync { dice.between(1, 3) as usize } else { 1 };
        let acks = semi_sync.then_some(count as u32 / 2);
        let careful = dice.percent(50);
        // Of three servers the other two may both be out for good: who lost its tail cannot get its own writes back.
        let barred = count > 3 && dice.percent(50);
        let servers = (0..count).map(|number| Server::new(number, count, mariadb, acks, careful)).collect();
        let mut world = World::new(servers, managers);
        world.tell(format!(
            "seed {seed}: {count} servers, {}, {}, {managers} instances, read_only at start {careful}, s2 must not be promoted {barred}",
            if mariadb { "MariaDB" } else { "MySQL" },
            if semi_sync { "semi-sync" } else { "no semi-sync" },
        ));
        let settings = Settings {
            cluster: "main".into(),
            standalone: false,
            group: None,
            max_lag: Duration::from_secs(10),
            down_after: 3,
            up_after: 2,
            interval: Duration::from_millis(500),
            timeout: Duration::from_millis(1000),
            failover: Failover {
                mode: Mode::Auto,
                cooldown: Duration::ZERO,
                drain_max: Duration::from_secs(3),
                semi_sync_required: semi_sync,
                replace_unwritable: true,
                lease_required: managers > 1,
                ..Failover::default()
            },
        };
        let specs: Vec<ServerSpec> = (1..=count)
            .map(|number| ServerSpec {
                name: format!("s{number}").into(),
                address: format!("s{number}:3306").into(),
                weight: 100,
                zone: "".into(),
                promotion: match number {
                    4 => PromotionRule::Prefer,
                    2 if barred => PromotionRule::MustNot,
                    _ => PromotionRule::Neutral,
                },
            })
            .collect();
        let origin = Instant::now();
        let managers: Vec<Manager> =
            (0..managers).map(|number| Manager::new(number, settings.clone(), specs.clone(), origin)).collect();
        let mut play = Play { world, managers, dice, semi_sync, later: Vec::new() };
        play.managers.iter_mut().for_each(|manager| manager.start(&mut play.world));
        play
    }

    fn step(&mut self) {
        self.world.step(&mut self.dice);
        for manager in &mut self.managers {
            manager.step(&mut self.world, &mut self.dice);
        }
        let now_ms = self.world.now_ms;
        let due: Vec<Later> = self.later.iter().filter(|(at, _)| *at <= now_ms).map(|(_, later)| *later).collect();
        self.later.retain(|(at, _)| *at > now_ms);
        due.into_iter().for_each(|later| self.end(later));
    }

    fn end(&mut self, later: Later) {
        match later {
            Later::Start(server) if !self.world.servers[server].up => {
                self.world.tell(format!("        s{} is started", server + 1));
                let now_ms = self.world.now_ms;
                self.world.servers[server].start(now_ms);
                if !self.world.servers[server].read_only {
                    self.world.tell(format!("        s{} came up writable", server + 1));
                }
            }
            Later::Wake(server) if self.world.servers[server].frozen => {
                self.world.tell(format!("        s{} wakes up", server + 1));
                self.world.wake(server);
            }
            Later::Empty(server) if self.world.servers[server].full => {
                self.world.tell(format!("        s{} has room again", server + 1));
                self.world.make_room(server);
            }
            Later::Join(one, other) => {
                self.world.tell(format!("        {} and {} reach each other", self.node(one), self.node(other)));
                self.world.cut(one, other, false);
            }
            Later::Mend(server) => {
                self.world.servers[server].applier_broken = false;
                self.world.servers[server].applier_slow = false;
            }
            Later::Instance(manager) if self.managers[manager].driver.is_none() => {
                self.world.tell(format!("        m{} is started", manager + 1));
                self.managers[manager].start(&mut self.world);
            }
            _ => {}
        }
    }

    fn node(&self, node: usize) -> String {
        let servers = self.world.servers.len();
        if node < servers { format!("s{}", node + 1) } else { format!("m{}", node - servers + 1) }
    }

    fn primary(&self) -> usize {
        let writable = (0..self.world.servers.len()).find(|server| !self.world.servers[*server].read_only);
        let viewed = self.managers.iter().find_map(|manager| manager.view.primary).map(|id| usize::from(id.0));
        viewed.or(writable).unwrap_or(0)
    }

    fn fault(&mut self) {
        let count = self.world.servers.len();
        let nodes = count + self.managers.len();
        let now_ms = self.world.now_ms;
        // Primaries fail more often than they would by chance.
        let server = if self.dice.percent(60) { self.primary() } else { self.dice.below(count) };
        let soon = now_ms + [self.dice.between(50, 900), self.dice.between(900, 9_000)][self.dice.below(2)];
        match self.dice.below(11) {
            0..=2 if self.world.servers[server].up => {
                let lost = if self.dice.percent(50) { self.dice.below(4) } else { 0 };
                self.world.tell(format!("        s{} dies, and loses {lost} transactions at most", server + 1));
                self.world.servers[server].crash(now_ms, lost);
                // One that comes back writable and without its tail before anybody saw it die is used at once, and nothing
                // helps against that but `read_only` in its configuration (docs/guides/failover.md).
                let careless = lost > 0 && !self.world.servers[server].read_only_at_start;
                let soon = if careless { soon.max(now_ms + 4_000) } else { soon };
                self.later.push((soon, Later::Start(server)));
            }
            3 | 4 if self.world.servers[server].works() => {
                self.world.tell(format!("        s{} freezes", server + 1));
                self.world.servers[server].frozen = true;
                self.later.push((soon, Later::Wake(server)));
            }
            5 => {
                let (one, other) = (server, self.dice.below(nodes));
                if one != other {
                    self.world.tell(format!("        {} and {} lose each other", self.node(one), self.node(other)));
                    self.world.cut(one, other, true);
                    self.later.push((soon, Later::Join(one, other)));
                }
            }
            6 => {
                let side: Vec<bool> = (0..nodes).map(|_| self.dice.percent(50)).collect();
                let names: Vec<String> = (0..nodes).filter(|node| side[*node]).map(|node| self.node(node)).collect();
                self.world.tell(format!("        the network is split: {} on one side", names.join(" ")));
                for one in 0..nodes {
                    for other in 0..one {
                        if side[one] != side[other] {
                            self.world.cut(one, other, true);
                            self.later.push((soon, Later::Join(one, other)));
                        }
                    }
                }
            }
            7 => {
                let broken = self.dice.percent(30);
                let text =
                    format!("        the applier of s{} is {}", server + 1, if broken { "broken" } else { "slow" });
                self.world.tell(text);
                self.world.servers[server].applier_broken |= broken;
                self.world.servers[server].applier_slow |= !broken;
                self.later.push((soon, Later::Mend(server)));
            }
            8 => {
                let manager = self.dice.below(self.managers.len());
                if self.managers[manager].driver.is_some() {
                    self.world.tell(format!("        m{} dies", manager + 1));
                    self.managers[manager].crash(&mut self.world);
                    self.world.forgets = !self.semi_sync;
                    self.later.push((now_ms + self.dice.between(100, 4_000), Later::Instance(manager)));
                }
            }
            10 => {
                let server = self.primary();
                self.world.tell(format!("        the disk of s{} is full", server + 1));
                self.world.servers[server].full = true;
                self.later.push((soon + self.dice.between(0, 15_000), Later::Empty(server)));
            }
            9 => {
                let manager = self.dice.below(self.managers.len());
                self.order(manager, Command::Switchover { to: None, dry_run: false });
            }
            _ => {}
        }
    }

    fn order(&mut self, manager: usize, command: Command) {
        let now = self.now();
        let Some(driver) = &mut self.managers[manager].driver else { return };
        let answer = driver.command(now, command.clone());
        let words = match answer {
            Ok(accepted) => format!("accepted as run {:?}", accepted.run),
            Err(refused) => format!("refused: {refused}"),
        };
        self.world.tell(format!("m{}: {command:?} is {words}", manager + 1));
        self.managers[manager].act(&mut self.world);
    }

    fn now(&self) -> Instant {
        self.managers[0].at(self.world.now_ms)
    }

    /// An operator seeds servers anew that are kept out, or whose source refuses them.
    fn operate(&mut self) {
        let named: Vec<ServerId> = self.managers.iter().filter_map(|manager| manager.view.primary).collect();
        let Some(first) = named.first().filter(|first| named.iter().all(|other| other == *first)) else { return };
        let primary = usize::from(first.0);
        for server in 0..self.world.servers.len() {
            let name = format!("s{}", server + 1);
            let kept_out = self.managers.iter().filter_map(|manager| manager.driver.as_ref()).any(|driver| {
                driver.diagnoses().iter().any(|d| matches!(d, Diagnosis::ServerAhead(n, _) if **n == *name))
            });
            let refused = self.world.servers[server].feed.as_ref().is_some_and(|feed| feed.refused);
            if server == primary || !(kept_out || refused) {
                continue;
            }
            self.world.tell(format!("        an operator seeds {name} from s{}", primary + 1));
            let (log, names) = (self.world.servers[primary].log.clone(), self.world.servers[primary].names.clone());
            let there = &mut self.world.servers[server];
            there.replicated = log.last().copied();
            (there.log, there.names, there.read_only) = (log, names, true);
            there.relay.clear();
            there.waiting.clear();
            there.feed = Some(Feed::new(primary));
        }
    }

    fn heal(&mut self) {
        self.world.tell("        all faults end");
        self.later.clear();
        self.world.heal_network();
        for server in 0..self.world.servers.len() {
            self.end(Later::Start(server));
            self.end(Later::Wake(server));
            self.end(Later::Empty(server));
            self.end(Later::Mend(server));
        }
        for manager in 0..self.managers.len() {
            self.end(Later::Instance(manager));
        }
        for manager in 0..self.managers.len() {
            self.order(manager, Command::Acknowledge);
        }
    }

    /// All instances agree, and a client of each gets its writes acknowledged.
    fn is_well(&self, since_ms: u64) -> bool {
        let Some(primary) = self.managers[0].view.primary else { return false };
        let served = self.world.acked.iter().rev().take_while(|acked| acked.at_ms > since_ms).count();
        let follow = (0..self.world.servers.len())
            .filter(|server| *server != usize::from(primary.0))
            .all(|server| self.world.servers[server].feed.as_ref().is_some_and(|feed| feed.connected));
        self.managers
            .iter()
            .all(|manager| manager.view.primary == Some(ServerId(primary.0)) && !manager.view.hold_writes)
            && follow
            && served > 10
    }

    /// Plays it; what went wrong, in words.
    fn run(&mut self) -> Result<(), String> {
        let faults = self.dice.between(1, 9);
        let mut moments: Vec<u64> = (0..faults).map(|_| self.dice.between(3_000, STORM_MS)).collect();
        // Troubles seldom come alone.
        for index in 1..moments.len() {
            if self.dice.percent(50) {
                moments[index] = moments[index - 1] + self.dice.between(0, 800);
            }
        }
        while self.world.now_ms < STORM_MS + 3_000 {
            self.step();
            let now_ms = self.world.now_ms;
            let due = moments.iter().filter(|at| **at <= now_ms).count();
            moments.retain(|at| *at > now_ms);
            (0..due).for_each(|_| self.fault());
            if let Some(broken) = self.world.broken.take() {
                return Err(broken);
            }
        }
        self.heal();
        let healed_ms = self.world.now_ms;
        let mut well_since = None;
        while well_since.is_none_or(|since| self.world.now_ms < since + 1_500) {
            self.step();
            if let Some(broken) = self.world.broken.take() {
                return Err(broken);
            }
            if self.world.now_ms % 5_000 < STEP_MS {
                self.operate();
            }
            // Without semi-sync it can be that only a human knows which server is meant.
            let stuck = self.world.now_ms / STEP_MS == (healed_ms + 40_000) / STEP_MS;
            if stuck && !self.semi_sync && self.managers[0].view.primary.is_none() {
                let servers = &self.world.servers;
                let longest = (0..servers.len()).max_by_key(|server| servers[*server].log.len()).unwrap_or(0);
                let server = ServerId(longest as u16);
                let command = match servers[longest].read_only {
                    true => Command::Failover { to: Some(server), dry_run: false, force: true },
                    false => Command::SetPrimary { server },
                };
                self.order(0, command);
            }
            match self.is_well(self.world.now_ms.saturating_sub(1_500)) {
                true => _ = well_since.get_or_insert(self.world.now_ms),
                false => well_since = None,
            }
            if self.world.now_ms > healed_ms + CALM_MS_MAX {
                let mut text = "no progress after all faults ended".to_owned();
                for manager in &self.managers {
                    let Some(driver) = &manager.driver else { continue };
                    for server in driver.view().servers.iter() {
                        let _ = write!(
                            text,
                            "\n    m{}: {} {}: {}",
                            manager.number + 1,
                            server.name,
                            server.role.word(),
                            server.reason
                        );
                    }
                    for diagnosis in driver.diagnoses() {
                        let _ = write!(text, "\n    m{}: {}: {diagnosis}", manager.number + 1, diagnosis.name());
                    }
                }
                return Err(text);
            }
        }
        let primary = self.primary();
        if self.semi_sync {
            let lost = self.world.acked.iter().find(|acked| !self.world.servers[primary].has(acked.txn)).copied();
            if let Some(lost) = lost {
                let text = format!(
                    "the write {:?}, acknowledged by s{} at {} ms, is not on the primary s{}",
                    lost.txn,
                    lost.server + 1,
                    lost.at_ms,
                    primary + 1
                );
                return Err(text);
            }
        }
        Ok(())
    }
}
