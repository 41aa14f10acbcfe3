//! `etcd` of a cluster.

use std::sync::Arc;

use crate::{Address, Secret, ServerTls};

/// `etcd` of a cluster: where the lease is, with `promotion.lease = "etcd"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Etcd {
    /// Where its members are, each with host and port.
    pub endpoints: Vec<Address>,
    /// The user; none: it asks for none.
    pub user: Option<Arc<str>>,
    /// The user's password.
    pub password: Option<Secret>,
    /// The beginning of the key.
    pub prefix: Arc<str>,
    /// TLS towards it; never `preferred`.
    pub tls: ServerTls,
}
