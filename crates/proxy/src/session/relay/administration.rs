//! Results of ANALYZE, CHECK, OPTIMIZE and REPAIR TABLE: rows with a table's name, the statement, the kind of a message and the message.

use wire::codec::Reader;

use super::packets_of;

const COLUMNS: usize = 4;

/// Whether the rows of a reply, which may lack its end, have a table that the server has opened. Of others it says "Error", and that the
/// operation failed.
pub(super) fn has_opened(reply: &[u8]) -> bool {
    let mut packets = packets_of(reply);
    if packets.next() != Some(&[COLUMNS as u8]) {
        return true;
    }
    // Behind the descriptions of columns, an EOF may stand in the old framing.
    packets
        .skip(COLUMNS)
        .filter(|row| row.first() != Some(&wire::reply::EOF))
        .any(|row| is_of_opened(row).unwrap_or(true))
}

fn is_of_opened(row: &[u8]) -> Option<bool> {
    // A row of the binary protocol begins with 0 and the NULLs; no table has an empty name.
    let values = if row.first() == Some(&0) { row.get(1 + (COLUMNS + 9) / 8..)? } else { row };
    let mut reader = Reader::new(values);
    let mut value = || reader.lenenc_bytes("value").ok();
    let (_table, _statement, kind, message) = (value()?, value()?, value()?, value()?);
    Some(kind != b"Error" && (kind, message) != (b"status", b"Operation failed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::packets as written;

    fn row(begin: &[u8], values: [&str; COLUMNS]) -> Vec<u8> {
        let mut row = begin.to_vec();
        for value in values {
            row.push(value.len() as u8);
            row.extend_from_slice(value.as_bytes());
        }
        row
    }

    #[test]
    fn a_table_that_has_no_error_was_opened() {
        let failed = |begin| {
            let error = row(begin, ["a.t", "analyze", "Error", "Table 'a.t' doesn't exist"]);
            vec![error, row(begin, ["a.t", "analyze", "status", "Operation failed"])]
        };
        let has_opened = |rows: &[Vec<u8>]| {
            let head = [vec![4], vec![b'd'], vec![b'd'], vec![b'd'], vec![b'd']];
            let all: Vec<&[u8]> = head.iter().chain(rows).map(Vec::as_slice).collect();
            has_opened(&written(&all))
        };
        for begin in [&b""[..], &[0, 0]] {
            assert!(!has_opened(&failed(begin)));
            assert!(has_opened(&[failed(begin), vec![row(begin, ["a.u", "analyze", "status", "OK"])]].concat()));
            assert!(has_opened(&[row(begin, ["a.u", "repair", "note", "The storage engine does not"])]));
        }
    }
}
