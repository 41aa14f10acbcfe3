//! MaxScale with its read/write split.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use lab::{MONITOR_PASSWORD, MONITOR_USER};

use super::{Setup, folder, write};
use crate::process::Daemon;
use crate::world::World;

pub(super) fn start(program: &Path, world: &World, setup: &Setup, port: u16) -> anyhow::Result<Daemon> {
    let folder = folder()?;
    let file = folder.path().join("maxscale.cnf");
    write(&file, &text(world, setup, port))?;
    let mut command = Command::new(program);
    // In the foreground, as the user that starts it, with all of its files in the folder.
    command.args(["--nodaemon", "--user", &user()]).arg("--config").arg(file);
    for option in ["--logdir", "--cachedir", "--datadir", "--piddir", "--persistdir"] {
        let own = folder.path().join(option.trim_start_matches('-'));
        std::fs::create_dir(&own)?;
        command.arg(format!("{option}={}", own.display()));
    }
    Daemon::start(command, folder)
}

fn user() -> String {
    std::env::var("USER").unwrap_or_else(|_| "root".to_owned())
}

fn text(world: &World, setup: &Setup, port: u16) -> String {
    let mut text = format!("[maxscale]\nthreads={}\nadmin_enabled=false\n\n", setup.workers);
    let mut names = Vec::new();
    for (index, address) in world.addresses().iter().enumerate() {
        let name = format!("db{}", index + 1);
        let _ = write!(text, "[{name}]\ntype=server\naddress={}\nport={}\n", address.ip(), address.port());
        if let Some(connections) = setup.server_connections {
            let _ = write!(
                text,
                "persistpoolmax={connections}\npersistmaxtime=3600s\nmax_routing_connections={connections}\n"
            );
        }
        if setup.tls {
            text.push_str("ssl=true\n");
        }
        text.push('\n');
        names.push(name);
    }
    let account = format!("user={MONITOR_USER}\npassword={MONITOR_PASSWORD}\n");
    let servers = names.join(",");
    let _ = write!(
        text,
        "[monitor]\ntype=monitor\nmodule=mariadbmon\nservers={servers}\n{account}monitor_interval=1000ms\n\n\
         [split]\ntype=service\nrouter=readwritesplit\nservers={servers}\n{account}master_accept_reads=true\n"
    );
    if setup.server_connections.is_some() {
        // Connections are shared between sessions as soon as they are free.
        text.push_str("idle_session_pool_time=0ms\nmultiplex_timeout=60s\n");
    }
    let _ = write!(text, "\n[app]\ntype=listener\nservice=split\naddress=127.0.0.1\nport={port}\n");
    if let (true, Some(files)) = (setup.tls, &world.tls) {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        let _ = write!(text, "ssl=true\nssl_cert={certificate}\nssl_key={key}\n");
    }
    text
}
