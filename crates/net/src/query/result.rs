//! The result of a statement.

use std::borrow::Cow;

use wire::Status;
use wire::codec::{Malformed, Reader};

/// A row's values; `None` is NULL. Values of prepared statements are turned into the text protocol's form.
pub type Row = Vec<Option<Vec<u8>>>;

/// One column of a result.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Column {
    /// Its name as the statement gave it.
    pub name: String,
    /// The protocol's type number (`enum_field_types`).
    pub kind: u8,
    /// Collation of its values; 63 is binary.
    pub collation: u16,
    /// The protocol's column flags.
    pub flags: u16,
    /// Digits behind the decimal point.
    pub decimals: u8,
}

/// The column flag of unsigned numbers.
pub(super) const UNSIGNED: u16 = 32;

impl Column {
    pub(super) fn parse(payload: &[u8]) -> Result<Column, Malformed> {
        let mut reader = Reader::new(payload);
        for _ in 0..4 {
            // Catalog, schema, table and original table.
            reader.lenenc_bytes("column: origin")?;
        }
        let name = String::from_utf8_lossy(reader.lenenc_bytes("column: name")?).into_owned();
        reader.lenenc_bytes("column: original name")?;
        let mut fixed = Reader::new(reader.lenenc_bytes("column: fixed part")?);
        let collation = fixed.u16("column: collation")?;
        fixed.u32("column: length")?;
        let kind = fixed.u8("column: type")?;
        let flags = fixed.u16("column: flags")?;
        let decimals = fixed.u8("column: decimals")?;
        Ok(Column { name, kind, collation, flags, decimals })
    }
}

/// One result: rows, or what a statement without rows did.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ResultSet {
    /// Columns; none if the statement gives no rows.
    pub columns: Vec<Column>,
    /// Rows.
    pub rows: Vec<Row>,
    /// Rows changed.
    pub affected: u64,
    /// The first AUTO_INCREMENT value made, or 0.
    pub last_insert_id: u64,
    /// Status flags behind the statement.
    pub status: Status,
    /// Number of warnings.
    pub warnings: u16,
    /// The server's remark, such as `Rows matched: 1  Changed: 1  Warnings: 0`.
    pub info: String,
    /// Session changes as the server sent them.
    pub session_state: Vec<u8>,
}

impl ResultSet {
    /// The value of the named column (in whatever case) in this row; `None` if there is no such row or column, or if the
    /// value is NULL.
    pub fn value(&self, row: usize, column: &str) -> Option<&[u8]> {
        let index = self.columns.iter().position(|known| known.name.eq_ignore_ascii_case(column))?;
        self.rows.get(row)?.get(index)?.as_deref()
    }

    /// Like [`ResultSet::value`], as text.
    pub fn text(&self, row: usize, column: &str) -> Option<Cow<'_, str>> {
        self.value(row, column).map(String::from_utf8_lossy)
    }

    /// The first value of the first row as text; `None` if there is none or it is NULL.
    pub fn scalar(&self) -> Option<Cow<'_, str>> {
        self.rows.first()?.first()?.as_deref().map(String::from_utf8_lossy)
    }
}

/// Reads a row of the text protocol.
pub(super) fn text_row(payload: &[u8], columns: usize) -> Result<Row, Malformed> {
    let mut reader = Reader::new(payload);
    (0..columns).map(|_| Ok(reader.text_value("row: value")?.map(<[u8]>::to_vec))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_are_found_by_name_in_any_case() {
        let columns = ["Host", "lag"].map(|name| Column { name: name.into(), ..Column::default() }).to_vec();
        let result = ResultSet { columns, rows: vec![vec![Some(b"db1".to_vec()), None]], ..ResultSet::default() };
        assert_eq!(result.text(0, "HOST").as_deref(), Some("db1"));
        assert_eq!(result.scalar().as_deref(), Some("db1"));
        assert_eq!(result.value(0, "lag"), None);
        assert_eq!(result.value(0, "port"), None);
        assert_eq!(result.value(1, "host"), None);
    }

    #[test]
    fn a_column_is_read_field_by_field() {
        let payload = b"\x03def\x01s\x01t\x01T\x01a\x01A\x0c\x2d\x00\x04\0\0\0\xfd\x21\x00\x02\0\0";
        let column = Column::parse(payload).unwrap();
        assert_eq!(column, Column { name: "a".into(), kind: 0xfd, collation: 45, flags: 33, decimals: 2 });
        for cut in 0..payload.len() {
            assert!(Column::parse(&payload[..cut]).is_err(), "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..100), columns in 0usize..10) {
            let _ = Column::parse(&bytes);
            let _ = text_row(&bytes, columns);
        }
    }
}
