//! Prepared statements: binary parameters out, binary rows in.
//!
//! Source: MariaDB's documentation "COM_STMT_EXECUTE" and "Binary protocol resultset row".

use wire::Capabilities;
use wire::codec::{Malformed, Reader, Write};
use wire::command::Command;
use wire::reply::Prepared;

use super::result::{Column, ResultSet, Row, UNSIGNED};
use super::{Client, QueryError};

/// The protocol's numbers of the types that are sent, and of those whose binary form is not a string.
mod kind {
    pub(super) const TINY: u8 = 1;
    pub(super) const SHORT: u8 = 2;
    pub(super) const LONG: u8 = 3;
    pub(super) const FLOAT: u8 = 4;
    pub(super) const DOUBLE: u8 = 5;
    pub(super) const NULL: u8 = 6;
    pub(super) const TIMESTAMP: u8 = 7;
    pub(super) const LONGLONG: u8 = 8;
    pub(super) const INT24: u8 = 9;
    pub(super) const DATE: u8 = 10;
    pub(super) const TIME: u8 = 11;
    pub(super) const DATETIME: u8 = 12;
    pub(super) const YEAR: u8 = 13;
    pub(super) const VAR_STRING: u8 = 253;
}

/// A statement that the server holds for this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The server's id.
    pub id: u32,
    /// Number of parameters.
    pub parameters: u16,
    /// Number of columns of its result; 0 if it gives none.
    pub columns: u16,
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// NULL.
    Null,
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    Unsigned(u64),
    /// A floating-point number.
    Double(f64),
    /// A string.
    Bytes(Vec<u8>),
}

impl Parameter {
    fn kind(&self) -> [u8; 2] {
        match self {
            Parameter::Null => [kind::NULL, 0],
            Parameter::Int(_) => [kind::LONGLONG, 0],
            Parameter::Unsigned(_) => [kind::LONGLONG, 0x80],
            Parameter::Double(_) => [kind::DOUBLE, 0],
            Parameter::Bytes(_) => [kind::VAR_STRING, 0],
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Parameter::Null => {}
            Parameter::Int(value) => out.extend_from_slice(&value.to_le_bytes()),
            Parameter::Unsigned(value) => out.extend_from_slice(&value.to_le_bytes()),
            Parameter::Double(value) => out.extend_from_slice(&value.to_le_bytes()),
            Parameter::Bytes(value) => out.put_lenenc_bytes(value),
        }
    }
}

impl From<&str> for Parameter {
    fn from(text: &str) -> Parameter {
        Parameter::Bytes(text.into())
    }
}

impl From<i64> for Parameter {
    fn from(value: i64) -> Parameter {
        Parameter::Int(value)
    }
}

impl Client {
    /// COM_STMT_PREPARE.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub async fn prepare(&mut self, sql: impl AsRef<[u8]>) -> Result<Statement, QueryError> {
        let mut payload = vec![Command::StmtPrepare.byte()];
        payload.extend_from_slice(sql.as_ref());
        self.guarded(async |this| {
            this.send(&payload).await?;
            let (_, head) = this.reply_packet().await?;
            let Prepared { statement, columns, parameters, .. } = Prepared::parse(&head)?;
            for count in [parameters, columns] {
                this.columns(u64::from(count)).await?;
                if count > 0 && !this.capabilities.contains(Capabilities::DEPRECATE_EOF) {
                    this.eof().await?;
                }
            }
            Ok(Statement { id: statement, parameters, columns })
        })
        .await
    }

    /// COM_STMT_EXECUTE without a cursor.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub async fn execute(
        &mut self,
        statement: &Statement,
        parameters: &[Parameter],
    ) -> Result<Vec<ResultSet>, QueryError> {
        self.execute_with(statement, parameters, 0).await
    }

    /// COM_STMT_EXECUTE that opens a read-only cursor: the result has columns and no rows, [`Client::fetch`] gets them.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub async fn open_cursor(
        &mut self,
        statement: &Statement,
        parameters: &[Parameter],
    ) -> Result<ResultSet, QueryError> {
        let results = self.execute_with(statement, parameters, wire::command::CURSOR_READ_ONLY).await?;
        Ok(results.into_iter().next().unwrap_or_default())
    }

    /// COM_STMT_FETCH: up to `rows` rows of an open cursor, whose columns [`Client::open_cursor`] gave.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub async fn fetch(
        &mut self,
        statement: &Statement,
        columns: Vec<Column>,
        rows: u32,
    ) -> Result<ResultSet, QueryError> {
        let mut payload = vec![Command::StmtFetch.byte()];
        payload.put_u32(statement.id);
        payload.put_u32(rows);
        self.guarded(async |this| {
            this.send(&payload).await?;
            this.rows(columns, true).await
        })
        .await
    }

    /// COM_STMT_CLOSE, which has no reply.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn close(&mut self, statement: Statement) -> Result<(), QueryError> {
        let mut payload = vec![Command::StmtClose.byte()];
        payload.put_u32(statement.id);
        self.send_raw(&payload).await
    }

    async fn execute_with(
        &mut self,
        statement: &Statement,
        parameters: &[Parameter],
        flags: u8,
    ) -> Result<Vec<ResultSet>, QueryError> {
        if parameters.len() != usize::from(statement.parameters) {
            return Err(QueryError::Parameters { expected: statement.parameters, given: parameters.len() });
        }
        let payload = execution(statement.id, parameters, flags);
        self.guarded(async |this| {
            this.send(&payload).await?;
            this.results(true).await
        })
        .await
    }
}

fn execution(id: u32, parameters: &[Parameter], flags: u8) -> Vec<u8> {
    let mut payload = vec![Command::StmtExecute.byte()];
    payload.put_u32(id);
    payload.push(flags);
    payload.put_u32(1);
    if parameters.is_empty() {
        return payload;
    }
    let mut nulls = vec![0; parameters.len().div_ceil(8)];
    for (at, parameter) in parameters.iter().enumerate() {
        nulls[at / 8] |= u8::from(*parameter == Parameter::Null) << (at % 8);
    }
    payload.extend_from_slice(&nulls);
    payload.push(1);
    parameters.iter().for_each(|parameter| payload.extend_from_slice(&parameter.kind()));
    parameters.iter().for_each(|parameter| parameter.encode(&mut payload));
    payload
}

/// Reads a row of the binary protocol and writes its values as the text protocol would.
pub(super) fn binary_row(payload: &[u8], columns: &[Column]) -> Result<Row, Malformed> {
    let mut reader = Reader::new(payload);
    if reader.u8("binary row: header")? != 0 {
        return Err(Malformed("binary row: header"));
    }
    // The bitmap's first two bits belong to the header.
    let nulls = reader.bytes((columns.len() + 2).div_ceil(8), "binary row: NULL bitmap")?;
    let is_null = |at: usize| nulls[(at + 2) / 8] >> ((at + 2) % 8) & 1 == 1;
    let mut row = Row::with_capacity(columns.len());
    for (at, column) in columns.iter().enumerate() {
        row.push(if is_null(at) { None } else { Some(binary_value(&mut reader, column)?) });
    }
    Ok(row)
}

fn binary_value(reader: &mut Reader<'_>, column: &Column) -> Result<Vec<u8>, Malformed> {
    const WHAT: &str = "binary row: value";
    let unsigned = column.flags & UNSIGNED != 0;
    let number = |signed: i64, plain: u64| if unsigned { plain.to_string() } else { signed.to_string() };
    let text = match column.kind {
        kind::TINY => reader.u8(WHAT).map(|value| number(i64::from(value as i8), value.into()))?,
        kind::SHORT => reader.u16(WHAT).map(|value| number(i64::from(value as i16), value.into()))?,
        kind::YEAR => format!("{:04}", reader.u16(WHAT)?),
        kind::LONG | kind::INT24 => reader.u32(WHAT).map(|value| number(i64::from(value as i32), value.into()))?,
        kind::LONGLONG => reader.u64(WHAT).map(|value| number(value as i64, value))?,
        kind::FLOAT => f32::from_bits(reader.u32(WHAT)?).to_string(),
        kind::DOUBLE => f64::from_bits(reader.u64(WHAT)?).to_string(),
        kind::DATE | kind::DATETIME | kind::TIMESTAMP => date(reader, column)?,
        kind::TIME => time(reader, column.decimals)?,
        _ => return reader.lenenc_bytes(WHAT).map(<[u8]>::to_vec),
    };
    Ok(text.into_bytes())
}

fn date(reader: &mut Reader<'_>, column: &Column) -> Result<String, Malformed> {
    const WHAT: &str = "binary row: date";
    let length = reader.u8(WHAT)?;
    let (mut ymd, mut hms, mut micros) = ((0, 0, 0), (0, 0, 0), 0);
    if length >= 4 {
        ymd = (reader.u16(WHAT)?, reader.u8(WHAT)?, reader.u8(WHAT)?);
    }
    if length >= 7 {
        hms = (reader.u8(WHAT)?, reader.u8(WHAT)?, reader.u8(WHAT)?);
    }
    if length >= 11 {
        micros = reader.u32(WHAT)?;
    }
    if !matches!(length, 0 | 4 | 7 | 11) {
        return Err(Malformed(WHAT));
    }
    let (year, month, day) = ymd;
    let mut text = format!("{year:04}-{month:02}-{day:02}");
    if column.kind != kind::DATE {
        let (hours, minutes, seconds) = hms;
        text += &format!(" {hours:02}:{minutes:02}:{seconds:02}{}", fraction(micros, column.decimals));
    }
    Ok(text)
}

fn time(reader: &mut Reader<'_>, decimals: u8) -> Result<String, Malformed> {
    const WHAT: &str = "binary row: time";
    let length = reader.u8(WHAT)?;
    if !matches!(length, 0 | 8 | 12) {
        return Err(Malformed(WHAT));
    }
    let (mut sign, mut hours, mut minutes, mut seconds, mut micros) = ("", 0, 0, 0, 0);
    if length >= 8 {
        sign = if reader.u8(WHAT)? != 0 { "-" } else { "" };
        let days = u64::from(reader.u32(WHAT)?);
        hours = days * 24 + u64::from(reader.u8(WHAT)?);
        (minutes, seconds) = (reader.u8(WHAT)?, reader.u8(WHAT)?);
    }
    if length == 12 {
        micros = reader.u32(WHAT)?;
    }
    Ok(format!("{sign}{hours:02}:{minutes:02}:{seconds:02}{}", fraction(micros, decimals)))
}

/// The digits behind the point; the column says how many.
fn fraction(micros: u32, decimals: u8) -> String {
    if decimals == 0 || decimals > 6 {
        return String::new();
    }
    let digits = format!("{micros:06}");
    format!(".{}", &digits[..usize::from(decimals)])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn column(kind: u8, flags: u16, decimals: u8) -> Column {
        Column { kind, flags, decimals, ..Column::default() }
    }

    #[test]
    fn parameters_are_laid_out_as_documented() {
        let parameters = [Parameter::Int(-1), Parameter::Null, Parameter::from("ab")];
        let mut expected = vec![0x17, 7, 0, 0, 0, 0, 1, 0, 0, 0, 0b010, 1, 8, 0, 6, 0, 253, 0];
        expected.extend_from_slice(&[0xff; 8]);
        expected.extend_from_slice(b"\x02ab");
        assert_eq!(execution(7, &parameters, 0), expected);
        assert_eq!(execution(7, &[], 1).len(), 10);
    }

    #[test]
    fn binary_values_become_text() {
        let columns = [
            column(kind::TINY, 0, 0),
            column(kind::TINY, UNSIGNED, 0),
            column(kind::LONGLONG, 0, 0),
            column(kind::DATE, 0, 0),
            column(kind::DATETIME, 0, 3),
            column(kind::TIME, 0, 0),
            column(kind::VAR_STRING, 0, 0),
            column(kind::LONG, 0, 0),
        ];
        let mut payload = vec![0, 0, 0b10];
        payload.extend([0xff, 0xff]);
        payload.extend((-5i64).to_le_bytes());
        payload.extend([4, 0xe8, 0x07, 2, 29]);
        payload.extend([11, 0xe8, 0x07, 2, 29, 23, 59, 58]);
        payload.extend(120_000u32.to_le_bytes());
        payload.extend([8, 1, 2, 0, 0, 0, 3, 4, 5]);
        payload.extend(b"\x01x");
        let row = binary_row(&payload, &columns).unwrap();
        let texts: Vec<_> = row.into_iter().map(|value| value.map(|bytes| String::from_utf8(bytes).unwrap())).collect();
        let expected = ["-1", "255", "-5", "2024-02-29", "2024-02-29 23:59:58.120", "-51:04:05", "x"];
        assert_eq!(texts[..7], expected.map(|text| Some(text.to_owned())));
        assert_eq!(texts[7], None);
        for cut in 0..payload.len() {
            assert!(binary_row(&payload[..cut], &columns).is_err(), "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn random_rows_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..80),
            kinds in prop::collection::vec((any::<u8>(), any::<u16>(), any::<u8>()), 0..20),
        ) {
            let columns: Vec<Column> = kinds.into_iter().map(|(kind, flags, decimals)| column(kind, flags, decimals)).collect();
            let _ = binary_row(&bytes, &columns);
        }
    }
}
