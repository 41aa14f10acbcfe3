//! Rows of lists of processes that no server has: those of sessions without a connection.

use std::sync::Arc;

use wire::codec::Write;

/// Types of `enum_field_types` whose values have a length of their own in rows of prepared statements.
pub(super) const LONG: u8 = 3;
const FLOAT: u8 = 4;
const DOUBLE: u8 = 5;
pub(super) const LONGLONG: u8 = 8;
/// The bits of a row's bitmap that belong to no column.
const BITMAP_OFFSET: usize = 2;

/// The length of the bitmap of NULLs in a row of so many columns.
pub(super) fn bitmap_bytes(columns: usize) -> usize {
    (columns + BITMAP_OFFSET).div_ceil(8)
}

/// NULL in a row of text.
pub(super) const NULL: u8 = 0xfb;

/// The row of a session that has no connection to the server.
#[derive(Debug, PartialEq, Eq)]
pub struct IdleRow {
    /// The id that the session's client knows.
    pub id: u32,
    /// The user.
    pub user: Arc<str>,
    /// Where the client is.
    pub host: String,
    /// The schema.
    pub schema: Option<Arc<str>>,
    /// As servers name it.
    pub command: &'static str,
    /// For how long, in seconds.
    pub idle_s: u32,
}

impl IdleRow {
    fn values(&self, columns: usize) -> Vec<Option<String>> {
        let text = |value: &str| Some(value.to_owned());
        let mut values = vec![
            Some(self.id.to_string()),
            text(&self.user),
            text(&self.host),
            self.schema.as_deref().map(str::to_owned),
            text(self.command),
            Some(self.idle_s.to_string()),
            text(""),
            None,
        ];
        values.resize(columns, text("0.000"));
        values
    }

    /// The row in the form of the text protocol.
    pub(super) fn write(&self, columns: usize) -> Vec<u8> {
        let mut row = Vec::new();
        for value in self.values(columns) {
            match value {
                Some(value) => row.put_lenenc_bytes(value.as_bytes()),
                None => row.push(NULL),
            }
        }
        row
    }

    /// The row in the form of prepared statements, for columns of these types.
    pub(super) fn write_binary(&self, kinds: &[u8]) -> Vec<u8> {
        let values = self.values(kinds.len());
        let mut row = vec![0; 1 + bitmap_bytes(kinds.len())];
        for (at, (value, kind)) in values.iter().zip(kinds).enumerate() {
            let Some(value) = value else {
                row[1 + (at + BITMAP_OFFSET) / 8] |= 1 << ((at + BITMAP_OFFSET) % 8);
                continue;
            };
            match *kind {
                LONGLONG => row.extend_from_slice(&value.parse::<i64>().unwrap_or(0).to_le_bytes()),
                LONG => row.extend_from_slice(&value.parse::<i32>().unwrap_or(0).to_le_bytes()),
                DOUBLE => row.extend_from_slice(&value.parse::<f64>().unwrap_or(0.0).to_le_bytes()),
                FLOAT => row.extend_from_slice(&value.parse::<f32>().unwrap_or(0.0).to_le_bytes()),
                _ => row.put_lenenc_bytes(value.as_bytes()),
            }
        }
        row
    }
}
