//! Text for people and scripts: standard output and standard error of commands.
//!
//! `print!` and `eprintln!` panic when nobody reads any more, as in `sqluice status | head -1`, and when a disk is full.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write as _};

use anyhow::Context as _;

/// Writes text to standard output. A reader that has gone has what it wanted, which is no error.
///
/// # Errors
/// The output cannot be written for another reason.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    match write(text) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

/// As [`print`], with an end of line; a reader that has gone is an error, which ends a command that goes on until it is stopped.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn line(text: &str) -> io::Result<()> {
    write(&format!("{text}\n"))
}

/// Writes a line to standard error, if somebody reads there.
pub(crate) fn say(text: impl Display) {
    // There is no other place to complain.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Whether nothing is wrong but that the reader of the output has gone.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &io::Error| cause.kind() == ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(broken))
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// A text in one line of a terminal, cut at so many characters: control characters may come from anybody.
pub(crate) fn one_line(text: &str, chars_max: usize) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let mut line: String = text.chars().take(chars_max).map(plain).collect();
    if text.chars().nth(chars_max).is_some() {
        line.push('…');
    }
    line
}
