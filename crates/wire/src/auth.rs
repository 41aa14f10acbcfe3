//! Authentication: how each plugin proves a password, without knowing whose turn it is ([`crate::handshake`] does).
//!
//! A *scramble* is the server's random challenge. *Stage 1* is the hash of a password, *stage 2* the hash of that hash:
//! servers store stage 2, clients prove that they know stage 1. Whoever knows stage 1 can log in, so it is as secret as
//! the password.

use std::fmt;

use aws_lc_rs::{constant_time, rand};
use zeroize::Zeroizing;

pub mod caching_sha2;
pub mod clear;
pub mod native;
pub mod rsa;

pub use rsa::{PublicKey, RsaKey};

/// Bytes of a scramble. All plugins here use the length of the 4.1 protocol.
pub const SCRAMBLE_BYTES: usize = 20;

/// The longest password in bytes that is read from a client or sent to a server: room for access tokens.
pub const PASSWORD_BYTES_MAX: usize = 16 * 1024;

/// A server's challenge.
pub type Scramble = [u8; SCRAMBLE_BYTES];

/// A cryptographic operation failed: no randomness, or a key that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cryptography failed: {0}")]
pub struct CryptoError(pub &'static str);

/// A fresh challenge. Like servers do, it avoids zero (some clients treat the scramble as a C string) and `$` (which
/// separates fields in the hashes of `caching_sha2_password`).
///
/// # Errors
/// The system's random source failed.
pub fn new_scramble() -> Result<Scramble, CryptoError> {
    let mut scramble = [0; SCRAMBLE_BYTES];
    rand::fill(&mut scramble).map_err(|_| CryptoError("no randomness"))?;
    for byte in &mut scramble {
        *byte &= 0x7f;
        if *byte == 0 || *byte == b'$' {
            *byte += 1;
        }
    }
    Ok(scramble)
}

/// The plugins that Sqluice speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plugin {
    /// `mysql_native_password`: SHA1 challenge and answer.
    Native,
    /// `caching_sha2_password`: SHA256 challenge and answer, or the password itself over a channel that hides it.
    CachingSha2,
    /// `mysql_clear_password`: the password itself; only over TLS or a local socket.
    Clear,
}

impl Plugin {
    /// The plugin's name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Plugin::Native => "mysql_native_password",
            Plugin::CachingSha2 => "caching_sha2_password",
            Plugin::Clear => "mysql_clear_password",
        }
    }

    /// The plugin of this name, if it is spoken here.
    pub fn from_name(name: &[u8]) -> Option<Plugin> {
        [Plugin::Native, Plugin::CachingSha2, Plugin::Clear].into_iter().find(|plugin| plugin.name().as_bytes() == name)
    }
}

impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What Sqluice knows about a user and logs in to servers with. Debug output shows only which kind it is.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// The empty password.
    Empty,
    /// The password itself: answers every plugin.
    Password(Zeroizing<Vec<u8>>),
    /// SHA1(password), which a native login proved: answers `mysql_native_password` only.
    NativeStage1(Zeroizing<[u8; 20]>),
    /// SHA256(password), which a fast `caching_sha2_password` login proved: answers that plugin as long as the server
    /// still remembers the user.
    CachingSha2Stage1(Zeroizing<[u8; 32]>),
}

impl Credential {
    /// A password, empty or not.
    pub fn password(password: impl Into<Vec<u8>>) -> Credential {
        let password = Zeroizing::new(password.into());
        if password.is_empty() { Credential::Empty } else { Credential::Password(password) }
    }

    /// What `mysql_native_password` sends for this scramble; `None` if this credential cannot tell.
    pub fn native_answer(&self, scramble: &Scramble) -> Option<Vec<u8>> {
        match self {
            Credential::Empty => Some(Vec::new()),
            Credential::Password(password) => Some(native::answer(scramble, &native::stage1(password)).to_vec()),
            Credential::NativeStage1(stage1) => Some(native::answer(scramble, stage1).to_vec()),
            Credential::CachingSha2Stage1(_) => None,
        }
    }

    /// What `caching_sha2_password` sends first for this scramble; `None` if this credential cannot tell.
    pub fn caching_sha2_answer(&self, scramble: &Scramble) -> Option<Vec<u8>> {
        match self {
            Credential::Empty => Some(Vec::new()),
            Credential::Password(password) => {
                Some(caching_sha2::answer(scramble, &caching_sha2::stage1(password)).to_vec())
            }
            Credential::CachingSha2Stage1(stage1) => Some(caching_sha2::answer(scramble, stage1).to_vec()),
            Credential::NativeStage1(_) => None,
        }
    }

    /// The password; `None` if only a hash of it is known.
    pub fn cleartext(&self) -> Option<&[u8]> {
        match self {
            Credential::Empty => Some(&[]),
            Credential::Password(password) => Some(password),
            Credential::NativeStage1(_) | Credential::CachingSha2Stage1(_) => None,
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credential::Empty => "Empty",
            Credential::Password(_) => "Password(…)",
            Credential::NativeStage1(_) => "NativeStage1(…)",
            Credential::CachingSha2Stage1(_) => "CachingSha2Stage1(…)",
        })
    }
}

/// Compares secrets in a time that tells nothing but whether their lengths differ.
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(a, b).is_ok()
}

fn xor<const N: usize>(a: &[u8; N], b: &[u8; N]) -> [u8; N] {
    let mut out = [0; N];
    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
        *out = a ^ b;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrambles_differ_and_avoid_zero_and_dollar() {
        let scrambles: Vec<Scramble> = (0..200).map(|_| new_scramble().unwrap()).collect();
        for scramble in &scrambles {
            assert!(scramble.iter().all(|byte| (1..0x80).contains(byte) && *byte != b'$'), "{scramble:?}");
        }
        assert!(scrambles.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn debug_output_shows_no_secret() {
        let credentials = [
            Credential::password("hunter2"),
            Credential::NativeStage1(Zeroizing::new([7; 20])),
            Credential::CachingSha2Stage1(Zeroizing::new([7; 32])),
        ];
        for credential in credentials {
            let shown = format!("{credential:?}");
            assert!(!shown.contains("hunter2") && !shown.contains('7') && !shown.contains("104"), "{shown}");
        }
        assert_eq!(Credential::password(""), Credential::Empty);
    }

    #[test]
    fn plugin_names_are_found_again() {
        for plugin in [Plugin::Native, Plugin::CachingSha2, Plugin::Clear] {
            assert_eq!(Plugin::from_name(plugin.name().as_bytes()), Some(plugin));
        }
        assert_eq!(Plugin::from_name(b"client_ed25519"), None);
    }
}
