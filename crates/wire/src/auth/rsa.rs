//! The RSA part of `caching_sha2_password` and `sha256_password`: keys as PEM, passwords as OAEP (SHA-1) ciphertext.

use std::fmt;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{
    KeySize, OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, OaepPublicEncryptingKey, PrivateDecryptingKey,
    PublicEncryptingKey,
};
use zeroize::Zeroizing;

use super::{CryptoError, Scramble, base64, caching_sha2, clear};

const PEM_BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const PEM_END: &str = "-----END PUBLIC KEY-----";
/// No server's public key is longer; RSA with 8192 bits takes about 1,500.
const PEM_BYTES_MAX: usize = 8 * 1024;

/// Sqluice's own key pair, with which clients on plain TCP encrypt their passwords.
pub struct RsaKey {
    private: OaepPrivateDecryptingKey,
    public_pem: String,
}

impl RsaKey {
    /// Makes a new key of 2048 bits, as servers do. Takes up to a second of computing.
    ///
    /// # Errors
    /// The cryptographic library refused.
    pub fn generate() -> Result<RsaKey, CryptoError> {
        let failed = |_| CryptoError("no RSA key could be made");
        let private = PrivateDecryptingKey::generate(KeySize::Rsa2048).map_err(failed)?;
        let der = private.public_key().as_der().map_err(failed)?;
        let public_pem = pem(der.as_ref());
        Ok(RsaKey { private: OaepPrivateDecryptingKey::new(private).map_err(failed)?, public_pem })
    }

    /// The public key as a PEM text: what a client that asks for it gets.
    pub fn public_pem(&self) -> &str {
        &self.public_pem
    }

    /// How long a client's ciphertext is.
    pub fn ciphertext_bytes(&self) -> usize {
        self.private.key_size_bytes()
    }

    /// The password in a client's ciphertext; `None` when it was not encrypted for this key and scramble.
    pub fn decrypt(&self, scramble: &Scramble, ciphertext: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        if ciphertext.len() != self.ciphertext_bytes() {
            return None;
        }
        let mut room = Zeroizing::new(vec![0; self.private.min_output_size()]);
        let plain = self.private.decrypt(&OAEP_SHA1_MGF1SHA1, ciphertext, &mut room, None).ok()?;
        caching_sha2::mix(scramble, plain);
        clear::decode(plain)
    }
}

impl fmt::Debug for RsaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RsaKey(…)")
    }
}

/// A server's public key.
#[derive(Clone)]
pub struct PublicKey(PublicEncryptingKey);

impl PublicKey {
    /// Reads a PEM text (`BEGIN PUBLIC KEY`), as servers send it and as files hold it.
    ///
    /// # Errors
    /// The text is no such PEM or its key is no RSA key.
    pub fn from_pem(pem: &[u8]) -> Result<PublicKey, CryptoError> {
        if pem.len() > PEM_BYTES_MAX {
            return Err(CryptoError("the server's public key is too long"));
        }
        let text = std::str::from_utf8(pem).map_err(|_| CryptoError("the server's public key is no text"))?;
        let body = text
            .split_once(PEM_BEGIN)
            .and_then(|(_, rest)| rest.split_once(PEM_END))
            .ok_or(CryptoError("the server's public key is no PEM"))?
            .0;
        let der = base64::decode(body).ok_or(CryptoError("the server's public key is no base64"))?;
        let key = PublicEncryptingKey::from_der(&der).map_err(|_| CryptoError("the server's public key is no RSA"))?;
        Ok(PublicKey(key))
    }

    /// The password as ciphertext that only the key's owner reads, bound to its scramble.
    ///
    /// # Errors
    /// The password is too long for the key (214 bytes with 2048 bits).
    pub fn encrypt(&self, scramble: &Scramble, password: &[u8]) -> Result<Vec<u8>, CryptoError> {
        let failed = |_| CryptoError("the password is too long for the server's RSA key");
        let mut plain = clear::encode(password);
        caching_sha2::mix(scramble, &mut plain);
        let key = OaepPublicEncryptingKey::new(self.0.clone()).map_err(failed)?;
        let mut ciphertext = vec![0; key.ciphertext_size()];
        let length = key.encrypt(&OAEP_SHA1_MGF1SHA1, &plain, &mut ciphertext, None).map_err(failed)?.len();
        ciphertext.truncate(length);
        Ok(ciphertext)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PublicKey(…)")
    }
}

fn pem(der: &[u8]) -> String {
    format!("{PEM_BEGIN}\n{}{PEM_END}\n", base64::encode_lines(der))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_survives_the_way_through_rsa() {
        let key = RsaKey::generate().unwrap();
        assert!(key.public_pem().lines().all(|line| line.len() <= 64));
        let public = PublicKey::from_pem(key.public_pem().as_bytes()).unwrap();
        let longest = vec![b'x'; 213];
        for password in [&b"secret"[..], b"p", &longest] {
            let ciphertext = public.encrypt(&[3; 20], password).unwrap();
            assert_eq!(ciphertext.len(), key.ciphertext_bytes());
            assert_eq!(key.decrypt(&[3; 20], &ciphertext).unwrap().as_slice(), password);
        }
        assert!(public.encrypt(&[3; 20], &[b'x'; 214]).is_err());
        let mut ciphertext = public.encrypt(&[3; 20], b"secret").unwrap();
        ciphertext[100] ^= 1;
        assert_eq!(key.decrypt(&[3; 20], &ciphertext), None);
        assert_eq!(key.decrypt(&[3; 20], &ciphertext[1..]), None);
        assert!(!format!("{key:?}").contains("private"));
    }

    #[test]
    fn what_is_no_public_key_is_refused() {
        let key = RsaKey::generate().unwrap();
        let pem = key.public_pem();
        for wrong in ["", "no key", &pem[..pem.len() / 2], &pem.replace("PUBLIC", "PRIVATE"), &pem.replace('A', "!")] {
            assert!(PublicKey::from_pem(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(PublicKey::from_pem(&vec![b'A'; PEM_BYTES_MAX + 1]).is_err());
    }
}
