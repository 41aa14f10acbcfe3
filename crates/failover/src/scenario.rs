//! The harm that is done, and a round from its beginning to its end.

mod crowd;
mod faults;
mod members;
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

/// Options of groups: docs and output name them, since standstills follow from them.
macro_rules! group {
    () => {
        "three Galera members with binary logs, evs.suspect_timeout=PT1S"
    };
}

/// The events of a scenario.
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
    /// kill -9 of the primary; clients work through two Sqluices.
    Pair,
    /// kill -9 of one of two Sqluices in the middle of a failover.
    Crash,
    /// The killed primary comes back under load.
    Back,
    /// kill -9 of the writer of a Galera group.
    GaleraKill,
    /// The writer of a Galera group is stopped in good order, and comes back by way of a donor.
    GaleraStop,
    /// The writer of a Galera group is desynced like a donor for a while.
    GaleraDonor,
}

/// Which servers may be the primary at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedPrimary {
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

    /// With a Galera group in place of a primary and replicas.
    fn has_group(self) -> bool {
        matches!(self, Scenario::GaleraKill | Scenario::GaleraStop | Scenario::GaleraDonor)
    }

    /// Why it cannot be played on this machine, or with these servers.
    pub(crate) fn obstacle(self, family: Family) -> Option<&'static str> {
        if self.has_group() && family != Family::MariaDb {
            return Some("Galera groups are of MariaDB servers here");
        }
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
            Scenario::GaleraKill => group!(),
            Scenario::GaleraStop => concat!(group!(), "; back after 1 s"),
            Scenario::GaleraDonor => concat!(group!(), "; wsrep_desync for 5 s"),
            _ => "",
        }
    }

    fn expected_primary(self) -> ExpectedPrimary {
        match self {
            Scenario::Kill
            | Scenario::Freeze
            | Scenario::Cut
            | Scenario::Disk
            | Scenario::Pair
            | Scenario::Crash
            | Scenario::Back
            | Scenario::GaleraKill
            | Scenario::GaleraStop
            | Scenario::GaleraDonor => ExpectedPrimary::Another,
            Scenario::Switchover => ExpectedPrimary::The(1),
            Scenario::Replica | Scenario::Lag | Scenario::Connections => ExpectedPrimary::The(0),
            Scenario::Full => ExpectedPrimary::Any,
        }
    }

    /// Does harm to server 0, or whatever it is about; gives when, on the round's clock.
    fn harm(self, stage: &mut Stage, round: u32) -> anyhow::Result<f64> {
        match self {
            Scenario::Kill | Scenario::Pair => faults::kill(stage),
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
            Scenario::GaleraKill => members::kill_writer(stage),
            Scenario::GaleraStop => members::stop_writer(stage),
            Scenario::GaleraDonor => members::desync_writer(stage),
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
        let world = match self.has_group() {
            true => World::start_group(options.clients)?,
            false => World::start(options.family, terrain, options.clients)?,
        };
        let clock = Clock::start();
        let two = matches!(self, Scenario::Pair | Scenario::Crash);
        let setup = Setup { lease: two, unwritable: self == Scenario::Disk };
        let instances = 1 + usize::from(two);
        let mut fronts = Vec::new();
        for _ in 0..instances {
            fronts.push(Front::start(options.program, &world, setup)?);
        }
        let plan = Plan {
            clients: options.clients,
            pause: options.pause,
            addresses: fronts.iter().map(|front| front.address).collect(),
            ages: self == Scenario::Lag,
            // A member that stays, and is not the next writer.
            beside: self.has_group().then(|| world.server(2).address()),
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
            parts: Vec::new(),
            diagnoses: Default::default(),
            notes: Vec::new(),
            violations: Vec::new(),
        };
        stage.watch(CALM);
        let figures = self.harm_and_count(&mut stage, round, options);
        stage.world.keep(options.output, &format!("{}-{round}", self.name()))?;
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
        // A replica is up again when the harm is over; servers that are kept out stay so.
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
        let parts: Vec<f64> = [event_ms].into_iter().chain(stage.parts.drain(..)).collect();
        figures.compare(&ledger, &parts);
        figures.count(ledger, event_ms, times.promoted_ms);
        let right = match self.expected_primary() {
            ExpectedPrimary::The(index) => primary == index,
            ExpectedPrimary::Another => primary != 0,
            ExpectedPrimary::Any => true,
        };
        if self.has_group() && stage.world.log(2)?.contains("Shifting SYNCED -> OPEN") {
            figures.notes.push("db3 itself lost its group, though no harm was done to it".into());
        }
        if self.has_group() && figures.errors_sum() > 0 {
            figures.violations.push(format!("clients had errors: {:?}", figures.messages));
        }
        if !right {
            figures.violations.push(format!("the primary is db{}", primary + 1));
        }
        figures.diagnoses = std::mem::take(&mut stage.diagnoses);
        figures.notes.append(&mut stage.notes);
        figures.violations.append(&mut stage.violations);
        Ok(figures)
    }
}
