//! Strings and quoted identifiers.

use super::{Lexer, Token, TokenKind};
use crate::dialect::Modes;
use memchr::{memchr, memchr2, memmem};

/// MySQL reads texts in dollars from this version on: 9.0.
const DOLLARS_QUOTE_SINCE: u32 = 90_000;

impl Lexer<'_> {
    /// A string whose opening quote is at `quote`; the token begins at `start`.
    ///
    /// As in the servers' lexers a backslash takes exactly one byte with it, even the first of a multi-byte character.
    pub(super) fn string(&mut self, start: usize, quote: usize) -> Token {
        let mark = self.text[quote];
        let escapes = !self.has(Modes::NO_BACKSLASH_ESCAPES);
        let ascii_safe = self.dialect.encoding.is_ascii_safe();
        let mut index = quote + 1;
        loop {
            if ascii_safe {
                let rest = self.text.get(index..).unwrap_or_default();
                let found = if escapes { memchr2(mark, b'\\', rest) } else { memchr(mark, rest) };
                match found {
                    Some(offset) => index += offset,
                    None => return self.take(TokenKind::Bad, start, self.text.len()),
                }
            }
            let Some(&byte) = self.text.get(index) else {
                return self.take(TokenKind::Bad, start, self.text.len());
            };
            if byte == mark {
                if self.byte(index + 1) != mark || self.ends_at(index + 1) {
                    return self.take(TokenKind::String, start, index + 1);
                }
                index += 2;
            } else if byte == b'\\' && escapes {
                index += 2;
            } else {
                index += self.character_length(index);
            }
        }
    }

    /// A quoted identifier whose opening mark is at `quote`. A NUL byte inside is an error to the server.
    pub(super) fn quoted_identifier(&mut self, start: usize, quote: usize, mark: u8) -> Token {
        let mut index = quote + 1;
        if self.dialect.encoding.is_ascii_safe() {
            // Nearly all of them end at the first mark.
            let rest = self.text.get(index..).unwrap_or_default();
            index += rest.iter().position(|&byte| byte == mark || byte == 0).unwrap_or(rest.len());
        }
        while let Some(&byte) = self.text.get(index) {
            if byte == 0 {
                break;
            }
            if byte != mark {
                index += self.character_length(index);
            } else if self.byte(index + 1) == mark {
                index += 2;
            } else {
                return self.take(TokenKind::QuotedIdentifier, start, index + 1);
            }
        }
        self.take(TokenKind::Bad, start, self.text.len())
    }

    /// A word that begins with `$`, or what stands between two equal tags in dollars. Tried on MySQL 9.7: nothing is an escape
    /// in there, and a tag is what a bare identifier can be, without dollars.
    pub(super) fn dollar(&mut self, start: usize) -> Token {
        let word = self.identifier_end(start + 1);
        let tag = self.text.get(start + 1..word).unwrap_or_default();
        let quotes = !self.is_mariadb() && self.dialect.version >= DOLLARS_QUOTE_SINCE;
        let Some(length) = memchr(b'$', tag).filter(|_| quotes) else { return self.word(start, false) };
        let begin = start + length + 2;
        let (tag, rest) = (self.text.get(start..begin).unwrap_or_default(), self.text.get(begin..).unwrap_or_default());
        match memmem::find(rest, tag) {
            Some(at) => self.take(TokenKind::DollarString, start, begin + at + tag.len()),
            None => self.take(TokenKind::Bad, start, self.text.len()),
        }
    }

    /// `X'…'` or `B'…'`.
    pub(super) fn bit_string(&mut self, start: usize) -> Token {
        let binary = matches!(self.text[start], b'b' | b'B');
        let mut end = start + 2;
        loop {
            let byte = self.byte(end);
            match byte {
                b'\'' => return self.take(TokenKind::BitString, start, end + 1),
                b'0' | b'1' => end += 1,
                _ if !binary && byte.is_ascii_hexdigit() => end += 1,
                _ => return self.take(TokenKind::Bad, start, self.text.len()),
            }
        }
    }
}
