//! MySQL Router with a fixed destination. Its read/write split needs the metadata of an InnoDB Cluster, and it shares
//! connections of MySQL servers only, so that it does less here than the others.

use std::path::Path;
use std::process::Command;

use super::{Setup, folder, write};
use crate::process::Daemon;
use crate::world::World;

pub(super) fn start(program: &Path, world: &World, setup: &Setup, port: u16) -> anyhow::Result<Daemon> {
    let folder = folder()?;
    let file = folder.path().join("mysqlrouter.conf");
    write(&file, &text(folder.path(), world, setup, port))?;
    let mut command = Command::new(program);
    command.arg("--config").arg(file);
    Daemon::start(command, folder)
}

fn text(folder: &Path, world: &World, setup: &Setup, port: u16) -> String {
    let (folder, threads, server) = (folder.display(), setup.workers, world.primary());
    format!(
        "[DEFAULT]\nlogging_folder=\nruntime_folder={folder}\ndata_folder={folder}\nmax_total_connections=30000\n\n\
         [logger]\nlevel=WARNING\n\n[io]\nthreads={threads}\n\n\
         [routing:app]\nbind_address=127.0.0.1\nbind_port={port}\ndestinations={server}\n\
         routing_strategy=first-available\nprotocol=classic\nmax_connections=30000\n\
         client_ssl_mode=DISABLED\nserver_ssl_mode=DISABLED\n"
    )
}
