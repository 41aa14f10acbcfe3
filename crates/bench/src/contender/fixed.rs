//! The ceiling: this very program, as a server that answers the same bytes to everything.

use std::process::Command;

use anyhow::Context as _;

use super::{Setup, folder};
use crate::fixed_answers;
use crate::process::Daemon;
use crate::world::World;

pub(super) fn start(world: &World, setup: &Setup, port: u16) -> anyhow::Result<Daemon> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program")?);
    command.args(fixed_answers::arguments(port, world.primary(), setup.workers));
    Daemon::start(command, folder()?)
}
