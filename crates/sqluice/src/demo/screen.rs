//! The terminal: a screen of our own, keys without Enter, and everything as it was afterwards.

use std::io::{self, Write, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Color, Print, ResetColor, SetAttribute, SetForegroundColor};
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, queue};
use tokio::sync::mpsc;

use super::table::{Line, Tone};

/// How often the thread that reads keys looks whether it should end.
const KEY_WAIT: Duration = Duration::from_millis(100);
/// Keys that wait to be looked at; more are dropped.
const KEYS_MAX: usize = 16;

/// A command of the user, by the key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Kill,
    Restart,
}

/// The terminal while it is ours. Dropping it gives it back.
pub(super) struct Screen {
    keys: mpsc::Receiver<Key>,
    closing: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn open() -> io::Result<Screen> {
        let (found, keys) = mpsc::channel(KEYS_MAX);
        let closing = Arc::new(AtomicBool::new(false));
        let mut screen = Screen { keys, closing: closing.clone(), reader: None };
        restore_before_panics();
        terminal::enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, cursor::Hide)?;
        screen.reader = Some(std::thread::Builder::new().name("keys".into()).spawn(move || {
            while !closing.load(Ordering::Relaxed) {
                // Without a terminal to read there are no keys: signals still end the demo.
                let Ok(ready) = event::poll(KEY_WAIT) else { return };
                if ready
                    && let Ok(Event::Key(event)) = event::read()
                    && let Some(key) = meaning(&event)
                {
                    // A key that nobody looks at in time is a key pressed too often.
                    let _ = found.try_send(key);
                }
            }
        })?);
        Ok(screen)
    }

    /// The next key that means something.
    pub(super) async fn key(&mut self) -> Key {
        match self.keys.recv().await {
            Some(key) => key,
            None => std::future::pending().await,
        }
    }

    /// Shows a page, as much of it as there is room for.
    pub(super) fn draw(&mut self, page: &[Line]) -> io::Result<()> {
        let (columns, rows) = terminal::size().unwrap_or((80, 24));
        let mut out = stdout().lock();
        queue!(out, terminal::BeginSynchronizedUpdate)?;
        for (row, line) in (0..rows).zip(page) {
            let text: String = line.text.chars().filter(|c| !c.is_control()).take(columns.into()).collect();
            queue!(out, cursor::MoveTo(0, row))?;
            match line.tone {
                Tone::Plain => {}
                Tone::Strong => queue!(out, SetAttribute(Attribute::Bold))?,
                Tone::Faint => queue!(out, SetAttribute(Attribute::Dim))?,
                Tone::Bad => queue!(out, SetForegroundColor(Color::Red))?,
            }
            queue!(out, Print(text), ResetColor, SetAttribute(Attribute::Reset), Clear(ClearType::UntilNewLine))?;
        }
        if page.len() < usize::from(rows) {
            let below = u16::try_from(page.len()).unwrap_or(rows);
            queue!(out, cursor::MoveTo(0, below), Clear(ClearType::FromCursorDown))?;
        }
        queue!(out, terminal::EndSynchronizedUpdate)?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            // A reader that panicked has said so.
            let _ = reader.join();
        }
        restore();
    }
}

fn restore() {
    // A terminal that is gone needs no restoring.
    let _ = execute!(stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = terminal::disable_raw_mode();
}

/// The words of a panic would go with the screen: it is left before they are printed.
fn restore_before_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore();
        before(panic);
    }));
}

fn meaning(event: &KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    match event.code {
        KeyCode::Char('c') if event.modifiers.contains(KeyModifiers::CONTROL) => Some(Key::Quit),
        KeyCode::Char('q') | KeyCode::Esc => Some(Key::Quit),
        KeyCode::Char('k') => Some(Key::Kill),
        KeyCode::Char('r') => Some(Key::Restart),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_page_says() {
        let meaning_of = |code, modifiers| meaning(&KeyEvent::new(code, modifiers));
        assert_eq!(meaning_of(KeyCode::Char('q'), KeyModifiers::NONE), Some(Key::Quit));
        assert_eq!(meaning_of(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Quit));
        assert_eq!(meaning_of(KeyCode::Char('c'), KeyModifiers::NONE), None);
        assert_eq!(meaning_of(KeyCode::Char('k'), KeyModifiers::NONE), Some(Key::Kill));
        assert_eq!(meaning_of(KeyCode::Char('r'), KeyModifiers::NONE), Some(Key::Restart));
    }
}
