//! `instructions`: how many instructions one query takes in the program's worker thread, in user space.
//!
//! The program that is measured is the released one, with one worker, under callgrind; a MariaDB primary and a replica stand
//! behind it, and one client sends a piece of work after the other. Instructions are counted between two requests to
//! callgrind, for each thread; those of the worker count. Neither the kernel's are in it, nor the servers', nor the client's.
//! A load is counted in parts, and the least of them is its figure: the others hold work that comes by the clock as well.

mod figures;
mod loads;
mod profile;
mod program;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use lab::{Family, Replication, ReplicationOptions};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use figures::{Figures, Report};
use loads::{Clients, LOADS, Load, Rules};
use profile::Profile;
use program::Program;

const HELP: &str = "\
Counts the instructions that pieces of work take in a worker of Sqluice, with callgrind, and compares with the figures that
are kept. It fails when a kind takes more than they allow.

  instructions [KIND…]     these kinds of work, or all
  instructions --top [N]   and the N (25) functions and source files that cost most
  instructions --save      and keep the figures as the last ones
  instructions --list      only list the kinds
  instructions --program FILE --last FILE   other files than the defaults
";

/// The task that the arguments name.
#[derive(Debug)]
struct Plan {
    loads: Vec<&'static Load>,
    top: usize,
    save: bool,
    program: PathBuf,
    profiles: PathBuf,
    last: PathBuf,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1).collect()).and_then(|plan| plan.map_or(Ok(()), |plan| run(&plan))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the arguments; `None` when they only ask for words.
fn parse(arguments: Vec<String>) -> anyhow::Result<Option<Plan>> {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target")), PathBuf::from);
    let target = target.canonicalize().unwrap_or(target);
    let mut plan = Plan {
        loads: Vec::new(),
        top: 0,
        save: false,
        program: target.join("release/sqluice"),
        profiles: target.join("instructions"),
        last: concat!(env!("CARGO_MANIFEST_DIR"), "/figures.txt").into(),
    };
    let mut arguments = arguments.into_iter().peekable();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "help" | "--help" | "-h" => {
                print!("{HELP}");
                return Ok(None);
            }
            "--list" => {
                LOADS.iter().for_each(|load| println!("{:24} {}", load.name, load.what));
                return Ok(None);
            }
            "--top" => {
                let number = arguments.peek().and_then(|next| next.parse().ok());
                if number.is_some() {
                    arguments.next();
                }
                plan.top = number.unwrap_or(25);
            }
            "--save" => plan.save = true,
            "--program" => plan.program = arguments.next().context("--program takes a file")?.into(),
            "--last" => plan.last = arguments.next().context("--last takes a file")?.into(),
            name => match LOADS.iter().find(|load| load.name == name) {
                Some(load) => plan.loads.push(load),
                None => bail!("there is no kind {name:?}; --list lists them"),
            },
        }
    }
    if plan.loads.is_empty() {
        plan.loads = LOADS.iter().collect();
    }
    Ok(Some(plan))
}

fn run(plan: &Plan) -> anyhow::Result<()> {
    let last = Figures::read(&plan.last)?;
    let servers = Replication::start(ReplicationOptions {
        init_sql: loads::tables(),
        ..ReplicationOptions::new(Family::MariaDb, 1)
    })?;
    std::fs::create_dir_all(&plan.profiles).with_context(|| plan.profiles.display().to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut report = Report::new(last, figures::versions(&servers)?);
    // All start before the first is counted: each is waited for until it does what it does most of the time.
    let mut running: Vec<(Rules, Program, TempDir)> = Vec::new();
    for load in &plan.loads {
        if !running.iter().any(|(rules, ..)| *rules == load.rules) {
            let folder = tempfile::Builder::new().prefix("sqluice-").tempdir()?;
            let program = Program::start(&plan.program, folder.path(), &servers, load.rules)?;
            running.push((load.rules, program, folder));
        }
    }
    report.head();
    for load in &plan.loads {
        let Some((_, program, _)) = running.iter_mut().find(|(rules, ..)| *rules == load.rules) else { continue };
        program.wait_until_usual();
        let profile = measure(&runtime, program, load, &plan.profiles)
            .with_context(|| format!("{}; the program's log ends so:\n{}", load.name, program.log()))?;
        let times = f64::from(load.part_times());
        report.line(load, profile.total as f64 / times);
        if plan.top > 0 {
            profile.print(plan.top, times);
        }
    }
    report.foot();
    println!("profiles, for callgrind_annotate or KCachegrind: {}/KIND.callgrind", plan.profiles.display());
    drop(running);
    if plan.save { report.save(&plan.last) } else { report.judge() }
}

/// Runs a load to be warm, and then part by part with the counts on. Gives the part that took least.
fn measure(runtime: &Runtime, program: &mut Program, load: &Load, profiles: &Path) -> anyhow::Result<Profile> {
    let mut clients = Clients::new(program.address());
    runtime.block_on(clients.run(load.kind, load.warm_up()))?;
    let file = profiles.join(format!("{}.callgrind", load.name));
    let mut least: Option<Profile> = None;
    for _ in 0..loads::PARTS {
        program.zero()?;
        runtime.block_on(clients.run(load.kind, load.part_times()))?;
        let part = program.dump(&file.with_extension("part"))?;
        if least.as_ref().is_none_or(|least| part.total < least.total) {
            std::fs::rename(file.with_extension("part"), &file)?;
            least = Some(part);
        }
    }
    // There is none when the last part took more.
    let _ = std::fs::remove_file(file.with_extension("part"));
    runtime.block_on(clients.leave())?;
    least.context("no part was counted")
}
