//! Events: each query and login as one JSON object a line.
//!
//! **Start here:** a worker makes an [`Event`] at the end of a query ([`Filter`] says of which) and puts it into its [`Ring`].
//! All others, such as the admin listener, use [`Events::put`].
//! The thread of [`Events`] empties the rings, numbers what it finds, makes lines ([`Event::line`]), and keeps the last ones
//! ([`Recent`]) for those who look on. Blocks of lines go to each sink's queue, or into the spool on disk; the sink's thread writes them.
//!
//! A worker never waits for that: a ring that is full loses events, and a `gap` event says how many. If the operator wants
//! it ([`Settings::wait_max`]), each stage waits for the next one instead, and a worker sees by [`Ring::is_crowded`] that its
//! sessions shall, too.

mod block;
mod condition;
mod event;
mod filter;
mod flow;
mod join;
mod line;
mod masks;
mod number;
mod queue;
mod recent;
mod redaction;
mod ring;
mod sinks;
mod spool;
mod trace;
mod writer;

pub use condition::{Condition, ConditionError};
pub use event::{
    Admin, AnsweredBy, Body, Client, Ended, Event, Login, Param, Params, Query, ServerError, TEXT_BYTES_MAX, Text,
    TurnedAway,
};
pub use filter::{ByRule, Filter, Queries};
pub use line::VERSION;
pub use masks::Masks;
pub use recent::{Recent, Tail};
pub use redaction::{HmacKey, Literals};
pub use ring::Ring;
pub use sinks::{
    FileSettings, HAS_KAFKA, KafkaKey, KafkaLogin, KafkaSasl, KafkaSettings, KafkaTls, MetricsPush, OtlpSettings,
    PushTarget, Rotation, SinkFigures, SinkSettings, SyslogAddress, SyslogSettings, Takes, Target,
};
pub use spool::{SpoolFigures, SpoolSettings};
pub use trace::Trace;
pub use writer::{Events, Settings, StartError};
