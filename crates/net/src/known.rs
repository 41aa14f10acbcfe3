//! The certificates and keys that servers have shown: trust on first use, for as long as the process runs.
//!
//! A certificate that nobody has signed, and the RSA key of a server without TLS, prove nothing by themselves. The first one that a
//! server has shown with a login that succeeded is remembered for its address: a server that shows another one there later, or
//! none, is told no password.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Of a certificate, or of an RSA key's text.
pub(crate) type Hash = [u8; 32];

/// The certificate and the key that a server has shown, by their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) certificate: Option<Hash>,
    pub(crate) rsa_key: Option<Hash>,
}

static KNOWN: LazyLock<Mutex<HashMap<String, Shown>>> = LazyLock::new(Mutex::default);

fn known() -> MutexGuard<'static, HashMap<String, Shown>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The certificate and the key that the server at this address has shown.
pub(crate) fn of(address: &str) -> Shown {
    known().get(address).copied().unwrap_or_default()
}

/// The server at this address has shown this, with a login that succeeded. Earlier entries stay.
pub(crate) fn note(address: &str, shown: Shown) {
    if shown == Shown::default() {
        return;
    }
    let mut known = known();
    let before = known.entry(address.to_owned()).or_default();
    before.certificate = before.certificate.or(shown.certificate);
    before.rsa_key = before.rsa_key.or(shown.rsa_key);
}

/// Forgets all servers: those that are met next are taken as they are.
pub fn forget_servers() {
    known().clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_has_shown_first_counts() {
        let address = "known.test:1";
        assert_eq!(of(address), Shown::default());
        note(address, Shown { certificate: Some([1; 32]), rsa_key: None });
        note(address, Shown { certificate: Some([2; 32]), rsa_key: Some([3; 32]) });
        assert_eq!(of(address), Shown { certificate: Some([1; 32]), rsa_key: Some([3; 32]) });
    }
}
