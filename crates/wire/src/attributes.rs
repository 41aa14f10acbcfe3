//! The attributes that MySQL's clients send with a query: names and values beside its text, or beside its parameters.
//!
//! Source: MySQL's documentation of COM_QUERY and COM_STMT_EXECUTE.

use crate::Capabilities;
use crate::codec::{Malformed, Reader};
use crate::command::{Execute, Parameters, skip_value};

/// Most attributes that are looked at.
const ATTRIBUTES_MAX: u64 = 64;

/// Shows each attribute of COM_QUERY whose value is text; `arguments` is the payload behind the command's byte. Attributes that are
/// malformed end it.
pub fn of_query<'a>(arguments: &'a [u8], capabilities: Capabilities, see: impl FnMut(&'a [u8], &'a [u8])) {
    // Most clients that may send attributes send none.
    if capabilities.contains(Capabilities::QUERY_ATTRIBUTES) && !matches!(arguments.first(), None | Some(0)) {
        let _ = read_query(arguments, see);
    }
}

fn read_query<'a>(arguments: &'a [u8], see: impl FnMut(&'a [u8], &'a [u8])) -> Result<(), Malformed> {
    let mut reader = Reader::new(arguments);
    let count = reader.lenenc("number of query attributes")?;
    reader.lenenc("number of attribute sets")?;
    if count > ATTRIBUTES_MAX {
        return Ok(());
    }
    let parameters = Parameters::read(&mut reader, count, true)?;
    each(parameters.types.unwrap_or_default(), &parameters, &mut reader, 0, see)
}

impl<'a> Execute<'a> {
    /// Shows each attribute whose value is text. `types` are those of this execution, or of the one before that had them, and `own` is
    /// the number of the statement's parameters, none of which was sent ahead of the execution.
    pub fn attributes(&self, types: &'a [u8], own: u16, see: impl FnMut(&'a [u8], &'a [u8])) {
        let count = self.count.unwrap_or(0);
        if count > u64::from(own) && count <= u64::from(own) + ATTRIBUTES_MAX {
            let parameters = Parameters { null_bitmap: self.null_bitmap, types: Some(types) };
            let _ = each(types, &parameters, &mut Reader::new(self.values), usize::from(own), see);
        }
    }
}

/// Shows the values behind the first ones, which are no attributes.
fn each<'a>(
    types: &'a [u8],
    parameters: &Parameters<'a>,
    values: &mut Reader<'a>,
    first: usize,
    mut see: impl FnMut(&'a [u8], &'a [u8]),
) -> Result<(), Malformed> {
    let mut types = Reader::new(types);
    let mut at = 0;
    while !types.is_empty() {
        let kind = types.u16("attribute type")?;
        let name = types.lenenc_bytes("attribute name")?;
        if !parameters.is_null(at) {
            let before = values.rest();
            skip_value(values, kind)?;
            // Texts have their length ahead.
            let text = matches!(kind & 0xff, 0x0f | 0xfd | 0xfe);
            if text && at >= first {
                see(name, Reader::new(before).lenenc_bytes("attribute value")?);
            }
        }
        at += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMED: Capabilities = Capabilities::QUERY_ATTRIBUTES;

    fn shown(see: impl FnOnce(&mut dyn FnMut(&[u8], &[u8]))) -> String {
        let mut seen = Vec::new();
        let word = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        see(&mut |name, value| seen.push(format!("{}={}", word(name), word(value))));
        seen.join(" ")
    }

    /// A BIGINT, a NULL, two texts, and the statement.
    fn query() -> Vec<u8> {
        let mut arguments = vec![4, 1, 0b010, 1];
        for (kind, name) in [(8, "n"), (6, ""), (0xfd, "traceparent"), (0xfe, "b")] {
            arguments.extend([kind, 0, name.len() as u8]);
            arguments.extend(name.as_bytes());
        }
        arguments.extend(7_u64.to_le_bytes());
        arguments.extend(b"\x03abc\x00SELECT 1");
        arguments
    }

    #[test]
    fn texts_of_a_query_are_shown() {
        let arguments = query();
        assert_eq!(shown(|see| of_query(&arguments, NAMED, see)), "traceparent=abc b=");
        assert_eq!(shown(|see| of_query(&arguments, Capabilities::empty(), see)), "");
        assert_eq!(shown(|see| of_query(b"\0\x01SELECT 1", NAMED, see)), "");
        for cut in 0..arguments.len() {
            shown(|see| of_query(&arguments[..cut], NAMED, see));
        }
        assert_eq!(shown(|see| of_query(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", NAMED, see)), "");
        assert_eq!(shown(|see| of_query(&[0xfc, 0xff, 0xff, 1], NAMED, see)), "");
    }

    #[test]
    fn an_execution_has_its_parameters_first() {
        // One parameter and one attribute, both texts.
        let payload = [7, 0, 0, 0, 8, 1, 0, 0, 0, 2, 0, 1, 0xfd, 0, 0, 0xfd, 0, 1, b'a', 1, b'p', 2, b'o', b'k'];
        let execute = Execute::parse(&payload, 1, NAMED).unwrap();
        let types = execute.types.unwrap();
        assert_eq!(shown(|see| execute.attributes(types, 1, see)), "a=ok");
        assert_eq!(shown(|see| execute.attributes(types, 2, see)), "");
        for cut in 0..types.len() {
            shown(|see| execute.attributes(&types[..cut], 1, see));
        }
        let short = Execute { values: &execute.values[..3], ..execute };
        assert_eq!(shown(|see| short.attributes(types, 1, see)), "");
    }
}
