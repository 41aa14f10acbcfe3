//! Events: each query and login as one JSON object a line.
//!
//! **Start here:** a worker makes an [`Event`] at the end of a query ([`Filter`] says of which) and puts it into its [`Ring`].
//! The thread of [`Events`] empties the rings, numbers what it finds, writes lines ([`Event::line`]) to the file,
//! and keeps the last ones ([`Recent`]) for those who look on.
//!
//! A worker never waits for that: a ring that is full loses events, and a `gap` event says how many.

mod condition;
mod event;
mod file;
mod filter;
mod line;
mod number;
mod recent;
mod ring;
mod writer;

pub use condition::{Condition, ConditionError};
pub use event::{AnsweredBy, Body, Client, Ended, Event, Login, Query, ServerError, TEXT_BYTES_MAX};
pub use file::Rotation;
pub use filter::{Filter, Queries};
pub use line::VERSION;
pub use recent::{Recent, Tail};
pub use ring::Ring;
pub use writer::{Events, FileSettings, Settings, StartError};
