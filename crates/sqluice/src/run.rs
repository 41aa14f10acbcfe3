//! `sqluice run`: serves until a signal stops it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use config::Config;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::wiring::Running;
use crate::{limits, logs, out};

/// How often a drain says how far it is.
const PROGRESS: Duration = Duration::from_secs(1);
/// The exit code of shells for a program that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// Arguments of `sqluice run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The configuration file.
    #[arg(long, short, value_name = "FILE", default_value = "sqluice.toml")]
    config: PathBuf,
    /// Write this file when Sqluice accepts clients: a line "NAME ADDRESS" for each listener, "admin ADDRESS" and "console ADDRESS".
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

/// Serves. Returns when a signal ended it.
///
/// # Errors
/// It could not start: the text says why in one line.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let loaded = match config::load(&args.config) {
        Ok(loaded) => loaded,
        Err(errors) => {
            out::say(errors);
            return Ok(ExitCode::FAILURE);
        }
    };
    logs::start(&loaded.config.log)?;
    loaded.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    limits::raise_open_files(&loaded.config);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let code = runtime.block_on(serve(args, loaded.config))?;
    // A name that is being resolved is not waited for.
    runtime.shutdown_background();
    Ok(code)
}

/// The signals that matter here, caught from the moment this exists.
struct Signals {
    hangup: Signal,
    rotate: Signal,
    terminate: Signal,
    interrupt: Signal,
}

async fn serve(args: &Args, config: Config) -> anyhow::Result<ExitCode> {
    let catch = |kind| signal(kind).context("cannot catch signals");
    let mut signals = Signals {
        hangup: catch(SignalKind::hangup())?,
        rotate: catch(SignalKind::user_defined1())?,
        terminate: catch(SignalKind::terminate())?,
        interrupt: catch(SignalKind::interrupt())?,
    };
    let mut running = Running::start(config).await?;
    if let Some(file) = &args.ready_file
        && let Err(error) = write_ready(file, &running)
    {
        running.stop().await;
        return Err(error);
    }
    announce(&running);
    loop {
        tokio::select! {
            _ = signals.hangup.recv() => reload(&args.config, &mut running),
            _ = signals.rotate.recv() => running.rotate_events(),
            _ = signals.terminate.recv() => break,
            _ = signals.interrupt.recv() => break,
        }
    }
    let code = drain(&running, &mut signals).await;
    running.stop().await;
    tracing::info!("stopped");
    Ok(code)
}

fn announce(running: &Running) {
    let config = running.config();
    for (name, cluster) in &config.clusters {
        let servers: Vec<String> =
            cluster.servers.iter().map(|(name, server)| format!("{name}={}", server.address)).collect();
        tracing::info!(cluster = %name, kind = %cluster.kind, servers = servers.join(" "), "watching");
        if let Some(open) = crate::check::open_passwords(cluster) {
            tracing::warn!(cluster = %name, "{open}");
        }
    }
    if let Some(address) = running.admin_address() {
        let scheme = config.admin.as_ref().map_or("http", |admin| crate::api::scheme(admin.tls.mode));
        tracing::info!("metrics at {scheme}://{address}/metrics, health at /healthz and /readyz");
    }
    if let Some(address) = running.console_address() {
        tracing::info!("the SQL console is at {address}, in the MySQL protocol");
    }
    let listeners: Vec<String> =
        running.addresses().iter().map(|(name, address)| format!("{name}={address}")).collect();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        workers = running.stats().len(),
        listeners = listeners.join(" "),
        "sqluice is ready"
    );
}

fn write_ready(file: &Path, running: &Running) -> anyhow::Result<()> {
    let mut text = String::new();
    for (name, address) in running.addresses() {
        writeln!(text, "{name} {address}")?;
    }
    if let Some(address) = running.admin_address() {
        writeln!(text, "admin {address}")?;
    }
    if let Some(address) = running.console_address() {
        writeln!(text, "console {address}")?;
    }
    // A reader of the file must not see half of it. A device or a pipe stays where it is.
    let is_other = std::fs::metadata(file).is_ok_and(|found| !found.is_file());
    let mut unfinished = file.as_os_str().to_owned();
    unfinished.push(".new");
    let written = match is_other {
        true => std::fs::write(file, text),
        false => std::fs::write(&unfinished, text).and_then(|()| std::fs::rename(&unfinished, file)),
    };
    written.with_context(|| format!("cannot write {}", file.display()))
}

fn reload(file: &Path, running: &mut Running) {
    let loaded = match config::load(file) {
        Ok(loaded) => loaded,
        Err(errors) => {
            errors.0.iter().for_each(|problem| tracing::error!("{problem}"));
            tracing::error!("{} has mistakes: the old configuration stays", file.display());
            running.note_reload(false, "the configuration has mistakes: the old one stays".to_owned());
            return;
        }
    };
    loaded.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    match running.reload(loaded.config) {
        Ok(reloaded) => {
            tracing::info!("{} was read again: {}", file.display(), reloaded.changes);
            for wait in reloaded.waiting {
                tracing::warn!("this waits for a restart: {wait}");
            }
        }
        Err(error) => {
            tracing::error!("{error:#}: the old configuration stays");
            running.note_reload(false, format!("{error:#}: the old configuration stays"));
        }
    }
}

/// Lets sessions end. A second SIGINT cuts it short.
async fn drain(running: &Running, signals: &mut Signals) -> ExitCode {
    let deadline = running.config().proxy.drain;
    let sessions = running.sessions();
    tracing::info!(sessions, "stopping: no new clients; sessions have {} ms to finish", deadline.as_millis());
    let draining = running.drain(deadline);
    tokio::pin!(draining);
    let mut progress = tokio::time::interval_at(tokio::time::Instant::now() + PROGRESS, PROGRESS);
    loop {
        tokio::select! {
            closed = &mut draining => {
                if closed > 0 {
                    tracing::warn!(sessions = closed, "sessions were closed that did not finish in time");
                }
                return ExitCode::SUCCESS;
            }
            _ = progress.tick() => tracing::info!(sessions = running.sessions(), "sessions are still there"),
            _ = signals.interrupt.recv() => {
                tracing::warn!(sessions = running.sessions(), "stopping at once");
                return INTERRUPTED.into();
            }
        }
    }
}
