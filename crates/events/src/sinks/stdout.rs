//! Standard output as a sink.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;

use super::batch::Batch;

/// Standard output, without the buffer that others of this process may use.
#[derive(Debug)]
pub(super) struct StdoutOutput {
    file: File,
    /// Bytes of the batch that were written before its write failed: the next try goes on behind them.
    written: usize,
}

impl StdoutOutput {
    pub(super) fn open() -> io::Result<StdoutOutput> {
        Ok(StdoutOutput { file: File::from(io::stdout().as_fd().try_clone_to_owned()?), written: 0 })
    }

    pub(super) fn write(&mut self, batch: &Batch) -> io::Result<()> {
        while let Some(rest @ [_, ..]) = batch.lines().get(self.written..) {
            match self.file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.written += written,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.written = 0;
        Ok(())
    }
}
