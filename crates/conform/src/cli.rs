//! The program `conform`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use lab::Family;

use crate::campaign::{Plan, Report, cases, run, seeded};
use crate::corpus;
use crate::script::Script;
use crate::world;

const HELP: &str = "\
Compares Sqluice, in front of a primary and a replica, with a server of its own.

  conform                      the kept cases, then 200 seeds
  conform --streams N          so many seeds
  conform --no-cases           without the kept cases
  conform --first N            begin with this seed
  conform --seed N             this seed alone; may be repeated
  conform --print N            show the script of a seed, run nothing
  conform --pool 1             all sessions of random scripts share one connection to each server (by the seed where it is not said)
  conform --pool 4             none of them do
  conform --lanes N            scripts at a time (default: one per core)
  conform --failures N         stop after so many kinds of differences (default 10)
  conform --shrink N           make a difference smaller for at most so many seconds (default 12)
  conform --corpus N           so many scripts of MariaDB's own tests (Debian's mariadb-test-data), two of them on one connection
  conform --cache              with the result cache, which answers what it may; each read is asked again, and again behind writes
  conform --family mysql       servers of this family; MySQL's needs SQLUICE_MYSQLD
  conform FILE…                these scripts

Scripts that show a difference are made small and written to target/conform/streams.
";

/// Runs the program; gives whether nothing differed.
///
/// # Errors
/// The arguments make no sense, or servers were lost.
pub fn main(arguments: Vec<String>) -> anyhow::Result<bool> {
    let mut plan = Plan { seeds: (1, 200), limit: Duration::MAX, failures_max: 10, ..plan(Family::MariaDb)? };
    let (mut files, mut seeds, mut printed, mut corpus) = (BTreeMap::new(), Vec::new(), None, 0);
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let mut number = || {
            arguments.next().unwrap_or_default().parse::<u64>().with_context(|| format!("{argument} takes a number"))
        };
        match argument.as_str() {
            "help" | "--help" | "-h" => {
                print!("{HELP}");
                return Ok(true);
            }
            "--streams" => plan.seeds.1 = number()?,
            "--no-cases" => plan.cases.clear(),
            "--first" => plan.seeds.0 = number()?,
            "--seed" => {
                let seed = number()?;
                seeds.push(seed);
            }
            "--shrink" => plan.shrink = Duration::from_secs(number()?),
            "--print" => {
                printed = Some(number()?);
            }
            "--pool" => plan.shared = Some(number()? == 1),
            "--lanes" => plan.lanes = usize::try_from(number()?)?.max(1),
            "--failures" => plan.failures_max = usize::try_from(number()?)?,
            "--corpus" => corpus = number()?,
            "--cache" => plan.cached = true,
            "--family" => {
                plan.family = match arguments.next().as_deref() {
                    Some("mariadb") => Family::MariaDb,
                    Some("mysql") => Family::MySql,
                    other => bail!("no family {other:?}"),
                }
            }
            file => {
                let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
                let name = Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
                files.insert(name, Script::parse(&text).with_context(|| file.to_owned())?);
            }
        }
    }
    if let Some(seed) = printed {
        print!("{}", seeded(seed, plan.family, plan.shared));
        return Ok(true);
    }
    for seed in seeds {
        files.insert(format!("seed-{seed}"), seeded(seed, plan.family, plan.shared));
    }
    if corpus > 0 {
        files.extend(corpus::scripts(plan.seeds.0, corpus)?);
    }
    if !files.is_empty() {
        (plan.cases, plan.seeds.1) = (files, 0);
    }
    if !world::families()?.contains(&plan.family) {
        bail!("there is no server of that family (docs/internals/testing.md)");
    }
    let started = Instant::now();
    let report = run(&plan)?;
    let seconds = started.elapsed().as_secs_f64();
    tell(&report, plan.cached, seconds);
    Ok(report.kinds.is_empty())
}

/// Prints the sum of what was found.
fn tell(report: &Report, cached: bool, seconds: f64) {
    if report.kinds.len() > 1 {
        println!("kinds of differences, and in how many scripts:");
        report.kinds.iter().for_each(|(kind, count)| println!("{count:5} {kind}"));
    }
    println!("{} scripts, {} steps, {} differ, {seconds:.1} s", report.scripts, report.steps, report.differ());
    if report.skipped > 0 {
        println!("{} more steps were left out: another session held the only connection", report.skipped);
    }
    println!("{} reads were on pipelines", report.pipelined);
    if cached {
        println!("{} steps were answered by the result cache", report.hits);
    }
}

/// The usual plan: all cases, no seeds yet.
///
/// # Errors
/// A case cannot be read.
pub fn plan(family: Family) -> anyhow::Result<Plan> {
    let lanes = std::thread::available_parallelism().map_or(2, usize::from).clamp(1, 8);
    let cases = cases(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/cases")))?;
    Ok(Plan {
        family,
        replicas: 1,
        lanes,
        cached: false,
        cases,
        shared: None,
        seeds: (1, 0),
        limit: Duration::from_secs(60),
        failures_max: 5,
        shrink: Duration::from_secs(12),
        folder: target().join("conform/streams"),
    })
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")), PathBuf::from)
}
