//! The part of a client's text that a sink has: forms, texts, or texts whose literals are hashed.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use aws_lc_rs::hmac;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::event::{Param, Params, Text};

/// Hexadecimal digits of a literal's hash: enough to tell values apart, and too few to be a text of its own.
const DIGITS: usize = 16;

/// The literals of statements in a sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Literals {
    /// None: the form of each statement alone, and no message of a server.
    #[default]
    None,
    /// The keyed hash of each: equal values can be found, without the values.
    Hashed,
    /// All, and the messages of servers.
    All,
}

/// The key of hashes: never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct HmacKey(Arc<Zeroizing<Vec<u8>>>);

impl HmacKey {
    /// Takes a key.
    pub fn new(bytes: &[u8]) -> HmacKey {
        HmacKey(Arc::new(Zeroizing::new(bytes.to_vec())))
    }
}

impl fmt::Debug for HmacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HmacKey(hidden)")
    }
}

/// Hashes literals.
pub(crate) struct Hasher(hmac::Key);

impl Hasher {
    pub(crate) fn new(key: &HmacKey) -> Hasher {
        Hasher(hmac::Key::new(hmac::HMAC_SHA256, &key.0))
    }

    /// The text with a hash in place of each literal; `None` if no server reads the text, or it may hold a password.
    pub(crate) fn text(&self, text: &Text) -> Option<String> {
        let hashed = sql::replace_literals(&text.bytes, &text.dialect, |value| self.hash(value))?;
        Some(String::from_utf8_lossy(&hashed).into_owned())
    }

    fn hash(&self, value: &[u8]) -> String {
        format!("'{}'", self.tag(value))
    }

    fn tag(&self, value: &[u8]) -> String {
        let tag = hmac::sign(&self.0, value);
        let digits: String = tag.as_ref().iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect();
        format!("hmac:{digits}")
    }

    /// The hash of a parameter: that of the same value as a literal.
    fn param(&self, value: &Param) -> ShownParam<'static> {
        let hashed = match value {
            Param::Null => return ShownParam::Null,
            Param::Int(number) => self.tag(number.to_string().as_bytes()),
            Param::Float(number) => self.tag(number.to_string().as_bytes()),
            Param::Bytes(bytes) => self.tag(bytes),
            // The hash of its beginning would be that of another value.
            Param::Long { bytes, .. } => return ShownParam::Long { bytes: *bytes, begin: None },
            Param::Default => return DEFAULT,
            Param::Ignore => return IGNORE,
        };
        ShownParam::Text(hashed.into())
    }
}

/// The value of a parameter, as it stands in a line.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum ShownParam<'a> {
    Null,
    Int(i128),
    Float(f64),
    Text(Cow<'a, str>),
    Long {
        #[serde(skip_serializing_if = "Option::is_none")]
        begin: Option<Cow<'a, str>>,
        bytes: u64,
    },
    Indicator {
        indicator: &'static str,
    },
    Row(Vec<ShownParam<'a>>),
}

const DEFAULT: ShownParam<'static> = ShownParam::Indicator { indicator: "default" };
const IGNORE: ShownParam<'static> = ShownParam::Indicator { indicator: "ignore" };

/// The part of a client's text that stands in a line.
#[derive(Clone, Copy, Default)]
pub(crate) enum Shows<'a> {
    /// The form without literals, and no message of a server.
    #[default]
    Form,
    /// The text with hashes in place of literals, too.
    Hashed(&'a Hasher),
    /// The text with all literals, and messages.
    Text,
}

impl Shows<'_> {
    /// The text of a statement, as far as it is shown.
    pub(crate) fn text<'t>(&self, text: Option<&'t Text>) -> Option<Cow<'t, str>> {
        match self {
            Shows::Form => None,
            Shows::Hashed(hasher) => hasher.text(text?).map(Cow::Owned),
            Shows::Text => Some(String::from_utf8_lossy(&text?.bytes)),
        }
    }

    /// The parameters of a statement whose text is shown.
    pub(crate) fn params<'p>(&self, params: &'p Params) -> Vec<ShownParam<'p>> {
        let shown = |value: &'p Param| match (self, value) {
            // Where no literal is shown, no parameter is.
            (Shows::Form, _) | (_, Param::Null) => ShownParam::Null,
            (Shows::Hashed(hasher), value) => hasher.param(value),
            (Shows::Text, Param::Int(number)) => ShownParam::Int(*number),
            (Shows::Text, Param::Float(number)) => ShownParam::Float(*number),
            (Shows::Text, Param::Bytes(bytes)) => ShownParam::Text(String::from_utf8_lossy(bytes)),
            (Shows::Text, Param::Long { bytes, begin }) => {
                ShownParam::Long { bytes: *bytes, begin: Some(String::from_utf8_lossy(begin)) }
            }
            (Shows::Text, Param::Default) => DEFAULT,
            (Shows::Text, Param::Ignore) => IGNORE,
        };
        let row = |values: &'p [Param]| values.iter().map(shown).collect::<Vec<_>>();
        match params.per_row() {
            Some(per_row) => params.values().chunks(per_row).map(|values| ShownParam::Row(row(values))).collect(),
            None => row(params.values()),
        }
    }

    /// Whether messages of servers are shown, which may quote literals.
    pub(crate) fn messages(&self) -> bool {
        matches!(self, Shows::Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sql::{Dialect, Encoding, Family, Modes};

    fn text(text: &str) -> Text {
        let modes = Modes::empty();
        let dialect = Dialect { family: Family::MySql, version: 80_400, modes, encoding: Encoding::AsciiSafe };
        Text { bytes: text.as_bytes().into(), dialect }
    }

    #[test]
    fn equal_literals_have_equal_hashes_with_one_key() {
        let hasher = Hasher::new(&HmacKey::new(b"a key of sixteen"));
        let shown = hasher.text(&text("SELECT a FROM t WHERE b IN ('x', \"x\", 'y')")).unwrap();
        let hashes: Vec<&str> = shown.split('\'').filter(|part| part.starts_with("hmac:")).collect();
        assert_eq!(hashes.len(), 3, "{shown}");
        assert!(hashes[0] == hashes[1] && hashes[0] != hashes[2] && hashes[0].len() == 5 + DIGITS, "{shown}");
        assert!(shown.starts_with("SELECT a FROM t WHERE b IN ('hmac:"), "{shown}");
        let other = Hasher::new(&HmacKey::new(b"another key of 16"));
        assert!(!other.text(&text("SELECT 'x'")).unwrap().contains(hashes[0]));
        assert_eq!(hasher.text(&text("SET PASSWORD = 'x'")), None);
        assert!(!format!("{:?}", HmacKey::new(b"open sesame")).contains("sesame"));
    }
}
