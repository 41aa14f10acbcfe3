//! A statement as tokens, by MySQL's rules: what quotes, comments and variables look like.

use std::ops::Range;

use crate::error::SqlError;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A word or a number.
    Word,
    /// A name in backticks or double quotes.
    Quoted,
    /// A text in single quotes.
    Text,
    /// `@@name`, with its scope.
    Variable,
    /// `@name`.
    UserVariable,
    /// Anything else, a character or a pair.
    Symbol,
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: TokenKind,
    /// As it stands in the statement.
    pub(crate) text: &'a str,
    /// There is space or a comment in front of it.
    pub(crate) apart: bool,
}

impl Token<'_> {
    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.kind == TokenKind::Word && self.text.eq_ignore_ascii_case(word)
    }

    pub(crate) fn is_symbol(&self, symbol: &str) -> bool {
        self.kind == TokenKind::Symbol && self.text == symbol
    }

    /// The name that a word or a quoted name stands for.
    pub(crate) fn name(&self) -> Option<String> {
        match self.kind {
            TokenKind::Word => Some(self.text.to_owned()),
            TokenKind::Quoted => {
                let quote = &self.text[..1];
                let inner = &self.text[1..self.text.len() - 1];
                Some(inner.replace(&quote.repeat(2), quote))
            }
            _ => None,
        }
    }

    /// The value of a text, with MySQL's escapes. `\%` and `\_` stay as they are, as in MySQL: they are for LIKE.
    pub(crate) fn value(&self) -> String {
        let inner = self.text.get(1..self.text.len().saturating_sub(1)).unwrap_or_default();
        let (mut value, mut chars) = (String::with_capacity(inner.len()), inner.chars());
        while let Some(c) = chars.next() {
            match c {
                '\'' => {
                    value.push('\'');
                    chars.next();
                }
                '\\' => match chars.next() {
                    Some('n') => value.push('\n'),
                    Some('t') => value.push('\t'),
                    Some('r') => value.push('\r'),
                    // A zero byte has no place in SQL.
                    Some('0') | None => {}
                    Some(c @ ('%' | '_')) => value.extend(['\\', c]),
                    Some(c) => value.push(c),
                },
                c => value.push(c),
            }
        }
        value
    }
}

/// Cuts a statement. A `;` at its end is left out.
///
/// # Errors
/// A quote or a comment does not end, or there is more than one statement.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, SqlError> {
    let mut tokens: Vec<Token<'_>> = Vec::new();
    let (mut at, mut apart) = (0, false);
    let mut ended = false;
    while at < text.len() {
        let rest = &text[at..];
        let blank = blank(rest)?;
        if blank > 0 {
            (at, apart) = (at + blank, true);
            continue;
        }
        let (kind, length) = token(rest)?;
        let found = &rest[..length];
        at += length;
        if kind == TokenKind::Symbol && found == ";" {
            ended = true;
            continue;
        }
        if ended {
            return Err(SqlError::syntax("one statement at a time"));
        }
        tokens.push(Token { kind, text: found, apart });
        apart = false;
    }
    Ok(tokens)
}

/// Bytes of the space or the comment in front.
fn blank(rest: &str) -> Result<usize, SqlError> {
    let bytes = rest.as_bytes();
    let line = |from: usize| rest[from..].find('\n').map_or(rest.len(), |end| from + end + 1);
    Ok(match bytes {
        [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, ..] => 1,
        [b'#', ..] => line(1),
        [b'-', b'-'] => 2,
        [b'-', b'-', b' ' | b'\t' | b'\n' | b'\r', ..] => line(2),
        [b'/', b'*', ..] => {
            let end = rest[2..].find("*/").ok_or_else(|| SqlError::syntax("a comment does not end"))?;
            end + 4
        }
        _ => 0,
    })
}

fn token(rest: &str) -> Result<(TokenKind, usize), SqlError> {
    let bytes = rest.as_bytes();
    Ok(match bytes {
        [b'\'', ..] => (TokenKind::Text, quoted(rest, b'\'')?.end),
        [quote @ (b'`' | b'"'), ..] => (TokenKind::Quoted, quoted(rest, *quote)?.end),
        [b'@', b'@', ..] => (TokenKind::Variable, 2 + length_of(&rest[2..], |c| is_word(c) || c == '.')),
        [b'@', ..] => (TokenKind::UserVariable, 1 + length_of(&rest[1..], is_word)),
        [b'&', b'&', ..] | [b'|', b'|', ..] | [b'!' | b'<' | b'>' | b':', b'=', ..] | [b'<', b'>', ..] => {
            (TokenKind::Symbol, if rest.starts_with("<=>") { 3 } else { 2 })
        }
        [b'0'..=b'9', ..] => (TokenKind::Word, number(rest)),
        _ => match rest.chars().next() {
            Some('\0') => return Err(SqlError::syntax("there is a zero byte in the statement")),
            Some(c) if is_word(c) => (TokenKind::Word, length_of(rest, is_word)),
            first => (TokenKind::Symbol, first.map_or(0, char::len_utf8)),
        },
    })
}

/// `1`, `1.5`, `1e-3`, `0xff`, or a name that begins with digits.
fn number(rest: &str) -> usize {
    let mut length = length_of(rest, |c| is_word(c) || c == '.');
    let has_exponent = rest[..length].ends_with(['e', 'E']) && !rest.starts_with("0x");
    if has_exponent && rest[length..].starts_with(['+', '-']) {
        length += 1 + length_of(&rest[length + 1..], |c| c.is_ascii_digit());
    }
    length
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii()
}

fn length_of(rest: &str, belongs: impl Fn(char) -> bool) -> usize {
    rest.find(|c| !belongs(c)).unwrap_or(rest.len())
}

/// From the opening quote behind the closing one. A doubled quote is part of it, and in a text a backslash takes what follows along.
fn quoted(rest: &str, quote: u8) -> Result<Range<usize>, SqlError> {
    let bytes = rest.as_bytes();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            0 => return Err(SqlError::syntax("there is a zero byte in the statement")),
            b'\\' if quote == b'\'' => at += 2,
            byte if *byte == quote && bytes.get(at + 1) == Some(&quote) => at += 2,
            byte if *byte == quote => return Ok(0..at + 1),
            _ => at += 1,
        }
    }
    Err(SqlError::syntax("a quote does not end"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<&str> {
        tokens(text).unwrap().iter().map(|token| token.text).collect()
    }

    #[test]
    fn statements_are_cut_by_mysqls_rules() {
        assert_eq!(cut("select 'a''b\\'c', `d``e`;"), ["select", "'a''b\\'c'", ",", "`d``e`"]);
        assert_eq!(cut("/* x */ SELECT @@session.a, @b # end"), ["SELECT", "@@session.a", ",", "@b"]);
        assert_eq!(cut("a-- b\n-1.5e-3>=0xff<=>ü"), ["a", "-", "1.5e-3", ">=", "0xff", "<=>", "ü"]);
        assert_eq!(cut("a--1"), ["a", "-", "-", "1"]);
        assert_eq!(cut(" ; "), Vec::<&str>::new());
        let value = |text: &str| tokens(text).unwrap()[0].value();
        assert_eq!(value("'it''s \\'so\\' \\n \\% \\_ \\\\ \\x'"), "it's 'so' \n \\% \\_ \\ x");
    }

    #[test]
    fn no_bytes_panic_and_what_has_no_end_is_refused() {
        for text in ["'", "'a", "`", "\"a", "/*", "/* a", "'\\", "'\\'", "\0", "'\0'", "select 1; select 2"] {
            assert!(tokens(text).is_err(), "{text:?}");
        }
        for text in ["", "@", "@@", "@@.", "--", "#", "\\", "é'ü'", "1e", "1e+", "0x", ".", "*/"] {
            for token in tokens(text).unwrap() {
                let _ = (token.value(), token.name());
            }
        }
        // Every cut of a rich statement.
        let rich = "SELECT 'ü\\'', `ä``b`, @@x.y /* ö */ FROM \"t\" -- ü\n WHERE a<=>1e-5 # z";
        for (cut, _) in rich.char_indices() {
            let _ = tokens(&rich[..cut]);
            let _ = tokens(&rich[cut..]);
        }
    }
}
