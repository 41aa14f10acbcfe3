//! The values of a prepared statement's parameters, as an execution carries them.
//!
//! Source: MariaDB's documentation "COM_STMT_EXECUTE".

use crate::codec::{Malformed, Reader};
use crate::command::Execute;

/// Bit of a type's second byte: the number has no sign.
const UNSIGNED: u8 = 0x80;

/// One parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// A whole number.
    Int(i128),
    /// A floating-point number; single precision is widened.
    Double(f64),
    /// A decimal number, as text.
    Decimal(&'a [u8]),
    /// A string of any kind.
    Bytes(&'a [u8]),
    /// A date without a time.
    Date(Date),
    /// A date with a time.
    DateTime(Date, Time),
    /// A time, or a span of time; true if it is negative.
    Time(bool, Time),
    /// A type that servers do not understand alike.
    Other,
}

/// A date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Date {
    /// Year.
    pub year: u16,
    /// Month, from 1 on; 0 is unknown.
    pub month: u8,
    /// Day, from 1 on; 0 is unknown.
    pub day: u8,
}

/// A time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Hours, those of whole days among them.
    pub hours: u64,
    /// Minutes.
    pub minutes: u8,
    /// Seconds.
    pub seconds: u8,
    /// Microseconds.
    pub micros: u32,
}

impl<'a> Execute<'a> {
    /// The first `count` values, which are of these types: those that came with this execution, or with an earlier one. With
    /// `named` each type has a name behind it, which is not looked at.
    ///
    /// # Errors
    /// Types or values are cut off.
    pub fn parameters(&self, types: &[u8], count: u16, named: bool) -> Result<Vec<Value<'a>>, Malformed> {
        let mut types = Reader::new(types);
        let mut values = Reader::new(self.values);
        let mut read = Vec::with_capacity(usize::from(count));
        for at in 0..usize::from(count) {
            let kind = types.u8("parameter type")?;
            let unsigned = types.u8("parameter type")? & UNSIGNED != 0;
            if named {
                types.lenenc_bytes("parameter name")?;
            }
            let is_null = self.null_bitmap.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1);
            read.push(if is_null { Value::Null } else { value(&mut values, kind, unsigned)? });
        }
        Ok(read)
    }
}

fn value<'a>(reader: &mut Reader<'a>, kind: u8, unsigned: bool) -> Result<Value<'a>, Malformed> {
    let what = "parameter value";
    let int = |signed: i64, plain: u64| Value::Int(if unsigned { i128::from(plain) } else { i128::from(signed) });
    Ok(match kind {
        0x01 => reader.u8(what).map(|byte| int(i64::from(byte.cast_signed()), u64::from(byte)))?,
        0x02 => reader.u16(what).map(|word| int(i64::from(word.cast_signed()), u64::from(word)))?,
        0x03 => reader.u32(what).map(|word| int(i64::from(word.cast_signed()), u64::from(word)))?,
        0x08 => reader.u64(what).map(|word| int(word.cast_signed(), word))?,
        0x04 => Value::Double(f64::from(f32::from_bits(reader.u32(what)?))),
        0x05 => Value::Double(f64::from_bits(reader.u64(what)?)),
        0x06 => Value::Null,
        0x00 | 0xf6 => Value::Decimal(reader.lenenc_bytes(what)?),
        0x0f | 0xf5 | 0xf9..=0xfe => Value::Bytes(reader.lenenc_bytes(what)?),
        0x0a | 0x07 | 0x0c => {
            let length = usize::from(reader.u8(what)?);
            let (date, time) = date_time(reader.bytes(length, what)?)?;
            if kind == 0x0a { Value::Date(date) } else { Value::DateTime(date, time) }
        }
        0x0b => {
            let length = usize::from(reader.u8(what)?);
            let (negative, time) = span(reader.bytes(length, what)?)?;
            Value::Time(negative, time)
        }
        // MariaDB reads INT24 and YEAR as NULL; of others the length differs between versions.
        0x09 => reader.u32(what).map(|_| Value::Other)?,
        0x0d => reader.u16(what).map(|_| Value::Other)?,
        _ => return Err(Malformed("parameter of an unknown type")),
    })
}

fn date_time(bytes: &[u8]) -> Result<(Date, Time), Malformed> {
    let what = "parameter date";
    let mut reader = Reader::new(bytes);
    if reader.is_empty() {
        return Ok((Date::default(), Time::default()));
    }
    let date = Date { year: reader.u16(what)?, month: reader.u8(what)?, day: reader.u8(what)? };
    if reader.is_empty() {
        return Ok((date, Time::default()));
    }
    Ok((date, clock(&mut reader, 0)?))
}

fn span(bytes: &[u8]) -> Result<(bool, Time), Malformed> {
    let what = "parameter time";
    let mut reader = Reader::new(bytes);
    if reader.is_empty() {
        return Ok((false, Time::default()));
    }
    let negative = reader.u8(what)? != 0;
    let days = reader.u32(what)?;
    Ok((negative, clock(&mut reader, days)?))
}

fn clock(reader: &mut Reader<'_>, days: u32) -> Result<Time, Malformed> {
    let what = "parameter time";
    let hours = u64::from(days) * 24 + u64::from(reader.u8(what)?);
    let (minutes, seconds) = (reader.u8(what)?, reader.u8(what)?);
    let micros = if reader.is_empty() { 0 } else { reader.u32(what)? };
    Ok(Time { hours, minutes, seconds, micros })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Capabilities;

    fn parse(null_bitmap: u8, types: &[u8], values: &[u8]) -> Result<Vec<String>, Malformed> {
        let count = u16::try_from(types.len() / 2).unwrap();
        let mut payload = vec![1, 0, 0, 0, 0, 1, 0, 0, 0, null_bitmap, 1];
        payload.extend_from_slice(types);
        payload.extend_from_slice(values);
        let execute = Execute::parse(&payload, count, Capabilities::empty()).unwrap();
        let read = execute.parameters(execute.types.unwrap(), count, false)?;
        Ok(read.iter().map(|value| format!("{value:?}")).collect())
    }

    #[test]
    fn numbers_and_strings_are_read() {
        let types = [1, 0, 1, 0x80, 2, 0, 3, 0, 8, 0x80, 4, 0, 0xfd, 0, 0xf6, 0];
        let mut values = vec![0xfb, 0xfb, 0xd4, 0xfe];
        values.extend((-70_000_i32).to_le_bytes());
        values.extend(u64::MAX.to_le_bytes());
        values.extend(1.5_f32.to_le_bytes());
        values.extend(b"\x02it\x031.0");
        let read = parse(0, &types, &values).unwrap();
        let numbers = ["Int(-5)", "Int(251)", "Int(-300)", "Int(-70000)", "Int(18446744073709551615)", "Double(1.5)"];
        assert_eq!(read[..6], numbers);
        assert_eq!(read[6..], ["Bytes([105, 116])", "Decimal([49, 46, 48])"]);
        for cut in 0..values.len() {
            assert!(parse(0, &types, &values[..cut]).is_err(), "{cut}");
        }
        assert_eq!(parse(0b10, &[1, 0, 8, 0, 1, 0], &[1, 2]).unwrap(), ["Int(1)", "Null", "Int(2)"]);
        assert!(parse(0, &[0x10, 0], &[0]).is_err());
    }

    #[test]
    fn dates_and_times_are_read_in_all_their_lengths() {
        let (date, time) =
            (Date { year: 2020, month: 1, day: 2 }, Time { hours: 3, minutes: 4, seconds: 5, micros: 678 });
        let read = |kind: u8, values: &[u8]| parse(0, &[kind, 0], values).unwrap().remove(0);
        assert_eq!(read(10, &[4, 0xe4, 7, 1, 2]), format!("{:?}", Value::Date(date)));
        assert_eq!(read(12, &[4, 0xe4, 7, 1, 2]), format!("{:?}", Value::DateTime(date, Time::default())));
        let long = [11, 0xe4, 7, 1, 2, 3, 4, 5, 0xa6, 2, 0, 0];
        assert_eq!(read(7, &long), format!("{:?}", Value::DateTime(date, time)));
        assert_eq!(read(12, &[0]), format!("{:?}", Value::DateTime(Date::default(), Time::default())));
        let span = Value::Time(true, Time { hours: 25, minutes: 2, seconds: 3, micros: 0 });
        assert_eq!(read(11, &[8, 1, 1, 0, 0, 0, 1, 2, 3]), format!("{span:?}"));
        assert!(parse(0, &[12, 0], &[3, 0xe4, 7, 1]).is_err());
    }
}
