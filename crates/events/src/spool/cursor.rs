//! How far a sink has come: a number in a file of two slots, so that a write that was cut leaves the one before.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The beginning of a slot.
const MAGIC: [u8; 8] = *b"SqlCur01";
/// Bytes of a slot: the magic, the number, the version, and a checksum.
const SLOT_BYTES: usize = 8 + 8 + 8 + 4;

/// The cursor of a sink.
#[derive(Debug)]
pub(crate) struct Cursor {
    file: File,
    version: u64,
    unsynced: bool,
    /// The number of the first event that the sink does not have; `None` if it has never had one.
    next: Option<u64>,
}

impl Cursor {
    /// Opens a sink's cursor, or makes it.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn open(path: &Path) -> io::Result<Cursor> {
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o640).open(path)?;
        let slot = |index: u64| {
            let mut bytes = [0; SLOT_BYTES];
            file.read_exact_at(&mut bytes, index * SLOT_BYTES as u64).ok()?;
            decode(&bytes)
        };
        let newest = [slot(0), slot(1)].into_iter().flatten().max_by_key(|(_, version)| *version);
        let (next, version) = newest.map_or((None, 0), |(next, version)| (Some(next), version));
        Ok(Cursor { file, version, unsynced: false, next })
    }

    /// The number of the first event that the sink does not have.
    pub(crate) fn next(&self) -> Option<u64> {
        self.next
    }

    /// Notes how far the sink has come. It survives the end of the process at once, and that of the machine after the next
    /// [`Cursor::sync`].
    ///
    /// # Errors
    /// The system's; the number of before holds then.
    pub(crate) fn write(&mut self, next: u64) -> io::Result<()> {
        if self.next == Some(next) {
            return Ok(());
        }
        let version = self.version + 1;
        let mut bytes = [MAGIC, next.to_le_bytes(), version.to_le_bytes()].concat();
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        self.file.write_all_at(&bytes, version % 2 * SLOT_BYTES as u64)?;
        (self.next, self.version, self.unsynced) = (Some(next), version, true);
        Ok(())
    }

    /// Has the disk keep the number.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if self.unsynced {
            self.file.sync_data()?;
            self.unsynced = false;
        }
        Ok(())
    }
}

fn decode(bytes: &[u8; SLOT_BYTES]) -> Option<(u64, u64)> {
    let (body, checksum) = bytes.split_last_chunk::<4>()?;
    if !body.starts_with(&MAGIC) || crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let number = |at: usize| body.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    Some((number(8)?, number(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_was_cut_leaves_the_number_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.cursor");
        let mut cursor = Cursor::open(&path).unwrap();
        assert_eq!(cursor.next(), None);
        cursor.write(7).unwrap();
        cursor.write(9).unwrap();
        cursor.sync().unwrap();
        assert_eq!(Cursor::open(&path).unwrap().next(), Some(9));
        // The second write went into the first slot.
        let bytes = std::fs::read(&path).unwrap();
        for place in 0..SLOT_BYTES {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1;
            std::fs::write(&path, &flipped).unwrap();
            let mut cursor = Cursor::open(&path).unwrap();
            assert_eq!(cursor.next(), Some(7), "{place}");
            cursor.write(8).unwrap();
            assert_eq!(Cursor::open(&path).unwrap().next(), Some(8), "{place}");
        }
        std::fs::write(&path, "no cursor").unwrap();
        assert_eq!(Cursor::open(&path).unwrap().next(), None);
    }
}
