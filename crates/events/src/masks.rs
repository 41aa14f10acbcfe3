//! The masks of a sink: values of fields, and parts of texts, that it shall not have.

use std::fmt;
use std::sync::Arc;

use regex_automata::meta;
use regex_automata::util::syntax;
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde::ser::{SerializeMap as _, Serializer as _};
use serde_json::Value;

/// Stands in place of a masked value.
const MASK: &str = "***";
/// Fields whose texts the expressions are looked for in: those that a client, an operator or a server has written.
const TEXTS: [&str; 6] = ["form", "text", "reason", "action", "order", "result"];

/// The masks of a sink.
#[derive(Clone, Default)]
pub struct Masks {
    /// The expressions as they were written, and the fields.
    patterns: Vec<Arc<str>>,
    fields: Vec<Arc<str>>,
    regex: Option<Arc<meta::Regex>>,
}

impl Masks {
    /// Masks what any of the expressions finds in a text, and the values of fields. An inner field is named with a dot:
    /// `error.text`.
    ///
    /// # Errors
    /// An expression cannot be used, in the library's words.
    pub fn new(patterns: &[Arc<str>], fields: &[Arc<str>]) -> Result<Masks, String> {
        // As expressions of rules are read.
        let rules = syntax::Config::new().unicode(false).utf8(false).case_insensitive(true).dot_matches_new_line(true);
        let settings = meta::Config::new().utf8_empty(false);
        let built = meta::Builder::new().configure(settings).syntax(rules).build_many(patterns);
        let regex = built.map_err(|error| error.to_string())?;
        let regex = (!patterns.is_empty()).then(|| Arc::new(regex));
        Ok(Masks { patterns: patterns.to_vec(), fields: fields.to_vec(), regex })
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty() && self.fields.is_empty()
    }

    /// Appends a line with its line feed, masked. A line that cannot be read is left out but for its line feed.
    pub(crate) fn put(&self, line: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        if self.write(line, out).is_err() {
            out.truncate(begin);
        }
        out.push(b'\n');
    }

    fn write(&self, line: &[u8], out: &mut Vec<u8>) -> serde_json::Result<()> {
        let fields = serde_json::Deserializer::from_slice(line).deserialize_map(InOrder)?;
        let mut serializer = serde_json::Serializer::new(out);
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for (name, value) in fields {
            map.serialize_entry(&name, &self.masked(&name, value))?;
        }
        map.end()
    }

    fn masked(&self, name: &str, value: Value) -> Value {
        if self.fields.iter().any(|field| **field == *name) {
            return MASK.into();
        }
        match value {
            Value::Object(inner) => {
                let masked = inner.into_iter().map(|(key, value)| {
                    let value = self.masked(&format!("{name}.{key}"), value);
                    (key, value)
                });
                Value::Object(masked.collect())
            }
            Value::String(text) if is_text(name) => self.without(text).into(),
            Value::Array(inner) if name == "params" => {
                inner.into_iter().map(|value| self.masked_param(value)).collect()
            }
            other => other,
        }
    }

    /// An expression may be written for numbers, too.
    fn masked_param(&self, value: Value) -> Value {
        match value {
            // A row of a bulk execution; a value that was sent ahead.
            Value::Array(row) => row.into_iter().map(|value| self.masked_param(value)).collect(),
            Value::Object(mut long) => {
                if let Some(Value::String(begin)) = long.get_mut("begin") {
                    *begin = self.without(std::mem::take(begin));
                }
                Value::Object(long)
            }
            Value::String(text) => self.without(text).into(),
            Value::Number(number) => {
                let text = number.to_string();
                let masked = self.without(text.clone());
                if masked == text { Value::Number(number) } else { masked.into() }
            }
            other => other,
        }
    }

    /// The text without what an expression finds.
    fn without(&self, text: String) -> String {
        let Some(regex) = &self.regex else { return text };
        let (mut kept, mut end) = (Vec::with_capacity(text.len()), 0);
        for found in regex.find_iter(text.as_bytes()).filter(|found| !found.is_empty()) {
            kept.extend_from_slice(&text.as_bytes()[end..found.start()]);
            kept.extend_from_slice(MASK.as_bytes());
            end = found.end();
        }
        if end == 0 {
            return text;
        }
        kept.extend_from_slice(&text.as_bytes()[end..]);
        // An expression may have cut a character.
        String::from_utf8_lossy(&kept).into_owned()
    }
}

fn is_text(name: &str) -> bool {
    TEXTS.contains(&name) || name == "error.text" || name.starts_with("tags.")
}

impl PartialEq for Masks {
    fn eq(&self, other: &Masks) -> bool {
        (&self.patterns, &self.fields) == (&other.patterns, &other.fields)
    }
}

impl Eq for Masks {}

impl fmt::Debug for Masks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masks").field("patterns", &self.patterns).field("fields", &self.fields).finish()
    }
}

/// The fields of an object in their order: the number of an event stands in the beginning.
struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Vec<(String, Value)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(patterns: &[&str], fields: &[&str], line: &str) -> String {
        let own = |texts: &[&str]| texts.iter().map(|text| Arc::from(*text)).collect::<Vec<Arc<str>>>();
        let mut out = b"before\n".to_vec();
        Masks::new(&own(patterns), &own(fields)).unwrap().put(line.as_bytes(), &mut out);
        String::from_utf8(out).unwrap().strip_prefix("before\n").unwrap().to_owned()
    }

    #[test]
    fn fields_and_parts_of_texts_are_masked_in_their_places() {
        let line = "{\"v\":1,\"seq\":7,\"client\":\"10.0.0.5:4711\",\"user\":\"app\",\"text\":\"SELECT 4111-1111, 'é' FROM T4111\",\
                    \"error\":{\"code\":1062,\"text\":\"Duplicate entry '4111-1111'\"},\"times\":{\"total\":5}}\n";
        assert_eq!(
            masked(&["[0-9]{4}-[0-9]{4}", "t4"], &["client"], line),
            "{\"v\":1,\"seq\":7,\"client\":\"***\",\"user\":\"app\",\"text\":\"SELECT ***, 'é' FROM ***111\",\
             \"error\":{\"code\":1062,\"text\":\"Duplicate entry '***'\"},\"times\":{\"total\":5}}\n"
        );
        assert_eq!(masked(&[], &["error.text", "error.code"], line).matches("***").count(), 2);
        let params = "{\"v\":1,\"params\":[41111111,7,null,\"is 4111-1111\"]}\n";
        assert_eq!(masked(&["[0-9]{4}-?[0-9]{4}"], &[], params), "{\"v\":1,\"params\":[\"***\",7,null,\"is ***\"]}\n");
        let rows = "{\"params\":[[1,\"is 4111-1111\"],[{\"begin\":\"4111-1111\",\"bytes\":4111},{\"indicator\":\"default\"}]]}\n";
        let masked_rows = rows.replace("4111-1111", "***");
        assert_eq!(masked(&["[0-9]{4}-?[0-9]{4}"], &[], rows), masked_rows);
        assert_eq!(masked(&[], &["params"], params), "{\"v\":1,\"params\":\"***\"}\n");
        assert_eq!(masked(&["app"], &[], line), line, "names are masked as fields");
        let tags = "{\"tags\":{\"route\":\"/users/4711\"}}\n";
        assert_eq!(masked(&["[0-9]+"], &[], tags), "{\"tags\":{\"route\":\"/users/***\"}}\n");
        assert_eq!(masked(&[], &["tags"], tags), "{\"tags\":\"***\"}\n");
        assert_eq!(masked(&["x*"], &[], line), line, "nothing is no match");
        // Half a character is no text.
        assert!(masked(&["\\xc3"], &[], line).contains("***\u{fffd}"));
    }

    #[test]
    fn a_line_that_cannot_be_read_is_not_shown() {
        assert_eq!(masked(&["a"], &[], "secret"), "\n");
        assert!(Masks::new(&["a(b".into()], &[]).is_err());
    }
}
