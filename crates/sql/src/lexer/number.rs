//! Numbers.

use super::{Lexer, Token, TokenKind, is_digit, is_identifier};

impl Lexer<'_> {
    /// A number, or an identifier that begins with a digit.
    pub(super) fn number(&mut self, start: usize) -> Token {
        if self.byte(start) == b'0' {
            let digits: fn(u8) -> bool = match self.byte(start + 1) {
                b'x' => |byte| byte.is_ascii_hexdigit(),
                b'b' => |byte| matches!(byte, b'0' | b'1'),
                _ => |_| false,
            };
            let mut end = start + 2;
            while digits(self.byte(end)) {
                end += 1;
            }
            if end > start + 2 {
                if !is_identifier(self.byte(end)) {
                    return self.take(TokenKind::Number, start, end);
                }
                return self.word(start, true);
            }
        }
        let end = self.digits_end(start);
        let byte = self.byte(end);
        if byte == b'.' {
            return self.fraction_from(start, end);
        }
        if !is_identifier(byte) {
            return self.take(TokenKind::Number, start, end);
        }
        if let Some(end) = self.exponent_end(end) {
            return self.take(TokenKind::Number, start, end);
        }
        self.word(start, true)
    }

    fn digits_end(&self, from: usize) -> usize {
        let mut end = from;
        while is_digit(self.byte(end)) {
            end += 1;
        }
        end
    }

    /// The end of an exponent that begins at `from`, if one does.
    fn exponent_end(&self, from: usize) -> Option<usize> {
        if !matches!(self.byte(from), b'e' | b'E') {
            return None;
        }
        let sign = matches!(self.byte(from + 1), b'+' | b'-') as usize;
        let digits = from + 1 + sign;
        is_digit(self.byte(digits)).then(|| self.digits_end(digits))
    }

    pub(super) fn fraction(&mut self, dot: usize) -> Token {
        self.fraction_from(dot, dot)
    }

    fn fraction_from(&mut self, start: usize, dot: usize) -> Token {
        let end = self.digits_end(dot + 1);
        let end = self.exponent_end(end).unwrap_or(end);
        self.take(TokenKind::Number, start, end)
    }
}
