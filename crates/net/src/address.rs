//! Where a server listens.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The port of MySQL and MariaDB.
pub const PORT_DEFAULT: u16 = 3306;

/// `host`, `host:port`, `[v6]:port` or `unix:/path`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A host name or address, without the brackets of IPv6, and a port.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// The path of a local socket.
    Unix(PathBuf),
}

/// A text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no address: {problem} (expected host:port, [ipv6]:port or unix:/path)")]
pub struct AddressError {
    text: String,
    problem: &'static str,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let error = |problem| AddressError { text: text.into(), problem };
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(error("the path is empty")) } else { Ok(Address::Unix(path.into())) };
        }
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, port) = rest.split_once(']').ok_or_else(|| error("`]` is missing"))?;
            match port.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if port.is_empty() => (host, None),
                None => return Err(error("`:` is missing behind `]`")),
            }
        } else {
            match text.split_once(':') {
                Some((_, rest)) if rest.contains(':') => return Err(error("an IPv6 address needs brackets")),
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        if host.is_empty() {
            return Err(error("the host is empty"));
        }
        let port = match port {
            Some(port) => port.parse().map_err(|_| error("the port is no number up to 65535"))?,
            None => PORT_DEFAULT,
        };
        Ok(Address::Tcp { host: host.into(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_the_same() {
        for text in ["db1:3307", "10.0.0.1:3306", "[::1]:3306", "unix:/run/mysqld/mysqld.sock"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert_eq!("db1".parse::<Address>().unwrap().to_string(), "db1:3306");
        assert_eq!("[::1]".parse::<Address>().unwrap().to_string(), "[::1]:3306");
    }

    #[test]
    fn what_is_no_address_says_why() {
        for (text, problem) in [
            ("", "host is empty"),
            (":3306", "host is empty"),
            ("db1:", "no number"),
            ("db1:99999", "no number"),
            ("::1", "brackets"),
            ("[::1", "missing"),
            ("[::1]3306", "missing"),
            ("unix:", "path is empty"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
