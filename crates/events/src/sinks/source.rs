//! Where a sink gets its events from.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::batch::{Batch, Choice};
use crate::queue::Queue;
use crate::spool::{Cursor, Reader, Spool};

/// The events on their way to a sink.
#[derive(Debug)]
pub(super) enum Source {
    /// They wait in memory, in the sink's queue.
    Memory,
    /// They are on disk.
    Spool(Box<Spooled>),
}

/// A sink's way through the spool.
#[derive(Debug)]
pub(super) struct Spooled {
    sink: String,
    reader: Reader,
    cursor: Cursor,
    /// The number of the first event that the sink does not have.
    next: u64,
}

impl Source {
    /// A way through the spool, from where the sink was before. `in_file` is the number behind the last one that the sink's file
    /// has, and `next` that of the next event. Gives the number of the first event that the sink gets.
    ///
    /// # Errors
    /// The cursor cannot be opened or written.
    pub(super) fn spool(spool: &Arc<Spool>, sink: &str, in_file: Option<u64>, next: u64) -> io::Result<(Source, u64)> {
        let mut cursor = spool.cursor(sink)?;
        // A file was written to after its cursor, if the process was killed in between.
        let begin = cursor.next().map_or(next, |next| next.max(in_file.unwrap_or(0))).min(next);
        cursor.write(begin)?;
        cursor.sync()?;
        spool.keep_for(sink, begin);
        let reader = Reader::new(spool.clone(), begin);
        Ok((Source::Spool(Box::new(Spooled { sink: sink.to_owned(), reader, cursor, next: begin })), begin))
    }

    /// Fills a batch with what is there, and waits so long for the first block.
    pub(super) fn fill(&mut self, queue: &Queue, batch: &mut Batch, choice: Choice<'_>, mut wait: Duration) {
        while !batch.is_full() {
            match self {
                Source::Memory => {
                    let Some(item) = queue.pop(wait) else { return };
                    batch.take(&item, choice);
                }
                Source::Spool(spooled) => {
                    let Some(block) = spooled.reader.next_block(wait) else { return };
                    batch.take_next(&block, choice);
                }
            }
            wait = Duration::ZERO;
        }
    }

    /// Whether nothing is there and nothing comes any more.
    pub(super) fn is_over(&self, queue: &Queue) -> bool {
        match self {
            Source::Memory => queue.is_over(),
            Source::Spool(spooled) => spooled.reader.is_over(),
        }
    }

    /// Whether the events that the sink does not have are still there for the next process.
    pub(super) fn keeps(&self) -> bool {
        matches!(self, Source::Spool(_))
    }

    /// The sink has all events before this number. `survives`: also if the process is killed now.
    pub(super) fn passed(&mut self, next: u64, survives: bool) -> io::Result<()> {
        let Source::Spool(spooled) = self else { return Ok(()) };
        spooled.next = next;
        if survives { spooled.cursor.write(next) } else { Ok(()) }
    }

    /// All that the sink has survives a crash of the machine, too: so does the cursor from now on, and the spool may let it go.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        let Source::Spool(spooled) = self else { return Ok(()) };
        spooled.cursor.write(spooled.next)?;
        spooled.cursor.sync()?;
        spooled.reader.spool().reached(&spooled.sink, spooled.next);
        Ok(())
    }
}
