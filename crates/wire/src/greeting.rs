//! The first packet of a connection: the server says who it is.
//!
//! Source: MariaDB's documentation "Connecting", initial handshake packet; protocol version 10. A server that refuses the
//! connection (too many, host blocked) sends an ERR packet instead, see [`crate::handshake::ServerError`].

use crate::auth::{SCRAMBLE_BYTES, Scramble};
use crate::codec::{Malformed, Reader, Write};
use crate::{Capabilities, Status};

/// The only protocol version spoken; all servers since 1998 have it.
pub const PROTOCOL_VERSION: u8 = 10;

/// The scramble's first part stands before the capabilities, where old clients look for it.
const SCRAMBLE_FIRST_BYTES: usize = 8;

/// A server's first packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The version text as sent, with the `5.5.5-` that MariaDB 10 puts in front.
    pub server_version: String,
    /// The connection's id: what `CONNECTION_ID()` answers and `KILL` takes.
    pub connection_id: u32,
    /// The challenge that the client's first authentication answer belongs to.
    pub scramble: Scramble,
    /// Both halves of the capabilities.
    pub capabilities: Capabilities,
    /// The server's default collation, or its low byte.
    pub collation: u8,
    /// The status flags.
    pub status: Status,
    /// The default authentication plugin; empty if the server has no [`Capabilities::PLUGIN_AUTH`].
    pub plugin: String,
}

impl Greeting {
    /// Reads a payload that does not begin with `0xff`.
    ///
    /// # Errors
    /// Another protocol version, a server without the 4.1 protocol's scramble, or an early end.
    pub fn parse(payload: &[u8]) -> Result<Greeting, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8("greeting: protocol version")? != PROTOCOL_VERSION {
            return Err(Malformed("greeting: protocol version is not 10"));
        }
        let server_version = String::from_utf8_lossy(reader.nul_bytes("greeting: server version")?).into_owned();
        let connection_id = reader.u32("greeting: connection id")?;
        let scramble_first = reader.bytes(SCRAMBLE_FIRST_BYTES, "greeting: scramble")?;
        reader.u8("greeting: filler")?;
        let low = reader.u16("greeting: capabilities")?;
        let collation = reader.u8("greeting: collation")?;
        let status = Status::from_bits_retain(reader.u16("greeting: status")?);
        let high = reader.u16("greeting: capabilities")?;
        let scramble_bytes = usize::from(reader.u8("greeting: scramble length")?);
        reader.bytes(6, "greeting: reserved")?;
        let extended = reader.u32("greeting: extended capabilities")?;
        let low = u32::from(low) | u32::from(high) << 16;
        // MySQL leaves the four bytes reserved: whatever they hold means something only if LONG_PASSWORD is clear.
        let is_mariadb = !Capabilities::from_halves(low, 0).contains(Capabilities::LONG_PASSWORD);
        let capabilities = Capabilities::from_halves(low, if is_mariadb { extended } else { 0 });
        if !capabilities.contains(Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION) {
            return Err(Malformed("greeting: the server is older than the 4.1 protocol"));
        }
        let scramble_rest = reader.bytes(SCRAMBLE_BYTES - SCRAMBLE_FIRST_BYTES, "greeting: scramble")?;
        let mut scramble = [0; SCRAMBLE_BYTES];
        scramble[..SCRAMBLE_FIRST_BYTES].copy_from_slice(scramble_first);
        scramble[SCRAMBLE_FIRST_BYTES..].copy_from_slice(scramble_rest);
        // The second part takes at least 13 bytes, its last one zero; a longer challenge is cut by clients of all kinds.
        let more = scramble_bytes.saturating_sub(SCRAMBLE_BYTES).max(1);
        let mut plugin = String::new();
        if capabilities.contains(Capabilities::PLUGIN_AUTH) {
            reader.bytes(more, "greeting: scramble's end")?;
            // MySQL 5.5.7 to 5.5.9 and 5.6.0 forgot the zero byte behind the name.
            let name = reader.remaining();
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            if end == 0 {
                return Err(Malformed("greeting: authentication plugin"));
            }
            plugin = String::from_utf8_lossy(&name[..end]).into_owned();
        }
        Ok(Greeting { server_version, connection_id, scramble, capabilities, collation, status, plugin })
    }

    /// Appends the payload. The extended capabilities are sent when [`Capabilities::LONG_PASSWORD`] is clear.
    pub fn encode(&self, payload: &mut Vec<u8>) {
        let low = self.capabilities.low();
        let has_plugins = self.capabilities.contains(Capabilities::PLUGIN_AUTH);
        let is_mariadb = !self.capabilities.contains(Capabilities::LONG_PASSWORD);
        payload.push(PROTOCOL_VERSION);
        payload.put_nul_bytes(self.server_version.as_bytes());
        payload.put_u32(self.connection_id);
        payload.put_nul_bytes(&self.scramble[..SCRAMBLE_FIRST_BYTES]);
        payload.put_u16((low & 0xffff) as u16);
        payload.push(self.collation);
        payload.put_u16(self.status.bits());
        payload.put_u16((low >> 16) as u16);
        payload.push(if has_plugins { SCRAMBLE_BYTES as u8 + 1 } else { 0 });
        payload.extend_from_slice(&[0; 6]);
        payload.put_u32(if is_mariadb { self.capabilities.extended() } else { 0 });
        payload.put_nul_bytes(&self.scramble[SCRAMBLE_FIRST_BYTES..]);
        if has_plugins {
            payload.put_nul_bytes(self.plugin.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The greeting of MariaDB 10.11, field by field.
    pub(crate) const MARIADB: &[u8] = b"\x0a5.5.5-10.11.6-MariaDB-0+deb12u1\0\
        \x1f\x00\x00\x00\x2bL@cR'kD\x00\xfe\xf7\x2d\x02\x00\xff\x81\x15\0\0\0\0\0\0\x1d\0\0\0\
        q+uQ1!x;y]/V\0mysql_native_password\0";

    /// The greeting of MySQL 8.0, field by field.
    const MYSQL: &[u8] =
        b"\x0a8.0.36\0\x08\x00\x00\x00\x60\x4d\x18\x14\x26\x1f\x3b\x05\x00\xff\xff\xff\x02\x00\xff\xdf\x15\
        \0\0\0\0\0\0\0\0\0\0\x0b\x52\x5f\x11\x64\x31\x2e\x43\x01\x02\x03\x04\0caching_sha2_password\0";

    #[test]
    fn mariadb_clears_long_password_and_tells_extended_capabilities() {
        let greeting = Greeting::parse(MARIADB).unwrap();
        assert_eq!(greeting.server_version, "5.5.5-10.11.6-MariaDB-0+deb12u1");
        assert_eq!(greeting.connection_id, 31);
        assert_eq!(&greeting.scramble, b"+L@cR'kDq+uQ1!x;y]/V");
        assert_eq!((greeting.collation, greeting.status), (45, Status::AUTOCOMMIT));
        assert_eq!(greeting.plugin, "mysql_native_password");
        assert!(!greeting.capabilities.contains(Capabilities::LONG_PASSWORD));
        let extended = Capabilities::PROGRESS | Capabilities::STMT_BULK;
        assert!(greeting.capabilities.contains(extended | Capabilities::DEPRECATE_EOF | Capabilities::CACHE_METADATA));
        let mut encoded = Vec::new();
        greeting.encode(&mut encoded);
        assert_eq!(encoded, MARIADB);
    }

    #[test]
    fn mysql_has_no_extended_capabilities_whatever_the_reserved_bytes_hold() {
        let greeting = Greeting::parse(MYSQL).unwrap();
        assert_eq!(greeting.plugin, "caching_sha2_password");
        assert_eq!(greeting.capabilities.low(), 0xdfff_ffff);
        let mut encoded = Vec::new();
        greeting.encode(&mut encoded);
        assert_eq!(encoded, MYSQL);
        let reserved_at = 1 + 7 + 4 + 8 + 1 + 2 + 1 + 2 + 2 + 1 + 6;
        encoded[reserved_at..reserved_at + 4].copy_from_slice(&[0xff; 4]);
        assert_eq!(Greeting::parse(&encoded).unwrap(), greeting);
    }

    #[test]
    fn the_zero_byte_behind_the_plugin_may_be_missing() {
        let greeting = Greeting::parse(&MARIADB[..MARIADB.len() - 1]).unwrap();
        assert_eq!(greeting.plugin, "mysql_native_password");
    }

    #[test]
    fn a_server_without_plugins_names_none() {
        let mut greeting = Greeting::parse(MARIADB).unwrap();
        greeting.capabilities.remove(Capabilities::PLUGIN_AUTH);
        greeting.plugin.clear();
        let mut encoded = Vec::new();
        greeting.encode(&mut encoded);
        assert_eq!(Greeting::parse(&encoded).unwrap(), greeting);
    }

    #[test]
    fn a_cut_greeting_is_malformed() {
        let plugin_at = MARIADB.len() - "mysql_native_password\0".len();
        for cut in 0..=plugin_at {
            assert!(Greeting::parse(&MARIADB[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn old_servers_are_refused() {
        let mut old = MARIADB.to_vec();
        old[0] = 9;
        assert_eq!(Greeting::parse(&old), Err(Malformed("greeting: protocol version is not 10")));
        let mut greeting = Greeting::parse(MARIADB).unwrap();
        greeting.capabilities.remove(Capabilities::SECURE_CONNECTION);
        let mut encoded = Vec::new();
        greeting.encode(&mut encoded);
        assert!(Greeting::parse(&encoded).is_err());
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Greeting::parse(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first = PROTOCOL_VERSION;
            }
            let _ = Greeting::parse(&bytes);
        }
    }
}
