//! A statement with its literals removed, and the hash of that.
//!
//! - Literals, with their sign where one stands for itself, become `?`; so do placeholders.
//! - A list of two or more literals in parentheses becomes `(...)`; after IN and VALUES a single literal does, too. Of
//!   several such lists side by side one stays, and of several rows after VALUES the first one.
//! - Comments go, also routing comments; what stands in executed comments stays.
//! - Reserved words and calls of built-in functions are written in upper case; identifiers, quoted or bare, as they
//!   are. One space parts tokens, except around dots, before commas and closing and after opening parentheses, and
//!   between a name and its parenthesis.
//! - A trailing `;` goes. A text that no server reads, such as one with a string without an end, is `?` as a whole.
//! - Behind IDENTIFIED and PASSWORD, in statements about accounts, names become `?` as well: a password may stand there
//!   without its quotes, or in those of an identifier.
//!
//! The hash covers the whole normalised text, also what is beyond the bound of the text that is kept. [`crate::classify()`]
//! finds it on its own way through the text (`shape`); the text is made by a walk of its own, for whoever sees
//! the hash for the first time.

mod written;

use crate::cursor::Cursor;
use crate::dialect::Dialect;
use crate::lexer::TokenKind;
use crate::shape::Shape;
use written::Written;

/// The longest normalised text that is kept, in bytes.
pub const DIGEST_TEXT_MAX: usize = 2048;

/// A normalised statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The normalised text, cut at [`DIGEST_TEXT_MAX`] bytes.
    pub text: String,
    /// Hash of the whole normalised text, never 0: equal for equal digests, on any machine.
    pub hash: u64,
    /// The text was cut.
    pub cut: bool,
}

/// Normalises a text.
pub fn digest(text: &[u8], dialect: &Dialect) -> Digest {
    let mut shape = Shape::new(Written::default());
    let hash = walk(text, dialect, |cursor| shape.take(&cursor.token, cursor.entry, 0, text));
    let (text, cut) = shape.into_sink().finish();
    Digest { text, hash, cut }
}

/// The hash of [`digest`] without making its text; allocates nothing.
pub fn digest_hash(text: &[u8], dialect: &Dialect) -> u64 {
    walk(text, dialect, |_| {})
}

/// Shows each token, and gives the hash.
fn walk(text: &[u8], dialect: &Dialect, mut show: impl FnMut(&Cursor<'_>)) -> u64 {
    let mut cursor = Cursor::new(text, dialect);
    while cursor.kind() != TokenKind::End {
        show(&cursor);
        if cursor.kind() == TokenKind::Bad {
            break;
        }
        cursor.bump();
    }
    cursor.digest_hash()
}
