//! Events that hold rows: of which table, how many, which keys they have, and a number in one of their columns.
//!
//! Source: MySQL's documentation "Rows_event", MariaDB's "Rows Event".

use super::KEYS_MAX;
use super::table::{Column, TableMap, table_number};
use crate::codec::{Malformed, Reader};

/// A part of a primary key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyPart {
    /// A whole number.
    Integer(i128),
    /// Text or bytes as they are stored. Whether two are the same key is for the column's collation to say.
    Bytes(Box<[u8]>),
}

/// The primary key of a row, its parts in the order of the key.
pub type Key = Vec<KeyPart>;

/// The change of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// They are new.
    Insert,
    /// They were changed.
    Update,
    /// They are gone.
    Delete,
}

/// Rows of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows<'a> {
    /// The table, by the number in its map.
    pub table: u64,
    /// The kind of the change.
    pub change: Change,
    columns: usize,
    /// Which columns the images have: those of the only one, or of the one before; those of the one behind.
    present: &'a [u8],
    present_after: &'a [u8],
    pub(super) images: &'a [u8],
}

impl<'a> Rows<'a> {
    /// Reads the body of an event with this type code; `None` if it is another kind of event.
    ///
    /// # Errors
    /// It is cut off.
    pub fn parse(code: u8, body: &'a [u8]) -> Result<Option<Rows<'a>>, Malformed> {
        let (change, long) = match code {
            23 => (Change::Insert, false),
            24 => (Change::Update, false),
            25 => (Change::Delete, false),
            30 => (Change::Insert, true),
            31 => (Change::Update, true),
            32 => (Change::Delete, true),
            _ => return Ok(None),
        };
        let mut reader = Reader::new(body);
        let table = table_number(&mut reader)?;
        reader.u16("flags of rows")?;
        if long {
            // Its own two bytes count.
            let extra = usize::from(reader.u16("length before rows")?);
            reader.bytes(extra.saturating_sub(2), "what stands before rows")?;
        }
        let columns = usize::try_from(reader.lenenc("columns of rows")?).unwrap_or(usize::MAX);
        let present = reader.bytes(columns.div_ceil(8), "columns of rows")?;
        let present_after = match change {
            Change::Update => reader.bytes(columns.div_ceil(8), "columns of rows")?,
            _ => present,
        };
        Ok(Some(Rows { table, change, columns, present, present_after, images: reader.rest() }))
    }

    /// Goes over all rows, and gives of each the whole number in this column, as it is behind the change; a negative one is
    /// not told from a large one. `None` stands for a row of which that is not known.
    ///
    /// # Errors
    /// The table is another one, or has columns of which the size is not known, or rows are cut off.
    pub fn each(
        &self,
        table: &TableMap,
        column: Option<usize>,
        mut found: impl FnMut(Option<u64>),
    ) -> Result<(), Malformed> {
        let column = column.filter(|at| matches!(table.columns.get(*at), Some(Column::Integer { .. })));
        self.each_row(table, |before, after| {
            let value = column.and_then(|at| after.unwrap_or(before).get(at).copied().flatten());
            found(value.map(little));
            Ok(())
        })
    }

    /// The keys of all rows, before and behind the change. `None`: the log does not tell them, or there are more than
    /// [`KEYS_MAX`].
    pub(super) fn keys(&self, table: &TableMap) -> Option<Vec<Key>> {
        const UNKNOWN: Malformed = Malformed("key of a row");
        let columns = table.key.as_ref()?;
        let part = |row: &Row<'_>, at: usize| match (table.columns.get(at)?, row.get(at).copied().flatten()?) {
            (Column::Integer { signed: Some(signed), .. }, value) => Some(KeyPart::Integer(integer(value, *signed))),
            (Column::Text(_), value) => Some(KeyPart::Bytes(value.into())),
            _ => None,
        };
        let mut keys = Vec::new();
        let read = self.each_row(table, |before, after| {
            let whole: Key = columns.iter().map(|at| part(before, *at)).collect::<Option<_>>().ok_or(UNKNOWN)?;
            if let Some(after) = after {
                // A column that is not there has not changed.
                let new = columns.iter().zip(&whole).map(|(at, old)| part(after, *at).unwrap_or_else(|| old.clone()));
                keys.push(new.collect());
            }
            keys.push(whole);
            if keys.len() > KEYS_MAX { Err(UNKNOWN) } else { Ok(()) }
        });
        read.ok().map(|()| keys)
    }

    /// Goes over all rows: as they are, or as they were and, behind an update, as they are.
    fn each_row(
        &self,
        table: &TableMap,
        mut row: impl FnMut(&Row<'a>, Option<&Row<'a>>) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        if self.table != table.number || self.columns != table.columns() {
            return Err(Malformed("table of rows"));
        }
        let mut reader = Reader::new(self.images);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        while !reader.is_empty() {
            let length = reader.rest().len();
            image(&mut reader, self.present, table, &mut before)?;
            if self.change == Change::Update {
                image(&mut reader, self.present_after, table, &mut after)?;
            }
            if reader.rest().len() == length {
                return Err(Malformed("rows without columns"));
            }
            row(&before, (self.change == Change::Update).then_some(&after))?;
        }
        Ok(())
    }
}

/// The bytes of a row's values by their columns; `None` where one is NULL or not logged.
type Row<'a> = Vec<Option<&'a [u8]>>;

/// Reads one image of a row.
fn image<'a>(reader: &mut Reader<'a>, present: &[u8], table: &TableMap, row: &mut Row<'a>) -> Result<(), Malformed> {
    let what = "rows";
    let has = |bits: &[u8], at: usize| bits.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1);
    let count = (0..table.columns()).filter(|at| has(present, *at)).count();
    let nulls = reader.bytes(count.div_ceil(8), what)?;
    row.clear();
    let mut nth = 0;
    for (at, column) in table.columns.iter().enumerate() {
        if !has(present, at) {
            row.push(None);
            continue;
        }
        nth += 1;
        if has(nulls, nth - 1) {
            row.push(None);
            continue;
        }
        let bytes = match *column {
            Column::Integer { bytes, .. } | Column::Fixed(bytes) => bytes,
            Column::Counted(bytes) | Column::Text(bytes) => {
                usize::try_from(little(reader.bytes(bytes, what)?)).unwrap_or(usize::MAX)
            }
            Column::Unknown => return Err(Malformed("type of a column")),
        };
        row.push(Some(reader.bytes(bytes, what)?));
    }
    Ok(())
}

fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A whole number of at most eight bytes.
fn integer(bytes: &[u8], signed: bool) -> i128 {
    let number = i128::from(little(bytes));
    let negative = signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    if negative { number - (1 << (8 * bytes.len())) } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(id BIGINT, name VARCHAR(300), price DECIMAL(10,2), kind ENUM, fixed CHAR(200) of four bytes each, at DATETIME(3), js BLOB)`.
    fn map() -> Vec<u8> {
        let mut body = vec![9, 0, 0, 0, 0, 0, 1, 0, 3];
        body.extend(b"app\0\x01t\0\x07");
        body.extend([8, 15, 246, 254, 254, 18, 252]);
        let metadata = [0x2c, 1, 10, 2, 247, 1, 0xce, 0x20, 3, 2];
        body.push(metadata.len() as u8);
        body.extend(metadata);
        body.push(0);
        body
    }

    fn numbers(rows: &Rows<'_>, table: &TableMap, column: usize) -> Result<Vec<Option<u64>>, Malformed> {
        let mut found = Vec::new();
        rows.each(table, Some(column), |number| found.push(number)).map(|()| found)
    }

    fn row(id: u64) -> Vec<u8> {
        let mut row = vec![0b100_0000];
        row.extend(id.to_le_bytes());
        row.extend(b"\x02\0hi");
        row.extend([0x80, 0, 0, 1, 0]);
        row.push(1);
        row.extend(b"\x03\0abc");
        row.extend([0; 7]);
        row
    }

    #[test]
    fn rows_are_counted_and_their_ids_read() {
        let map = map();
        let table = TableMap::parse(&map).unwrap();
        assert_eq!((table.number, &*table.schema, &*table.name, table.columns()), (9, "app", "t", 7));
        let mut body = vec![9, 0, 0, 0, 0, 0, 1, 0, 7, 0x7f];
        let start = body.len();
        body.extend(row(5));
        body.extend(row(6));
        let rows = Rows::parse(23, &body).unwrap().unwrap();
        assert_eq!((rows.table, rows.change), (9, Change::Insert));
        assert_eq!(numbers(&rows, &table, 0).unwrap(), [Some(5), Some(6)]);
        assert_eq!(numbers(&rows, &table, 1).unwrap(), [None, None], "no number");
        for cut in start + 1..body.len() {
            let rows = Rows::parse(23, &body[..cut]).unwrap().unwrap();
            assert_eq!(numbers(&rows, &table, 0).is_ok(), cut == start + row(5).len(), "{cut}");
        }
        for cut in 0..start {
            assert!(Rows::parse(23, &body[..cut]).is_err(), "{cut}");
        }
        assert!((0..map.len()).all(|cut| TableMap::parse(&map[..cut]).is_err()));
        assert_eq!(Rows::parse(19, &body), Ok(None));
        let other = TableMap { number: 8, ..table };
        assert!(numbers(&rows, &other, 0).is_err());
    }

    #[test]
    fn updates_have_two_images_and_may_leave_columns_out() {
        let map = map();
        let table = TableMap::parse(&map).unwrap();
        // Before: the id alone; behind: the name alone, and NULL.
        let mut body = vec![9, 0, 0, 0, 0, 0, 1, 0, 2, 0, 7, 1, 2];
        for id in [5_u64, 6] {
            body.push(0);
            body.extend(id.to_le_bytes());
            body.push(1);
        }
        let rows = Rows::parse(31, &body).unwrap().unwrap();
        assert_eq!((rows.change, numbers(&rows, &table, 0).unwrap()), (Change::Update, vec![None, None]));
    }
}
