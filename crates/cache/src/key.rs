//! The key of a cached result: the question, byte for byte, and the values of its session that change the result.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use foldhash::quality::{FixedState, RandomState};

/// Of Sqluice.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// All of a session that changes what the same text is answered: who asks, in which schema, with which variables, in which form. It is
/// made when one of them changes, and shared by the session's questions and the answers that they left.
#[derive(Clone, Debug)]
pub struct Context(Arc<Parts>);

#[derive(Debug, PartialEq)]
struct Parts {
    hash: u64,
    bytes: Box<[u8]>,
}

impl Context {
    /// A context of these parts. Parts that are put together otherwise make another context.
    pub fn new<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Context {
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        Context(Arc::new(Parts { hash: FixedState::default().hash_one(&bytes), bytes: bytes.into() }))
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Parts>() + self.0.bytes.len()
    }
}

impl PartialEq for Context {
    #[inline]
    fn eq(&self, other: &Context) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for Context {}

/// Contexts that sessions and answers have, each once: who compares them looks at no bytes.
#[derive(Debug, Default)]
pub(crate) struct Contexts(Mutex<HashMap<u64, Weak<Parts>>>);

impl Contexts {
    /// The equal context that is there, or this one from now on.
    pub(crate) fn share(&self, context: Context) -> Context {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get(&context.0.hash).and_then(Weak::upgrade) {
            Some(there) if *there == *context.0 => return Context(there),
            // Another one with this hash is alone with its own.
            Some(_) => return context,
            None => {}
        }
        if all.len() == all.capacity() {
            all.retain(|_, parts| parts.strong_count() > 0);
            let as_many = all.len();
            all.reserve(as_many);
        }
        all.insert(context.0.hash, Arc::downgrade(&context.0));
        context
    }
}

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
    text_end: usize,
    /// Where the parameters end.
    end: usize,
    has_parameters: bool,
}

impl Question<'_> {
    /// Finds its place; another question there takes the place, but never the answer. No outsider can compute it beforehand.
    pub(crate) fn hash(&self, state: &RandomState) -> u64 {
        let mut hasher = state.build_hasher();
        hasher.write_u64(self.context.0.hash);
        hasher.write(self.text);
        hasher.write_usize(self.text.len());
        if let Some(parameters) = self.parameters {
            hasher.write(parameters);
            hasher.write_u8(1);
        }
        hasher.finish()
    }

    /// The bytes of the question for the shared cache, after the bytes `before`. The version of Sqluice is a part of them, because
    /// another version may mean something else by the same bytes.
    pub fn to_bytes(&self, before: &[u8]) -> Vec<u8> {
        let parts = [VERSION.as_bytes(), before, &self.context.0.bytes, self.text, self.parameters.unwrap_or_default()];
        let mut bytes = vec![u8::from(self.parameters.is_some())];
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        }
        bytes
    }

    /// Kept, with the bytes of both.
    pub(crate) fn keep(&self, answer: &[u8]) -> (Key, Vec<u8>) {
        let parameters = self.parameters.unwrap_or_default();
        let key = Key {
            context: self.context.clone(),
            text_end: self.text.len(),
            end: self.text.len() + parameters.len(),
            has_parameters: self.parameters.is_some(),
        };
        (key, [self.text, parameters, answer].concat())
    }
}

impl Key {
    #[inline]
    pub(crate) fn is(&self, bytes: &[u8], question: &Question<'_>) -> bool {
        self.context == *question.context
            && self.has_parameters == question.parameters.is_some()
            && bytes.get(..self.text_end) == Some(question.text)
            && bytes.get(self.text_end..self.end) == Some(question.parameters.unwrap_or_default())
    }

    /// The part after the question.
    #[inline]
    pub(crate) fn behind<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        bytes.get(self.end..).unwrap_or_default()
    }

    /// Bytes that it takes elsewhere. Contexts are shared by an unknown number: each counts in full.
    pub(crate) fn bytes(&self) -> usize {
        self.context.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_contexts_are_one_as_long_as_somebody_has_it() {
        let contexts = Contexts::default();
        let number = |n: u32| contexts.share(Context::new([&n.to_le_bytes()[..]]));
        let (one, two, again) = (number(1), number(2), number(1));
        assert!(Arc::ptr_eq(&one.0, &again.0) && one != two);
        drop((one, again));
        for n in 3..1_000 {
            assert_ne!(number(n), two);
        }
        let kept = contexts.0.lock().unwrap();
        assert!(kept.len() < 16, "those that nobody has are not kept: {}", kept.len());
        assert!(kept.values().any(|parts| Weak::ptr_eq(parts, &Arc::downgrade(&two.0))));
    }

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
