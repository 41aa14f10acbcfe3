//! `sqluice demo`.

use std::process::ExitCode;

/// Arguments of `sqluice demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not yet")
}
