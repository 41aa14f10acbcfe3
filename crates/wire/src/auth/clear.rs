//! `mysql_clear_password`, and the password as `caching_sha2_password` sends it over TLS: bytes and a zero byte.

use zeroize::Zeroizing;

use super::PASSWORD_BYTES_MAX;

/// The password as it is sent.
pub fn encode(password: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut sent = Zeroizing::new(Vec::with_capacity(password.len() + 1));
    sent.extend_from_slice(password);
    sent.push(0);
    sent
}

/// The password that was sent; some clients leave the last zero byte out. `None` when it is too long or holds a zero
/// byte, which no server accepts.
pub fn decode(sent: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let password = sent.strip_suffix(&[0]).unwrap_or(sent);
    let fits = password.len() <= PASSWORD_BYTES_MAX && !password.contains(&0);
    fits.then(|| Zeroizing::new(password.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_zero_byte_is_not_part_of_the_password() {
        assert_eq!(encode(b"pw").as_slice(), b"pw\0");
        assert_eq!(decode(b"pw\0").unwrap().as_slice(), b"pw");
        assert_eq!(decode(b"pw").unwrap().as_slice(), b"pw");
        assert_eq!(decode(b"\0").unwrap().as_slice(), b"");
        assert_eq!(decode(b"").unwrap().as_slice(), b"");
    }

    #[test]
    fn no_password_holds_a_zero_byte_or_is_endless() {
        assert_eq!(decode(b"p\0w\0"), None);
        assert_eq!(decode(b"pw\0\0"), None);
        assert_eq!(decode(&vec![b'x'; PASSWORD_BYTES_MAX + 1]), None);
        assert!(decode(&vec![b'x'; PASSWORD_BYTES_MAX]).is_some());
    }
}
