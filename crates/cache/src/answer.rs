//! The form in which a cached result is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use triomphe::ThinArc;

use crate::in_tier::InTier;
use crate::judge::Refusal;
use crate::key::{Key, Question};
use crate::write_counters::{Stamp, TableId, WriteCounters};

/// Before an answer: how many hold it, and how many bytes stand behind what is kept.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();

/// The facts about a cached result that its reader needs besides the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// Rows of the result.
    pub rows: u64,
    /// The value of FOUND_ROWS() after it.
    pub found_rows: Option<u64>,
    /// The status flags at its end.
    pub status: u16,
    /// The server that answered, by its number.
    pub server: u16,
    /// How long that took.
    pub took: Duration,
    /// Before it was asked.
    pub asked: Instant,
    /// The hash of the statement's digest.
    pub digest: u64,
}

impl Summary {
    /// How long ago the database was asked.
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.asked)
    }

    /// Whether the database was asked longer ago than this.
    #[inline]
    pub fn is_older(&self, than: Duration, now: Instant) -> bool {
        self.asked.checked_add(than).is_some_and(|end| end < now)
    }
}

/// The parts of a cached result that is not in the cache yet.
#[derive(Debug)]
pub struct AnswerParts {
    /// The reply's packets as they go to the client, or why they are not kept: then all ask the database for as long.
    pub reply: Result<Box<[u8]>, Refusal>,
    /// All that is reported of it at once.
    pub summary: Summary,
    /// The rule that let it be kept.
    pub rule: Arc<str>,
    /// Of which cluster.
    pub cluster: Arc<str>,
    /// How the shared tier tells whether it is good; nothing where it is not asked.
    pub tier: Option<Box<InTier>>,
}

/// A kept answer, in one piece of memory: who looks for one waits for memory longer than for anything else. Clones share it.
#[derive(Clone, Debug)]
pub struct Answer(ThinArc<Kept, u8>);

/// The parts before the bytes of the question and of the reply. The part that every reader looks at comes first.
#[derive(Debug)]
#[repr(C)]
struct Kept {
    key: Key,
    stamp: Stamp,
    refused: Option<Refusal>,
    /// It was found since this was asked last.
    used: AtomicBool,
    summary: Summary,
    tier: Option<Box<InTier>>,
    rule: Arc<str>,
    cluster: Arc<str>,
}

impl Answer {
    pub(crate) fn new(question: &Question<'_>, stamp: Stamp, parts: AnswerParts) -> Answer {
        let AnswerParts { reply, summary, rule, cluster, tier } = parts;
        let (reply, refused) = match &reply {
            Ok(reply) => (&**reply, None),
            Err(refusal) => (&[][..], Some(*refusal)),
        };
        let (key, bytes) = question.keep(reply);
        let kept = Kept { key, stamp, refused, used: AtomicBool::new(false), summary, tier, rule, cluster };
        Answer(ThinArc::from_header_and_slice(kept, &bytes))
    }

    /// All that is reported of it at once.
    #[inline]
    pub fn summary(&self) -> &Summary {
        &self.kept().summary
    }

    /// The reply's packets.
    ///
    /// # Errors
    /// It was known that they cannot be kept.
    #[inline]
    pub fn reply(&self) -> Result<&[u8], Refusal> {
        match self.kept().refused {
            None => Ok(self.kept().key.behind(&self.0.slice)),
            Some(refusal) => Err(refusal),
        }
    }

    /// The rule that let it be kept.
    pub fn rule(&self) -> &str {
        &self.kept().rule
    }

    /// Of which cluster.
    pub fn cluster(&self) -> &str {
        &self.kept().cluster
    }

    /// How the shared tier tells whether it is good; nothing where it is not asked.
    #[inline]
    pub fn tier(&self) -> Option<&InTier> {
        self.kept().tier.as_deref()
    }

    #[inline]
    fn kept(&self) -> &Kept {
        &self.0.header.header
    }

    /// It was found.
    #[inline]
    pub(crate) fn use_it(&self) {
        // Only once: other workers find it, too, and what is only read they have all at once.
        if !self.kept().used.load(Ordering::Relaxed) {
            self.kept().used.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it was found since this was asked last.
    pub(crate) fn take_use(&self) -> bool {
        self.kept().used.swap(false, Ordering::Relaxed)
    }

    /// Whether it answers this.
    #[inline]
    pub(crate) fn is_to(&self, question: &Question<'_>) -> bool {
        self.kept().key.is(&self.0.slice, question)
    }

    /// Whether nothing was written that it may lack.
    #[inline]
    pub(crate) fn is_current(&self, counters: &WriteCounters) -> bool {
        counters.is_current(&self.kept().stamp)
    }

    /// Whether they are one.
    pub(crate) fn is(&self, other: &Answer) -> bool {
        std::ptr::eq(self.kept(), other.kept())
    }

    /// Bytes that it takes, besides its places in the store.
    pub(crate) fn bytes(&self) -> usize {
        let Kept { key, stamp, tier, .. } = self.kept();
        let stamp = match stamp {
            Stamp::Any(_) | Stamp::Row { .. } => 0,
            Stamp::Tables { tables, .. } => size_of_val(&**tables),
        };
        let tier = tier.as_ref().map_or(0, |tier| size_of::<InTier>() + tier.bytes());
        COUNTS_BYTES + size_of::<Kept>() + self.0.slice.len() + key.bytes() + stamp + tier
    }

    /// Whether it was read from this table; if it is not known what was read, it may have been.
    pub fn may_have_read(&self, table: TableId) -> bool {
        match &self.kept().stamp {
            Stamp::Any(_) => true,
            Stamp::Tables { tables, .. } => tables.iter().any(|(read, _)| *read == table),
            Stamp::Row { table: (read, _), .. } => *read == table,
        }
    }
}
