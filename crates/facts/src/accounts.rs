//! The accounts of a cluster's servers, as far as they may be read, and which one a client is.

pub mod rows;

use std::cmp::Reverse;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use wire::auth::parsec::{self, ExtSalt};
use wire::auth::sha_crypt::ShaCrypt;
use wire::auth::{ed25519, equal, native};

/// The check of a login. Debug output shows no hash.
#[derive(Clone, PartialEq, Eq)]
pub enum Verifier {
    /// `mysql_native_password`: SHA1(SHA1(password)).
    Native([u8; 20]),
    /// The empty password, by any plugin that has hashes.
    Empty,
    /// `caching_sha2_password`; without a hash where it could not be read.
    CachingSha2(Option<ShaCrypt>),
    /// `sha256_password`; likewise.
    Sha256(Option<ShaCrypt>),
    /// MariaDB's `ed25519`: the public key.
    Ed25519(ed25519::PublicKey),
    /// MariaDB's `parsec`.
    Parsec {
        /// How a password becomes a key.
        salt: ExtSalt,
        /// The public key.
        key: ed25519::PublicKey,
    },
    /// Another plugin, named.
    Other(Arc<str>),
}

impl Verifier {
    /// Whether this is the password; `None` if only a server can tell. May take milliseconds of computing.
    pub fn fits(&self, password: &[u8]) -> Option<bool> {
        Some(match self {
            Verifier::Native(stage2) => equal(&native::stage2(&native::stage1(password)), stage2),
            Verifier::Empty => password.is_empty(),
            Verifier::CachingSha2(stored) | Verifier::Sha256(stored) => stored.as_ref()?.verify(password),
            Verifier::Ed25519(key) => equal(&ed25519::public_key(password), key),
            Verifier::Parsec { salt, key } => salt.public_key(password).is_ok_and(|made| equal(&made, key)),
            Verifier::Other(_) => return None,
        })
    }

    /// The hash that MariaDB's proof of the certificate takes as the password's, when a client logs in by this plugin.
    pub fn certificate_hash(&self) -> Option<Vec<u8>> {
        match self {
            Verifier::Native(stage2) => Some(stage2.to_vec()),
            Verifier::Ed25519(key) => Some(key.to_vec()),
            Verifier::Parsec { salt, key } => Some(parsec::stored_hash(salt, key)),
            Verifier::Empty | Verifier::CachingSha2(_) | Verifier::Sha256(_) | Verifier::Other(_) => None,
        }
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verifier::Native(_) => "Native(…)",
            Verifier::Empty => "Empty",
            Verifier::CachingSha2(Some(_)) => "CachingSha2(…)",
            Verifier::CachingSha2(None) => "CachingSha2",
            Verifier::Sha256(Some(_)) => "Sha256(…)",
            Verifier::Sha256(None) => "Sha256",
            Verifier::Ed25519(_) => "Ed25519(…)",
            Verifier::Parsec { .. } => "Parsec(…)",
            Verifier::Other(plugin) => return write!(f, "Other({plugin})"),
        })
    }
}

/// The demand of an account on its clients' TLS (`REQUIRE …`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TlsDemand {
    /// Nothing.
    #[default]
    None,
    /// TLS (`SSL`).
    Tls,
    /// A certificate that is signed by an authority the server trusts (`X509`).
    Certificate,
    /// Something that may not be read: no user is let in.
    Unknown,
    /// Such a certificate, if one of its names is given, and these; empty ones say nothing.
    These {
        /// OpenSSL's name of the cipher suite.
        cipher: Arc<str>,
        /// The issuer, in OpenSSL's form: `/C=…/O=…/CN=…`.
        issuer: Arc<str>,
        /// Whom it is for, likewise.
        subject: Arc<str>,
    },
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
    /// The password has expired: the servers let its clients in only to change it, if at all.
    pub expired: bool,
    /// The server blocks it after some wrong passwords in a row (MySQL's FAILED_LOGIN_ATTEMPTS).
    pub counts_failures: bool,
    /// The demand on its clients' TLS.
    pub tls: TlsDemand,
    /// The `max_statement_time` that its sessions begin with, as SET takes it, unless it is the server's (MariaDB).
    pub statement_time: Option<Arc<str>>,
}

/// The value of a variable that is not known: no session has it, so each sets its own.
pub const UNSURE: &str = "?";

/// A snapshot of the accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Grows with each read of the servers, so that a waiting login knows that a refresh happened.
    pub number: u64,
    /// Whether the monitor user was allowed to read them; if not, logins are passed through.
    pub readable: bool,
    /// The servers look up the names of addresses (`skip_name_resolve` is off): to them a loopback address is `localhost`.
    pub resolves_names: bool,
    /// Most specific host first, as the server sorts them.
    pub accounts: Vec<Account>,
}

impl Accounts {
    /// Accounts in the order in which the servers search them.
    pub fn sorted(number: u64, resolves_names: bool, mut accounts: Vec<Account>) -> Accounts {
        accounts.sort_by(|a, b| order(a).cmp(&order(b)));
        Accounts { number, readable: true, resolves_names, accounts }
    }

    /// Whether a user of this name may exist: an account has it, or anonymous accounts take any name, or it is not known
    /// which accounts there are.
    pub fn may_know(&self, user: &str) -> bool {
        !self.readable || self.accounts.iter().any(|account| account.user.is_empty() || *account.user == *user)
    }

    /// The `max_statement_time` of a connection that has logged in as this user, unless it is the server's. The server chooses the account
    /// by Sqluice's address: where the user's accounts differ, the value is [`UNSURE`].
    pub fn statement_time(&self, user: &str) -> Option<&str> {
        let mut of_user = self.accounts.iter().filter(|account| account.user.is_empty() || *account.user == *user);
        let first = of_user.next()?.statement_time.as_deref();
        match of_user.any(|other| other.statement_time.as_deref() != first) {
            true => Some(UNSURE),
            false => first,
        }
    }

    /// The account that the server would choose for this user from this address (`None` is a local socket).
    ///
    /// The server chooses the account first and checks the password then, so the anonymous account of a more specific
    /// host hides a named one (MySQL's manual, "Access Control, Stage 1"). Host names other than `localhost` are not
    /// looked up in the DNS and match nobody; a loopback address is `localhost`, as its reverse lookup says, where the
    /// servers look names up at all.
    pub fn find(&self, user: &str, address: Option<IpAddr>) -> Option<&Account> {
        let address = address.map(|address| address.to_canonical());
        let text = address.map(|address| address.to_string());
        let local = address.is_none_or(|address| self.resolves_names && address.is_loopback());
        self.accounts.iter().find(|account| {
            (account.user.is_empty() || *account.user == *user)
                && host_matches(&account.host, address, text.as_deref(), local)
        })
    }
}

/// Order of search: class of the host, position of its first wildcard (later is more specific), longer netmask, then
/// named users before the anonymous one; the texts make it total.
fn order(account: &Account) -> impl Ord + use<'_> {
    let (class, specific) = match HostPattern::of(&account.host) {
        HostPattern::Exact => (0, 0),
        HostPattern::Masked { mask, .. } => (1, mask.count_ones()),
        // The servers count the position in a byte of which one bit is taken.
        HostPattern::Wildcard { position } => (2, position.min(127) as u32),
        HostPattern::Any => (3, 0),
        HostPattern::Empty => (4, 0),
    };
    (class, Reverse(specific), account.user.is_empty(), &account.host, &account.user)
}

enum HostPattern {
    /// A name or an address.
    Exact,
    /// `address/netmask` or `address/length`.
    Masked { network: u32, mask: u32 },
    /// Holds `%` or `_`; the position of the first, counted from one.
    Wildcard { position: usize },
    /// `%`.
    Any,
    /// The empty text: any host as well, searched last.
    Empty,
}

impl HostPattern {
    fn of(host: &str) -> HostPattern {
        match host {
            "" => return HostPattern::Empty,
            "%" => return HostPattern::Any,
            _ => {}
        }
        if let Some((network, mask)) = masked(host) {
            return HostPattern::Masked { network, mask };
        }
        let mut escaped = false;
        for (index, byte) in host.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'%' | b'_' => return HostPattern::Wildcard { position: index + 1 },
                _ => {}
            }
        }
        HostPattern::Exact
    }
}

/// `198.51.100.0/255.255.255.0`, and MySQL's (8.0.23) CIDR form `198.51.100.0/24`.
fn masked(host: &str) -> Option<(u32, u32)> {
    let (network, mask) = host.split_once('/')?;
    let network: Ipv4Addr = network.parse().ok()?;
    let mask = match mask.parse::<Ipv4Addr>() {
        Ok(mask) => mask.to_bits(),
        Err(_) => {
            let length: u32 = mask.parse().ok().filter(|length| *length <= 32)?;
            u32::MAX.checked_shl(32 - length).unwrap_or(0)
        }
    };
    Some((network.to_bits(), mask))
}

fn host_matches(pattern: &str, address: Option<IpAddr>, text: Option<&str>, local: bool) -> bool {
    match HostPattern::of(pattern) {
        HostPattern::Any | HostPattern::Empty => true,
        HostPattern::Masked { network, mask } => {
            matches!(address, Some(IpAddr::V4(address)) if address.to_bits() & mask == network)
        }
        HostPattern::Exact | HostPattern::Wildcard { .. } => {
            let same_address = match (address, pattern.parse::<IpAddr>()) {
                (Some(address), Ok(pattern)) => pattern.to_canonical() == address,
                _ => false,
            };
            same_address
                || text.is_some_and(|text| like(pattern.as_bytes(), text.as_bytes()))
                || (local && like(pattern.as_bytes(), b"localhost"))
        }
    }
}

/// SQL's LIKE without regard to letter case.
fn like(pattern: &[u8], text: &[u8]) -> bool {
    like_by(pattern, text, |a, b| a.eq_ignore_ascii_case(&b))
}

/// SQL's LIKE, in time proportional to the product of the lengths; `same` compares two bytes.
pub(crate) fn like_by(pattern: &[u8], text: &[u8], same: impl Fn(u8, u8) -> bool) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(p) {
            Some(b'%') => {
                retry = Some((p + 1, t));
                p += 1;
                continue;
            }
            Some(b'_') if t < text.len() => Some(1),
            Some(b'\\') if pattern.get(p + 1).zip(text.get(t)).is_some_and(|(a, b)| same(*a, *b)) => Some(2),
            Some(a) if text.get(t).is_some_and(|b| same(*a, *b)) => Some(1),
            None if t == text.len() => return true,
            _ => None,
        };
        match (step, retry) {
            (Some(width), _) => {
                p += width;
                t += 1;
            }
            (None, Some((after_percent, from))) if from < text.len() => {
                retry = Some((after_percent, from + 1));
                p = after_percent;
                t = from + 1;
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests;
