//! Base64, for public keys and salts only: its time depends on the text.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The text of bytes in lines of 64 characters, each with its end, padded.
pub(super) fn encode_lines(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() / 3 * 4 + bytes.len() / 48 + 8);
    for (at, group) in bytes.chunks(3).enumerate() {
        if at % 16 == 0 && at > 0 {
            text.push('\n');
        }
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * position)) as usize & 0x3f];
            text.push(if position > group.len() { '=' } else { char::from(digit) });
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

/// The bytes of a text, which may hold white space; padding may be missing, and ends it. `None` for other texts.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut count) = (0u32, 0u32);
    let mut digits = text.bytes().filter(|byte| !byte.is_ascii_whitespace());
    for digit in digits.by_ref() {
        if digit == b'=' {
            break;
        }
        let value = ALPHABET.iter().position(|known| *known == digit)?;
        bits = bits << 6 | value as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    (bits == 0 && count < 6 && digits.all(|digit| digit == b'=')).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_the_vectors_of_rfc_4648() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(encode_lines(plain.as_bytes()).trim_end(), coded);
            assert_eq!(decode(coded).unwrap(), plain.as_bytes());
            assert_eq!(decode(coded.trim_end_matches('=')).unwrap(), plain.as_bytes());
        }
        for wrong in ["Zg=x", "Z", "Z!9v", "Zh==", "====Zg"] {
            assert_eq!(decode(wrong), None, "{wrong}");
        }
        let long = encode_lines(&[0xff; 100]);
        assert!(long.lines().all(|line| line.len() <= 64) && long.lines().count() == 3);
        assert_eq!(decode(&long).unwrap(), [0xff; 100]);
    }
}
