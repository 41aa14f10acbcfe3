//! `client_ed25519` of MariaDB.
//!
//! It is Ed25519 with a password in the place of the seed: SHA-512 of a password of any length is the expanded secret. The
//! server stores the public key (base64, without padding), sends 32 random bytes, and gets their signature. So a server that
//! checks a signature learns nothing that could be used elsewhere. Source: MariaDB's documentation "Authentication plugin:
//! ed25519"; the equations are those of RFC 8032, 5.1.6.

use aws_lc_rs::digest::{Context, SHA512};
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use curve25519_dalek::EdwardsPoint;
use curve25519_dalek::scalar::{Scalar, clamp_integer};
use zeroize::Zeroizing;

use super::CryptoError;

/// Bytes of a server's challenge.
pub const NONCE_BYTES: usize = 32;
/// Bytes of a public key.
pub const KEY_BYTES: usize = 32;
/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 64;

/// A server's challenge.
pub type Nonce = [u8; NONCE_BYTES];
/// The public key that servers store for a password.
pub type PublicKey = [u8; KEY_BYTES];

/// A fresh challenge.
///
/// # Errors
/// The system's random source failed.
pub fn new_nonce() -> Result<Nonce, CryptoError> {
    let mut nonce = [0; NONCE_BYTES];
    aws_lc_rs::rand::fill(&mut nonce).map_err(|_| CryptoError("no randomness"))?;
    Ok(nonce)
}

/// The public key of a password.
pub fn public_key(password: &[u8]) -> PublicKey {
    Secret::of(password).public
}

/// The client's answer to the challenge.
pub fn sign(password: &[u8], nonce: &Nonce) -> [u8; SIGNATURE_BYTES] {
    let secret = Secret::of(password);
    let r = Zeroizing::new(Scalar::from_bytes_mod_order_wide(&sha512(&[&*secret.prefix, nonce])));
    let commitment = EdwardsPoint::mul_base(&r).compress().to_bytes();
    let challenge = Scalar::from_bytes_mod_order_wide(&sha512(&[&commitment, &secret.public, nonce]));
    let response = *r + challenge * *secret.scalar;
    let mut signature = [0; SIGNATURE_BYTES];
    signature[..32].copy_from_slice(&commitment);
    signature[32..].copy_from_slice(&response.to_bytes());
    signature
}

/// Whether `signature` is the key's owner's for the challenge.
pub fn verify(key: &PublicKey, nonce: &Nonce, signature: &[u8]) -> bool {
    signature.len() == SIGNATURE_BYTES && UnparsedPublicKey::new(&ED25519, key).verify(nonce, signature).is_ok()
}

struct Secret {
    scalar: Zeroizing<Scalar>,
    prefix: Zeroizing<[u8; 32]>,
    public: PublicKey,
}

impl Secret {
    fn of(password: &[u8]) -> Secret {
        let expanded = Zeroizing::new(sha512(&[password]));
        let (mut low, mut prefix) = (Zeroizing::new([0; 32]), Zeroizing::new([0; 32]));
        low.copy_from_slice(&expanded[..32]);
        prefix.copy_from_slice(&expanded[32..]);
        // Reduced modulo the group's order the secret gives the same points and the same response.
        let scalar = Zeroizing::new(Scalar::from_bytes_mod_order(clamp_integer(*low)));
        let public = EdwardsPoint::mul_base(&scalar).compress().to_bytes();
        Secret { scalar, prefix, public }
    }
}

fn sha512(parts: &[&[u8]]) -> [u8; 64] {
    let mut context = Context::new(&SHA512);
    for part in parts {
        context.update(part);
    }
    let mut hash = [0; 64];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::base64;

    /// `mysql.global_priv` of MariaDB 11.8 after `IDENTIFIED VIA ed25519 USING PASSWORD('…')`.
    const STORED: [(&[u8], &str); 2] = [
        (b"secret", "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY"),
        (b"", "4LH+dBF+G5W2CKTyId8xR3SyDqZoQjUNUVNxx8aWbG4"),
    ];

    #[test]
    fn keys_are_those_that_the_server_stores() {
        for (password, stored) in STORED {
            assert_eq!(base64::decode(stored).unwrap(), public_key(password));
        }
    }

    #[test]
    fn a_signature_holds_for_its_password_and_challenge_only() {
        let nonce = new_nonce().unwrap();
        for password in [&b""[..], b"secret", &[b'x'; 1000]] {
            let key = public_key(password);
            let signature = sign(password, &nonce);
            assert!(verify(&key, &nonce, &signature));
            assert!(!verify(&key, &new_nonce().unwrap(), &signature));
            assert!(!verify(&public_key(b"Secret"), &nonce, &signature));
            let mut wrong = signature;
            wrong[40] ^= 1;
            assert!(!verify(&key, &nonce, &wrong));
            assert!(!verify(&key, &nonce, &signature[..63]) && !verify(&key, &nonce, b""));
        }
    }

    #[test]
    fn signatures_are_those_of_rfc_8032_where_the_password_is_a_seed() {
        // RFC 8032, 7.1, test 1 has the empty message; with a challenge of 32 bytes the library's own signer must agree.
        let seed = [0x9d; 32];
        let nonce = [7; NONCE_BYTES];
        let pair = aws_lc_rs::signature::Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
        assert_eq!(pair.sign(&nonce).as_ref(), sign(&seed, &nonce));
    }
}
