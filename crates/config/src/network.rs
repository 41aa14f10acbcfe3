//! Addresses that belong together.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// An address, or all that begin with the same bits: `10.0.0.0/8`, `2001:db8::/32`, `::1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Whether the address is one of it. An IPv4 address inside IPv6 (`::ffff:10.0.0.1`) counts as the IPv4 address.
    pub fn contains(self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differ = network.to_bits() ^ address.to_bits();
                differ.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differ = network.to_bits() ^ address.to_bits();
                differ.leading_zeros() >= u32::from(self.bits)
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| "what stands there is no IP address".to_owned())?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => {
                bits.parse().ok().filter(|bits| *bits <= max)
            }
            Some(_) => None,
            None => Some(max),
        };
        let bits = bits.ok_or_else(|| format!("behind `/` stands a number from 0 to {max}"))?;
        Ok(Network { address, bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_hold_what_begins_with_their_bits() {
        for (network, address, inside) in [
            ("10.0.0.0/8", "10.200.3.4", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.1.2.3", "10.1.2.3", true),
            ("10.1.2.3", "10.1.2.2", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("0.0.0.0/0", "::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "1.2.3.4", false),
            ("2001:db8::/33", "2001:db8:7fff::1", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
            ("127.0.0.1", "::ffff:127.0.0.1", true),
        ] {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), inside, "{network} {address}");
        }
    }

    #[test]
    fn what_is_no_network_says_why() {
        for (text, word) in [
            ("", "no IP"),
            ("db1", "no IP"),
            ("10.0.0.0/33", "0 to 32"),
            ("::/129", "0 to 128"),
            ("::/+1", "0 to 128"),
            ("::/", "0 to"),
        ] {
            let error = text.parse::<Network>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
