//! The hash of a digest, without its text: a multiplication or two for each token.

use super::{Fixed, Shape, Sink};
use crate::hash::{SPREAD, ends, fold, name_hash};
use crate::lexer::Token;
use crate::words::Entry;

/// Finds the hash of a digest on the way through a text.
pub(crate) type HashShape = Shape<Hash>;

/// The hash before the first piece: digits of pi.
const SEED: u64 = 0x243f_6a88_85a3_08d3;

/// One number for each piece that is always the same: more digits of pi.
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
