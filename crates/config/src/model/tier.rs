//! `[cache.tier]`

use std::sync::Arc;
use std::time::Duration;

use crate::{Address, Secret, ServerTls};

/// `[cache.tier]`: where several processes find each other's answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tier {
    /// Where it listens.
    pub address: Address,
    /// The ACL user; none is `default`.
    pub user: Option<Arc<str>>,
    /// The password; none: it asks for none.
    pub password: Option<Secret>,
    /// The number of its database.
    pub database: u32,
    /// The beginning of all keys.
    pub prefix: Arc<str>,
    /// The name of this process among the members, if it keeps it.
    pub name: Option<Arc<str>>,
    /// How long others count on this process after its last word.
    pub lease: Duration,
    /// Longest that a statement waits for an answer.
    pub timeout: Duration,
    /// Longest that connecting may take.
    pub connect_timeout: Duration,
    /// After so much silence a member is not waited for.
    pub forget: Duration,
    /// How long an answer is believed that the tier has called good.
    pub trust: Duration,
    /// TLS towards it; never `preferred`.
    pub tls: ServerTls,
}
