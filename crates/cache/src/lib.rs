//! The result cache: what may be stored, under which key, for how long, and what a write makes of it. Nothing here does
//! I/O or reads a clock.
//!
//! **The promise.** A write raises its cluster's [`Epochs`] when its server has confirmed it and before its client hears of it. Whoever
//! fills the cache takes a [`Stamp`] of the epochs *before* its statement is sent. An answer is given out only while its stamp is
//! current, so that nobody is ever given an answer that was read before a write that any client was told of, in whichever
//! order the reply of the read, the reply of the write and the next question arrive.
//!
//! That needs two things of the caller: the read runs on a server that has all that was written when the stamp was taken, and a write
//! whose end is not known counts as one.

mod answer;
mod comment;
mod epochs;
mod fill;
mod follow;
mod in_tier;
mod judge;
mod key;
mod store;
mod warm;

pub use answer::{Answer, Known, Summary};
pub use comment::{Comment, comment};
pub use epochs::{CountedWrites, Epochs, Reads, RowId, Stamp, TableId, TableWrite, Writes};
pub use fill::{Filling, Ticket};
pub use follow::Follow;
pub use in_tier::{InTier, Packed};
pub use judge::{Refusal, RefusedForms, judge};
pub use key::{Context, Question};
pub use store::{Bounds, Found, Freshness, Hit, Removed, Store};
pub use warm::{WarmCounts, WarmReport, WarmRun, Warmer};
