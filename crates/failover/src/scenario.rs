//! The harm that is done, and a round from its beginning to its end.

mod crowd;
mod faults;
mod middle;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use lab::Family;

use crate::check;
use crate::clock::Clock;
use crate::figures::Round;
use crate::front::{Front, Setup};
use crate::journal;
use crate::load::{Load, Plan};
use crate::room;
use crate::stage::{Stage, followers_of, primary_of};
use crate::world::{Terrain, World};

/// Writes before the harm, and the longest wait for them.
const WARM_WRITES: u64 = 500;
const WARM_LIMIT: Duration = Duration::from_secs(60);
/// Calm time before the harm.
const CALM: Duration = Duration::from_millis(1_500);

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Scenario {
    /// kill -9 of the primary.
    Kill,
    /// The primary is frozen (SIGSTOP) and wakes up writable.
    Freeze,
    /// An operator moves the primary.
    Switchover,
    /// kill -9 of a replica.
    Replica,
    /// One replica's applier stops, another one's hangs.
    Lag,
    /// The network cuts the primary off, without a word.
    Cut,
    /// The primary's disk is full for a while.
    Full,
    /// The primary's disk is full for so long that it is replaced.
    Disk,
    /// The primary has no connection left.
    Connections,
    /// kill -9 of Sqluice in the middle of a failover; a second one is there.
    Crash,
    /// The killed primary comes back under load.
    Back,
}

/// Which servers may be the primary at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    The(usize),
    Another,
    Any,
}

/// How rounds are played.
#[derive(Clone, Debug)]
pub(crate) struct Options<'a> {
    pub(crate) program: &'a Path,
    pub(crate) family: Family,
    pub(crate) clients: u32,
    /// From the harm to the end of the load.
    pub(crate) seconds: u32,
    pub(crate) pause: Duration,
    /// Where logs and journals are kept.
    pub(crate) output: &'a Path,
}

impl Scenario {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Why it cannot be played on this machine.
    pub(crate) fn obstacle(self) -> Option<&'static str> {
        let needs = matches!(self, Scenario::Cut | Scenario::Full | Scenario::Disk);
        (needs && !room::is_inside()).then_some("this machine allows no namespaces for network and mounts (unshare)")
    }

    /// How the harm is done, where there are several ways.
    pub(crate) fn means(self) -> &'static str {
        match self {
            Scenario::Cut => "in a network namespace, the primary's address is taken away: packets vanish",
            Scenario::Full => "the primary's data on a small tmpfs, filled to the last byte for 5 s",
            Scenario::Disk => "the same with promotion.unwritable = \"failover\", until another server is the primary",
            Scenario::Connections => "max_connections of the primary, all taken by others, for 5 s",
            Scenario::Lag => "one applier stopped, the other one behind FLUSH TABLES WITH READ LOCK, for 5 s",
            Scenario::Freeze => "SIGSTOP, and SIGCONT after 5 s",
            _ => "",
        }
    }

    fn wanted(self) -> Wanted {
        match self {
            Scenario::Kill | Scenario::Freeze | Scenario::Cut | Scenario::Disk | Scenario::Crash | Scenario::Back => {
                Wanted::Another
            }
            Scenario::Switchover => Wanted::The(1),
            Scenario::Replica | Scenario::Lag | Scenario::Connections => Wanted::The(0),
            Scenario::Full => Wanted::Any,
        }
    }

    /// Does harm to server 0, or whatever it is about; gives when, on the round's clock.
    fn harm(self, stage: &mut Stage, round: u32) -> anyhow::Result<f64> {
        match self {
            Scenario::Kill => faults::kill(stage),
            Scenario::Freeze => faults::freeze(stage),
            Scenario::Switchover => faults::switchover(stage),
            Scenario::Replica => faults::kill_replica(stage),
            Scenario::Lag => faults::lag(stage),
            Scenario::Cut => faults::cut(stage),
            Scenario::Full => faults::full(stage),
            Scenario::Disk => faults::disk(stage),
            Scenario::Connections => crowd::connections(stage),
            Scenario::Crash => middle::crash(stage, round),
            Scenario::Back => faults::back(stage),
        }
    }

    /// Plays one round.
    ///
    /// # Errors
    /// Something does not start, or never comes to rest.
    pub(crate) fn play(self, round: u32, options: &Options<'_>) -> anyhow::Result<Round> {
        let terrain = Terrain {
            own_addresses: self == Scenario::Cut,
            small_disk: matches!(self, Scenario::Full | Scenario::Disk),
        };
        let world = World::start(options.family, terrain, options.clients)?;
        let clock = Clock::start();
        let (setup, instances) = (
            Setup { lease: self == Scenario::Crash, unwritable: self == Scenario::Disk },
            1 + usize::from(self == Scenario::Crash),
        );
        let mut fronts = Vec::new();
        for _ in 0..instances {
            fronts.push(Front::start(options.program, &world, setup)?);
        }
        let plan = Plan {
            clients: options.clients,
            pause: options.pause,
            doors: fronts.iter().map(|front| front.address).collect(),
            ages: self == Scenario::Lag,
            // Sessions end with the process that they are connected to.
            idle: self != Scenario::Crash,
        };
        let load = Load::start(clock, plan)?;
        if !load.wait_for_writes(WARM_WRITES, WARM_LIMIT) {
            bail!("clients do not get {WARM_WRITES} writes done in {WARM_LIMIT:?}");
        }
        let mut stage = Stage {
            clock,
            world,
            fronts,
            asked: 0,
            load,
            diagnoses: Default::default(),
            notes: Vec::new(),
            violations: Vec::new(),
        };
        stage.watch(CALM);
        let figures = self.harm_and_count(&mut stage, round, options);
        for (index, front) in stage.fronts.iter().enumerate() {
            front.keep(options.output, &format!("{}-{round}-{}", self.name(), index + 1))?;
        }
        figures
    }

    fn harm_and_count(self, stage: &mut Stage, round: u32, options: &Options<'_>) -> anyhow::Result<Round> {
        let mut figures = Round { scenario: self.name(), round, ..Round::default() };
        stage.diagnoses.clear();
        let event_ms = self.harm(stage, round)?;
        let end_ms = event_ms + f64::from(options.seconds) * 1e3;
        stage.watch(Duration::from_secs_f64(((end_ms - stage.clock.now_ms()) / 1e3).max(0.0)));
        let ledger = stage.load.end()?;
        let page = stage.wait_until("a primary", |page| primary_of(page).is_some())?;
        let primary = primary_of(&page).context("no primary")?;
        // Whoever follows is up again when the harm is over; servers that are kept out stay so.
        let page = match stage.world.all().iter().all(lab::Server::is_running) {
            true => stage.wait_until("all servers to be up", |page| {
                let servers = page["servers"].as_array();
                servers.is_some_and(|all| all.iter().all(|server| server["health"] == "up"))
            })?,
            false => page,
        };
        let lines: Vec<_> = stage.fronts.iter().flat_map(|front| front.journal(stage.clock)).collect();
        let times = journal::times(&lines, event_ms);
        let settled_ms = times.promoted_ms.unwrap_or(event_ms);
        figures.primary = format!("db{}", primary + 1);
        figures.take(check::all(&stage.world, primary, &followers_of(&page), &ledger, settled_ms)?);
        figures.time(times, event_ms);
        figures.count(ledger, event_ms, times.promoted_ms);
        let right = match self.wanted() {
            Wanted::The(index) => primary == index,
            Wanted::Another => primary != 0,
            Wanted::Any => true,
        };
        if !right {
            figures.violations.push(format!("the primary is db{}", primary + 1));
        }
        figures.diagnoses = std::mem::take(&mut stage.diagnoses);
        figures.notes.append(&mut stage.notes);
        figures.violations.append(&mut stage.violations);
        Ok(figures)
    }
}
