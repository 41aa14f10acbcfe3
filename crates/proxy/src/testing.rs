//! Packets and logins for unit tests.

use std::sync::Arc;

use wire::auth::Credential;

use crate::pool::Key;
use crate::sessions::LoggedIn;

/// Packets with these payloads, numbered from 1 on.
pub fn packets(payloads: &[&[u8]]) -> Vec<u8> {
    let (mut bytes, mut sequence) = (Vec::new(), 1);
    for payload in payloads {
        sequence = wire::packet::append(&mut bytes, sequence, payload);
    }
    bytes
}

/// The login of this user, over a listener named `main`.
pub fn login(user: &str) -> LoggedIn {
    let key = Key {
        user: user.into(),
        credential: Arc::new(Credential::Empty),
        capabilities: wire::Capabilities::empty(),
        client: None,
        attributes: None,
    };
    LoggedIn { key: Arc::new(key), listener: "main".into(), program: None, tls: false }
}
