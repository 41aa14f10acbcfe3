//! The control plane: monitors, published views, metrics and health.
//!
//! [`start`] runs it on a thread of its own. It watches each cluster's servers (`monitor`), lets [`cluster::driver`]
//! decide, publishes what it decided in [`cluster::published::Published`], and answers on the admin address (`admin`).
//! It never imports the data plane; the binary's wiring connects the two.

mod admin;
mod changes;
mod executor;
mod handle;
mod journal;
mod lease;
mod memory;
mod monitor;
mod status;
mod steps;

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster::published::Published;
use net::tls::ClientTls;

pub use admin::CONNECTIONS_MAX as ADMIN_CONNECTIONS_MAX;
pub use admin::metrics::{Kind as MetricKind, METRICS, Metric};
pub use handle::{ControlHandle, start};

/// The clusters to watch, by name.
pub type Clusters = BTreeMap<Arc<str>, ClusterLink>;

/// What connects one cluster's watch with the rest of the process.
#[derive(Clone, Debug)]
pub struct ClusterLink {
    /// Where its snapshots are published.
    pub published: Arc<Published>,
    /// TLS towards its servers, as made from the cluster's `tls` table.
    pub tls: ClientTls,
    /// TLS towards its etcd.
    pub etcd_tls: ClientTls,
}

/// The control plane could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The admin address cannot be listened on.
    #[error("cannot listen on {address} (key admin.address): {cause}")]
    AdminAddress {
        /// As configured.
        address: String,
        /// What the system says.
        #[source]
        cause: std::io::Error,
    },
    /// No thread or no runtime could be made.
    #[error("cannot start the control thread: {0}")]
    Thread(#[source] std::io::Error),
}
