//! The file of events: lines of JSON, with a name that stays. A full or old file gets another name and is compressed.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The settings of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// A file of this many bytes gets another name; 0: never.
    pub size_max: u64,
    /// A file of this age gets another name; zero: never.
    pub age_max: Duration,
    /// Files with other names that are kept; the oldest go.
    pub keep: usize,
    /// Files with other names are compressed (zstd).
    pub compress: bool,
}

/// The end of a line is looked for in so many bytes; no event has a longer one.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// The level of zstd: the fastest one.
const ZSTD_LEVEL: i32 = 1;

/// An open file of events.
#[derive(Debug)]
pub(crate) struct EventFile {
    path: PathBuf,
    rotation: Rotation,
    file: File,
    /// Not a device or a pipe, such as `/dev/stdout`: those keep their names, and have no length.
    is_regular: bool,
    bytes: u64,
    opened: SystemTime,
}

impl EventFile {
    /// Opens the file, or makes it, readable for its owner and group.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn open(path: &Path, rotation: &Rotation, now: SystemTime) -> io::Result<EventFile> {
        let mut file = OpenOptions::new().create(true).append(true).read(true).mode(0o640).open(path)?;
        let found = file.metadata()?;
        let is_regular = found.is_file();
        let bytes = if is_regular { end_line(&mut file, path, found.len())? } else { 0 };
        Ok(EventFile { path: path.to_owned(), rotation: rotation.clone(), file, is_regular, bytes, opened: now })
    }

    /// Appends whole lines. Gives the file that got another name, if it did so ahead of them.
    ///
    /// # Errors
    /// The system's; none of the lines is there then.
    pub(crate) fn write(&mut self, lines: &[u8], now: SystemTime) -> io::Result<Option<PathBuf>> {
        let full = self.rotation.size_max > 0 && self.bytes.saturating_add(lines.len() as u64) > self.rotation.size_max;
        let age = now.duration_since(self.opened).unwrap_or_default();
        let old = !self.rotation.age_max.is_zero() && age >= self.rotation.age_max;
        let is_due = self.is_regular && self.bytes > 0 && (full || old);
        let rotated = if is_due { Some(self.rotate(now)?) } else { None };
        if let Err(error) = self.file.write_all(lines) {
            // Part of a line would spoil the next one. If it stays, the next start ends it.
            if self.is_regular {
                self.file.set_len(self.bytes)?;
            }
            return Err(error);
        }
        self.bytes += lines.len() as u64;
        Ok(rotated)
    }

    /// Gives the file another name, unless it is empty or no regular one. Gives that name.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn rotate_now(&mut self, now: SystemTime) -> io::Result<Option<PathBuf>> {
        let is_due = self.is_regular && self.bytes > 0;
        is_due.then(|| self.rotate(now)).transpose()
    }

    /// Opens the file again if its name belongs to another one now, or to none: logrotate has moved it. Gives whether it did.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn follow_name(&mut self, now: SystemTime) -> io::Result<bool> {
        let own = self.file.metadata()?;
        let is_own =
            std::fs::metadata(&self.path).is_ok_and(|named| (named.ino(), named.dev()) == (own.ino(), own.dev()));
        if !is_own {
            *self = EventFile::open(&self.path, &self.rotation, now)?;
        } else if self.is_regular {
            // Another program may have cut it (logrotate's `copytruncate`): its end is where the next line begins.
            self.bytes = self.bytes.min(own.len());
        }
        Ok(!is_own)
    }

    /// Has the disk keep the written lines: they survive a crash of the machine from now on.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if self.is_regular { self.file.sync_data() } else { Ok(()) }
    }

    fn rotate(&mut self, now: SystemTime) -> io::Result<PathBuf> {
        let aside = free_name(&self.path, now);
        std::fs::rename(&self.path, &aside)?;
        *self = EventFile::open(&self.path, &self.rotation, now)?;
        Ok(aside)
    }
}

/// A process that was killed, or a full disk, may have left half a line: it is cut off. One that is no event is ended.
///
/// Gives the length of the file.
fn end_line(file: &mut File, path: &Path, bytes: u64) -> io::Result<u64> {
    use std::os::unix::fs::FileExt as _;
    let mut tail = vec![0; usize::try_from(bytes.min(LINE_BYTES_MAX)).unwrap_or(0)];
    let begin = bytes - tail.len() as u64;
    file.read_exact_at(&mut tail, begin)?;
    let half = tail.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if half == tail.len() {
        return Ok(bytes);
    }
    tracing::warn!(file = %path.display(), "the last event of the file was cut");
    let is_event = b"{\"v\":".iter().zip(&tail[half..]).all(|(expected, found)| expected == found);
    if is_event && (half > 0 || begin == 0) {
        let whole = begin + half as u64;
        file.set_len(whole)?;
        return Ok(whole);
    }
    file.write_all(b"\n")?;
    Ok(bytes + 1)
}

/// A name behind that of the file, with the second, and a number if there are several: `events.jsonl.20261126-120000.1`.
fn free_name(path: &Path, now: SystemTime) -> PathBuf {
    let now = time::OffsetDateTime::from(now);
    let (date, time) = (now.date(), now.time());
    let stamp = format!(
        "{:04}{:02}{:02}-{:02}{:02}{:02}",
        date.year(),
        u8::from(date.month()),
        date.day(),
        time.hour(),
        time.minute(),
        time.second()
    );
    let with = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let is_free = |path: &PathBuf| !path.exists() && !compressed(path).exists();
    let mut names = (0..).map(|number: u32| with(&format!(".{stamp}.{number}")));
    names.find(is_free).unwrap_or_else(|| with(&format!(".{stamp}")))
}

fn compressed(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".zst");
    PathBuf::from(name)
}

/// Compresses a file that got another name if that is wanted, and removes the oldest ones. Takes time: not for the thread
/// that empties the rings.
///
/// # Errors
/// The system's; a file that was not compressed stays as it is.
pub(crate) fn tidy(path: &Path, rotated: &Path, rotation: &Rotation) -> io::Result<()> {
    if rotation.compress {
        compress(rotated)?;
    }
    let mut others = rotated_files(path)?;
    others.sort();
    let gone = others.len().saturating_sub(rotation.keep);
    others.iter().take(gone).try_for_each(std::fs::remove_file)
}

fn compress(rotated: &Path) -> io::Result<()> {
    let (target, unfinished) = (compressed(rotated), rotated.with_extension("unfinished"));
    let out = OpenOptions::new().create(true).truncate(true).write(true).mode(0o640).open(&unfinished)?;
    let written = zstd::stream::copy_encode(File::open(rotated)?, &out, ZSTD_LEVEL).and_then(|()| out.sync_data());
    if let Err(error) = written {
        // The file itself is still whole.
        std::fs::remove_file(&unfinished)?;
        return Err(error);
    }
    std::fs::rename(&unfinished, &target)?;
    std::fs::remove_file(rotated)
}

/// The files beside the current one whose names this module has made.
fn rotated_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let begin = format!("{}.", path.file_name().unwrap_or_default().to_string_lossy());
    let is_ours = |name: &str| {
        let Some(rest) = name.strip_prefix(&begin) else { return false };
        let rest = rest.strip_suffix(".zst").unwrap_or(rest);
        rest.len() > 16 && rest.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.'))
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if is_ours(&entry.file_name().to_string_lossy()) {
            files.push(entry.path());
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests;
