//! Peers that do what they must not: each is tried while a neighbour works on the same worker. Memory stays bounded, who should
//! hear an error hears it, the neighbour goes on, and nothing of it all is left behind.
//!
//! The last one prints a table of what was measured, which `target/tmp/hostile.md` has as well; `docs/limits.md` has a copy.

mod clients;
mod field;
mod fairness;
mod servers;

pub use field::{Field, raw_login};

/// Every test here adds a row to the table; when there are this many it is printed.
const SCENARIOS: usize = 21;
