//! Words, bare ones and those of variables.

use super::{Lexer, Token, TokenKind, is_identifier, is_space};
use crate::dialect::{Encoding, Modes};

impl Lexer<'_> {
    /// The index after the run of identifier characters that begins at `from`.
    #[inline]
    pub(super) fn identifier_end(&self, from: usize) -> usize {
        let rest = self.text.get(from..).unwrap_or_default();
        let length = |ends: fn(u8) -> bool| rest.iter().position(|&byte| ends(byte)).unwrap_or(rest.len());
        match self.dialect.encoding {
            Encoding::Utf8 => from + length(|byte| !is_identifier(byte)),
            // A no-break space parts words.
            Encoding::AsciiSafe => from + length(|byte| !is_identifier(byte) || byte == 0xa0),
            _ => {
                let mut index = from;
                while self.text.get(index).is_some_and(|&byte| is_identifier(byte)) {
                    index += self.character_length(index);
                }
                index.min(self.text.len())
            }
        }
    }

    pub(super) fn word(&mut self, start: usize, after_dot: bool) -> Token {
        let end = self.identifier_end(start);
        let (first, next) = (self.byte(start), self.byte(end));
        if next == b'\'' && end == start + 1 && !after_dot {
            match first {
                b'n' | b'N' => return self.string(start, end),
                b'x' | b'X' | b'b' | b'B' => return self.bit_string(start),
                _ => {}
            }
        }
        // The server decides by its list of character sets; here a following string decides, which reads the same
        // bytes as the same tokens either way.
        let is_introducer = first == b'_' && !after_dot && self.string_follows(end);
        let token = self.plain_word(start, end);
        if is_introducer { Token { kind: TokenKind::Introducer, ..token } } else { token }
    }

    #[inline]
    pub(super) fn plain_word(&mut self, start: usize, end: usize) -> Token {
        // `t.1`: a dot right after a word parts names, it begins no fraction.
        self.after_dot = self.byte(end) == b'.' && is_identifier(self.byte(end + 1));
        self.take(TokenKind::Word, start, end)
    }

    /// Whether a string literal begins at `from`, white space aside.
    fn string_follows(&self, from: usize) -> bool {
        let mut index = from;
        while is_space(self.byte(index)) {
            index += 1;
        }
        match self.byte(index) {
            b'\'' => true,
            b'"' => !self.has(Modes::ANSI_QUOTES),
            b'x' | b'X' | b'b' | b'B' => self.byte(index + 1) == b'\'',
            b'0' => matches!(self.byte(index + 1), b'x' | b'b'),
            _ => false,
        }
    }

    pub(super) fn variable(&mut self, start: usize) -> Token {
        let system = self.byte(start + 1) == b'@';
        let name = start + 1 + system as usize;
        let kind = if system { TokenKind::SystemVariable } else { TokenKind::UserVariable };
        let quoted = match self.byte(name) {
            b'`' => self.quoted_identifier(start, name, b'`'),
            b'\'' | b'"' if !system => self.string(start, name),
            b'"' if self.has(Modes::ANSI_QUOTES) => self.quoted_identifier(start, name, b'"'),
            _ => {
                let mut end = self.identifier_end(name);
                // A user variable's bare name may hold dots; a system variable's dot parts scope and name.
                while !system && self.byte(end) == b'.' {
                    end = self.identifier_end(end + 1);
                }
                if system && end == name {
                    return self.take(TokenKind::Bad, start, end);
                }
                return self.take(kind, start, end);
            }
        };
        if quoted.kind == TokenKind::Bad { quoted } else { Token { kind, ..quoted } }
    }
}
