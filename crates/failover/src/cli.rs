//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Parser, ValueEnum};
use lab::Family;
use serde_json::json;

use crate::figures::Round;
use crate::report;
use crate::room;
use crate::scenario::{Options, Scenario};

/// Judges failover on real servers: faults under load, every acknowledged row counted.
///
/// Ends with an error when an acknowledged write is lost, a write is done twice, or writes went to two primaries; targets that are
/// missed are only told. docs/guides/failover.md tells the method.
#[derive(Debug, Parser)]
#[command(name = "failover", bin_name = "./dev failover", version, max_term_width = 120)]
pub(crate) struct Arguments {
    /// The scenarios [default: all of them].
    #[arg(value_name = "SCENARIO", value_enum)]
    scenarios: Vec<Scenario>,
    /// Rounds of each; servers and Sqluice are new in each [default: 5, with --quick 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Seconds of load behind the harm, at least.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Clients at work; beside each eight of them there is an idle one.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// Mean pause of a client between two pieces of work: without any, clients take the processors that a failover needs.
    #[arg(long, value_name = "MS", default_value_t = 40, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pause: u32,
    /// Which servers.
    #[arg(long, value_enum, default_value_t = Server::Mariadb)]
    server: Server,
    /// The program [default: the one beside this one].
    #[arg(long, value_name = "PROGRAM")]
    sqluice: Option<PathBuf>,
    /// One round of each.
    #[arg(long)]
    quick: bool,
    /// Where tables, raw figures, logs and journals go.
    #[arg(long, value_name = "FOLDER", default_value = "target/failover", overrides_with = "output")]
    output: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Server {
    Mariadb,
    Mysql,
}

/// Does what the command line says.
///
/// # Errors
/// Something is missing, or a round cannot be played to its end.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    room::enter()?;
    std::fs::create_dir_all(&arguments.output)
        .with_context(|| format!("cannot make the folder {}", arguments.output.display()))?;
    let program = match &arguments.sqluice {
        Some(program) => program.clone(),
        None => std::env::current_exe()?.with_file_name("sqluice"),
    };
    let program = program.canonicalize().with_context(|| format!("there is no program {}", program.display()))?;
    let options = Options {
        program: &program,
        family: match arguments.server {
            Server::Mariadb => Family::MariaDb,
            Server::Mysql => Family::MySql,
        },
        clients: arguments.clients,
        seconds: arguments.seconds,
        pause: Duration::from_millis(arguments.pause.into()),
        output: &arguments.output,
    };
    let scenarios = match &arguments.scenarios[..] {
        [] => Scenario::value_variants(),
        named => named,
    };
    let count = arguments.rounds.unwrap_or(if arguments.quick { 1 } else { 5 });
    let (mut rounds, mut skipped, mut failed) = (Vec::new(), Vec::new(), false);
    for scenario in scenarios {
        if let Some(obstacle) = scenario.obstacle(options.family) {
            eprintln!("{}: not played: {obstacle}", scenario.name());
            skipped.push((scenario.name(), obstacle.to_owned()));
            continue;
        }
        if !scenario.means().is_empty() {
            println!("{}: {}", scenario.name(), scenario.means());
        }
        for round in 1..=count {
            match scenario.play(round, &options) {
                Ok(figures) => {
                    println!("{}", report::line(&figures));
                    failed |= !figures.violations.is_empty();
                    rounds.push(figures);
                }
                Err(error) => {
                    println!("{} {round}: FAILED: {error:#}", scenario.name());
                    skipped.push((format!("{} {round}", scenario.name()), format!("{error:#}")));
                    failed = true;
                }
            }
            // Round by round: what was measured is kept, whatever comes.
            keep(arguments, &rounds, scenarios, &skipped)?;
        }
    }
    println!("\n{}", report::markdown(&rounds, scenarios, &skipped));
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn keep(
    arguments: &Arguments,
    rounds: &[Round],
    scenarios: &[Scenario],
    skipped: &[(String, String)],
) -> anyhow::Result<()> {
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let record =
        json!({ "command": format!("./dev failover {command}").trim_end(), "rounds": rounds, "failed": skipped });
    let (raw, table) = (arguments.output.join("failover.json"), arguments.output.join("failover.md"));
    std::fs::write(&raw, format!("{record:#}\n")).with_context(|| format!("cannot write {}", raw.display()))?;
    std::fs::write(&table, report::markdown(rounds, scenarios, skipped))
        .with_context(|| format!("cannot write {}", table.display()))
}
