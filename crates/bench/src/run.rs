//! Runs a load: rounds in which all contenders take their turns.

mod turn;
mod warm_up;

use std::collections::BTreeMap;

use anyhow::Context as _;

use crate::contender::{Kind, Running, Setup};
use crate::figures::{Cell, Figure, Record, Sample, WarmUp};
use crate::load::Load;
use crate::machine::{self, Machine};
use crate::plan::{self, Cold, Options, Plan, Point, Work};
use crate::world::World;
use crate::{order, stop, sysbench};
use turn::Turn;

/// Runs a load to its end.
///
/// # Errors
/// Something does not start, or a load fails.
pub(crate) fn run(load: Load, options: &Options, command: &str) -> anyhow::Result<Record> {
    let plan = plan::plan(load, options)?;
    progress(&format!("{}: {}", load.name(), load.about()));
    plan.notes.iter().for_each(|note| progress(&format!("  {note}")));
    let world = World::start(plan.needs)?;
    sysbench::prepare(world.primary(), plan.tables).context("sysbench cannot make its tables")?;
    world.wait_in_sync()?;
    let setup = Setup {
        workers: options.workers,
        server_connections: plan.server_connections,
        tls: false,
        files: options.files,
        rules: 0,
        more: String::new(),
        can_be_watched: load == Load::Watched,
        cache: None,
    };
    let cells = Measurement { plan: &plan, world: &world, setup }.run()?;
    Ok(Record {
        load: load.name().to_owned(),
        date: machine::date(),
        command: command.to_owned(),
        rounds: plan.rounds,
        seconds: plan.seconds,
        workers: options.workers,
        machine: Machine::here(),
        versions: versions(&plan, &world),
        notes: plan.notes,
        cells,
    })
}

fn versions(plan: &Plan, world: &World) -> Vec<(String, String)> {
    let mut versions = vec![("server".to_owned(), world.version.clone())];
    versions.extend(plan.contenders.iter().filter_map(|kind| Some((kind.name(), kind.version()?))));
    versions.extend(machine::says("sysbench", &["--version"]).map(|version| ("sysbench".to_owned(), version)));
    versions.extend(machine::commit().map(|commit| ("commit".to_owned(), commit)));
    versions
}

struct Measurement<'a> {
    plan: &'a Plan,
    world: &'a World,
    setup: Setup,
}

impl Measurement<'_> {
    fn run(mut self) -> anyhow::Result<Vec<Cell>> {
        let mut cells = Vec::new();
        let mut running: Option<Vec<Running>> = None;
        for (number, point) in self.plan.points.iter().enumerate() {
            if self.setup.tls != point.tls || point.cold.is_some() {
                // The old ones end first.
                running = None;
                self.setup.tls = point.tls;
            }
            let contenders = match (&mut running, &point.work) {
                (_, Work::Idle(_)) => running.insert(Vec::new()),
                (Some(there), _) => there,
                (None, _) => running.insert(self.start_all()?),
            };
            let mut warm_ups = BTreeMap::new();
            if let Some(cold) = &point.cold {
                for contender in contenders.iter_mut().filter(|contender| point.work.suits(&contender.kind)) {
                    let (cell, warm_up) = self.warm_up(point, cold, contender)?;
                    warm_ups.insert(cell.contender.clone(), warm_up);
                    cells.push(cell);
                }
            }
            let measured = self.point(number, point, contenders)?;
            cells.extend(measured.into_iter().map(|cell| {
                let warm_up = warm_ups.remove(&cell.contender);
                Cell { warm_up, ..cell }
            }));
        }
        Ok(cells)
    }

    fn start_all(&self) -> anyhow::Result<Vec<Running>> {
        let start = |kind: &Kind| {
            stop::check()?;
            Running::start(kind, self.world, &self.setup)
        };
        self.contenders().into_iter().map(start).collect()
    }

    /// The contenders, with TLS or without.
    fn contenders(&self) -> Vec<&Kind> {
        self.plan.contenders.iter().filter(|kind| !self.setup.tls || kind.speaks_tls()).collect()
    }

    /// The first seconds of a contender that was just started, and more of them until its share of hits is steady.
    fn warm_up(&self, point: &Point, cold: &Cold, contender: &mut Running) -> anyhow::Result<(Cell, WarmUp)> {
        let name = contender.kind.name();
        let (mut first, mut warm_up) = (Vec::new(), WarmUp::default());
        while let Some(seconds) = warm_up::next_slice(cold.work.seconds, cold.seconds_max, cold.rise, &warm_up.hits) {
            stop::check()?;
            let slice = Work::Sysbench(sysbench::Work { seconds, ..cold.work.clone() });
            let sample = self
                .turn()
                .sample(contender, &slice)
                .with_context(|| format!("{name} at the warm-up of {} {}", point.group, point.label))?;
            warm_up.seconds += sample.seconds;
            warm_up.hits.push(Figure::Hits.value(&sample, None).context("a warm-up whose hits nobody counted")?);
            if first.is_empty() {
                first.push(sample);
            }
        }
        let shown: Vec<String> = warm_up.hits.iter().map(|share| format!("{share:.1}")).collect();
        progress(&format!(
            "  {} {}, warm-up of {name}: {} % hits after {:.0} s",
            point.group,
            point.label,
            shown.join(", "),
            warm_up.seconds
        ));
        let (group, label) = (format!("{}, cold", point.group), point.label.clone());
        Ok((Cell { group, label, contender: name, samples: first, warm_up: None }, warm_up))
    }

    fn turn(&self) -> Turn<'_> {
        Turn { world: self.world, files: self.setup.files, counts_reads: self.plan.counts_reads }
    }

    /// All rounds of a point.
    fn point(&self, number: usize, point: &Point, running: &mut [Running]) -> anyhow::Result<Vec<Cell>> {
        let kinds = self.contenders();
        let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); kinds.len()];
        for round in 0..self.plan.rounds {
            // Another contender begins each time, at each point.
            for turn in order::rotated(kinds.len(), round as usize + number) {
                stop::check()?;
                let (Some(kind), Some(samples)) = (kinds.get(turn), samples.get_mut(turn)) else { continue };
                if !point.work.suits(kind) {
                    continue;
                }
                let context = || format!("{} at {} {}", kind.name(), point.group, point.label);
                let sample = match running.get_mut(turn) {
                    Some(running) => self.turn().sample(running, &point.work),
                    // Where each turn has a proxy that was just started.
                    None => Running::start(kind, self.world, &self.setup)
                        .and_then(|mut fresh| self.turn().sample(&mut fresh, &point.work)),
                };
                samples.push(sample.with_context(context)?);
            }
            self.tell(point, round, &samples);
        }
        let cell = |(kind, samples): (&&Kind, Vec<Sample>)| Cell {
            group: point.group.clone(),
            label: point.label.clone(),
            contender: kind.name(),
            samples,
            warm_up: None,
        };
        Ok(kinds.iter().zip(samples).filter(|(_, samples)| !samples.is_empty()).map(cell).collect())
    }

    /// A line of progress for each round.
    fn tell(&self, point: &Point, round: u32, samples: &[Vec<Sample>]) {
        let one = |(kind, samples): (&&Kind, &Vec<Sample>)| Some(format!("{} {}", kind.name(), short(samples.last()?)));
        let all: Vec<String> = self.contenders().iter().zip(samples).filter_map(one).collect();
        let (group, label, rounds) = (&point.group, &point.label, self.plan.rounds);
        progress(&format!("  {group} {label}, round {}/{rounds}: {}", round + 1, all.join(", ")));
    }
}

/// A sample in few words.
fn short(sample: &Sample) -> String {
    let mut text = String::new();
    let mut say = |figure: Figure, unit: &str, decimals: usize| {
        if let Some(value) = figure.value(sample, None) {
            text.push_str(&format!("{}{value:.decimals$}{unit}", if text.is_empty() { "" } else { " " }));
        }
    };
    if sample.bytes.is_some() {
        say(Figure::Bandwidth, " MB/s", 0);
    } else if sample.queries == 0 {
        say(Figure::ClientMemory, " KB/client", 1);
    } else {
        say(Figure::Throughput, "/s", 0);
        say(Figure::Cpu, " µs", 1);
        say(Figure::Hits, "% hits", 1);
    }
    if sample.errors > 0 {
        text.push_str(&format!(" {} errors", sample.errors));
    }
    text
}

/// Progress goes to standard error: standard output has the tables.
pub(crate) fn progress(line: &str) {
    eprintln!("{line}");
}
