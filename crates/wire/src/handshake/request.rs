//! The packets in which a client says who it wants to be: at login, before TLS, and in COM_CHANGE_USER.
//!
//! Source: MariaDB's documentation "Connecting" and "COM_CHANGE_USER".

use std::fmt;

use zeroize::Zeroizing;

use super::{HandshakeError, Lossy};
use crate::Capabilities;
use crate::codec::{Malformed, Reader, Write};

/// Bytes before the user name; an SSLRequest is nothing but these.
pub(super) const FIXED_BYTES: usize = 32;

/// The longest attributes that a login may have, in bytes, as servers of both families bound them.
pub const ATTRIBUTES_BYTES_MAX: usize = 65_535;

/// Connection attributes in the order they were sent, in the form that a login has them in: a pair of its own for each of
/// many empty names would take twenty times the memory.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    packed: Vec<u8>,
}

impl Attributes {
    /// Takes attributes as a login has them.
    ///
    /// # Errors
    /// The bytes are not names and values, or are more than [`ATTRIBUTES_BYTES_MAX`].
    pub fn unpack(packed: &[u8]) -> Result<Attributes, Malformed> {
        if packed.len() > ATTRIBUTES_BYTES_MAX {
            return Err(Malformed("login: length of attributes"));
        }
        let mut pairs = Reader::new(packed);
        while !pairs.is_empty() {
            pairs.lenenc_bytes("login: attribute's name")?;
            pairs.lenenc_bytes("login: attribute's value")?;
        }
        Ok(Attributes { packed: packed.to_vec() })
    }

    /// Appends one.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.packed.put_lenenc_bytes(name);
        self.packed.put_lenenc_bytes(value);
    }

    /// The first of them, as many as fit into so many bytes.
    #[must_use]
    pub fn cut(&self, bytes_max: usize) -> Attributes {
        let mut cut = Attributes::default();
        for (name, value) in self.iter() {
            let before = cut.packed.len();
            cut.push(name, value);
            if cut.packed.len() > bytes_max {
                cut.packed.truncate(before);
                break;
            }
        }
        cut
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut pairs = Reader::new(&self.packed);
        std::iter::from_fn(move || {
            let name = pairs.lenenc_bytes("login: attribute's name").ok()?;
            Some((name, pairs.lenenc_bytes("login: attribute's value").ok()?))
        })
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// As a login has them.
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(N, V)> for Attributes {
    fn from_iter<T: IntoIterator<Item = (N, V)>>(pairs: T) -> Attributes {
        let mut attributes = Attributes::default();
        pairs.into_iter().for_each(|(name, value)| attributes.push(name.as_ref(), value.as_ref()));
        attributes
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attributes({} bytes)", self.packed.len())
    }
}

/// The client's request for TLS: the fixed part of a login without a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SslRequest {
    /// The client's capabilities.
    pub capabilities: Capabilities,
    /// The longest payload that the client takes, in bytes.
    pub packet_bytes_max: u32,
    /// The client's collation, or its low byte.
    pub collation: u8,
}

impl SslRequest {
    /// Reads the 32 bytes that logins and SSLRequests begin with.
    ///
    /// # Errors
    /// They are cut.
    pub fn parse(payload: &[u8]) -> Result<SslRequest, Malformed> {
        SslRequest::read(&mut Reader::new(payload))
    }

    fn read(reader: &mut Reader<'_>) -> Result<SslRequest, Malformed> {
        let low = reader.u32("login: capabilities")?;
        let packet_bytes_max = reader.u32("login: maximum packet size")?;
        let collation = reader.u8("login: collation")?;
        reader.bytes(19, "login: reserved")?;
        let extended = reader.u32("login: extended capabilities")?;
        let is_mariadb = !Capabilities::from_halves(low, 0).contains(Capabilities::LONG_PASSWORD);
        let capabilities = Capabilities::from_halves(low, if is_mariadb { extended } else { 0 });
        Ok(SslRequest { capabilities, packet_bytes_max, collation })
    }

    /// Appends the payload.
    pub fn encode(&self, payload: &mut Vec<u8>) {
        let is_mariadb = !self.capabilities.contains(Capabilities::LONG_PASSWORD);
        payload.put_u32(self.capabilities.low());
        payload.put_u32(self.packet_bytes_max);
        payload.push(self.collation);
        payload.extend_from_slice(&[0; 19]);
        payload.put_u32(if is_mariadb { self.capabilities.extended() } else { 0 });
    }
}

/// A login (HandshakeResponse41). Debug output leaves the authentication answer and the attributes' values out.
#[derive(Clone, PartialEq, Eq)]
pub struct HandshakeResponse {
    /// The client's capabilities as it sent them; they decide the layout.
    pub capabilities: Capabilities,
    /// The longest payload that the client takes, in bytes.
    pub packet_bytes_max: u32,
    /// The client's collation; one byte in this packet, so above 255 only the low part came.
    pub collation: u16,
    /// The user's name.
    pub user: Vec<u8>,
    /// The answer to the greeting's scramble, by `plugin`'s rules. With `mysql_clear_password` it is the password.
    pub auth_response: Zeroizing<Vec<u8>>,
    /// The schema to start in.
    pub schema: Option<Vec<u8>>,
    /// The plugin that made `auth_response`; `None` if the client does not name plugins.
    pub plugin: Option<Vec<u8>>,
    /// The client's description of itself.
    pub attributes: Attributes,
    /// The zstd level that the client asks for.
    pub zstd_level: Option<u8>,
}

impl HandshakeResponse {
    /// Reads a payload.
    ///
    /// # Errors
    /// It ends early, or the client is older than the 4.1 protocol.
    pub fn parse(payload: &[u8]) -> Result<HandshakeResponse, HandshakeError> {
        let low = Capabilities::from_halves(u32::from(Reader::new(payload).u16("login: capabilities")?), 0);
        if !low.contains(Capabilities::PROTOCOL_41) {
            return Err(HandshakeError::PeerIncompatible("the client is older than the 4.1 protocol".into()));
        }
        let mut reader = Reader::new(payload);
        let SslRequest { capabilities, packet_bytes_max, collation } = SslRequest::read(&mut reader)?;
        let user = reader.nul_bytes("login: user")?.to_vec();
        let auth_response = if capabilities.contains(Capabilities::PLUGIN_AUTH_LENENC_DATA) {
            reader.lenenc_bytes("login: authentication answer")?
        } else if capabilities.contains(Capabilities::SECURE_CONNECTION) {
            let length = usize::from(reader.u8("login: authentication answer")?);
            reader.bytes(length, "login: authentication answer")?
        } else {
            return Err(HandshakeError::PeerIncompatible("the client answers with passwords older than 4.1".into()));
        };
        let auth_response = Zeroizing::new(auth_response.to_vec());
        // Some clients set the bits of fields that they then leave out; servers take that as empty.
        let mut schema = None;
        if capabilities.contains(Capabilities::CONNECT_WITH_DB) && !reader.is_empty() {
            schema = not_empty(reader.nul_bytes("login: schema")?);
        }
        let mut plugin = None;
        if capabilities.contains(Capabilities::PLUGIN_AUTH) {
            plugin = read_plugin(&mut reader)?;
        }
        let mut attributes = Attributes::default();
        if capabilities.contains(Capabilities::CONNECT_ATTRS) {
            attributes = read_attributes(&mut reader)?;
        }
        let mut zstd_level = None;
        if capabilities.contains(Capabilities::ZSTD_COMPRESSION) && !reader.is_empty() {
            zstd_level = Some(reader.u8("login: zstd level")?);
        }
        let collation = u16::from(collation);
        Ok(HandshakeResponse {
            capabilities,
            packet_bytes_max,
            collation,
            user,
            auth_response,
            schema,
            plugin,
            attributes,
            zstd_level,
        })
    }

    /// Appends the payload. `capabilities` decides which fields are written and how.
    pub fn encode(&self, payload: &mut Vec<u8>) {
        let has = |capability| self.capabilities.contains(capability);
        let collation = (self.collation & 0xff) as u8;
        SslRequest { capabilities: self.capabilities, packet_bytes_max: self.packet_bytes_max, collation }
            .encode(payload);
        payload.put_nul_bytes(&self.user);
        if has(Capabilities::PLUGIN_AUTH_LENENC_DATA) {
            payload.put_lenenc_bytes(&self.auth_response);
        } else {
            put_short(payload, &self.auth_response);
        }
        if has(Capabilities::CONNECT_WITH_DB) {
            payload.put_nul_bytes(self.schema.as_deref().unwrap_or_default());
        }
        if has(Capabilities::PLUGIN_AUTH) {
            payload.put_nul_bytes(self.plugin.as_deref().unwrap_or_default());
        }
        if has(Capabilities::CONNECT_ATTRS) {
            put_attributes(payload, &self.attributes);
        }
        if let Some(level) = self.zstd_level.filter(|_| has(Capabilities::ZSTD_COMPRESSION)) {
            payload.push(level);
        }
    }
}

impl fmt::Debug for HandshakeResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandshakeResponse")
            .field("user", &Lossy(&self.user))
            .field("schema", &self.schema.as_deref().map(Lossy))
            .field("plugin", &self.plugin.as_deref().map(Lossy))
            .field("collation", &self.collation)
            .field("capabilities", &self.capabilities)
            .finish_non_exhaustive()
    }
}

/// COM_CHANGE_USER: a login on a connection that lives. Debug output leaves the authentication answer out.
#[derive(Clone, PartialEq, Eq)]
pub struct ChangeUser {
    /// The user's name.
    pub user: Vec<u8>,
    /// The answer to the last scramble that the server sent, by `plugin`'s rules.
    pub auth_response: Zeroizing<Vec<u8>>,
    /// The schema to go to.
    pub schema: Option<Vec<u8>>,
    /// The client's collation; `None` when the packet ends before it.
    pub collation: Option<u16>,
    /// The plugin that made `auth_response`; `None` if the client does not name plugins.
    pub plugin: Option<Vec<u8>>,
    /// The client's description of itself.
    pub attributes: Attributes,
}

impl ChangeUser {
    /// The command's first byte.
    pub const COMMAND: u8 = 0x11;

    /// Reads a payload, command byte included. `capabilities` are those of the login.
    ///
    /// # Errors
    /// It ends early or is another command.
    pub fn parse(payload: &[u8], capabilities: Capabilities) -> Result<ChangeUser, HandshakeError> {
        let mut reader = Reader::new(payload);
        if reader.u8("change user")? != ChangeUser::COMMAND {
            return Err(HandshakeError::PeerMisbehaved("not a COM_CHANGE_USER"));
        }
        let user = reader.nul_bytes("change user: user")?.to_vec();
        let length = usize::from(reader.u8("change user: authentication answer")?);
        let auth_response = reader.bytes(length, "change user: authentication answer")?;
        let auth_response = Zeroizing::new(auth_response.to_vec());
        let schema = not_empty(reader.nul_bytes("change user: schema")?);
        let mut collation = None;
        if !reader.is_empty() {
            collation = Some(reader.u16("change user: collation")?);
        }
        let mut plugin = None;
        if capabilities.contains(Capabilities::PLUGIN_AUTH) {
            plugin = read_plugin(&mut reader)?;
        }
        let mut attributes = Attributes::default();
        if capabilities.contains(Capabilities::CONNECT_ATTRS) {
            attributes = read_attributes(&mut reader)?;
        }
        Ok(ChangeUser { user, auth_response, schema, collation, plugin, attributes })
    }

    /// Appends the payload, command byte included. `capabilities` are those of the login.
    pub fn encode(&self, capabilities: Capabilities, payload: &mut Vec<u8>) {
        payload.push(ChangeUser::COMMAND);
        payload.put_nul_bytes(&self.user);
        put_short(payload, &self.auth_response);
        payload.put_nul_bytes(self.schema.as_deref().unwrap_or_default());
        payload.put_u16(self.collation.unwrap_or_default());
        if capabilities.contains(Capabilities::PLUGIN_AUTH) {
            payload.put_nul_bytes(self.plugin.as_deref().unwrap_or_default());
        }
        if capabilities.contains(Capabilities::CONNECT_ATTRS) {
            put_attributes(payload, &self.attributes);
        }
    }
}

impl fmt::Debug for ChangeUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeUser")
            .field("user", &Lossy(&self.user))
            .field("schema", &self.schema.as_deref().map(Lossy))
            .field("plugin", &self.plugin.as_deref().map(Lossy))
            .field("collation", &self.collation)
            .finish_non_exhaustive()
    }
}

fn not_empty(bytes: &[u8]) -> Option<Vec<u8>> {
    (!bytes.is_empty()).then(|| bytes.to_vec())
}

fn read_plugin(reader: &mut Reader<'_>) -> Result<Option<Vec<u8>>, Malformed> {
    if reader.is_empty() {
        return Ok(None);
    }
    reader.nul_bytes("login: authentication plugin").map(not_empty)
}

fn read_attributes(reader: &mut Reader<'_>) -> Result<Attributes, Malformed> {
    if reader.is_empty() {
        return Ok(Attributes::default());
    }
    Attributes::unpack(reader.lenenc_bytes("login: attributes")?)
}

fn put_attributes(payload: &mut Vec<u8>, attributes: &Attributes) {
    payload.put_lenenc_bytes(attributes.packed());
}

/// One byte of length and what fits behind it; an answer that needs more goes by the authentication switch.
fn put_short(payload: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(255)];
    payload.push(bytes.len() as u8);
    payload.extend_from_slice(bytes);
}
