//! The program `sqluice`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sqluice::cli::main()
}
