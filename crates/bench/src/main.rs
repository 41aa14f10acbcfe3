//! Sqluice and other proxies side by side, in one run: `./dev bench`, docs/internals/benchmarks.md.

mod cli;
mod contender;
mod figures;
mod fixed_answers;
mod generate;
mod histogram;
mod http;
mod load;
mod machine;
mod order;
mod picture;
mod plan;
mod process;
mod report;
mod run;
mod slap;
mod statistics;
mod stop;
mod sysbench;
mod system;
mod table;
mod watch;
mod wordpress;
mod world;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    if let Some(arguments) = fixed_answers::asked() {
        return fixed_answers::run(&arguments);
    }
    match cli::run(&cli::Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) if stop::is_asked() => {
            eprintln!("bench: stopped");
            ExitCode::from(stop::INTERRUPTED)
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
