//! A block on disk: a head with its own checksum, and its records, compressed. A reader finds the next whole block behind damage.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::block::Block;

/// The beginning of each head; its last two digits are the version.
const MAGIC: [u8; 8] = *b"SqlEvt02";
/// Bytes of a head.
pub(super) const HEAD_BYTES: u64 = 48;
/// Most bytes of a block's records. A block has 256 KiB and one event, whose texts have up to six bytes for one, and with
/// hashes twelve: a literal may have one byte.
const RECORDS_BYTES_MAX: u32 = 8 << 20;
/// The level of zstd: the fastest one.
const ZSTD_LEVEL: i32 = 1;
/// Bytes that a search for the next head reads at once.
const SEARCH_BYTES: usize = 64 << 10;

/// The facts of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) at_us: u64,
    stored: u32,
    raw: u32,
    checksum: u32,
}

/// The thing at a place of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A whole block, and where the next one begins.
    Block(Block, u64),
    /// Bytes that are no block, up to the place where the next one may begin.
    Damage(u64),
    /// No block begins behind this place.
    End,
}

/// Appends a block in its form on disk.
pub(super) fn encode(block: &Block, out: &mut Vec<u8>) -> io::Result<()> {
    let stored = zstd::bulk::compress(block.bytes(), ZSTD_LEVEL)?;
    let length = |bytes: usize| u32::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge));
    let begin = out.len();
    out.extend_from_slice(&MAGIC);
    [block.first, block.last, block.at_us].iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
    for number in [length(stored.len())?, length(block.bytes().len())?, crc32c::crc32c(&stored)] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    let checksum = crc32c::crc32c(&out[begin..]);
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&stored);
    Ok(())
}

impl Head {
    fn decode(bytes: &[u8]) -> Option<Head> {
        let (body, checksum) = bytes.get(..HEAD_BYTES as usize)?.split_last_chunk::<4>()?;
        if !body.starts_with(&MAGIC) || crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let long = |at: usize| body.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
        let short = |at: usize| body.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let head = Head {
            first: long(8)?,
            last: long(16)?,
            at_us: long(24)?,
            stored: short(32)?,
            raw: short(36)?,
            checksum: short(40)?,
        };
        let is_sound = head.raw <= RECORDS_BYTES_MAX && head.stored <= RECORDS_BYTES_MAX && head.first <= head.last;
        is_sound.then_some(head)
    }

    /// The head at a place of a segment whose bytes go up to `end`.
    pub(super) fn read(file: &File, at: u64, end: u64) -> io::Result<Option<Head>> {
        if at.saturating_add(HEAD_BYTES) > end {
            return Ok(None);
        }
        let mut bytes = [0; HEAD_BYTES as usize];
        file.read_exact_at(&mut bytes, at)?;
        Ok(Head::decode(&bytes))
    }

    /// Where the block with this head ends.
    pub(super) fn end(&self, at: u64) -> u64 {
        at.saturating_add(HEAD_BYTES).saturating_add(self.stored.into())
    }
}

/// Reads the block at a place of a segment whose bytes go up to `end`.
pub(super) fn read(file: &File, at: u64, end: u64) -> io::Result<Found> {
    let Some(head) = Head::read(file, at, end)? else { return search(file, at.saturating_add(1), end) };
    let behind = head.end(at);
    if behind > end {
        return search(file, at.saturating_add(1), end);
    }
    let mut stored = vec![0; head.stored as usize];
    file.read_exact_at(&mut stored, at + HEAD_BYTES)?;
    if crc32c::crc32c(&stored) != head.checksum {
        return Ok(Found::Damage(behind));
    }
    let Ok(records) = zstd::bulk::decompress(&stored, head.raw as usize) else { return Ok(Found::Damage(behind)) };
    Ok(Found::Block(Block::from_bytes(head.first, head.last, head.at_us, records), behind))
}

/// Looks for the next head from a place on.
fn search(file: &File, mut from: u64, end: u64) -> io::Result<Found> {
    let mut bytes = vec![0; SEARCH_BYTES];
    while from.saturating_add(HEAD_BYTES) <= end {
        let length = usize::try_from(end - from).unwrap_or(SEARCH_BYTES).min(SEARCH_BYTES);
        let window = &mut bytes[..length];
        file.read_exact_at(window, from)?;
        let mut begins = memchr::memmem::find_iter(window, &MAGIC);
        for at in begins.by_ref() {
            let at = from + at as u64;
            if Head::read(file, at, end)?.is_some_and(|head| head.end(at) <= end) {
                return Ok(Found::Damage(at));
            }
        }
        // The magic may lie over the edge.
        from += (length - (MAGIC.len() - 1)).max(1) as u64;
    }
    Ok(Found::End)
}
