//! The control plane: monitors, published views, failover.
//!
//! [`start`] runs it on a thread of its own. It watches each cluster's servers (`monitor`), lets [`cluster::driver`]
//! decide, publishes what it decided in [`facts::published::Published`], and implements what `admin` reads and asks for
//! (`status`). It never imports the data plane; the binary's wiring connects the two.

mod changes;
mod cluster_link;
mod error;
mod executor;
mod explain;
mod handle;
mod journal;
mod lease;
mod memory;
mod monitor;
mod status;
mod steps;
mod task;

pub use cluster_link::{ClusterLink, Clusters};
pub use error::StartError;
pub use explain::Plans;
pub use handle::{ControlHandle, start};
