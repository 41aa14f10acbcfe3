//! Logging in, as a server towards clients ([`server`]) and as a client towards servers ([`client`]).
//!
//! Both sides are chains of types, one per awaited packet: each takes the packet, appends what is to be sent to a buffer
//! and becomes the next type, so that a call in the wrong order does not compile. Sequence numbers are checked here;
//! cutting bytes into packets is the caller's ([`crate::packet::first`] with [`LOGIN_BYTES_MAX`]).

use std::fmt;

use crate::auth::CryptoError;
use crate::codec::{Malformed, Reader, Write};
use crate::packet;

pub mod client;
pub mod server;

mod request;
#[cfg(test)]
mod tests;

pub use request::{ATTRIBUTES_BYTES_MAX, Attributes, ChangeUser, HandshakeResponse, SslRequest};

/// The longest payload that is read from a server during login, unless the caller sets a lower limit.
pub const LOGIN_BYTES_MAX: usize = 1024 * 1024;

/// The longest payload of a client that has not logged in, in bytes: [`ATTRIBUTES_BYTES_MAX`] make nearly all of it.
pub const CLIENT_LOGIN_BYTES_MAX: usize = 68 * 1024;

/// One packet as it was read.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Its sequence number.
    pub sequence: u8,
    /// Its payload, joined if it was split.
    pub payload: &'a [u8],
}

/// Why a login ended early. The words are about the peer: it sent what cannot be read, it broke the order, or it lacks
/// what is needed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// A packet that cannot be read.
    #[error(transparent)]
    InvalidMessage(#[from] Malformed),
    /// A packet that can be read but must not come here.
    #[error("peer misbehaved: {0}")]
    PeerMisbehaved(&'static str),
    /// The peer lacks something or insists on something that is not spoken here.
    #[error("peer is incompatible: {0}")]
    PeerIncompatible(String),
    /// The server said no.
    #[error(transparent)]
    Refused(#[from] ServerError),
    /// The server asks for a proof that the credential or the channel does not allow.
    #[error("cannot log in: {0}")]
    CredentialRefused(&'static str),
    /// The cryptographic library refused.
    #[error(transparent)]
    Crypto(#[from] CryptoError),
}

/// An ERR packet as an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (error {code}{})", .sqlstate.as_deref().map(|state| format!(", SQLSTATE {state}")).unwrap_or_default())]
pub struct ServerError {
    /// The error's number.
    pub code: u16,
    /// Five characters; missing when the server sent the error before it knew that the client speaks 4.1.
    pub sqlstate: Option<String>,
    /// The server's words.
    pub message: String,
}

impl ServerError {
    /// Reads the payload of an ERR packet.
    ///
    /// # Errors
    /// The payload is another packet or ends early.
    pub fn parse(payload: &[u8]) -> Result<ServerError, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8("error packet")? != 0xff {
            return Err(Malformed("error packet"));
        }
        let code = reader.u16("error packet: code")?;
        let mut sqlstate = None;
        if reader.rest().first() == Some(&b'#') {
            let state = reader.bytes(6, "error packet: SQLSTATE")?;
            sqlstate = Some(String::from_utf8_lossy(&state[1..]).into_owned());
        }
        let message = String::from_utf8_lossy(reader.remaining()).into_owned();
        Ok(ServerError { code, sqlstate, message })
    }

    /// Appends the payload. `sqlstate` is left out when it does not have five bytes.
    pub fn encode(&self, payload: &mut Vec<u8>) {
        payload.push(0xff);
        payload.put_u16(self.code);
        if let Some(state) = self.sqlstate.as_deref().filter(|state| state.len() == 5) {
            payload.push(b'#');
            payload.extend_from_slice(state.as_bytes());
        }
        payload.extend_from_slice(self.message.as_bytes());
    }
}

/// The channel between the two sides, and whether others can read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Plain TCP: a password must not pass as it is.
    Open,
    /// TLS, or a socket that does not leave the machine.
    Secure,
}

/// The server's request to prove the password with another plugin: `0xfe`, its name, its challenge.
#[derive(Clone, Copy, Debug)]
struct AuthSwitch<'a> {
    plugin: &'a [u8],
    data: &'a [u8],
}

impl<'a> AuthSwitch<'a> {
    fn parse(payload: &'a [u8]) -> Result<AuthSwitch<'a>, HandshakeError> {
        let mut reader = Reader::new(payload);
        reader.u8("authentication switch")?;
        if reader.is_empty() {
            return Err(HandshakeError::PeerIncompatible("the server asks for passwords older than 4.1".into()));
        }
        let plugin = reader.nul_bytes("authentication switch: plugin")?;
        Ok(AuthSwitch { plugin, data: reader.remaining() })
    }
}

/// Appends the beginning of such a request; the challenge follows.
fn put_switch(plugin: &str, payload: &mut Vec<u8>) {
    payload.push(0xfe);
    payload.put_nul_bytes(plugin.as_bytes());
}

fn check_sequence(received: Received<'_>, expected: u8) -> Result<(), HandshakeError> {
    if received.sequence == expected {
        return Ok(());
    }
    Err(HandshakeError::PeerMisbehaved("packets out of order"))
}

fn send(out: &mut Vec<u8>, sequence: u8, write: impl FnOnce(&mut Vec<u8>)) -> u8 {
    let begun = packet::begin(out);
    write(out);
    begun.end(out, sequence)
}

/// Shows bytes as text in Debug output.
struct Lossy<'a>(&'a [u8]);

impl fmt::Debug for Lossy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.0))
    }
}
