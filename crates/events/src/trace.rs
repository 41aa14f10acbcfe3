//! The trace that a query belongs to, and the tags that its client gave it.

use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap as _, Serializer};

/// The trace and the tags of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The trace: the client's, or one that begins with this query.
    pub trace_id: Option<[u8; 16]>,
    /// The span of the client that sent the query.
    pub caller: Option<[u8; 8]>,
    /// The query becomes spans.
    pub spans: bool,
    /// Names and values of the tags that the operator keeps.
    pub tags: Box<[(Arc<str>, Box<str>)]>,
}

impl Trace {
    /// Bytes of the tags.
    pub(crate) fn text_bytes(&self) -> usize {
        self.tags.iter().map(|(_, value)| value.len()).sum()
    }

    /// The tags, as lines have them.
    pub(crate) fn tags(&self) -> Option<Tags<'_>> {
        (!self.tags.is_empty()).then_some(Tags(&self.tags))
    }
}

/// Tags as an object.
pub(crate) struct Tags<'a>(&'a [(Arc<str>, Box<str>)]);

impl Serialize for Tags<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.0 {
            map.serialize_entry(&**name, &**value)?;
        }
        map.end()
    }
}

/// An id of a trace or a span, in hexadecimal digits.
pub(crate) struct Id<const N: usize>(pub(crate) [u8; N]);

impl<const N: usize> Serialize for Id<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut digits = String::with_capacity(2 * N);
        for byte in self.0 {
            for half in [byte >> 4, byte & 15] {
                digits.push(char::from(b"0123456789abcdef"[usize::from(half)]));
            }
        }
        serializer.serialize_str(&digits)
    }
}
