//! Events that hold rows: of which table, how many, and a number in one of their columns.
//!
//! Sources: MySQL's documentation "Table_map_event" and "Rows_event", MariaDB's "TABLE_MAP_EVENT" and "Rows Event". Only the
//! sizes of values are understood, and whole numbers.

use crate::codec::{Malformed, Reader};

/// The table of the row events that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableMap<'a> {
    /// The number by which row events name it.
    pub id: u64,
    /// Schema.
    pub schema: &'a [u8],
    /// Name.
    pub table: &'a [u8],
    /// One byte for each column.
    types: &'a [u8],
    metadata: &'a [u8],
    /// All of it, to be kept and read again.
    pub body: &'a [u8],
}

/// What became of the rows.
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
    /// What became of them.
    pub change: Change,
    columns: usize,
    /// Which columns the images have: those of the only one, or of the one before; those of the one behind.
    present: &'a [u8],
    present_after: &'a [u8],
    images: &'a [u8],
}

impl<'a> TableMap<'a> {
    /// Reads an event's body.
    ///
    /// # Errors
    /// It is cut off.
    pub fn parse(body: &'a [u8]) -> Result<TableMap<'a>, Malformed> {
        let mut reader = Reader::new(body);
        let id = table_id(&mut reader)?;
        reader.u16("flags of a table map")?;
        let length = usize::from(reader.u8("schema of a table map")?);
        let schema = reader.bytes(length, "schema of a table map")?;
        reader.u8("schema of a table map")?;
        let length = usize::from(reader.u8("table of a table map")?);
        let table = reader.bytes(length, "table of a table map")?;
        reader.u8("table of a table map")?;
        let types = reader.lenenc_bytes("columns of a table map")?;
        let metadata = reader.lenenc_bytes("metadata of a table map")?;
        Ok(TableMap { id, schema, table, types, metadata, body })
    }

    /// How many columns it has.
    pub fn columns(&self) -> usize {
        self.types.len()
    }
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
        let table = table_id(&mut reader)?;
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
        table: &TableMap<'_>,
        column: Option<usize>,
        mut found: impl FnMut(Option<u64>),
    ) -> Result<(), Malformed> {
        if self.table != table.id || self.columns != table.columns() {
            return Err(Malformed("table of rows"));
        }
        let sizes = sizes(table)?;
        let mut reader = Reader::new(self.images);
        while !reader.is_empty() {
            let before = reader.rest().len();
            let mut number = image(&mut reader, self.present, &sizes, column)?;
            if self.change == Change::Update {
                number = image(&mut reader, self.present_after, &sizes, column)?;
            }
            if reader.rest().len() == before {
                return Err(Malformed("rows without columns"));
            }
            found(number);
        }
        Ok(())
    }
}

fn table_id(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    Ok(u64::from(reader.u32("table of rows")?) | u64::from(reader.u16("table of rows")?) << 32)
}

/// How long a column's value is.
#[derive(Clone, Copy, Debug)]
enum Size {
    /// A whole number of so many bytes.
    Int(usize),
    /// So many bytes.
    Fixed(usize),
    /// The length stands before it, in so many bytes.
    Counted(usize),
}

fn sizes(table: &TableMap<'_>) -> Result<Vec<Size>, Malformed> {
    let mut metadata = Reader::new(table.metadata);
    table.types.iter().map(|kind| size(*kind, &mut metadata)).collect()
}

fn size(kind: u8, metadata: &mut Reader<'_>) -> Result<Size, Malformed> {
    let what = "metadata of a column";
    let counted = |length_max: u16| Size::Counted(if length_max > 255 { 2 } else { 1 });
    let with_fraction = |bytes: usize, digits: u8| Size::Fixed(bytes + usize::from(digits).div_ceil(2));
    Ok(match kind {
        1 => Size::Int(1),
        2 => Size::Int(2),
        9 => Size::Int(3),
        3 => Size::Int(4),
        8 => Size::Int(8),
        6 => Size::Fixed(0),
        13 => Size::Fixed(1),
        10 | 11 | 14 => Size::Fixed(3),
        7 => Size::Fixed(4),
        12 => Size::Fixed(8),
        4 => metadata.u8(what).map(|_| Size::Fixed(4))?,
        5 => metadata.u8(what).map(|_| Size::Fixed(8))?,
        17 => with_fraction(4, metadata.u8(what)?),
        18 => with_fraction(5, metadata.u8(what)?),
        19 => with_fraction(3, metadata.u8(what)?),
        // 140 and 141 are MariaDB's compressed columns, 242 is MySQL's VECTOR, 245 its JSON.
        15 | 253 | 141 => counted(metadata.u16(what)?),
        140 | 242 | 245 | 249..=252 | 255 => match metadata.u8(what)? {
            bytes @ 1..=4 => Size::Counted(usize::from(bytes)),
            _ => return Err(Malformed(what)),
        },
        16 => {
            let (bits, bytes) = (metadata.u8(what)?, metadata.u8(what)?);
            Size::Fixed(usize::from(bytes) + usize::from(bits > 0))
        }
        246 => {
            let (precision, scale) = (metadata.u8(what)?, metadata.u8(what)?);
            let whole = precision.checked_sub(scale).ok_or(Malformed(what))?;
            Size::Fixed(digits_size(whole) + digits_size(scale))
        }
        247 | 248 | 254 => {
            let (real, length) = (metadata.u8(what)?, metadata.u8(what)?);
            match real {
                247 | 248 => Size::Fixed(usize::from(length)),
                // Two bits of a long length are put, upside down, into the type.
                _ => counted(u16::from(length) | u16::from(real & 0x30 ^ 0x30) << 4),
            }
        }
        _ => return Err(Malformed("type of a column")),
    })
}

/// Nine digits of a decimal number take four bytes; what is left takes as many as it needs.
fn digits_size(digits: u8) -> usize {
    const LEFT: [usize; 9] = [0, 1, 1, 2, 2, 3, 3, 4, 4];
    usize::from(digits / 9) * 4 + LEFT[usize::from(digits % 9)]
}

/// Skips one image of a row.
fn image(
    reader: &mut Reader<'_>,
    present: &[u8],
    sizes: &[Size],
    column: Option<usize>,
) -> Result<Option<u64>, Malformed> {
    let what = "rows";
    let has = |bits: &[u8], at: usize| bits.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1);
    let count = (0..sizes.len()).filter(|at| has(present, *at)).count();
    let nulls = reader.bytes(count.div_ceil(8), what)?;
    let (mut number, mut nth) = (None, 0);
    for (at, size) in sizes.iter().enumerate() {
        if !has(present, at) {
            continue;
        }
        nth += 1;
        if has(nulls, nth - 1) {
            continue;
        }
        let bytes = match *size {
            Size::Int(bytes) | Size::Fixed(bytes) => bytes,
            Size::Counted(bytes) => usize::try_from(little(reader.bytes(bytes, what)?)).unwrap_or(usize::MAX),
        };
        let value = reader.bytes(bytes, what)?;
        if Some(at) == column && matches!(size, Size::Int(_)) {
            number = Some(little(value));
        }
    }
    Ok(number)
}

fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
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

    fn numbers(rows: &Rows<'_>, table: &TableMap<'_>, column: usize) -> Result<Vec<Option<u64>>, Malformed> {
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
        assert_eq!((table.id, table.schema, table.table, table.columns()), (9, &b"app"[..], &b"t"[..], 7));
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
        assert!((0..map.len() - 1).all(|cut| TableMap::parse(&map[..cut]).is_err()));
        assert_eq!(Rows::parse(19, &body), Ok(None));
        let other = TableMap { id: 8, ..table };
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
