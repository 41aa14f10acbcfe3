//! The form in which MySQL stores `sha256_password` and `caching_sha2_password`: SHA-256 crypt with a salt of twenty
//! bytes.
//!
//! `$5$` + salt + `$` + digest for the former, with 5,000 rounds; `$A$` + thousands of rounds in three hexadecimal digits +
//! `$` + salt + digest for the latter. Source: MySQL's manual on both plugins, and Ulrich Drepper's "Unix crypt using
//! SHA-256 and SHA-512", which gives the algorithm step by step.

use aws_lc_rs::digest::{Context, SHA256};
use zeroize::Zeroizing;

use super::equal;

/// The longest password that MySQL takes for these plugins, in bytes.
pub const PASSWORD_BYTES_MAX: usize = 256;
/// Rounds of `sha256_password`, and of `caching_sha2_password` unless the server is configured otherwise.
const ROUNDS_USUAL: u32 = 5000;
/// More rounds than this are left to the server: they take a tenth of a second.
const ROUNDS_MAX: u32 = 200_000;
const SALT_BYTES_MAX: usize = 20;
const DIGEST_CHARACTERS: usize = 43;

/// A stored password. Debug output shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct ShaCrypt {
    rounds: u32,
    salt: Vec<u8>,
    digest: [u8; 32],
}

impl ShaCrypt {
    /// Reads what a server stores; `None` if it is something else, or would take too long to check.
    pub fn parse(stored: &str) -> Option<ShaCrypt> {
        let stored = stored.as_bytes();
        let (rounds, salt, digest) = if let Some(rest) = stored.strip_prefix(b"$5$") {
            let salt_bytes = rest.iter().position(|byte| *byte == b'$')?;
            (ROUNDS_USUAL, &rest[..salt_bytes], &rest[salt_bytes + 1..])
        } else {
            let rest = stored.strip_prefix(b"$A$")?;
            let (digits, rest) = rest.split_at_checked(3)?;
            let thousands = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
            let (salt, digest) = rest.strip_prefix(b"$")?.split_at_checked(SALT_BYTES_MAX)?;
            (thousands.checked_mul(1000)?, salt, digest)
        };
        let fits = (1..=ROUNDS_MAX).contains(&rounds) && salt.len() <= SALT_BYTES_MAX;
        fits.then_some(ShaCrypt { rounds, salt: salt.to_vec(), digest: decode(digest)? })
    }

    /// Whether this is the password. Takes milliseconds of computing.
    pub fn verify(&self, password: &[u8]) -> bool {
        password.len() <= PASSWORD_BYTES_MAX && equal(&*self.compute(password), &self.digest)
    }

    fn compute(&self, password: &[u8]) -> Zeroizing<[u8; 32]> {
        let salt = &self.salt[..];
        let between = sha256(|hash| {
            hash.update(password);
            hash.update(salt);
            hash.update(password);
        });
        let mut sum = sha256(|hash| {
            hash.update(password);
            hash.update(salt);
            update_cycled(hash, &between, password.len());
            let mut bits = password.len();
            while bits > 0 {
                hash.update(if bits & 1 == 1 { &between[..] } else { password });
                bits >>= 1;
            }
        });
        let of_password = sha256(|hash| (0..password.len()).for_each(|_| hash.update(password)));
        let of_salt = sha256(|hash| (0..16 + usize::from(sum[0])).for_each(|_| hash.update(salt)));
        let password_cycled: Zeroizing<Vec<u8>> =
            Zeroizing::new(of_password.iter().copied().cycle().take(password.len()).collect());
        let salt_cycled = &of_salt[..salt.len()];
        for round in 0..self.rounds {
            let odd = round & 1 == 1;
            sum = sha256(|hash| {
                hash.update(if odd { &password_cycled } else { &sum[..] });
                if round % 3 != 0 {
                    hash.update(salt_cycled);
                }
                if round % 7 != 0 {
                    hash.update(&password_cycled);
                }
                hash.update(if odd { &sum[..] } else { &password_cycled });
            });
        }
        sum
    }
}

impl std::fmt::Debug for ShaCrypt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ShaCrypt(…)")
    }
}

fn sha256(feed: impl FnOnce(&mut Context)) -> Zeroizing<[u8; 32]> {
    let mut context = Context::new(&SHA256);
    feed(&mut context);
    let mut hash = Zeroizing::new([0; 32]);
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

fn update_cycled(hash: &mut Context, bytes: &[u8; 32], mut length: usize) {
    while length > 0 {
        let part = length.min(bytes.len());
        hash.update(&bytes[..part]);
        length -= part;
    }
}

const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The digest behind the 43 characters: groups of four hold three bytes, lowest bits first, in an order of their own.
fn decode(text: &[u8]) -> Option<[u8; 32]> {
    if text.len() != DIGEST_CHARACTERS {
        return None;
    }
    let mut digest = [0; 32];
    let (mut a, mut b, mut c) = (0, 10, 20);
    for group in text.chunks(4) {
        let mut bits = 0u32;
        for (place, character) in group.iter().enumerate() {
            let value = ALPHABET.iter().position(|known| known == character)?;
            bits |= (value as u32) << (6 * place);
        }
        if group.len() == 3 {
            // The last group holds two bytes.
            (digest[31], digest[30]) = ((bits >> 8) as u8, bits as u8);
            return (bits >> 16 == 0).then_some(digest);
        }
        (digest[a], digest[b], digest[c]) = ((bits >> 16) as u8, (bits >> 8) as u8, bits as u8);
        (a, b, c) = (c + 1, a + 1, b + 1);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unhex(text: &str) -> String {
        let digits = text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16));
        String::from_utf8(digits.map(Result::unwrap).collect()).unwrap()
    }

    #[test]
    fn what_mysql_stores_fits_its_password() {
        // `hex(authentication_string)` of MySQL 9.7 after `IDENTIFIED [WITH sha256_password] BY 'secret'`.
        let caching = "2441243030412469393D622F22313D4411432E1C764079661207096F656E536A62592E49352F45707470503973436166\
                       56624D43334E344B684A513442624575694E6A4A5A44";
        let sha256 = "243524484E1D420A437A5056525B31313F260D0851541D24644F314159584B542E6832517943617946307048366E57662F\
                      54616A637664704F74777A3232527A2E5631";
        for (stored, rounds) in [(caching, 10_000), (sha256, 5000)] {
            let stored = ShaCrypt::parse(&unhex(stored)).unwrap();
            assert_eq!(stored.rounds, rounds);
            assert!(stored.verify(b"secret"));
            for wrong in [&b""[..], b"Secret", b"secret\0", &[b's'; 257]] {
                assert!(!stored.verify(wrong));
            }
            assert!(!format!("{stored:?}").contains("10000"));
        }
    }

    #[test]
    fn the_vectors_of_the_algorithms_author() {
        // From "Unix crypt using SHA-256 and SHA-512", test vectors with 5,000 rounds.
        let stored = ShaCrypt::parse("$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5").unwrap();
        assert!(stored.verify(b"Hello world!"));
    }

    #[test]
    fn nonsense_and_too_much_work_are_refused() {
        let good = "$A$005$abcdefghijklmnopqrst5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5";
        assert!(ShaCrypt::parse(good).is_some());
        for wrong in [
            "",
            "$A$",
            "$A$005$",
            "$5$",
            "$5$abc",
            &good.replace("005", "0G5"),
            &good.replace("005", "000"),
            &good.replace("005", "0C9"),
            &good.replace("Ec5", "Ec"),
            &good.replace("Ec5", "Ec8x"),
            &good.replace("Ec5", "Ec!"),
            &good.replace("$A$", "$B$"),
            "$5$abcdefghijklmnopqrstu$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5",
        ] {
            assert_eq!(ShaCrypt::parse(wrong), None, "{wrong}");
        }
    }
}
