//! The control plane: monitors, published views, metrics and health.
//!
//! [`start`] runs it on a thread of its own. It watches each cluster's servers (`monitor`), lets [`cluster::driver`]
//! decide, publishes what it decided in [`facts::published::Published`], and answers on the admin address (`admin`).
//! It never imports the data plane; the binary's wiring connects the two.

mod admin;
mod changes;
mod cluster_link;
mod error;
mod executor;
mod handle;
mod journal;
mod lease;
mod memory;
mod monitor;
mod status;
mod steps;
mod task;

pub use admin::CONNECTIONS_MAX as ADMIN_CONNECTIONS_MAX;
pub use admin::metrics::{Kind as MetricKind, METRICS, Metric};
pub use cluster_link::{ClusterLink, Clusters};
pub use error::StartError;
pub use handle::{ControlHandle, start};
