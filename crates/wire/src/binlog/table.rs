//! TABLE_MAP: how the rows that follow are laid out.
//!
//! Sources: MySQL's documentation of `Table_map_event`, MariaDB's "TABLE_MAP_EVENT". The optional part is written by
//! `binlog_row_metadata`: MINIMAL (MySQL's default) tells signs, FULL tells the primary key as well.

use crate::codec::{Malformed, Reader};

/// Columns of a table; servers take 4,096.
const COLUMNS_MAX: u64 = 4096;
/// The numbers of the optional fields.
const SIGNEDNESS: u8 = 1;
const SIMPLE_PRIMARY_KEY: u8 = 8;

/// A table as a binary log describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableMap {
    /// The number by which rows events name it.
    pub number: u64,
    /// Its schema.
    pub schema: Box<str>,
    /// Its name.
    pub name: Box<str>,
    pub(super) columns: Vec<Column>,
    /// The columns of its primary key, where the log tells them: whole ones only.
    pub(super) key: Option<Vec<usize>>,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// A whole number of so many bytes; whether it has a sign, if the log tells.
    Integer { bytes: usize, signed: Option<bool> },
    /// Something of a fixed length.
    Fixed(usize),
    /// Its length stands in front, in so many bytes.
    Counted(usize),
    /// Text or bytes, the same way: what a key may consist of.
    Text(usize),
    /// How long it is, is not known here.
    Unknown,
}

impl TableMap {
    /// Reads the body of an event, without its checksum.
    ///
    /// # Errors
    /// It is cut off, or says what cannot be.
    pub fn parse(body: &[u8]) -> Result<TableMap, Malformed> {
        let mut body = Reader::new(body);
        let number = table_number(&mut body)?;
        body.u16("flags of a table map")?;
        let mut name = || -> Result<Box<str>, Malformed> {
            let length = usize::from(body.u8("name in a table map")?);
            let name = body.bytes(length, "name in a table map")?;
            body.u8("end of a name in a table map")?;
            std::str::from_utf8(name).map(Box::from).map_err(|_| Malformed("name in a table map"))
        };
        let (schema, name) = (name()?, name()?);
        let count = body.lenenc("columns of a table map")?;
        if count > COLUMNS_MAX {
            return Err(Malformed("columns of a table map"));
        }
        let count = usize::try_from(count).map_err(|_| Malformed("columns of a table map"))?;
        let types = body.bytes(count, "types of a table map")?;
        let mut meta = Reader::new(body.lenenc_bytes("metadata of a table map")?);
        let mut columns = types.iter().map(|code| column(*code, &mut meta)).collect::<Result<Vec<_>, _>>()?;
        body.bytes(count.div_ceil(8), "nulls of a table map")?;
        let mut key = None;
        while !body.is_empty() {
            let field = body.u8("field of a table map")?;
            let value = body.lenenc_bytes("field of a table map")?;
            match field {
                SIGNEDNESS => signs(types, value, &mut columns),
                SIMPLE_PRIMARY_KEY => key = Some(numbers(value, count)?),
                _ => {}
            }
        }
        Ok(TableMap { number, schema, name, columns, key })
    }

    /// How many columns it has.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }
}

/// The number of a table, which has six bytes.
pub(super) fn table_number(body: &mut Reader<'_>) -> Result<u64, Malformed> {
    let low = u64::from(body.u32("number of a table")?);
    Ok(low | u64::from(body.u16("number of a table")?) << 32)
}

fn numbers(value: &[u8], columns: usize) -> Result<Vec<usize>, Malformed> {
    let mut value = Reader::new(value);
    let mut numbers = Vec::new();
    while !value.is_empty() {
        let number = usize::try_from(value.lenenc("primary key of a table map")?);
        let number = number.ok().filter(|number| *number < columns && !numbers.contains(number));
        numbers.push(number.ok_or(Malformed("primary key of a table map"))?);
    }
    Ok(numbers)
}

/// One bit for each numeric column, the first in the highest: it has no sign.
///
/// MariaDB 10.11 and MySQL 9.7 count YEAR as one. Whether all versions do is not written down, so a sign is known only where both
/// ways of counting give the same.
fn signs(types: &[u8], bits: &[u8], columns: &mut [Column]) {
    let (mut place, mut place_without_years) = (0, 0);
    for (code, column) in types.iter().zip(columns) {
        // DECIMAL, TINYINT, SMALLINT, INT, FLOAT, DOUBLE, BIGINT, MEDIUMINT, and DECIMAL as it is written now.
        let numeric = matches!(code, 0..=5 | 8 | 9 | 246);
        if let Column::Integer { signed, .. } = column {
            let at = |place: usize| bits.get(place / 8).map(|byte| byte & (0x80 >> (place % 8)) == 0);
            *signed = at(place).filter(|one| at(place_without_years) == Some(*one));
        }
        place += usize::from(numeric || *code == 13);
        place_without_years += usize::from(numeric);
    }
}

fn column(code: u8, meta: &mut Reader<'_>) -> Result<Column, Malformed> {
    let what = "metadata of a table map";
    let integer = |bytes| Column::Integer { bytes, signed: None };
    let fraction = |digits: u8| usize::from(digits.min(6)).div_ceil(2);
    Ok(match code {
        1 => integer(1),
        2 => integer(2),
        9 => integer(3),
        3 => integer(4),
        8 => integer(8),
        // FLOAT, DOUBLE
        4 | 5 => Column::Fixed(usize::from(meta.u8(what)?)),
        // NULL
        6 => Column::Fixed(0),
        // YEAR
        13 => Column::Fixed(1),
        // DATE
        10 | 14 => Column::Fixed(3),
        // TIMESTAMP, DATETIME, TIME. As they were written before MySQL 5.6 (7, 12, 11) they have lengths that the log does not tell.
        17 => Column::Fixed(4 + fraction(meta.u8(what)?)),
        18 => Column::Fixed(5 + fraction(meta.u8(what)?)),
        19 => Column::Fixed(3 + fraction(meta.u8(what)?)),
        // VARCHAR, VAR_STRING; MariaDB's compressed VARCHAR
        15 | 253 => Column::Text(if meta.u16(what)? < 256 { 1 } else { 2 }),
        141 => Column::Counted(if meta.u16(what)? < 256 { 1 } else { 2 }),
        // BIT: bits beyond whole bytes, and whole bytes
        16 => {
            let bits = usize::from(meta.u8(what)?);
            Column::Fixed(usize::from(meta.u8(what)?) + usize::from(bits > 0))
        }
        246 => {
            let (precision, scale) = (usize::from(meta.u8(what)?), usize::from(meta.u8(what)?));
            precision.checked_sub(scale).map_or(Column::Unknown, |whole| Column::Fixed(digits(whole) + digits(scale)))
        }
        // VECTOR, JSON, the four sizes of BLOB, GEOMETRY; MariaDB's compressed BLOB
        242 | 245 | 249..=252 | 255 | 140 => match usize::from(meta.u8(what)?) {
            length @ 1..=4 => Column::Counted(length),
            _ => Column::Unknown,
        },
        // ENUM, SET and CHAR: the real type, and a length whose high bits stand in the type
        247 | 248 | 254 => {
            let (kind, low) = (meta.u8(what)?, usize::from(meta.u8(what)?));
            match kind | 0x30 {
                0xf7 | 0xf8 if kind & 0x30 == 0x30 => Column::Fixed(low),
                _ => {
                    let length = low | usize::from((kind & 0x30) ^ 0x30) << 4;
                    Column::Text(if length > 255 { 2 } else { 1 })
                }
            }
        }
        _ => Column::Unknown,
    })
}

/// Bytes of so many decimal digits: four for each nine.
fn digits(count: usize) -> usize {
    const REST: [usize; 9] = [0, 1, 1, 2, 2, 3, 3, 4, 4];
    count / 9 * 4 + REST[count % 9]
}
