//! `caching_sha2_password`.
//!
//! First the client answers the scramble with `XOR(SHA256(password), SHA256(SHA256(SHA256(password)) + scramble))`. A
//! server that remembers the user's stage 2 says [`FAST_OK`]; another says [`FULL_AUTH`] and gets the password itself:
//! over TLS and local sockets as it is, else encrypted with the server's RSA key, which the client may ask for with
//! [`KEY_REQUEST`]. Source: MySQL's "Caching_sha2_password information" and MariaDB's page on the plugin.

use aws_lc_rs::digest::{Context, SHA256};
use zeroize::Zeroizing;

use super::{Scramble, equal, xor};

/// Bytes of a hash, and of an answer to a scramble.
pub const HASH_BYTES: usize = 32;
/// Client to server: send your RSA key.
pub const KEY_REQUEST: u8 = 0x02;
/// Server to client: the answer was right; OK follows.
pub const FAST_OK: u8 = 0x03;
/// Server to client: send the password.
pub const FULL_AUTH: u8 = 0x04;

/// SHA256(password).
pub fn stage1(password: &[u8]) -> Zeroizing<[u8; HASH_BYTES]> {
    Zeroizing::new(sha256(&[password]))
}

/// SHA256(stage 1): what a server remembers for the fast path.
pub fn stage2(stage1: &[u8; HASH_BYTES]) -> [u8; HASH_BYTES] {
    sha256(&[stage1])
}

/// The client's proof that it knows stage 1.
pub fn answer(scramble: &Scramble, stage1: &[u8; HASH_BYTES]) -> [u8; HASH_BYTES] {
    xor(stage1, &sha256(&[&stage2(stage1), scramble]))
}

/// Checks an answer against the remembered stage 2; gives stage 1 when it is right.
pub fn verify(scramble: &Scramble, stored: &[u8; HASH_BYTES], answer: &[u8]) -> Option<Zeroizing<[u8; HASH_BYTES]>> {
    let answer: &[u8; HASH_BYTES] = answer.try_into().ok()?;
    let candidate = Zeroizing::new(xor(answer, &sha256(&[stored, scramble])));
    equal(&stage2(&candidate), stored).then_some(candidate)
}

/// Mixes a password with the scramble, again and again, as is done before RSA; twice gives the password back.
pub(crate) fn mix(scramble: &Scramble, bytes: &mut [u8]) {
    for (byte, key) in bytes.iter_mut().zip(scramble.iter().cycle()) {
        *byte ^= key;
    }
}

fn sha256(parts: &[&[u8]]) -> [u8; HASH_BYTES] {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    let mut hash = [0; HASH_BYTES];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_answer_gives_stage1_and_a_wrong_one_nothing() {
        let scramble = [b'a'; 20];
        let stored = stage2(&stage1(b"secret"));
        let right = answer(&scramble, &stage1(b"secret"));
        assert_eq!(verify(&scramble, &stored, &right), Some(stage1(b"secret")));
        assert_eq!(verify(&[b'b'; 20], &stored, &right), None);
        assert_eq!(verify(&scramble, &stored, &answer(&scramble, &stage1(b"Secret"))), None);
        assert_eq!(verify(&scramble, &stored, &right[..31]), None);
    }

    #[test]
    fn the_answer_follows_the_documented_formula() {
        // SHA256("abc"), as FIPS 180-2 gives it.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(stage1(b"abc").iter().map(|byte| format!("{byte:02x}")).collect::<String>(), abc);
        let scramble = [1; 20];
        let by_formula: Vec<u8> = {
            let double = sha256(&[&sha256(&[b"abc"])]);
            let mask = sha256(&[&[&double[..], &scramble[..]].concat()]);
            sha256(&[b"abc"]).iter().zip(mask).map(|(a, b)| a ^ b).collect()
        };
        assert_eq!(answer(&scramble, &stage1(b"abc")).to_vec(), by_formula);
    }

    #[test]
    fn mixing_twice_gives_the_password_back() {
        let scramble = *b"abcdefghijklmnopqrst";
        let mut bytes = b"a password longer than the scramble itself\0".to_vec();
        mix(&scramble, &mut bytes);
        assert_eq!(bytes[0], 0);
        mix(&scramble, &mut bytes);
        assert_eq!(bytes, b"a password longer than the scramble itself\0");
    }
}
