//! The comments that rules ask for: which of them a statement begins with.

use std::collections::HashMap;

/// Comments by what they say, with their numbers, which begin at 1.
#[derive(Debug, Default)]
pub struct Comments {
    numbers: HashMap<Box<[u8]>, u32>,
    /// Bytes of the longest one.
    longest: usize,
}

/// A comment may have so much space around it.
const SPACE_MAX: usize = 16;

impl Comments {
    /// The number of a comment, which may be known already.
    pub fn add(&mut self, text: &str) -> u32 {
        self.longest = self.longest.max(text.len());
        let next = u32::try_from(self.numbers.len() + 1).unwrap_or(u32::MAX);
        *self.numbers.entry(text.as_bytes().into()).or_insert(next)
    }

    /// No rule asks for any.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The number of the comment that a text begins with; 0 when it begins with none that a rule asks for.
    #[inline]
    pub fn find(&self, text: &[u8]) -> u32 {
        match text {
            [b'/', b'*', inside @ ..] => self.look_up(inside),
            [first, ..] if first.is_ascii_whitespace() => {
                text.trim_ascii_start().strip_prefix(b"/*").map_or(0, |inside| self.look_up(inside))
            }
            _ => 0,
        }
    }

    fn look_up(&self, inside: &[u8]) -> u32 {
        // Text that the server would run is no comment.
        if inside.starts_with(b"!") || inside.starts_with(b"M!") {
            return 0;
        }
        let longest = inside.get(..self.longest + SPACE_MAX).unwrap_or(inside);
        let Some(end) = longest.windows(2).position(|two| two == b"*/") else { return 0 };
        self.numbers.get(longest[..end].trim_ascii()).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_comment_is_found_if_somebody_asks_for_it() {
        let mut comments = Comments::default();
        assert!(comments.is_empty());
        assert_eq!([comments.add("page: a"), comments.add("b"), comments.add("page: a")], [1, 2, 1]);
        for (text, number) in [
            ("/* page: a */ SELECT 1", 1),
            ("/*b*/SELECT 1", 2),
            (" \n/*b  */SELECT 1", 2),
            ("SELECT 1 /*b*/", 0),
            ("/*c*/ /*b*/ SELECT 1", 0),
            ("/*B*/ SELECT 1", 0),
            ("/*! b */ SELECT 1", 0),
            ("/*b", 0),
            ("/", 0),
            ("", 0),
        ] {
            assert_eq!(comments.find(text.as_bytes()), number, "{text}");
        }
        assert_eq!(
            comments.find(&[b"/*".as_slice(), &[b' '; 1000], b"b*/"].concat()),
            0,
            "what is long is not searched"
        );
    }
}
