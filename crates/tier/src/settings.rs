//! The operator's settings of the tier.

use std::time::Duration;

use net::tls::ClientTls;
use zeroize::Zeroizing;

/// Where the tier is and how it is used.
#[derive(Clone)]
pub struct Settings {
    /// Where it listens.
    pub address: net::Address,
    /// TLS towards it.
    pub tls: ClientTls,
    /// The ACL user; none is the user `default`.
    pub user: Option<String>,
    /// The password; none: it asks for none.
    pub password: Option<Zeroizing<Vec<u8>>>,
    /// The number of its database.
    pub database: u32,
    /// The beginning of all keys.
    pub prefix: String,
    /// The name of this process, if it has one that stays the same when it is started again and that no other process has.
    pub name: Option<String>,
    /// `lease_ms`: how long others may count on this process after its last message.
    pub membership: Duration,
    /// Longest that a question waits.
    pub timeout: Duration,
    /// Longest that connecting and logging in may take.
    pub connect_timeout: Duration,
    /// A member that has said nothing for so long is not waited for any more.
    pub forget: Duration,
    /// How long answers in a process's memory are believed without asking.
    pub trust: Duration,
    /// Bytes of the largest answer.
    pub entry_max: usize,
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("address", &self.address.to_string()).finish_non_exhaustive()
    }
}
