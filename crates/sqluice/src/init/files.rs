//! Writing files that nobody else may read, keeping copies of files, and making passwords up.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// Writes a file with mode 0600. An existing one is only replaced when told so, and then as a whole.
pub(super) fn write_private(path: &Path, bytes: &[u8], replace: bool) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    if !replace {
        let mut file = private(path).with_context(failed)?;
        return file.write_all(bytes).and_then(|()| file.sync_all()).with_context(failed);
    }
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        bail!("{} is no regular file, so it is not replaced", path.display());
    }
    let mut name = path.file_name().with_context(failed)?.to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let beside = path.with_file_name(name);
    let written = private(&beside)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // A half-written file is of no use; the first error is the one that matters.
        let _ = fs::remove_file(&beside);
    }
    written.with_context(failed)
}

/// Copies of one file that are kept, at most.
const COPIES_MAX: u32 = 999;

/// Copies a file to `NAME.bak-1`, or to the next number that is free, with mode 0600, and gives where the copy is. `None`: there is no such
/// file.
pub(super) fn keep_copy(path: &Path) -> anyhow::Result<Option<PathBuf>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    for number in 1..=COPIES_MAX {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".bak-{number}"));
        let copy = PathBuf::from(name);
        let failed = || format!("cannot write {}", copy.display());
        match private(&copy) {
            Ok(mut file) => {
                file.write_all(&bytes).and_then(|()| file.sync_all()).with_context(failed)?;
                return Ok(Some(copy));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(failed),
        }
    }
    bail!("there are {COPIES_MAX} copies of {} already; remove some", path.display())
}

fn private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// The symbols of passwords: 64, so that each random byte gives one without favour.
const SYMBOLS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Symbols in a password: 192 bits.
const PASSWORD_LENGTH: usize = 32;

/// A random password that the servers' password checks accept: it has a letter of each case, a digit and a sign.
pub(crate) fn made_up_password() -> anyhow::Result<String> {
    let mut random = File::open("/dev/urandom").context("cannot get random bytes")?;
    loop {
        let mut bytes = [0u8; PASSWORD_LENGTH];
        random.read_exact(&mut bytes).context("cannot get random bytes")?;
        let password: String = bytes.iter().map(|byte| char::from(SYMBOLS[usize::from(byte & 63)])).collect();
        let has = |kind: fn(&u8) -> bool| password.as_bytes().iter().any(kind);
        // One in a few passwords lacks a digit or a sign; the next one is as random.
        if has(u8::is_ascii_lowercase)
            && has(u8::is_ascii_uppercase)
            && has(u8::is_ascii_digit)
            && has(u8::is_ascii_punctuation)
        {
            return Ok(password);
        }
    }
}
