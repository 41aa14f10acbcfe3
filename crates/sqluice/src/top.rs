//! `sqluice top`: the load, the digests and the sessions of the running process, once a second in the terminal.

mod figures;
mod frame;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, queue, style};

use crate::api::{Api, ApiArgs};
use crate::out;
use figures::Figures;
use frame::{Size, lines};

/// Columns and lines of a frame that goes to no terminal.
const PLAIN: Size = Size { columns: 160, lines: 40 };
/// Digests and sessions that are asked for: more than a screen has.
const DIGESTS_ASKED: u32 = 1_000;
const SESSIONS_ASKED: u32 = 50;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    api: ApiArgs,
    /// Seconds between frames.
    #[arg(long, short, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=60))]
    interval: u64,
    /// Print so many frames and end, without taking the screen over. A terminal without it shows frames until `q`.
    #[arg(long, short = 'n', value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    frames: Option<u64>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let api = Api::find(&args.api)?;
    let interval = Duration::from_secs(args.interval);
    match args.frames {
        None if io::stdout().is_terminal() && io::stdin().is_terminal() => watch(&api, interval)?,
        frames => print(&api, interval, frames)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print(api: &Api, interval: Duration, frames: Option<u64>) -> anyhow::Result<()> {
    let mut before = ask(api)?;
    let mut printed = 0;
    while frames.is_none_or(|frames| printed < frames) {
        std::thread::sleep(interval);
        let now = ask(api)?;
        for line in lines(&before, &now, PLAIN) {
            out::line(line.trim_end())?;
        }
        out::line("")?;
        (before, printed) = (now, printed + 1);
    }
    Ok(())
}

fn ask(api: &Api) -> anyhow::Result<Figures> {
    let at = Instant::now();
    let metrics = api.metrics()?;
    let digests = api.ask("GET", &format!("/digests?limit={DIGESTS_ASKED}"), "")?;
    let sessions = api.ask("GET", &format!("/sessions?limit={SESSIONS_ASKED}"), "")?;
    let running = api.ask("GET", "/sessions?where=state%3Drunning&limit=1", "")?;
    let running = running.page["met"].as_u64().unwrap_or(0);
    Figures::read(at, &metrics, &digests.page, (sessions.page, running))
}

/// Takes the screen over until `q`, Escape or Ctrl-C. The terminal is as before afterwards, also behind an error.
fn watch(api: &Api, interval: Duration) -> anyhow::Result<()> {
    terminal::enable_raw_mode()?;
    let shown = execute!(io::stdout(), EnterAlternateScreen, cursor::Hide).map_err(Into::into);
    let shown = shown.and_then(|()| show(api, interval));
    let left = execute!(io::stdout(), cursor::Show, LeaveAlternateScreen).and(terminal::disable_raw_mode());
    shown.and(left.map_err(Into::into))
}

fn show(api: &Api, interval: Duration) -> anyhow::Result<()> {
    let mut before = ask(api)?;
    loop {
        if waits_for_end(interval)? {
            return Ok(());
        }
        let now = ask(api)?;
        let (columns, rows) = terminal::size()?;
        let size = Size { columns: columns.into(), lines: rows.into() };
        let mut out = io::stdout().lock();
        queue!(out, cursor::MoveTo(0, 0))?;
        for (row, line) in (0..rows).zip(lines(&before, &now, size)) {
            queue!(out, cursor::MoveTo(0, row), Clear(ClearType::CurrentLine), style::Print(line))?;
        }
        queue!(out, Clear(ClearType::FromCursorDown))?;
        out.flush()?;
        before = now;
    }
}

/// Waits for the next frame; true if somebody wants to see no more.
fn waits_for_end(interval: Duration) -> io::Result<bool> {
    let until = Instant::now() + interval;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || !event::poll(left)? {
            return Ok(false);
        }
        if let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event::read()? {
            let ends = matches!(code, KeyCode::Char('q') | KeyCode::Esc)
                || code == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL);
            if ends {
                return Ok(true);
            }
        }
    }
}
