//! A file as a sink.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use super::batch::Batch;
use super::rotated::{EventFile, Rotation, tidy};

/// The settings of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSettings {
    /// Its path.
    pub path: PathBuf,
    /// When it gets another name.
    pub rotation: Rotation,
}

/// An open file.
#[derive(Debug)]
pub(super) struct FileOutput {
    settings: FileSettings,
    file: EventFile,
    unsynced: bool,
    /// When another program had moved it, and it was made anew.
    moved: Option<Instant>,
}

/// An order to rotate that comes so soon behind that is meant for the file that was moved: logrotate sends a signal behind it.
const SAME_ORDER: Duration = Duration::from_secs(10);

impl FileOutput {
    pub(super) fn open(settings: &FileSettings) -> io::Result<FileOutput> {
        let file = EventFile::open(&settings.path, &settings.rotation, SystemTime::now())?;
        Ok(FileOutput { settings: settings.clone(), file, unsynced: false, moved: None })
    }

    pub(super) fn write(&mut self, batch: &Batch) -> io::Result<()> {
        if let Some(rotated) = self.file.write(batch.lines(), SystemTime::now())? {
            self.tidy(rotated);
        }
        self.unsynced = true;
        Ok(())
    }

    /// The work of each second: the file's name is followed, and the disk keeps the written lines.
    pub(super) fn upkeep(&mut self) -> io::Result<()> {
        self.sync()?;
        self.follow_name()
    }

    fn follow_name(&mut self) -> io::Result<()> {
        if self.file.follow_name(SystemTime::now())? {
            self.moved = Some(Instant::now());
        }
        Ok(())
    }

    /// The file gets another name now. One that was moved is made anew, and what is behind its name meanwhile stays.
    pub(super) fn rotate(&mut self) -> io::Result<()> {
        self.sync()?;
        self.follow_name()?;
        if self.moved.is_some_and(|moved| moved.elapsed() < SAME_ORDER) {
            return Ok(());
        }
        if let Some(rotated) = self.file.rotate_now(SystemTime::now())? {
            self.tidy(rotated);
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.unsynced {
            self.file.sync()?;
            self.unsynced = false;
        }
        Ok(())
    }

    /// Compresses and removes files on a thread of its own.
    fn tidy(&self, rotated: PathBuf) {
        let FileSettings { path, rotation } = self.settings.clone();
        let work = move || {
            if let Err(error) = tidy(&path, &rotated, &rotation) {
                tracing::error!(file = %rotated.display(), %error, "a file of events was not compressed or removed");
            }
        };
        if let Err(error) = std::thread::Builder::new().name("sqluice-zstd".into()).spawn(work) {
            tracing::error!(%error, "no thread to compress a file of events");
        }
    }
}
