//! The text of a digest.

use super::DIGEST_TEXT_MAX;
use crate::lexer::Token;
use crate::shape::{Fixed, Piece, Sink};
use crate::words::{Entry, W, find_quoted};

/// Writes the text, as long as there is room.
#[derive(Debug)]
pub(super) struct Written {
    bytes: Vec<u8>,
    /// The length that the whole text would have.
    length: usize,
    last: Piece,
    /// The first word of the statement in hand.
    verb: Option<W>,
    /// Names are secrets from here on.
    hides: bool,
    /// The name that follows is that of a plugin.
    shows_next: bool,
}

impl Default for Written {
    fn default() -> Written {
        Written { bytes: Vec::new(), length: 0, last: Piece::Start, verb: None, hides: false, shows_next: false }
    }
}

impl Written {
    /// The text, and whether it was cut.
    pub(super) fn finish(self) -> (String, bool) {
        let cut = self.length > DIGEST_TEXT_MAX;
        let text = String::from_utf8(self.bytes).unwrap_or_else(|error| {
            // A cut in the middle of a character, or an encoding that is not UTF-8.
            let mut text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            while text.len() > DIGEST_TEXT_MAX {
                text.pop();
            }
            text
        });
        (text, cut)
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = DIGEST_TEXT_MAX.saturating_sub(self.length);
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.length += bytes.len();
    }

    fn piece(&mut self, piece: Piece, bytes: &[u8]) {
        let joined = matches!(
            (self.last, piece),
            (Piece::Start | Piece::Open | Piece::Dot, _)
                | (_, Piece::Comma | Piece::Close | Piece::Dot | Piece::Semicolon)
                | (Piece::Name, Piece::Open | Piece::List)
        );
        if !joined {
            self.push(b" ");
        }
        self.push(bytes);
        self.last = piece;
    }

    /// Notes the first word of a statement, and where secrets begin.
    fn note(&mut self, bytes: &[u8]) {
        let is = |word: &[u8]| bytes.eq_ignore_ascii_case(word);
        self.shows_next = is(b"with") || is(b"via");
        let Some(verb) = self.verb else {
            self.verb = Some(find_quoted(bytes).word);
            return;
        };
        self.hides |= match verb {
            W::Create | W::Alter => {
                // Tables may have such columns.
                let object = find_quoted(bytes).word;
                if matches!(object, W::Table | W::View | W::Index | W::Procedure | W::Function | W::Trigger | W::Event)
                {
                    self.verb = Some(W::Other);
                }
                is(b"identified") || is(b"password")
            }
            W::Grant | W::Set => is(b"identified") || is(b"password"),
            W::Change | W::Start => bytes.len() >= 8 && bytes[bytes.len() - 8..].eq_ignore_ascii_case(b"password"),
            _ => false,
        };
    }
}

impl Sink for Written {
    type Mark = (usize, Piece);

    const START: (usize, Piece) = (0, Piece::Start);

    fn mark(&self) -> (usize, Piece) {
        (self.length, self.last)
    }

    fn back(&mut self, (length, last): (usize, Piece)) {
        self.bytes.truncate(length);
        (self.length, self.last) = (length, last);
    }

    fn fixed(&mut self, fixed: Fixed) {
        let (piece, bytes): (_, &[u8]) = match fixed {
            Fixed::Literal => (Piece::Literal, b"?"),
            Fixed::List => (Piece::List, b"(...)"),
            Fixed::Open => (Piece::Open, b"("),
            Fixed::Close => (Piece::Close, b")"),
            Fixed::Comma => (Piece::Comma, b","),
            Fixed::Dot => (Piece::Dot, b"."),
            Fixed::Semicolon => {
                (self.verb, self.hides) = (None, false);
                (Piece::Semicolon, b";")
            }
        };
        self.piece(piece, bytes);
    }

    fn word(&mut self, entry: &'static Entry, calls: bool) {
        self.note(entry.text.as_bytes());
        self.piece(if calls { Piece::Name } else { Piece::Word }, entry.text.to_ascii_uppercase().as_bytes());
    }

    fn bare(&mut self, token: &Token, keyword: bool, _: u64, text: &[u8]) {
        let bytes = token.bytes(text);
        if !keyword {
            return self.name(bytes);
        }
        self.note(bytes);
        self.piece(Piece::Word, bytes.to_ascii_uppercase().as_slice());
    }

    fn name(&mut self, bytes: &[u8]) {
        let secret = self.hides && !self.shows_next && find_quoted(bytes).word == W::None;
        self.piece(Piece::Name, if secret { b"?" } else { bytes });
        self.note(bytes);
    }

    fn operator(&mut self, bytes: &[u8]) {
        self.piece(Piece::Operator, bytes);
    }
}
