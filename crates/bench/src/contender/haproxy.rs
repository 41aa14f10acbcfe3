//! HAProxy in TCP mode.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Kind, Setup, folder, write};
use crate::process::Daemon;
use crate::world::World;

/// Where distributions put it; what is in the PATH comes first.
pub(super) fn program() -> PathBuf {
    let known = Path::new("/usr/sbin/haproxy");
    let in_path = std::env::var_os("PATH")
        .and_then(|path| std::env::split_paths(&path).map(|folder| folder.join("haproxy")).find(|file| file.is_file()));
    in_path.unwrap_or_else(|| known.to_owned())
}

pub(super) fn start(world: &World, setup: &Setup, port: u16) -> anyhow::Result<Daemon> {
    let folder = folder()?;
    let (threads, maxconn, server) = (setup.workers, Kind::HaProxy.clients_max(setup.files), world.primary());
    let text = format!(
        "global\n    nbthread {threads}\n    maxconn {maxconn}\n\n\
         defaults\n    mode tcp\n    timeout connect 5s\n    timeout client 1h\n    timeout server 1h\n\n\
         listen app\n    bind 127.0.0.1:{port} backlog 4096\n    maxconn {maxconn}\n    server db1 {server}\n"
    );
    let file = folder.path().join("haproxy.cfg");
    write(&file, &text)?;
    let mut command = Command::new(program());
    // -db: in the foreground.
    command.arg("-db").arg("-f").arg(file);
    Daemon::start(command, folder)
}
