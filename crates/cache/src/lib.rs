//! The result cache: what may be stored, under which key, for how long, and what a write makes of it. Nothing here does
//! I/O or reads a clock.
//!
//! **The promise.** A write raises its cluster's [`WriteCounters`] when its server has confirmed it and before its client hears of it. A session that
//! fills the cache takes a [`Stamp`] of the counters *before* its statement is sent. An answer is given out only while its stamp is
//! current, so that nobody is ever given an answer that was read before a write that any client was told of, in whichever
//! order the reply of the read, the reply of the write and the next question arrive.
//!
//! That needs two things of the caller: the read runs on a server that has all that was written when the stamp was taken, and a write
//! whose end is not known counts as one.

mod answer;
mod comment;
mod fill;
mod follow;
mod in_tier;
mod judge;
mod key;
mod rows;
mod store;
mod warm;
mod write_counters;

pub use answer::{Answer, AnswerParts, Summary};
pub use comment::{Comment, comment};
pub use fill::{Filling, Ticket};
pub use follow::Follow;
pub use in_tier::{InTier, Packed};
pub use judge::{Refusal, RefusedForms, judge};
pub use key::{Context, Question};
pub use rows::{Catalogued, Values, WriteFacts, table_writes};
pub use store::{Bounds, Freshness, Hit, Lookup, Removed, Store};
pub use warm::{WarmCounts, WarmReport, WarmRun, Warmer};
pub use write_counters::{CountedWrites, Reads, RowId, Stamp, TableId, TableWrite, WriteCounters, Writes};
