//! `sqluice demo`: real servers, Sqluice and a load, with a live table of what happens.

mod figures;
mod load;
mod screen;
mod servers;
mod table;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use lab::{APP_DATABASE, APP_PASSWORD, APP_USER};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::logs::{self, Recent};
use crate::out;
use crate::wiring::Background;
use figures::{Figures, Sampler};
use load::Load;
use screen::{Key, Screen};
use servers::Servers;

/// Time between two looks at the figures.
const INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait until Sqluice knows the primary and all replicas.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// Longest time that clients of the demo get to finish.
const DRAIN_LIMIT: Duration = Duration::from_secs(3);
/// The exit code of shells for a program that SIGINT ended.
const INTERRUPTED: u8 = 130;
/// The page, for those who have no browser at hand.
const PICTURE: &str = "docs/guides/page/now.png";
/// Log lines below the table.
const LOG_LINES: usize = 6;

/// Arguments of `sqluice demo`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of replicas beside the primary.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=8))]
    replicas: u8,
    /// Number of clients that make the load.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=5000))]
    clients: u16,
    /// End after this many seconds. Without it the demo ends when you end it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,
    /// The port of 127.0.0.1 that Sqluice listens on [default: a free one].
    #[arg(long, short = 'P', value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Make no load, for your own clients.
    #[arg(long)]
    no_load: bool,
    /// Print lines instead of a table. The default if standard output is no terminal.
    #[arg(long)]
    plain: bool,
}

/// Runs the demo to its end, and cleans up.
///
/// # Errors
/// Something could not start; the text says what is missing.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    servers::check_port(args.port)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    let code = runtime.block_on(async {
        let stop = catch_signals()?;
        let replicas = usize::from(args.replicas);
        let servers = tokio::task::spawn_blocking(move || Servers::start(replicas)).await??;
        if *stop.borrow() {
            return Ok(INTERRUPTED.into());
        }
        show(args, &Arc::new(servers), stop).await
    });
    runtime.shutdown_background();
    code
}

/// Becomes true at the first signal that asks for an end. A second one ends the process at once: servers notice that by
/// themselves, only their folders stay.
fn catch_signals() -> anyhow::Result<watch::Receiver<bool>> {
    let catch = |kind| signal(kind).context("cannot catch signals");
    let (mut interrupt, mut terminate) = (catch(SignalKind::interrupt())?, catch(SignalKind::terminate())?);
    let mut hangup = catch(SignalKind::hangup())?;
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            if stop.send_replace(true) {
                std::process::exit(INTERRUPTED.into());
            }
            out::say("stopping; once more ends at once and leaves the servers' folders behind");
        }
    });
    Ok(stopped)
}

/// Starts Sqluice in front of the servers, and shows it.
async fn show(args: &Args, servers: &Arc<Servers>, stop: watch::Receiver<bool>) -> anyhow::Result<ExitCode> {
    let table = !args.plain && io::stdout().is_terminal();
    let recent = if table {
        Some(Recent::start("info")?)
    } else {
        logs::start(&config::Log { format: config::LogFormat::Human, level: "warn".to_owned() })?;
        None
    };
    let background = Background::start(servers.config(args.port)?)?;
    let address = background.address(servers::LISTENER).context("the listener has no address")?.to_owned();
    wait_ready(&background, servers).await?;
    let load = if args.no_load { None } else { Some(Load::start(&address, args.clients)?) };
    let mut hello = hello(&address, &background, servers);
    if !table {
        hello.push(format!("picture:  {PICTURE} shows the page"));
    }
    hello.iter().try_for_each(|line| out::line(line))?;
    let mut view = match recent {
        Some(recent) => View::Table(Screen::open()?, recent, hello),
        None => View::Lines,
    };
    let ended = watch_figures(args, &background, load.as_ref(), servers, &mut view, stop).await;
    drop(view);
    out::print("stopping\n")?;
    let done = load.map(Load::stop).transpose();
    background.drain(DRAIN_LIMIT)?;
    background.stop();
    let figures = ended?;
    let (done, servers) = (done?, servers.clone());
    let same = tokio::task::spawn_blocking(move || servers.compare()).await?;
    table::totals(&figures, done.as_ref()).iter().try_for_each(|line| out::line(line))?;
    out::line(&same.unwrap_or_else(|error| format!("the servers' data could not be compared: {error:#}")))?;
    let failed = args.seconds.is_some() && done.is_some_and(|done| done.errors > 0);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn hello(address: &str, background: &Background, servers: &Servers) -> Vec<String> {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "3306"));
    let client = servers.client();
    let mut hello =
        vec![format!("connect:  {client} -h {host} -P {port} -u {APP_USER} -p{APP_PASSWORD} {APP_DATABASE}")];
    if let Some(admin) = background.admin_address() {
        hello.push(format!("page:     http://{admin}/   key: {}", servers.key()));
        hello.push(format!("metrics:  http://{admin}/metrics"));
    }
    if let Some(console) = background.console_address() {
        let (ip, port, key) = (console.ip(), console.port(), servers.key());
        hello.push(format!("console:  {client} -h {ip} -P {port} -u admin -p{key} -e 'SHOW TABLES'"));
    }
    hello.push(format!("config:   {}", servers.config_path().display()));
    hello
}

async fn wait_ready(background: &Background, servers: &Servers) -> anyhow::Result<()> {
    let deadline = Instant::now() + READY_LIMIT;
    let Some(published) = background.published().get(servers::CLUSTER) else { return Ok(()) };
    loop {
        let view = published.view.load_full();
        let serving = view.servers.iter().filter(|server| server.serves_reads).count();
        if view.primary.is_some() && serving >= servers.replicas() {
            return Ok(());
        }
        if Instant::now() > deadline {
            let reasons: Vec<String> =
                view.servers.iter().map(|server| format!("{}: {}", server.name, server.reason)).collect();
            anyhow::bail!("Sqluice did not find its servers ready; {}", reasons.join("; "));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Where figures go.
enum View {
    Table(Screen, Recent, Vec<String>),
    Lines,
}

impl View {
    async fn key(&mut self) -> Key {
        match self {
            View::Table(screen, ..) => screen.key().await,
            View::Lines => std::future::pending().await,
        }
    }

    fn show(&mut self, figures: &Figures, done: Option<&load::Done>) -> io::Result<()> {
        match self {
            View::Table(screen, recent, hello) => {
                screen.draw(&table::page(figures, done, hello, &recent.newest(LOG_LINES)))
            }
            View::Lines => out::line(&table::line(figures, done)),
        }
    }
}

/// Looks and shows until it is over, and gives the last figures.
async fn watch_figures(
    args: &Args,
    background: &Background,
    load: Option<&Load>,
    servers: &Arc<Servers>,
    view: &mut View,
    mut stop: watch::Receiver<bool>,
) -> anyhow::Result<Figures> {
    let published = background.published().get(servers::CLUSTER).context("there is no cluster")?.clone();
    let mut sampler = Sampler::new(background.stats(), published);
    let end = args.seconds.map(|seconds| tokio::time::Instant::now() + Duration::from_secs(seconds.into()));
    let mut tick = tokio::time::interval(INTERVAL);
    tick.tick().await;
    let mut figures = sampler.sample();
    if let View::Table(..) = view {
        view.show(&figures, load.map(Load::done).as_ref())?;
    }
    loop {
        let over = async {
            match end {
                Some(end) => tokio::time::sleep_until(end).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = tick.tick() => {
                figures = sampler.sample();
                view.show(&figures, load.map(Load::done).as_ref()).context("cannot write to the terminal")?;
            }
            key = view.key() => match key {
                Key::Quit => break,
                Key::Kill => servers.kill_a_replica(),
                Key::Restart => servers.restart_all(),
            },
            () = over => break,
            _ = stop.wait_for(|stop| *stop) => break,
        }
    }
    figures = sampler.sample();
    Ok(figures)
}
