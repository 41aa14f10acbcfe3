//! The journal: decisions and actions, for operators to read afterwards.

use std::sync::Arc;

use crate::step::StepId;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// The failover, switchover or repair that it belongs to; 0 for what belongs to none.
    pub run: u64,
    /// The epoch at that time.
    pub epoch: u64,
    /// The kind of the line.
    pub kind: EntryKind,
    /// The server it concerns.
    pub server: Option<Arc<str>>,
    /// In words.
    pub text: String,
}

/// The kinds of runs.
pub const RUN_WORDS: [&str; 4] = ["failover", "switchover", "restore", "rejoin"];

/// Kinds of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Something was decided, with its reason.
    Decision,
    /// A step was ordered.
    Step(StepId),
    /// A step ended well.
    Done(StepId),
    /// A step ended badly.
    Failed(StepId),
    /// A run ended well; what it was, one of [`RUN_WORDS`].
    Finished(&'static str),
    /// A run was given up; what it was.
    Aborted(&'static str),
    /// An action that mode `auto` would do.
    Advice,
}

impl EntryKind {
    /// The word for logs and the API.
    pub fn word(self) -> &'static str {
        match self {
            EntryKind::Decision => "decision",
            EntryKind::Step(_) => "step",
            EntryKind::Done(_) => "done",
            EntryKind::Failed(_) => "failed",
            EntryKind::Finished(_) => "finished",
            EntryKind::Aborted(_) => "aborted",
            EntryKind::Advice => "advice",
        }
    }
}
