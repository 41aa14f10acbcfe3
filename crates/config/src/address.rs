//! Where a server is or a listener waits.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `host:port`, `[ipv6]:port` or `unix:/path`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// A TCP endpoint.
    Tcp {
        /// Name or address, an IPv6 address without its brackets.
        host: Arc<str>,
        /// Port; 0 (only for what Sqluice itself listens on) lets the system choose a free one.
        port: u16,
    },
    /// A Unix socket.
    Unix(Arc<Path>),
}

/// The longest path that fits `sockaddr_un.sun_path` on Linux, without the closing zero.
const UNIX_PATH_MAX: usize = 107;
/// The longest DNS name in text form.
const HOST_MAX: usize = 253;

impl Address {
    /// Reads the text form.
    ///
    /// # Errors
    /// Says in words what is wrong with the text, without repeating it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if !path.starts_with('/') {
                return Err("a Unix socket needs an absolute path, as in \"unix:/run/mysqld/mysqld.sock\"".into());
            }
            if path.len() > UNIX_PATH_MAX || path.contains('\0') {
                return Err(format!("a Unix socket's path has at most {UNIX_PATH_MAX} bytes and no zero byte"));
            }
            return Ok(Self::Unix(PathBuf::from(path).into()));
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, tail) = rest.split_once(']').ok_or("the closing ']' of the IPv6 address is missing")?;
                host.parse::<Ipv6Addr>().map_err(|_| "what stands between '[' and ']' is no IPv6 address")?;
                (host, tail.strip_prefix(':').ok_or("the port is missing, as in \"[::1]:3306\"")?)
            }
            None => {
                let (host, port) = text.rsplit_once(':').ok_or("the port is missing, as in \"10.0.0.1:3306\"")?;
                if host.contains(':') {
                    return Err("an IPv6 address stands in brackets, as in \"[::1]:3306\"".into());
                }
                (host, port)
            }
        };
        if host.is_empty() {
            return Err("the host is missing, as in \"10.0.0.1:3306\" (\"0.0.0.0:3306\" is every IPv4 address)".into());
        }
        let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
        if host.len() > HOST_MAX || !host.chars().all(good) {
            return Err(format!("a host has at most {HOST_MAX} letters, digits, '.', '-' and '_'"));
        }
        if port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()) {
            return Err("the port is no number".into());
        }
        let port = port.parse::<u16>().map_err(|_| "the port is over 65535")?;
        Ok(Self::Tcp { host: host.to_ascii_lowercase().into(), port })
    }

    /// Only programs on this machine reach it.
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Tcp { host, .. } => {
                **host == *"localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            }
            Self::Unix(_) => true,
        }
    }

    /// The port, when there is one.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp { port, .. } => Some(*port),
            Self::Unix(_) => None,
        }
    }

    /// Whether something that listens on `self` would receive what is sent to `other`, as far as the text tells.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unix(a), Self::Unix(b)) => a == b,
            (Self::Tcp { host: a, port: p }, Self::Tcp { host: b, port: q }) => {
                *p == *q && *p != 0 && (a == b || (is_wildcard(a) && is_local(b)) || (is_loopback(a) && is_loopback(b)))
            }
            _ => false,
        }
    }
}

fn is_wildcard(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified())
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host == "127.0.0.1" || host == "::1"
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified())
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
