//! Values of the binary protocol, and bytes, as text.

use std::fmt;

use anyhow::{anyhow, bail};

/// A parameter's value of the binary protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// Sent ahead by COM_STMT_SEND_LONG_DATA.
    Long,
    /// TINYINT.
    Tiny(i8),
    /// SMALLINT.
    Short(i16),
    /// INT.
    Int(i32),
    /// BIGINT.
    Big(i64),
    /// BIGINT UNSIGNED.
    Unsigned(u64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// DECIMAL, as text.
    Decimal(String),
    /// VARCHAR.
    Text(Vec<u8>),
    /// BLOB.
    Blob(Vec<u8>),
    /// DATE: year, month, day.
    Date(u16, u8, u8),
    /// DATETIME with seconds and microseconds of a day.
    DateTime(u16, u8, u8, u32, u32),
    /// TIME: negative, days, seconds of a day.
    Time(bool, u32, u32),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Long => f.write_str("long"),
            Value::Tiny(value) => write!(f, "tiny:{value}"),
            Value::Short(value) => write!(f, "short:{value}"),
            Value::Int(value) => write!(f, "int:{value}"),
            Value::Big(value) => write!(f, "big:{value}"),
            Value::Unsigned(value) => write!(f, "unsigned:{value}"),
            Value::Float(value) => write!(f, "float:{value}"),
            Value::Double(value) => write!(f, "double:{value}"),
            Value::Decimal(value) => write!(f, "decimal:{value}"),
            Value::Text(value) => write!(f, "text:{}", escape(value).replace(' ', "\\x20")),
            Value::Blob(value) => write!(f, "blob:{}", escape(value).replace(' ', "\\x20")),
            Value::Date(y, m, d) => write!(f, "date:{y}-{m}-{d}"),
            Value::DateTime(y, m, d, s, us) => write!(f, "datetime:{y}-{m}-{d}-{s}-{us}"),
            Value::Time(negative, days, s) => write!(f, "time:{}-{days}-{s}", u8::from(*negative)),
        }
    }
}

impl Value {
    pub(super) fn parse(word: &str) -> anyhow::Result<Value> {
        let (kind, text) = word.split_once(':').unwrap_or((word, ""));
        let numbers = || text.split('-').map(str::parse).collect::<Result<Vec<u32>, _>>();
        Ok(match kind {
            "null" => Value::Null,
            "long" => Value::Long,
            "tiny" => Value::Tiny(text.parse()?),
            "short" => Value::Short(text.parse()?),
            "int" => Value::Int(text.parse()?),
            "big" => Value::Big(text.parse()?),
            "unsigned" => Value::Unsigned(text.parse()?),
            "float" => Value::Float(text.parse()?),
            "double" => Value::Double(text.parse()?),
            "decimal" => Value::Decimal(text.to_owned()),
            "text" => Value::Text(unescape(text)?),
            "blob" => Value::Blob(unescape(text)?),
            "date" | "datetime" | "time" => match (kind, numbers()?.as_slice()) {
                ("date", &[y, m, d]) => Value::Date(y.try_into()?, m.try_into()?, d.try_into()?),
                ("datetime", &[y, m, d, s, us]) => Value::DateTime(y.try_into()?, m.try_into()?, d.try_into()?, s, us),
                ("time", &[negative, days, s]) => Value::Time(negative != 0, days, s),
                _ => bail!("not a {kind}: {text}"),
            },
            _ => bail!("no value {word}"),
        })
    }
}

/// Bytes as one line that [`unescape`] reads back.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        let (valid, bad) = match std::str::from_utf8(rest) {
            Ok(text) => (text, &rest[rest.len()..]),
            Err(error) => (std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default(), {
                let end = error.valid_up_to() + error.error_len().unwrap_or(rest.len() - error.valid_up_to());
                &rest[error.valid_up_to()..end]
            }),
        };
        for c in valid.chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                c if c.is_control() => c.to_string().bytes().for_each(|byte| out.push_str(&format!("\\x{byte:02x}"))),
                c => out.push(c),
            }
        }
        bad.iter().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
        rest = &rest[valid.len() + bad.len()..];
    }
    out
}

/// The bytes of an escaped line.
///
/// # Errors
/// There is no such escape.
pub fn unescape(text: &str) -> anyhow::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'\\') => out.push(b'\\'),
            Some(b'n') => out.push(b'\n'),
            Some(b't') => out.push(b'\t'),
            Some(b'x') => {
                let digits = [bytes.next(), bytes.next()].map(|digit| digit.map_or('?', char::from));
                let value = digits.iter().try_fold(0, |sum, digit| Some(sum * 16 + digit.to_digit(16)?));
                out.push(u8::try_from(value.ok_or_else(|| anyhow!("not hexadecimal: {digits:?}"))?)?);
            }
            _ => bail!("no such escape in {text}"),
        }
    }
    Ok(out)
}
