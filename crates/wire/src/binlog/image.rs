//! Rows events: which keys the rows have that were written, changed or deleted.

use super::table::{Column, TableMap};
use crate::codec::{Malformed, Reader};

/// Rows of one event that are looked at; servers put about 8 KiB into one.
const ROWS_MAX: usize = 100_000;

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

/// What a rows event does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Rows are new, or gone.
    One,
    /// Each row is there twice: as it was, and as it is.
    Update,
}

/// Reads the keys of all rows; `None` when the log does not tell them. `body` begins behind flags and extra data.
pub(super) fn keys(
    table: &TableMap,
    action: Action,
    columns: usize,
    masks: [&[u8]; 2],
    rows: &[u8],
) -> Result<Option<Vec<Key>>, Malformed> {
    let Some(key) = &table.key else { return Ok(None) };
    if columns != table.columns().len() {
        return Err(Malformed("columns of a rows event"));
    }
    let mut rows = Reader::new(rows);
    let mut keys = Vec::new();
    while !rows.is_empty() {
        if keys.len() >= ROWS_MAX {
            return Ok(None);
        }
        let Some(before) = image(table, key, masks[0], &mut rows)? else { return Ok(None) };
        let Some(whole) = before.iter().cloned().collect::<Option<Key>>() else { return Ok(None) };
        if action == Action::Update {
            let Some(after) = image(table, key, masks[1], &mut rows)? else { return Ok(None) };
            // What is not there has not changed.
            let after: Key = after.into_iter().zip(&whole).map(|(new, old)| new.unwrap_or(old.clone())).collect();
            if after != whole {
                keys.push(after);
            }
        }
        keys.push(whole);
    }
    Ok(Some(keys))
}

/// The parts of one row's key, as far as they are there; `None` when a column is of a kind that is not known.
fn image(
    table: &TableMap,
    key: &[usize],
    present: &[u8],
    rows: &mut Reader<'_>,
) -> Result<Option<Vec<Option<KeyPart>>>, Malformed> {
    let is_set = |bits: &[u8], index: usize| bits.get(index / 8).is_some_and(|byte| byte & (1 << (index % 8)) != 0);
    let columns = table.columns();
    let count = (0..columns.len()).filter(|index| is_set(present, *index)).count();
    let nulls = rows.bytes(count.div_ceil(8), "nulls of a row")?;
    let mut parts = vec![None; key.len()];
    let there = columns.iter().enumerate().filter(|(index, _)| is_set(present, *index));
    for (place, (index, column)) in there.enumerate() {
        if is_set(nulls, place) {
            continue;
        }
        let value = match *column {
            Column::Integer { bytes, .. } | Column::Fixed(bytes) => rows.bytes(bytes, "value of a row")?,
            Column::Counted(length) | Column::Text(length) => {
                let mut count = 0_usize;
                for (at, byte) in rows.bytes(length, "length of a value")?.iter().enumerate() {
                    count |= usize::from(*byte) << (8 * at);
                }
                rows.bytes(count, "value of a row")?
            }
            Column::Unknown => return Ok(None),
        };
        let Some(part) = key.iter().position(|number| *number == index) else { continue };
        parts[part] = match *column {
            Column::Integer { signed: Some(signed), .. } => Some(KeyPart::Integer(integer(value, signed))),
            Column::Text(_) => Some(KeyPart::Bytes(value.into())),
            _ => return Ok(None),
        };
    }
    Ok(Some(parts))
}

fn integer(bytes: &[u8], signed: bool) -> i128 {
    let number = bytes.iter().rev().fold(0_i128, |number, byte| number << 8 | i128::from(*byte));
    let negative = signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    if negative { number - (1 << (8 * bytes.len())) } else { number }
}
