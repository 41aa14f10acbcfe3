//! Reading and writing the protocol's integers and strings.
//!
//! Source: MariaDB's documentation "Protocol data types". Reading never panics: what is not there is [`Malformed`].

/// A payload ended early or held what its type forbids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed packet: {0}")]
pub struct Malformed(pub &'static str);

/// Reads a payload from its start to its end.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the payload's first byte.
    pub fn new(payload: &'a [u8]) -> Reader<'a> {
        Reader { rest: payload }
    }

    /// The bytes that are still unread.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes `n` bytes.
    pub fn bytes(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        if n > self.rest.len() {
            return Err(Malformed(what));
        }
        let (taken, rest) = self.rest.split_at(n);
        self.rest = rest;
        Ok(taken)
    }

    /// Takes all that is left.
    pub fn remaining(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// One byte.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        Ok(self.bytes(1, what)?[0])
    }

    /// Two bytes, little endian.
    pub fn u16(&mut self, what: &'static str) -> Result<u16, Malformed> {
        self.array(what).map(u16::from_le_bytes)
    }

    /// Three bytes, little endian.
    pub fn u24(&mut self, what: &'static str) -> Result<u32, Malformed> {
        let [a, b, c] = self.array(what)?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    /// Four bytes, little endian.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// Eight bytes, little endian.
    pub fn u64(&mut self, what: &'static str) -> Result<u64, Malformed> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// A length-encoded integer. The NULL marker `0xfb` and `0xff` are malformed here.
    pub fn lenenc(&mut self, what: &'static str) -> Result<u64, Malformed> {
        match self.u8(what)? {
            small @ 0..=0xfa => Ok(u64::from(small)),
            0xfc => self.u16(what).map(u64::from),
            0xfd => self.u24(what).map(u64::from),
            0xfe => self.u64(what),
            _ => Err(Malformed(what)),
        }
    }

    /// A length-encoded string.
    pub fn lenenc_bytes(&mut self, what: &'static str) -> Result<&'a [u8], Malformed> {
        let length = self.lenenc(what)?;
        let length = usize::try_from(length).map_err(|_| Malformed(what))?;
        self.bytes(length, what)
    }

    /// A text-protocol value: a length-encoded string, or `None` for NULL.
    pub fn text_value(&mut self, what: &'static str) -> Result<Option<&'a [u8]>, Malformed> {
        if self.rest.first() == Some(&0xfb) {
            self.rest = &self.rest[1..];
            return Ok(None);
        }
        self.lenenc_bytes(what).map(Some)
    }

    /// A string that ends with a zero byte, which is taken but not given.
    pub fn nul_bytes(&mut self, what: &'static str) -> Result<&'a [u8], Malformed> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or(Malformed(what))?;
        let taken = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N, what)?);
        Ok(array)
    }
}

/// Appends the protocol's types to a buffer.
pub trait Write {
    /// Three bytes, little endian.
    fn put_u24(&mut self, value: u32);
    /// Two bytes, little endian.
    fn put_u16(&mut self, value: u16);
    /// Four bytes, little endian.
    fn put_u32(&mut self, value: u32);
    /// Eight bytes, little endian.
    fn put_u64(&mut self, value: u64);
    /// A length-encoded integer in its shortest form.
    fn put_lenenc(&mut self, value: u64);
    /// A length-encoded string.
    fn put_lenenc_bytes(&mut self, bytes: &[u8]);
    /// A string and its zero byte; the string is cut at a zero byte of its own.
    fn put_nul_bytes(&mut self, bytes: &[u8]);
}

impl Write for Vec<u8> {
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u24(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes()[..3]);
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_lenenc(&mut self, value: u64) {
        match value {
            0..=0xfa => self.push(value as u8),
            0xfb..=0xffff => {
                self.push(0xfc);
                self.put_u16(value as u16);
            }
            0x1_0000..=0xff_ffff => {
                self.push(0xfd);
                self.put_u24(value as u32);
            }
            _ => {
                self.push(0xfe);
                self.put_u64(value);
            }
        }
    }

    fn put_lenenc_bytes(&mut self, bytes: &[u8]) {
        self.put_lenenc(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }

    fn put_nul_bytes(&mut self, bytes: &[u8]) {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        self.extend_from_slice(&bytes[..end]);
        self.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lenenc_integers_survive_a_round_trip_at_every_boundary() {
        for value in [0, 1, 0xfa, 0xfb, 0xfc, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000, u64::MAX] {
            let mut bytes = Vec::new();
            bytes.put_lenenc(value);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.lenenc("value"), Ok(value));
            assert!(reader.is_empty());
            for cut in 0..bytes.len() {
                assert!(Reader::new(&bytes[..cut]).lenenc("cut").is_err(), "{value} cut at {cut}");
            }
        }
    }

    #[test]
    fn null_is_not_a_length() {
        assert_eq!(Reader::new(&[0xfb]).lenenc("x"), Err(Malformed("x")));
        assert_eq!(Reader::new(&[0xff]).lenenc("x"), Err(Malformed("x")));
        assert_eq!(Reader::new(&[0xfb]).text_value("x"), Ok(None));
    }

    #[test]
    fn a_giant_length_is_malformed_not_an_allocation() {
        let bytes = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, b'x'];
        assert_eq!(Reader::new(&bytes).lenenc_bytes("x"), Err(Malformed("x")));
    }
}
