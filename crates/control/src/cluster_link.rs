//! The link between the clusters' watches and the rest of the process.

use std::collections::BTreeMap;
use std::sync::Arc;

use facts::published::Published;
use net::tls::ClientTls;

/// The clusters to watch, by name.
pub type Clusters = BTreeMap<Arc<str>, ClusterLink>;

/// The link between one cluster's watch and the rest of the process.
#[derive(Clone, Debug)]
pub struct ClusterLink {
    /// Where its snapshots are published.
    pub published: Arc<Published>,
    /// TLS towards its servers, as made from the cluster's `tls` table.
    pub tls: ClientTls,
    /// TLS towards its etcd.
    pub etcd_tls: ClientTls,
}
