//! The segments that a process finds when it starts.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::Segment;
use super::frame::{self, Found, Head};

/// The path of the segment that begins with this number.
pub(super) fn path(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("{first:020}.events"))
}

/// Finds the segments, oldest first, and cuts off what a crash has left behind the last whole block of the newest one. Gives the
/// number behind the last event, too.
///
/// # Errors
/// The system's.
pub(super) fn recover(folder: &Path) -> io::Result<(VecDeque<Segment>, u64)> {
    let mut firsts: Vec<u64> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        firsts.extend(name.strip_suffix(".events").and_then(|number| number.parse::<u64>().ok()));
    }
    firsts.sort_unstable();
    let (mut segments, mut next) = (VecDeque::new(), 1);
    for (index, first) in firsts.iter().copied().enumerate() {
        let behind = firsts.get(index + 1).copied();
        let segment = match behind {
            // Only the newest one was written to.
            Some(behind) => sealed(&path(folder, first), first, behind)?,
            None => newest(&path(folder, first), first)?,
        };
        match segment {
            Some(segment) => {
                next = segment.last.saturating_add(1).max(next);
                segments.push_back(segment);
            }
            None => std::fs::remove_file(path(folder, first))?,
        }
    }
    Ok((segments, next))
}

/// A segment with another one behind it. Its last number is at least as small as the next one's first; readers find gaps.
fn sealed(path: &Path, first: u64, behind: u64) -> io::Result<Option<Segment>> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let at_us = Head::read(&file, 0, bytes)?.map_or(0, |head| head.at_us);
    Ok((bytes > 0).then(|| Segment { first, last: behind.saturating_sub(1), bytes, at_us, sealed: true }))
}

/// The segment that was written to at the end. `None` if no block in it is whole.
fn newest(path: &Path, first: u64) -> io::Result<Option<Segment>> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let bytes = file.metadata()?.len();
    let (mut at, mut segment) = (0, None);
    loop {
        // A block whose records are damaged still says its numbers, which are not used again.
        let head = Head::read(&file, at, bytes)?.filter(|head| head.end(at) <= bytes);
        let behind = match frame::read(&file, at, bytes)? {
            Found::Block(_, behind) | Found::Damage(behind) => behind,
            Found::End => break,
        };
        if let Some(Head { last, at_us, .. }) = head {
            segment = Some(Segment { first, last, bytes: behind, at_us, sealed: true });
        }
        at = behind;
    }
    let whole = segment.as_ref().map_or(0, |segment: &Segment| segment.bytes);
    if whole < bytes {
        tracing::warn!(file = %path.display(), bytes = bytes - whole, "the spool of events ends in a half block; it is cut off");
        file.set_len(whole)?;
        file.sync_all()?;
    }
    Ok(segment)
}
