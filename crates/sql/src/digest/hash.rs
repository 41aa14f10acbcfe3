//! The hash of a digest, without its text: a multiplication or two for each token.

use super::shape::{Fixed, Shape, Sink};
use crate::lexer::Token;
use crate::words::{Entry, ends};

/// Finds the hash of a digest on the way through a text.
pub(crate) type HashShape = Shape<Hash>;

/// Digits of the golden ratio, of pi and of e.
const SEED: u64 = 0x243f_6a88_85a3_08d3;
pub(crate) const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const SPREAD_LENGTH: u64 = 0xb7e1_5162_8aed_2a6b;

/// One number for each piece that is always the same.
const FIXED: [u64; 7] = [
    0x13198a2e03707344,
    0xa4093822299f31d0,
    0x082efa98ec4e6c89,
    0x452821e638d01377,
    0xbe5466cf34e90c6c,
    0xc0ac29b7c97c50dd,
    0x3f84d5b5b5470917,
];

/// The hash so far.
#[derive(Clone, Copy)]
pub(crate) struct Hash(u64);

impl HashShape {
    /// At the start of a text.
    #[inline(always)]
    pub(crate) fn at_start() -> HashShape {
        Shape::new(Hash(SEED))
    }

    /// The hash of what was taken; never 0.
    pub(crate) fn hash(&self) -> u64 {
        self.sink.0.max(1)
    }
}

/// Both halves of a product: each bit of either factor changes half of it.
#[inline]
pub(crate) const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
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

impl Hash {
    #[inline]
    fn number(&mut self, number: u64) {
        self.0 = fold(self.0 ^ number, SPREAD);
    }
}

impl Sink for Hash {
    type Mark = u64;

    const START: u64 = SEED;

    #[inline]
    fn mark(&self) -> u64 {
        self.0
    }

    #[inline]
    fn back(&mut self, mark: u64) {
        self.0 = mark;
    }

    #[inline]
    fn fixed(&mut self, piece: Fixed) {
        self.number(FIXED[piece as usize]);
    }

    #[inline]
    fn word(&mut self, entry: &'static Entry, _: bool) {
        self.number(entry.hash);
    }

    #[inline]
    fn bare(&mut self, _: &Token, _: bool, hash: u64, _: &[u8]) {
        self.number(hash);
    }

    #[inline]
    fn name(&mut self, bytes: &[u8]) {
        let (first, last) = ends(bytes);
        self.number(name_hash(bytes, first, last));
    }

    #[inline]
    fn operator(&mut self, bytes: &[u8]) {
        match *bytes {
            [byte] => self.number(u64::from(byte)),
            _ => self.name(bytes),
        }
    }
}
