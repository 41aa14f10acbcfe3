//! Authentication: how each plugin proves a password, without knowing whose turn it is ([`crate::handshake`] does).
//!
//! A *scramble* is the server's random challenge. *Stage 1* is the hash of a password, *stage 2* the hash of that hash:
//! servers store stage 2, clients prove that they know stage 1. A client that knows stage 1 can log in, so it is as secret as
//! the password.

use std::fmt;

use aws_lc_rs::{constant_time, digest, rand};
use zeroize::Zeroizing;

pub mod base64;
pub mod caching_sha2;
pub mod clear;
pub mod ed25519;
pub mod native;
pub mod parsec;
pub mod rsa;
pub mod sha256;
pub mod sha_crypt;

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
    /// `sha256_password`: the password itself, over a channel that hides it.
    Sha256,
    /// `client_ed25519` of MariaDB: a signature.
    Ed25519,
    /// `parsec` of MariaDB: a signature with a key that is expensive to guess.
    Parsec,
    /// `dialog` of MariaDB's PAM: questions, of which one for the password is answered; only over TLS or a local socket.
    Dialog,
}

impl Plugin {
    /// Every one.
    pub const ALL: [Plugin; 7] = [
        Plugin::Native,
        Plugin::CachingSha2,
        Plugin::Clear,
        Plugin::Sha256,
        Plugin::Ed25519,
        Plugin::Parsec,
        Plugin::Dialog,
    ];

    /// The plugin's name in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Plugin::Native => "mysql_native_password",
            Plugin::CachingSha2 => "caching_sha2_password",
            Plugin::Clear => "mysql_clear_password",
            Plugin::Sha256 => "sha256_password",
            Plugin::Ed25519 => "client_ed25519",
            Plugin::Parsec => "parsec",
            Plugin::Dialog => "dialog",
        }
    }

    /// The plugin of this name, if it is spoken here.
    pub fn from_name(name: &[u8]) -> Option<Plugin> {
        Plugin::ALL.into_iter().find(|plugin| plugin.name().as_bytes() == name)
    }
}

impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A user's credential, with which Sqluice logs in to servers. Debug output shows only its kind; the time of a
/// comparison shows only whether kinds and lengths differ.
#[derive(Clone)]
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

    /// The answer of `mysql_native_password` to this scramble; `None` if this credential cannot give it.
    pub fn native_answer(&self, scramble: &Scramble) -> Option<Vec<u8>> {
        match self {
            Credential::Empty => Some(Vec::new()),
            Credential::Password(password) => Some(native::answer(scramble, &native::stage1(password)).to_vec()),
            Credential::NativeStage1(stage1) => Some(native::answer(scramble, stage1).to_vec()),
            Credential::CachingSha2Stage1(_) => None,
        }
    }

    /// The first answer of `caching_sha2_password` to this scramble; `None` if this credential cannot give it.
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

impl PartialEq for Credential {
    fn eq(&self, other: &Credential) -> bool {
        match (self, other) {
            (Credential::Empty, Credential::Empty) => true,
            (Credential::Password(a), Credential::Password(b)) => equal(a, b),
            (Credential::NativeStage1(a), Credential::NativeStage1(b)) => equal(&**a, &**b),
            (Credential::CachingSha2Stage1(a), Credential::CachingSha2Stage1(b)) => equal(&**a, &**b),
            _ => false,
        }
    }
}

impl Eq for Credential {}

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

/// The information text that MariaDB (11.4 and later) puts into the OK that ends a login over TLS: `0x01` and the
/// hexadecimal SHA-256 of the password's stored hash, the scramble and the certificate's SHA-256. A client that knows
/// the password trusts a certificate without an authority if this text fits: no third party could have made it.
/// `hash` is, by the client's plugin: SHA1(SHA1(password)), the public key, or [`parsec::stored_hash`].
pub fn certificate_proof(hash: &[u8], scramble: &Scramble, fingerprint: &[u8; 32]) -> Vec<u8> {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in [hash, scramble, fingerprint] {
        context.update(part);
    }
    let mut proof = vec![0x01];
    for byte in context.finish().as_ref() {
        proof.extend([byte >> 4, byte & 0xf].map(|digit| b"0123456789ABCDEF"[usize::from(digit)]));
    }
    proof
}

/// The name of some bytes in every process of every version: their SHA-256. The bytes of a certificate are its DER
/// form.
pub fn fingerprint(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    hash
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
    fn the_proof_of_a_certificate_is_the_documented_hash() {
        // printf 'hash%s' "$scramble$fingerprint" | sha256sum, with a scramble of twenty `s` and a fingerprint of 32 `f`.
        let proof = certificate_proof(b"hash", &[b's'; 20], &[b'f'; 32]);
        let expected = b"\x01183E6FAC79D8ED22856C1D74F9D90A072880514ABFEEFA5A9918E5B9514D9AD8";
        assert_eq!(proof, expected);
    }

    #[test]
    fn plugin_names_are_found_again() {
        for plugin in Plugin::ALL {
            assert_eq!(Plugin::from_name(plugin.name().as_bytes()), Some(plugin));
        }
        assert_eq!(Plugin::from_name(b"auth_gssapi_client"), None);
    }
}
