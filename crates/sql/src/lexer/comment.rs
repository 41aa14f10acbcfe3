//! Comments: skipped, or executed when they carry a version this server has reached.

use super::{Lexer, Token, TokenKind};
use memchr::{memchr2, memmem};

impl Lexer<'_> {
    /// `--` opens a comment only when white space, a control character or the end follows.
    pub(super) fn dashes_open_comment(&self, start: usize) -> bool {
        match self.text.get(start + 2) {
            None => true,
            Some(&byte) => byte <= b' ' || byte == 0x7f,
        }
    }

    /// Skips to the end of the line. A NUL byte ends the comment too, as in the servers' lexers.
    pub(super) fn skip_line(&mut self) {
        let rest = self.text.get(self.position..).unwrap_or_default();
        self.position += match memchr2(b'\n', 0, rest) {
            Some(offset) => offset,
            None => rest.len(),
        };
    }

    /// Handles `/*`: skips a comment, or opens an executed one. Gives a token only when it is unterminated.
    pub(super) fn open_comment(&mut self, start: usize) -> Option<Token> {
        let mark = self.byte(start + 2);
        if mark == b'!' {
            return self.versioned_comment(start, start + 3, false);
        }
        if mark == b'M' && self.byte(start + 3) == b'!' && self.is_mariadb() {
            return self.versioned_comment(start, start + 4, true);
        }
        let body = start + 2;
        let Some(end) = self.comment_end(body) else {
            return Some(self.take(TokenKind::Bad, start, self.text.len()));
        };
        match mark {
            b'+' => self.hints_insert_id |= !self.is_mariadb() && self.names_insert_id(body, end),
            _ => self.note_hint(body, end - 2),
        }
        self.position = end;
        None
    }

    /// `/*!` and `/*M!`: the content counts as code when the number that follows is reached, or when there is none.
    ///
    /// MySQL reads five digits, or six when white space follows them (8.0 and later). MariaDB reads five or six
    /// digits, and skips `/*!` with numbers from 50700 to 99999: those speak of MySQL features that it does not have.
    fn versioned_comment(&mut self, start: usize, digits: usize, mariadb_only: bool) -> Option<Token> {
        let count = (digits..digits + 6).take_while(|&index| self.byte(index).is_ascii_digit()).count();
        let used = match count {
            0..=4 => 0,
            5 => 5,
            _ if self.is_mariadb() => 6,
            _ if self.dialect.version >= 80000 && super::is_space(self.byte(digits + 6)) => 6,
            _ => 5,
        };
        let number =
            (digits..digits + used).fold(0u32, |number, index| number * 10 + u32::from(self.byte(index) - b'0'));
        let skipped = self.is_mariadb() && !mariadb_only && (50700..=99999).contains(&number);
        if used == 0 || (number <= self.dialect.version && !skipped) {
            self.in_executed_comment = true;
            self.position = digits + used;
            return None;
        }
        match self.skipped_comment_end(digits + used) {
            Some(end) => {
                self.position = end;
                None
            }
            None => Some(self.take(TokenKind::Bad, start, self.text.len())),
        }
    }

    /// The index after the `*/` that ends a plain comment.
    fn comment_end(&self, from: usize) -> Option<usize> {
        memmem::find(self.text.get(from..)?, b"*/").map(|offset| from + offset + 2)
    }

    /// The index after the `*/` that ends a comment whose content is not executed: one level of comments may stand in it.
    fn skipped_comment_end(&self, from: usize) -> Option<usize> {
        let mut index = from;
        loop {
            let rest = self.text.get(index..)?;
            index += memchr2(b'*', b'/', rest)?;
            match (self.byte(index), self.byte(index + 1)) {
                (b'*', b'/') => return Some(index + 2),
                (b'/', b'*') => index = self.comment_end(index + 2)?,
                _ => index += 1,
            }
        }
    }

    fn names_insert_id(&self, start: usize, end: usize) -> bool {
        const NAME: &[u8] = b"insert_id";
        let hint = self.text.get(start..end).unwrap_or_default();
        hint.windows(NAME.len()).any(|word| word.eq_ignore_ascii_case(NAME))
    }

    fn note_hint(&mut self, start: usize, end: usize) {
        if self.hint.is_some() {
            return;
        }
        let mut start = start;
        while start < end && super::is_space(self.byte(start)) {
            start += 1;
        }
        let key = b"sqluice:";
        if let Some(body) = self.text.get(start..end)
            && body.len() >= key.len()
            && body[..key.len()].eq_ignore_ascii_case(key)
        {
            self.hint = Some((start + key.len(), end));
        }
    }
}
