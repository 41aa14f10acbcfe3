//! Judges failover on real servers: `./dev failover`, docs/guides/failover.md.
//!
//! Each round starts servers and Sqluice anew, lets clients work, does harm, and counts afterwards on the servers
//! themselves what became of every row.

mod api;
mod check;
mod cli;
mod clock;
mod figures;
mod front;
mod journal;
mod load;
mod report;
mod room;
mod scenario;
mod stage;
mod targets;
mod world;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match cli::run(&cli::Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
