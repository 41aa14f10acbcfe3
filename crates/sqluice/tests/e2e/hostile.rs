//! Peers that do what they must not: each is tried while a neighbour works on the same worker. Memory stays bounded, who should
//! hear an error hears it, the neighbour goes on, and nothing of it all is left behind.
//!
//! The last one prints a table of what was measured, which `target/tmp/hostile.md` has as well; `docs/reference/limits.md` has a copy.

mod before_login;
mod clients;
mod fairness;
mod field;
mod servers;
mod shares;

pub use field::{Field, raw_login};
pub use shares::{check_prepared_bytes, check_prepared_count};

/// Every test here adds a row to the table; when there are this many it is printed.
const SCENARIOS: usize = 44;
