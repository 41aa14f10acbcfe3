//! How a client is asked for its password, and what may come of it.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::auth::ed25519::{Nonce, PublicKey};
use crate::auth::parsec::ExtSalt;
use crate::auth::{Plugin, RsaKey, Scramble, caching_sha2, native};
use crate::codec::Write;

/// How an account's password is checked.
#[derive(Clone)]
pub enum Method {
    /// By `mysql_native_password` against stage 2. For a user that does not exist, take random bytes: the client then
    /// learns no more than that the login failed.
    Native {
        /// SHA1(SHA1(password)).
        stage2: [u8; native::HASH_BYTES],
    },
    /// The account has the empty password: only an empty answer is right, whatever the plugin.
    Empty,
    /// By `caching_sha2_password`: the fast path if stage 2 is remembered and fits, else the password itself, which the
    /// caller then checks. Serves also to learn the password of an account whose plugin is not spoken here.
    CachingSha2 {
        /// SHA256(SHA256(password)).
        remembered: Option<[u8; caching_sha2::HASH_BYTES]>,
        /// For clients on an open channel; without it they get the error that they need TLS.
        rsa: Option<Arc<RsaKey>>,
    },
    /// By `mysql_clear_password`: the password itself, over a secure channel only.
    Clear,
    /// By `sha256_password`: the password itself, which the caller then checks.
    Sha256 {
        /// For clients on an open channel; without it they get the error that they need TLS.
        rsa: Option<Arc<RsaKey>>,
    },
    /// By `client_ed25519`: a signature.
    Ed25519 {
        /// Of the account.
        key: PublicKey,
        /// Fresh randomness.
        nonce: Nonce,
    },
    /// By `parsec`: a signature.
    Parsec {
        /// Of the account.
        salt: ExtSalt,
        /// Of the account.
        key: PublicKey,
        /// Fresh randomness.
        nonce: Nonce,
    },
}

impl Method {
    /// The plugin that checks by this method, for a client that came with `client`.
    pub(super) fn plugin(&self, client: Option<Plugin>) -> Plugin {
        match self {
            Method::Native { .. } => Plugin::Native,
            Method::CachingSha2 { .. } => Plugin::CachingSha2,
            Method::Clear => Plugin::Clear,
            Method::Sha256 { .. } => Plugin::Sha256,
            Method::Ed25519 { .. } => Plugin::Ed25519,
            Method::Parsec { .. } => Plugin::Parsec,
            // Whichever the client has: MySQL's since 9.0 lack the native plugin.
            Method::Empty if client == Some(Plugin::CachingSha2) => Plugin::CachingSha2,
            Method::Empty => Plugin::Native,
        }
    }

    /// Whether the answer that came with the login can be one to this method's challenge.
    pub(super) fn takes_first_answer(&self) -> bool {
        !matches!(self, Method::Ed25519 { .. } | Method::Parsec { .. })
    }

    /// Whether the password may have to pass as it is.
    pub(super) fn needs_secrecy(&self) -> bool {
        match self {
            Method::Clear => true,
            Method::CachingSha2 { rsa, .. } | Method::Sha256 { rsa } => rsa.is_none(),
            Method::Native { .. } | Method::Empty | Method::Ed25519 { .. } | Method::Parsec { .. } => false,
        }
    }

    /// Appends the challenge that goes with the request to switch to this method's plugin.
    pub(super) fn put_challenge(&self, scramble: &Scramble, payload: &mut Vec<u8>) {
        match self {
            // These plugins count the bytes.
            Method::Ed25519 { nonce, .. } | Method::Parsec { nonce, .. } => payload.extend_from_slice(nonce),
            _ => payload.put_nul_bytes(scramble),
        }
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Method::Native { .. } => "Native(…)",
            Method::Empty => "Empty",
            Method::CachingSha2 { .. } => "CachingSha2(…)",
            Method::Clear => "Clear",
            Method::Sha256 { .. } => "Sha256(…)",
            Method::Ed25519 { .. } => "Ed25519(…)",
            Method::Parsec { .. } => "Parsec(…)",
        })
    }
}

/// The client's proof, and its use for logins to servers. Debug output shows only the kind.
#[derive(Clone, PartialEq, Eq)]
pub enum Proof {
    /// The password is empty, by the client's word. [`Method::Empty`] asked for that; with the other methods the caller
    /// decides.
    Empty,
    /// SHA1(password).
    NativeStage1(Zeroizing<[u8; native::HASH_BYTES]>),
    /// SHA256(password).
    CachingSha2Stage1(Zeroizing<[u8; caching_sha2::HASH_BYTES]>),
    /// A password that is not checked yet.
    Password(Zeroizing<Vec<u8>>),
    /// The client knows the password that the account's public key belongs to. No other party can make use of that.
    Signature,
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Proof::Empty => "Empty",
            Proof::NativeStage1(_) => "NativeStage1(…)",
            Proof::CachingSha2Stage1(_) => "CachingSha2Stage1(…)",
            Proof::Password(_) => "Password(…)",
            Proof::Signature => "Signature",
        })
    }
}

/// Why a client failed to prove its password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denial {
    /// The answer does not fit the password.
    #[error("wrong password")]
    WrongPassword,
    /// The account's plugin needs TLS, and the client came without.
    #[error("the account's authentication plugin needs TLS")]
    NeedsTls,
    /// The account's plugin is another than the client's, and the client cannot switch.
    #[error("the client does not support the account's authentication plugin")]
    CannotSwitch,
}
