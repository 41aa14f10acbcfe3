//! Choices and bytes, taken from a fuzzer's input.

/// An input that is being used up from its front. At its end all choices are zero.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// All of it.
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes }
    }

    /// A byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.rest.split_first() else { return 0 };
        self.rest = rest;
        *first
    }

    /// Eight bytes as a number.
    pub fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, at| number | u64::from(self.byte()) << (8 * at))
    }

    /// One of a list.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    /// Up to `max` bytes.
    pub fn bytes(&mut self, max: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(max.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// The bytes that are left.
    pub fn remaining(self) -> &'a [u8] {
        self.rest
    }
}

/// Lengths of the pieces in which bytes arrive, made from a number: mostly short ones.
#[derive(Clone, Copy, Debug)]
pub struct Cuts(u64);

impl Cuts {
    /// The same number makes the same pieces; 0 makes pieces of one byte.
    pub fn new(number: u64) -> Cuts {
        Cuts(number)
    }

    /// The next piece's length, at least 1.
    pub fn next_length(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        1 + (self.0 % [4, 16, 300, 1][(self.0 >> 32) as usize % 4]) as usize
    }
}
