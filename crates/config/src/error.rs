//! Mistakes in a configuration, in words for its author.

use std::fmt::{self, Write as _};

/// One mistake, with the place to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file, as it was named to [`crate::load`] or [`crate::parse`].
    pub file: String,
    /// Line, counted from 1; 0 when the whole file could not be read.
    pub line: usize,
    /// Column in characters, counted from 1; 0 when the whole file could not be read.
    pub column: usize,
    /// The key's path, as in `cluster.main.pool.wait_ms`; empty for the file as a whole.
    pub key: String,
    /// The mistake.
    pub message: String,
    /// The allowed values.
    pub allowed: Option<String>,
    /// The probable meaning, or the remedy.
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names and paths of the file are told as they stand there.
        let mut f = OneLine(f);
        write!(f, "{}:", self.file)?;
        if self.line > 0 {
            write!(f, "{}:{}:", self.line, self.column)?;
        }
        if !self.key.is_empty() {
            write!(f, " {}:", self.key)?;
        }
        write!(f, " {}", self.message)?;
        if let Some(allowed) = &self.allowed {
            write!(f, "; allowed: {allowed}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

/// Keeps what is written in one line: control characters are told by their escapes.
struct OneLine<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for OneLine<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| match c.is_control() {
            true => write!(self.0, "{}", c.escape_default()),
            false => self.0.write_char(c),
        })
    }
}

/// Something that works but is probably not wanted. Shown like a [`Problem`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning(pub Problem);

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Every mistake of a file, in the order of its lines; never empty. Displays as one line each.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Errors(pub Vec<Problem>);

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}
