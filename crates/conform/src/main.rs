//! `conform`: compares Sqluice with a server, on as many random scripts as wanted. `conform help` lists what it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    match conform::cli::main(std::env::args().skip(1).collect()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
