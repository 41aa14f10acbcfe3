//! Compressed events: MySQL's TRANSACTION_PAYLOAD, MariaDB's compressed statements and rows.

use std::io::Read as _;

use crate::codec::Reader;

/// Most bytes that come out of one event; what is larger is not looked into.
pub const INFLATED_BYTES_MAX: usize = 64 << 20;
/// Kinds of the fields in front of a payload, and what they say.
const END: u64 = 0;
const COMPRESSION: u64 = 2;
const INFLATED_SIZE: u64 = 3;
const ZSTD: u64 = 0;
const NONE: u64 = 255;

/// The events of a TRANSACTION_PAYLOAD, one behind the other; `None` when it is too large or of a kind that is not known.
pub(super) fn payload(body: &[u8]) -> Option<Vec<u8>> {
    let mut body = Reader::new(body);
    let (mut compression, mut size) = (ZSTD, None);
    loop {
        let kind = body.lenenc("field of a payload").ok()?;
        if kind == END {
            break;
        }
        let mut value = Reader::new(body.lenenc_bytes("field of a payload").ok()?);
        match kind {
            COMPRESSION => compression = value.lenenc("compression of a payload").ok()?,
            INFLATED_SIZE => size = Some(value.lenenc("size of a payload").ok()?),
            _ => {}
        }
    }
    let size = usize::try_from(size?).ok().filter(|size| *size <= INFLATED_BYTES_MAX)?;
    match compression {
        NONE => Some(body.rest().to_vec()),
        ZSTD => {
            let mut out = Vec::new();
            let reader = zstd::stream::read::Decoder::new(body.rest()).ok()?;
            reader.take(size as u64 + 1).read_to_end(&mut out).ok()?;
            (out.len() == size).then_some(out)
        }
        _ => None,
    }
}

/// The content of MariaDB's compressed events: a byte with the algorithm (0 is zlib) and the length of the length, the
/// length with its highest byte first, and a zlib stream.
pub(super) fn inflate(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Reader::new(bytes);
    let head = bytes.u8("head of a compressed event").ok()?;
    if head >> 4 & 0x07 != 0 {
        return None;
    }
    let length = bytes.bytes(usize::from(head & 0x07), "length of a compressed event").ok()?;
    let size = length.iter().fold(0_u64, |size, byte| size << 8 | u64::from(*byte));
    let size = usize::try_from(size).ok().filter(|size| *size <= INFLATED_BYTES_MAX)?;
    let mut out = Vec::new();
    flate2::read::ZlibDecoder::new(bytes.rest()).take(size as u64 + 1).read_to_end(&mut out).ok()?;
    (out.len() == size).then_some(out)
}
