//! Hashes of words and names, and the multiplication that they are made of.

/// Digits of the golden ratio and of e.
pub(crate) const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const SPREAD_LENGTH: u64 = 0xb7e1_5162_8aed_2a6b;

/// Both halves of a product: each bit of either factor changes half of it.
#[inline]
pub(crate) const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// A word's first eight bytes and its last eight; of a shorter one, all that there is.
#[inline]
pub(crate) const fn ends(word: &[u8]) -> (u64, u64) {
    match (word.first_chunk::<8>(), word.last_chunk::<8>()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => match (word.first_chunk::<4>(), word.last_chunk::<4>()) {
            (Some(first), Some(last)) => (u32::from_le_bytes(*first) as u64, u32::from_le_bytes(*last) as u64),
            _ => match *word {
                [one, two, .., three] => (one as u64 | (two as u64) << 8, three as u64),
                [one, two] => (one as u64, two as u64),
                [one] => (one as u64, 0),
                [] => (0, 0),
            },
        },
    }
}

/// A number for a known word, whatever its case.
pub(crate) const fn word_hash(word: &str) -> u64 {
    let (bytes, mut hash, mut index) = (word.as_bytes(), SPREAD_LENGTH, 0);
    while index < bytes.len() {
        hash = fold(hash ^ bytes[index] as u64, SPREAD);
        index += 1;
    }
    hash
}

/// A number for a name as it is written, from its first and last eight bytes.
#[inline]
pub(crate) fn name_hash(name: &[u8], first: u64, last: u64) -> u64 {
    let mut hash = (name.len() as u64).wrapping_mul(SPREAD_LENGTH);
    if name.len() > 16 {
        hash = middle_hash(name, hash);
    }
    fold(hash ^ first, last ^ SPREAD)
}

/// Of a name of more than 16 bytes, what is between its first and last eight.
#[inline(never)]
fn middle_hash(name: &[u8], mut hash: u64) -> u64 {
    let middle = &name[8..name.len() - 8];
    for chunk in middle.chunks(8) {
        let chunk = chunk.first_chunk::<8>().or(middle.last_chunk::<8>());
        let (number, more) = chunk.map_or_else(|| ends(middle), |chunk| (u64::from_le_bytes(*chunk), 0));
        hash = fold(hash ^ number, SPREAD ^ more);
    }
    hash
}
