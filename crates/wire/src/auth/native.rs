//! `mysql_native_password`.
//!
//! The server stores `SHA1(SHA1(password))`; the client answers `SHA1(password) XOR SHA1(scramble + SHA1(SHA1(password)))`.
//! Source: MariaDB's documentation "Authentication plugin: mysql_native_password". A server that checks an answer learns
//! `SHA1(password)`, with which it can log in to servers that know the same password.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use zeroize::Zeroizing;

use super::{Scramble, equal, xor};

/// Bytes of a hash, and of an answer to a scramble.
pub const HASH_BYTES: usize = 20;

/// SHA1(password).
pub fn stage1(password: &[u8]) -> Zeroizing<[u8; HASH_BYTES]> {
    Zeroizing::new(sha1(&[password]))
}

/// SHA1(stage 1): what servers store, as 40 hexadecimal digits behind a `*`.
pub fn stage2(stage1: &[u8; HASH_BYTES]) -> [u8; HASH_BYTES] {
    sha1(&[stage1])
}

/// The client's proof that it knows stage 1.
pub fn answer(scramble: &Scramble, stage1: &[u8; HASH_BYTES]) -> [u8; HASH_BYTES] {
    xor(stage1, &sha1(&[scramble, &stage2(stage1)]))
}

/// Checks an answer against what the server stores; gives stage 1 when it is right.
pub fn verify(scramble: &Scramble, stored: &[u8; HASH_BYTES], answer: &[u8]) -> Option<Zeroizing<[u8; HASH_BYTES]>> {
    let answer: &[u8; HASH_BYTES] = answer.try_into().ok()?;
    let candidate = Zeroizing::new(xor(answer, &sha1(&[scramble, stored])));
    equal(&stage2(&candidate), stored).then_some(candidate)
}

fn sha1(parts: &[&[u8]]) -> [u8; HASH_BYTES] {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
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

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02X}")).collect()
    }

    #[test]
    fn stage2_is_what_the_password_function_of_servers_gives() {
        // SELECT PASSWORD('password'), SELECT PASSWORD('mariadb') on MariaDB 10.11.
        assert_eq!(hex(&stage2(&stage1(b"password"))), "2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19");
        assert_eq!(hex(&stage2(&stage1(b"mariadb"))), "54958E764CE10E50764C2EECBB71D01F08549980");
    }

    #[test]
    fn a_right_answer_gives_stage1_and_a_wrong_one_nothing() {
        let scramble = [b'a'; 20];
        let stored = stage2(&stage1(b"secret"));
        let right = answer(&scramble, &stage1(b"secret"));
        assert_eq!(verify(&scramble, &stored, &right), Some(stage1(b"secret")));
        assert_eq!(verify(&[b'b'; 20], &stored, &right), None);
        assert_eq!(verify(&scramble, &stored, &answer(&scramble, &stage1(b"Secret"))), None);
        for length in 0..20 {
            assert_eq!(verify(&scramble, &stored, &right[..length]), None);
        }
    }
}
