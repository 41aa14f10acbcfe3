//! Prepared statements of a session: their texts, the types of their parameters, and the commands that use them.
//!
//! Source: MySQL's documentation of COM_STMT_PREPARE and COM_STMT_EXECUTE.

use std::collections::HashMap;

use wire::Capabilities;
use wire::codec::{Malformed, Reader, Write as _};
use wire::command::Execute;
use wire::errno;

use crate::cells::Value;
use crate::columns::ColumnKind;
use crate::error::SqlError;
use crate::replies::{ResultColumn, definition, eof, send};

/// Prepared statements of one session.
pub(crate) const PREPARED_MAX: usize = 64;

/// A statement that was prepared.
#[derive(Debug)]
struct PreparedText {
    text: String,
    parameters: u16,
    /// The types of the execution that had some; drivers send them once.
    types: Option<Box<[u8]>>,
    /// A part of a parameter was sent ahead.
    has_long_data: bool,
}

/// The prepared statements of a session.
#[derive(Debug, Default)]
pub(crate) struct PreparedTexts {
    last_id: u32,
    known: HashMap<u32, PreparedText>,
}

/// An execution: the text, and the values of its parameters.
#[derive(Debug)]
pub(crate) struct Execution {
    pub(crate) text: String,
    pub(crate) parameters: Vec<Value>,
}

impl PreparedTexts {
    /// Keeps a text, and appends the reply.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn prepare(
        &mut self,
        text: &str,
        parameters: u16,
        columns: &[ResultColumn],
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        if self.known.len() >= PREPARED_MAX {
            let text =
                format!("Can't create more than max_prepared_stmt_count statements (current value: {PREPARED_MAX})");
            return Err(SqlError::new(errno::ER_MAX_PREPARED_STMT_COUNT_REACHED, text));
        }
        // An id that is in use again only after all others were.
        self.last_id = self.last_id.wrapping_add(1).max(1);
        let prepared = PreparedText { text: text.to_owned(), parameters, types: None, has_long_data: false };
        self.known.insert(self.last_id, prepared);
        let mut sequence = send(out, 1, |payload| {
            payload.push(0);
            payload.put_u32(self.last_id);
            payload.put_u16(columns.len() as u16);
            payload.put_u16(parameters);
            payload.extend_from_slice(&[0, 0, 0]);
        });
        for _ in 0..parameters {
            sequence = send(out, sequence, |payload| definition(payload, "?", ColumnKind::Text));
        }
        if parameters > 0 {
            sequence = eof(out, sequence);
        }
        for column in columns {
            sequence = send(out, sequence, |payload| {
                definition(payload, &column.name, column.kind.unwrap_or(ColumnKind::Text))
            });
        }
        if !columns.is_empty() {
            eof(out, sequence);
        }
        Ok(())
    }

    /// Reads COM_STMT_EXECUTE.
    ///
    /// # Errors
    /// There is no such statement, or the packet is malformed.
    pub(crate) fn execution(&mut self, arguments: &[u8], capabilities: Capabilities) -> Result<Execution, SqlError> {
        let known = find(&mut self.known, arguments)?;
        let malformed = |error: Malformed| SqlError::new(errno::ER_MALFORMED_PACKET, error.to_string());
        if known.has_long_data {
            return Err(SqlError::new(errno::ER_UNSUPPORTED_PS, "the SQL console takes no parameters in parts"));
        }
        let execute = Execute::parse(arguments, known.parameters, capabilities).map_err(malformed)?;
        if let Some(types) = execute.types {
            known.types = Some(types.into());
        }
        let named = capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        let types = known.types.as_deref().unwrap_or_default();
        let parameters = values(&execute, types, known.parameters, named).map_err(malformed)?;
        Ok(Execution { text: known.text.clone(), parameters })
    }

    /// COM_STMT_RESET: what was sent ahead is forgotten.
    ///
    /// # Errors
    /// There is no such statement.
    pub(crate) fn reset(&mut self, arguments: &[u8]) -> Result<(), SqlError> {
        find(&mut self.known, arguments)?.has_long_data = false;
        Ok(())
    }

    /// COM_STMT_SEND_LONG_DATA.
    pub(crate) fn note_long_data(&mut self, arguments: &[u8]) {
        if let Ok(known) = find(&mut self.known, arguments) {
            known.has_long_data = true;
        }
    }

    /// COM_STMT_CLOSE.
    pub(crate) fn close(&mut self, arguments: &[u8]) {
        if let Ok(id) = Reader::new(arguments).u32("statement id") {
            self.known.remove(&id);
        }
    }
}

fn find<'a>(known: &'a mut HashMap<u32, PreparedText>, arguments: &[u8]) -> Result<&'a mut PreparedText, SqlError> {
    let id = Reader::new(arguments).u32("statement id").unwrap_or(0);
    let text = || format!("Unknown prepared statement handler ({id}) given to mysqld_stmt_execute");
    known.get_mut(&id).ok_or_else(|| SqlError::new(errno::ER_UNKNOWN_STMT_HANDLER, text()))
}

/// The values of the parameters; attributes behind them are left out.
fn values(execute: &Execute<'_>, types: &[u8], parameters: u16, named: bool) -> Result<Vec<Value>, Malformed> {
    let (mut types, mut reader) = (Reader::new(types), Reader::new(execute.values));
    let mut values = Vec::with_capacity(usize::from(parameters));
    for at in 0..usize::from(parameters) {
        let kind = types.u16("parameter type")?;
        if named {
            types.lenenc_bytes("parameter name")?;
        }
        let is_null = execute.null_bitmap.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1);
        values.push(if is_null { Value::Null } else { value(&mut reader, kind)? });
    }
    Ok(values)
}

/// A value of the binary protocol.
fn value(reader: &mut Reader<'_>, kind: u16) -> Result<Value, Malformed> {
    const WHAT: &str = "parameter value";
    let unsigned = kind & 0x8000 != 0;
    let integer = |signed: i64, plain: u64| match unsigned {
        true => Value::Integer(i64::try_from(plain).unwrap_or(i64::MAX)),
        false => Value::Integer(signed),
    };
    Ok(match kind & 0xff {
        // TINY, BOOL
        0x01 | 0xf4 => reader.u8(WHAT).map(|value| integer((value as i8).into(), value.into()))?,
        // SHORT, YEAR
        0x02 | 0x0d => reader.u16(WHAT).map(|value| integer((value as i16).into(), value.into()))?,
        // LONG, INT24
        0x03 | 0x09 => reader.u32(WHAT).map(|value| integer((value as i32).into(), value.into()))?,
        0x08 => reader.u64(WHAT).map(|value| integer(value as i64, value))?,
        0x04 => Value::Real(f32::from_bits(reader.u32(WHAT)?).into()),
        0x05 => Value::Real(f64::from_bits(reader.u64(WHAT)?)),
        0x06 => Value::Null,
        // DATE, DATETIME, TIMESTAMP
        0x0a | 0x0c | 0x07 => Value::Text(date(reader)?),
        0x0b => Value::Text(time(reader)?),
        _ => text(reader.lenenc_bytes(WHAT)?),
    })
}

fn text(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::Text(text.to_owned()),
        Err(_) => Value::Blob(bytes.to_vec()),
    }
}

fn date(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    let length = reader.u8("length of a date")?;
    let mut fields = Reader::new(reader.bytes(length.into(), "date")?);
    if length == 0 {
        return Ok("0000-00-00".to_owned());
    }
    let (year, month, day) = (fields.u16("date")?, fields.u8("date")?, fields.u8("date")?);
    let mut text = format!("{year:04}-{month:02}-{day:02}");
    if length >= 7 {
        let (hours, minutes, seconds) = (fields.u8("date")?, fields.u8("date")?, fields.u8("date")?);
        text += &format!(" {hours:02}:{minutes:02}:{seconds:02}");
    }
    if length >= 11 {
        text += &format!(".{:06}", fields.u32("date")?);
    }
    Ok(text)
}

fn time(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    let length = reader.u8("length of a time")?;
    let mut fields = Reader::new(reader.bytes(length.into(), "time")?);
    if length == 0 {
        return Ok("00:00:00".to_owned());
    }
    let sign = if fields.u8("time")? == 0 { "" } else { "-" };
    let days = u64::from(fields.u32("time")?);
    let (hours, minutes, seconds) = (fields.u8("time")?, fields.u8("time")?, fields.u8("time")?);
    let micros = if length >= 12 { format!(".{:06}", fields.u32("time")?) } else { String::new() };
    Ok(format!("{sign}{:02}:{minutes:02}:{seconds:02}{micros}", days * 24 + u64::from(hours)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execute(id: u32, rest: &[u8]) -> Vec<u8> {
        [&id.to_le_bytes()[..], &[0, 1, 0, 0, 0], rest].concat()
    }

    #[test]
    fn values_have_their_types_and_types_are_remembered() {
        let (mut texts, mut out) = (PreparedTexts::default(), Vec::new());
        texts.prepare("SELECT ?, ?, ?, ?", 4, &[], &mut out).unwrap();
        // -1 as TINY, NULL, 'é' as VAR_STRING, a DATETIME.
        let types = [0x01, 0, 0x06, 0, 0xfd, 0, 0x0c, 0];
        let values = [&[0xff, 2][..], "é".as_bytes(), &[7, 0xea, 0x07, 11, 27, 19, 5, 9]].concat();
        let first = texts.execution(&execute(1, &[&[0b0010, 1][..], &types, &values].concat()), Capabilities::empty());
        let expected = [
            Value::Integer(-1),
            Value::Null,
            Value::Text("é".to_owned()),
            Value::Text("2026-11-27 19:05:09".to_owned()),
        ];
        assert_eq!(first.unwrap().parameters, expected);
        let again = texts.execution(&execute(1, &[&[0b0010, 0][..], &values].concat()), Capabilities::empty()).unwrap();
        assert_eq!((&*again.text, &again.parameters[..]), ("SELECT ?, ?, ?, ?", &expected[..]));
        let unknown = texts.execution(&execute(2, &[]), Capabilities::empty()).unwrap_err();
        assert_eq!(unknown.code, errno::ER_UNKNOWN_STMT_HANDLER);
        texts.note_long_data(&[1, 0, 0, 0, 0, 0, b'x']);
        let parts = texts.execution(&execute(1, &[&[0b0010, 0][..], &values].concat()), Capabilities::empty());
        assert_eq!(parts.unwrap_err().code, errno::ER_UNSUPPORTED_PS);
        texts.reset(&1_u32.to_le_bytes()).unwrap();
        assert!(texts.execution(&execute(1, &[&[0b0010, 0][..], &values].concat()), Capabilities::empty()).is_ok());
        texts.close(&1_u32.to_le_bytes());
        assert!(texts.reset(&1_u32.to_le_bytes()).is_err());
    }

    #[test]
    fn cut_packets_are_errors_and_statements_have_a_limit() {
        let (mut texts, mut out) = (PreparedTexts::default(), Vec::new());
        for _ in 0..PREPARED_MAX {
            texts.prepare("SELECT ?", 1, &[], &mut out).unwrap();
        }
        let full = texts.prepare("SELECT 1", 0, &[], &mut out).unwrap_err();
        assert_eq!(full.code, errno::ER_MAX_PREPARED_STMT_COUNT_REACHED);
        let whole = execute(1, &[0, 1, 0xfd, 0, 3, b'a', b'b', b'c']);
        assert!(texts.execution(&whole, Capabilities::empty()).is_ok());
        for kind in [0x01, 0x02, 0x03, 0x04, 0x05, 0x07, 0x08, 0x0a, 0x0b, 0x0c, 0xfd] {
            let cut = execute(1, &[0, 1, kind, 0]);
            assert!(texts.execution(&cut, Capabilities::empty()).is_err(), "{kind}");
        }
    }
}
