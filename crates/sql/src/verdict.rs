//! The verdict of another crate about a statement, found once for all of its shape.

use std::cell::OnceCell;

use crate::Statement;

/// A number that somebody has found out about a statement, such as why its answer cannot be kept. That is no part of what the
/// statement is: all are equal.
#[derive(Clone, Debug, Default)]
pub struct Verdict(OnceCell<u8>);

impl PartialEq for Verdict {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Verdict {}

impl Statement {
    /// The verdict of `judge` about the statement, which is asked once: for a text that [`crate::Memo`] remembers, once for
    /// all of its shape. It may look at all of the text but the values of numbers and strings.
    pub fn verdict(&self, judge: impl FnOnce() -> u8) -> u8 {
        *self.verdict.0.get_or_init(judge)
    }
}
