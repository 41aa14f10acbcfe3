//! Numbers of events over restarts: the file's last line says where to go on.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// The last line is looked for in so many bytes. No line is longer: JSON takes up to six bytes for one of a text and of an error.
const TAIL_BYTES: u64 = 1 << 20;

/// The number behind the last one in a file of events; `None` if there is none.
pub(crate) fn next_in(path: &Path) -> Option<u64> {
    last_in(path).map(|last| last.saturating_add(1))
}

fn last_in(path: &Path) -> Option<u64> {
    // To open a pipe could take for ever.
    let mut file =
        std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).and_then(|_| File::open(path).ok())?;
    let end = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(end.saturating_sub(TAIL_BYTES))).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes).ok()?;
    // A process that was killed may have left half a line.
    bytes.split(|byte| *byte == b'\n').rev().find_map(number_of)
}

/// The last number that a line uses: a gap uses all that are lost.
fn number_of(line: &[u8]) -> Option<u64> {
    let line: serde_json::Value = serde_json::from_slice(line).ok()?;
    line.get("to").or_else(|| line.get("seq"))?.as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_line_at_the_end_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        assert_eq!(next_in(&path), None);
        std::fs::write(&path, "{\"seq\":7}\n{\"seq\":8,\"to\":11,\"kind\":\"gap\"}\n{\"seq\":12,\"ki").unwrap();
        assert_eq!(next_in(&path), Some(12));
        std::fs::write(&path, "no event").unwrap();
        assert_eq!(next_in(&path), None);
    }
}
