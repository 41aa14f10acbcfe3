//! Values that must not be seen.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

/// A password or a private key: never shown by `Debug`, wiped from memory when the last copy is dropped, cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<Vec<u8>>>);

impl Secret {
    /// Takes the bytes over.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Arc::new(Zeroizing::new(bytes.into())))
    }

    /// The bytes themselves. The caller keeps them out of logs, errors and `Debug`.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Whether there is nothing in it, as with a user without a password.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}
