//! What an answer is found by: the question, byte for byte, and all of its session that changes the answer.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use foldhash::quality::{FixedState, RandomState};

/// Of Sqluice.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// All of a session that changes what the same text is answered: who asks, in which schema, with which variables, in which form. It is
/// made when one of them changes, and shared by the session's questions and the answers that they left.
#[derive(Clone, Debug)]
pub struct Context {
    bytes: Arc<[u8]>,
    hash: u64,
}

impl Context {
    /// A context of these parts. Parts that are put together otherwise make another context.
    pub fn new<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Context {
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        Context { hash: FixedState::default().hash_one(&bytes), bytes: bytes.into() }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

impl PartialEq for Context {
    fn eq(&self, other: &Context) -> bool {
        Arc::ptr_eq(&self.bytes, &other.bytes) || self.bytes == other.bytes
    }
}

impl Eq for Context {}

/// A question that the cache is asked.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Of whom.
    pub context: &'a Context,
    /// The text.
    pub text: &'a [u8],
    /// Parameters of a prepared statement with their types, as they came; `None` for a text.
    pub parameters: Option<&'a [u8]>,
}

/// The same, kept: its bytes stand before those of its answer.
#[derive(Debug)]
pub(crate) struct Key {
    context: Context,
    /// Where the text ends, and the parameters.
    ends: (usize, Option<usize>),
}

impl Question<'_> {
    /// Finds its place; another question there takes the place, but never the answer. Nobody outside can tell it beforehand.
    pub(crate) fn hash(&self, state: &RandomState) -> u64 {
        let mut hasher = state.build_hasher();
        hasher.write_u64(self.context.hash);
        hasher.write(self.text);
        hasher.write_usize(self.text.len());
        if let Some(parameters) = self.parameters {
            hasher.write(parameters);
            hasher.write_u8(1);
        }
        hasher.finish()
    }

    /// All of it, for where others keep it. What stands `before` belongs to it, and so does the version of Sqluice: it may be
    /// another one that keeps it, and may mean something else by the same bytes.
    pub fn to_bytes(&self, before: &[u8]) -> Vec<u8> {
        let parts = [VERSION.as_bytes(), before, &self.context.bytes, self.text, self.parameters.unwrap_or_default()];
        let mut bytes = vec![u8::from(self.parameters.is_some())];
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        bytes
    }

    /// Kept, with the bytes of both.
    pub(crate) fn keep(&self, answer: &[u8]) -> (Key, Vec<u8>) {
        let parameters = self.parameters.map(|parameters| self.text.len() + parameters.len());
        let key = Key { context: self.context.clone(), ends: (self.text.len(), parameters) };
        (key, [self.text, self.parameters.unwrap_or_default(), answer].concat())
    }
}

impl Key {
    #[inline]
    pub(crate) fn is(&self, bytes: &[u8], question: &Question<'_>) -> bool {
        let (text, parameters) = self.ends;
        bytes.get(..text) == Some(question.text)
            && parameters.and_then(|end| bytes.get(text..end)) == question.parameters
            && self.context == *question.context
    }

    /// What stands behind the question.
    #[inline]
    pub(crate) fn behind<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let (text, parameters) = self.ends;
        bytes.get(parameters.unwrap_or(text)..).unwrap_or_default()
    }

    /// Bytes that it takes elsewhere. Contexts are shared, but nobody can tell by how many: each counts in full.
    pub(crate) fn bytes(&self) -> usize {
        self.context.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_differs_makes_another_question() {
        let state = RandomState::default();
        let contexts =
            [Context::new([&b"ab"[..], b"c"]), Context::new([&b"a"[..], b"bc"]), Context::new([&b"abc"[..]])];
        let mut questions = Vec::new();
        for context in &contexts {
            for (text, parameters) in [
                (&b"SELECT 1"[..], None),
                (b"SELECT  1", None),
                (b"SELECT 1", Some(&b""[..])),
                (b"SELECT ", Some(b"1")),
            ] {
                questions.push(Question { context, text, parameters });
            }
        }
        for (i, one) in questions.iter().enumerate() {
            for (j, other) in questions.iter().enumerate() {
                let (key, bytes) = one.keep(b"1");
                assert_eq!((key.is(&bytes, other), key.behind(&bytes)), (i == j, &b"1"[..]), "{one:?} {other:?}");
                assert_eq!(one.hash(&state) == other.hash(&state), i == j, "{one:?} {other:?}");
                assert_eq!(one.to_bytes(b"a") == other.to_bytes(b"a"), i == j, "{one:?} {other:?}");
            }
        }
        assert_ne!(questions[0].to_bytes(b"a"), questions[0].to_bytes(b"b"));
        let bytes = questions[0].to_bytes(b"a");
        assert!(bytes[9..].starts_with(VERSION.as_bytes()), "another version asks something else: {bytes:?}");
        let again = Context::new([&b"ab"[..], b"c"]);
        let (key, bytes) = questions[0].keep(b"");
        assert!(key.is(&bytes, &Question { context: &again, ..questions[0] }), "made anew it is the same");
    }
}
