//! The values of a prepared statement's parameters, as an execution carries them.
//!
//! Source: MariaDB's documentation "COM_STMT_EXECUTE".

use crate::codec::{Malformed, Reader};
use crate::command::{BulkExecute, Execute};

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
    /// A value that is not known here: MariaDB reads NULL for parameters of some types, of which no bytes are sent, and MySQL
    /// refuses them; or it was sent ahead of the execution.
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
        self.parameters_but(types, count, named, |_| false)
    }

    /// The same of an execution for which COM_STMT_SEND_LONG_DATA has sent some values `ahead`: those are [`Value::Other`].
    ///
    /// # Errors
    /// Types or values are cut off.
    pub fn parameters_but(
        &self,
        types: &[u8],
        count: u16,
        named: bool,
        ahead: impl Fn(u16) -> bool,
    ) -> Result<Vec<Value<'a>>, Malformed> {
        let mut types = Reader::new(types);
        let mut values = Reader::new(self.values);
        let mut read = Vec::with_capacity(usize::from(count));
        for at in 0..count {
            let kind = types.u8("parameter type")?;
            let unsigned = types.u8("parameter type")? & UNSIGNED != 0;
            if named {
                types.lenenc_bytes("parameter name")?;
            }
            let is_null = self.null_bitmap.get(usize::from(at / 8)).is_some_and(|byte| byte >> (at % 8) & 1 == 1);
            read.push(match () {
                () if ahead(at) => Value::Other,
                () if is_null => Value::Null,
                () => value(&mut values, kind, unsigned)?,
            });
        }
        Ok(read)
    }
}

/// A value in a row of a bulk execution (MariaDB).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BulkValue<'a> {
    /// A value, or NULL.
    Value(Value<'a>),
    /// The default of the column.
    Default,
    /// The column keeps the value that it has.
    Ignore,
}

impl<'a> BulkExecute<'a> {
    /// Shows each value of each row to `see`, in order, and gives the number of rows. The types are those that came with this
    /// execution, or with an earlier one.
    ///
    /// # Errors
    /// Types or rows are cut off, or an indicator is not known.
    pub fn see_rows(&self, types: &[u8], mut see: impl FnMut(BulkValue<'a>)) -> Result<u64, Malformed> {
        let mut rows = Reader::new(self.rows);
        let mut count = 0;
        while !rows.is_empty() && !types.is_empty() {
            for kind in types.chunks(2) {
                let &[kind, flags] = kind else { return Err(Malformed("parameter type")) };
                see(match rows.u8("indicator")? {
                    0 => BulkValue::Value(value(&mut rows, kind, flags & UNSIGNED != 0)?),
                    1 => BulkValue::Value(Value::Null),
                    2 => BulkValue::Default,
                    3 => BulkValue::Ignore,
                    _ => return Err(Malformed("indicator")),
                });
            }
            count += 1;
        }
        Ok(count)
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
        0x0f | 0xf2 | 0xf5 | 0xf9..=0xfe => Value::Bytes(reader.lenenc_bytes(what)?),
        0x0a | 0x0e | 0x07 | 0x0c => {
            let length = usize::from(reader.u8(what)?);
            let (date, time) = date_time(reader.bytes(length, what)?)?;
            if matches!(kind, 0x0a | 0x0e) { Value::Date(date) } else { Value::DateTime(date, time) }
        }
        0x0b => {
            let length = usize::from(reader.u8(what)?);
            let (negative, time) = span(reader.bytes(length, what)?)?;
            Value::Time(negative, time)
        }
        // INT24, YEAR, BIT, GEOMETRY: MariaDB 10.11 takes no bytes for them and uses NULL; MySQL 9.7 refuses them.
        0x09 | 0x0d | 0x10 | 0xff => Value::Other,
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
        assert!(parse(0, &[0x13, 0], &[0]).is_err());
    }

    #[test]
    fn types_that_no_server_takes_a_value_of_have_no_bytes() {
        for kind in [0x09, 0x0d, 0x10, 0xff] {
            assert_eq!(parse(0, &[kind, 0, 1, 0], &[7, 9]).unwrap(), ["Other", "Int(7)"], "{kind}");
        }
    }

    #[test]
    fn values_that_were_sent_ahead_are_not_there() {
        let payload = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0xfc, 0, 1, 0, 5, 6];
        let execute = Execute::parse(&payload, 3, Capabilities::empty()).unwrap();
        let read = execute.parameters_but(execute.types.unwrap(), 3, false, |at| at == 1).unwrap();
        assert_eq!(read, [Value::Int(5), Value::Other, Value::Int(6)]);
    }

    #[test]
    fn rows_of_a_bulk_execution_are_seen_in_order() {
        let types = [1, 0, 0xfd, 0];
        let rows = [0, 5, 0, 2, b'i', b't', 1, 2, 3, 0, 0];
        let bulk = BulkExecute { statement: 1, flags: 0, types: None, rows: &rows };
        let mut seen = Vec::new();
        assert_eq!(bulk.see_rows(&types, |value| seen.push(value)), Ok(3));
        let value = BulkValue::Value;
        assert_eq!(
            seen,
            [
                value(Value::Int(5)),
                value(Value::Bytes(b"it")),
                value(Value::Null),
                BulkValue::Default,
                BulkValue::Ignore,
                value(Value::Bytes(b""))
            ]
        );
        for cut in [1, 2, 3, 4, 5, 7, 9, 10] {
            let bulk = BulkExecute { rows: &rows[..cut], ..bulk };
            assert!(bulk.see_rows(&types, |_| {}).is_err(), "{cut}");
        }
        let wrong = BulkExecute { rows: &[4, 5], ..bulk };
        assert!(wrong.see_rows(&types, |_| {}).is_err() && wrong.see_rows(&[1], |_| {}).is_err());
        assert_eq!(wrong.see_rows(&[], |_| {}), Ok(0));
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
