//! `parsec` of MariaDB (11.6 and later).
//!
//! The password, a salt and a number of iterations give an Ed25519 seed by PBKDF2-HMAC-SHA512; the server stores salt and
//! public key. It sends 32 random bytes; the client asks for the *extended salt* with an empty packet, and answers with 32
//! random bytes of its own and the signature of both. A server that checks it learns nothing that could be used elsewhere.
//! Source: MariaDB's documentation "Authentication Plugin - PARSEC".

use std::num::NonZeroU32;

use aws_lc_rs::pbkdf2;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use zeroize::Zeroizing;

use super::ed25519::{Nonce, PublicKey, SIGNATURE_BYTES, new_nonce};
use super::{CryptoError, base64};

/// Bytes of a salt.
pub const SALT_BYTES: usize = 18;
/// Bytes of an extended salt as it is sent: `P`, the factor, the salt.
pub const EXT_SALT_BYTES: usize = 2 + SALT_BYTES;
/// Bytes of a client's answer: its own challenge and the signature.
pub const ANSWER_BYTES: usize = 32 + SIGNATURE_BYTES;
/// The largest factor that is computed: 1024 · 2⁸ iterations, a quarter of a second. Servers of 11.x take up to 3; later
/// ones can be told to ask for a day of work, which no login needs.
pub const FACTOR_MAX: u8 = 8;

/// How a password becomes a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExtSalt {
    /// Iterations are 1024 · 2 to the power of this; at most [`FACTOR_MAX`].
    factor: u8,
    salt: [u8; SALT_BYTES],
}

impl ExtSalt {
    /// Reads it as a server sends it; `None` if it is no such thing, or asks for too much work.
    pub fn parse(sent: &[u8]) -> Option<ExtSalt> {
        let sent: &[u8; EXT_SALT_BYTES] = sent.try_into().ok()?;
        let (&[kind, factor], salt) = sent.split_first_chunk::<2>()?;
        (kind == b'P' && factor <= FACTOR_MAX).then_some(ExtSalt { factor, salt: salt.try_into().ok()? })
    }

    /// The bytes that a server sends.
    pub fn to_bytes(self) -> [u8; EXT_SALT_BYTES] {
        let mut bytes = [0; EXT_SALT_BYTES];
        bytes[0] = b'P';
        bytes[1] = self.factor;
        bytes[2..].copy_from_slice(&self.salt);
        bytes
    }

    /// Reads what a server stores: `P`, a digit for the factor, `:`, salt, `:`, public key. `None` if it is no such thing.
    pub fn parse_stored(stored: &str) -> Option<(ExtSalt, PublicKey)> {
        let mut fields = stored.split(':');
        let (head, salt, key) = (fields.next()?, fields.next()?, fields.next()?);
        let digit = head.strip_prefix('P').filter(|digit| digit.len() == 1)?;
        let factor = u8::try_from(char::from(*digit.as_bytes().first()?).to_digit(10)?).ok()?;
        let salt = base64::decode(salt)?.try_into().ok()?;
        let key = base64::decode(key)?.try_into().ok()?;
        (fields.next().is_none() && factor <= FACTOR_MAX).then_some((ExtSalt { factor, salt }, key))
    }

    /// The work of one derivation, compared with the least.
    pub fn iterations(self) -> u32 {
        1024 << self.factor
    }

    fn pair(&self, password: &[u8]) -> Result<Ed25519KeyPair, CryptoError> {
        let mut seed = Zeroizing::new([0; 32]);
        let iterations = NonZeroU32::new(self.iterations()).ok_or(CryptoError("no iterations"))?;
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA512, iterations, &self.salt, password, seed.as_mut_slice());
        Ed25519KeyPair::from_seed_unchecked(seed.as_slice()).map_err(|_| CryptoError("no key from this password"))
    }

    /// The public key of a password. Takes a millisecond or more of computing.
    ///
    /// # Errors
    /// The cryptographic library refused.
    pub fn public_key(&self, password: &[u8]) -> Result<PublicKey, CryptoError> {
        let pair = self.pair(password)?;
        pair.public_key().as_ref().try_into().map_err(|_| CryptoError("a public key of another length"))
    }

    /// The client's answer to the server's challenge. Takes a millisecond or more of computing.
    ///
    /// # Errors
    /// The cryptographic library refused.
    pub fn answer(&self, password: &[u8], server_nonce: &Nonce) -> Result<[u8; ANSWER_BYTES], CryptoError> {
        let client_nonce = new_nonce()?;
        let signature = self.pair(password)?.sign(&both(server_nonce, &client_nonce));
        let mut answer = [0; ANSWER_BYTES];
        answer[..32].copy_from_slice(&client_nonce);
        answer[32..].copy_from_slice(signature.as_ref());
        Ok(answer)
    }
}

/// Whether `answer` is the key's owner's for the server's challenge.
pub fn verify(key: &PublicKey, server_nonce: &Nonce, answer: &[u8]) -> bool {
    let Some((client_nonce, signature)) = answer.split_first_chunk::<32>() else { return false };
    let message = both(server_nonce, client_nonce);
    signature.len() == SIGNATURE_BYTES && UnparsedPublicKey::new(&ED25519, key).verify(&message, signature).is_ok()
}

/// The password's hash for MariaDB's proof of the certificate: extended salt and public key.
pub fn stored_hash(salt: &ExtSalt, key: &PublicKey) -> Vec<u8> {
    [&salt.to_bytes()[..], key].concat()
}

fn both(server_nonce: &Nonce, client_nonce: &Nonce) -> [u8; 64] {
    let mut both = [0; 64];
    both[..32].copy_from_slice(server_nonce);
    both[32..].copy_from_slice(client_nonce);
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `mysql.global_priv` of MariaDB 11.8 after `IDENTIFIED VIA parsec USING PASSWORD('…')`.
    const STORED: [(&[u8], &str); 2] = [
        (b"secret", "P0:lzcd+gKtErRZPi4D5DHNWoZ0:mAC7GVyARJUoWcdD73WPB4w9hbA6NuOMMfSHEs7fIb8"),
        (b"", "P0:NDPd3VcTE889cZZvfOOaW4A+:4CKgHAgBH/drC8CZs73Zz9bsjXoapZFlBl3bjRUtwNA"),
    ];

    #[test]
    fn keys_are_those_that_the_server_stores() {
        for (password, stored) in STORED {
            let (salt, key) = ExtSalt::parse_stored(stored).unwrap();
            assert_eq!(salt.iterations(), 1024);
            assert_eq!(salt.public_key(password).unwrap(), key);
            assert_ne!(salt.public_key(b"Secret").unwrap(), key);
            assert_eq!(ExtSalt::parse(&salt.to_bytes()), Some(salt));
        }
    }

    #[test]
    fn an_answer_holds_for_its_password_and_challenge_only() {
        let (salt, key) = ExtSalt::parse_stored(STORED[0].1).unwrap();
        let nonce = new_nonce().unwrap();
        let answer = salt.answer(b"secret", &nonce).unwrap();
        assert!(verify(&key, &nonce, &answer));
        assert_ne!(answer, salt.answer(b"secret", &nonce).unwrap(), "the client adds randomness of its own");
        assert!(!verify(&key, &new_nonce().unwrap(), &answer));
        assert!(!verify(&key, &nonce, &salt.answer(b"Secret", &nonce).unwrap()));
        for length in [0, 31, 32, 95] {
            assert!(!verify(&key, &nonce, &answer[..length]));
        }
    }

    #[test]
    fn work_is_bounded_and_nonsense_refused() {
        let (salt, _) = ExtSalt::parse_stored(STORED[0].1).unwrap();
        let mut sent = salt.to_bytes();
        sent[1] = FACTOR_MAX;
        assert!(ExtSalt::parse(&sent).is_some());
        for factor in [FACTOR_MAX + 1, 30, 255] {
            sent[1] = factor;
            assert_eq!(ExtSalt::parse(&sent), None);
        }
        sent = salt.to_bytes();
        sent[0] = b'S';
        assert_eq!(ExtSalt::parse(&sent), None);
        assert_eq!(ExtSalt::parse(&salt.to_bytes()[..19]), None);
        let good = STORED[0].1;
        for wrong in [
            "".to_owned(),
            "P0:".to_owned(),
            good.replace("P0", "S0"),
            good.replace("P0", "P9"),
            good.replace("P0", "Pz"),
            format!("{good}:x"),
            good[..good.len() - 4].to_owned(),
            good.replace("lzcd", "lz"),
            good.replace("lzcd", "lz!d"),
        ] {
            assert_eq!(ExtSalt::parse_stored(&wrong), None, "{wrong}");
        }
    }
}
