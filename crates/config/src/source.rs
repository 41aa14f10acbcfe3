//! Reading what the configuration points to: the only place of this crate that touches files or the environment.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

/// Most bytes read from one file; certificates and passwords are far below.
const FILE_MAX: u64 = 4 * 1024 * 1024;

/// A file that was read.
#[derive(Clone)]
pub struct FileContent {
    /// Its bytes, wiped when dropped.
    pub bytes: Zeroizing<Vec<u8>>,
    /// Its permission bits, where the system has them.
    pub mode: Option<u32>,
}

/// Where secrets and certificates come from.
pub trait Source {
    /// Reads a whole file.
    ///
    /// # Errors
    /// When the file is missing, may not be read or is over 4 MiB.
    fn file(&self, path: &Path) -> io::Result<FileContent>;

    /// Reads an environment variable; none when it is not set or not UTF-8.
    fn variable(&self, name: &str) -> Option<String>;
}

/// The machine's files and this process's environment.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemSource;

impl Source for SystemSource {
    fn file(&self, path: &Path) -> io::Result<FileContent> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
        }
        let mut bytes = Zeroizing::new(Vec::new());
        file.take(FILE_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > FILE_MAX {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is over 4 MiB"));
        }
        #[cfg(unix)]
        let mode = Some(std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()));
        #[cfg(not(unix))]
        let mode = None;
        Ok(FileContent { bytes, mode })
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// Files and variables given by hand, for tests and for tools that check a text without a machine.
#[derive(Clone, Default)]
pub struct MemorySource {
    /// Content and permission bits by path.
    pub files: BTreeMap<PathBuf, (Vec<u8>, u32)>,
    /// Values by name.
    pub variables: BTreeMap<String, String>,
}

impl Source for MemorySource {
    fn file(&self, path: &Path) -> io::Result<FileContent> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, "no such file");
        let (bytes, mode) = self.files.get(path).ok_or_else(missing)?;
        Ok(FileContent { bytes: Zeroizing::new(bytes.clone()), mode: Some(*mode) })
    }

    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }
}
