//! The effect of the result cache on the statements of one digest.

/// The result cache's reply to one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheSaid {
    /// It answered, or would have where it only advises: what a server's time was, in microseconds, and the bytes given out.
    Hit {
        /// Microseconds that a server took for the answer.
        saved_us: u64,
        /// Bytes of the reply that the cache gave; none where it only advises.
        bytes: u64,
    },
    /// It did not know the answer: a server was asked, and that is to be kept.
    Miss,
    /// It does not answer, or did not keep what a server answered, for the reason with this number.
    Refused(u8),
}

/// The counters of those replies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CachedFigures {
    /// Statements that it answered, or would have.
    pub hits: u64,
    /// Statements whose answer was to be kept.
    pub misses: u64,
    /// Microseconds that servers took for the answers that were given.
    pub saved_us: u64,
    /// Bytes given out.
    pub bytes: u64,
    /// How often for which reason, by the reasons' numbers; in no order.
    pub refused: Vec<(u8, u64)>,
}

impl CachedFigures {
    /// Counts one statement.
    pub fn count(&mut self, said: CacheSaid) {
        match said {
            CacheSaid::Hit { saved_us, bytes } => {
                self.hits += 1;
                self.saved_us = self.saved_us.saturating_add(saved_us);
                self.bytes = self.bytes.saturating_add(bytes);
            }
            CacheSaid::Miss => self.misses += 1,
            CacheSaid::Refused(reason) => self.refuse(reason, 1),
        }
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &CachedFigures) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.saved_us = self.saved_us.saturating_add(other.saved_us);
        self.bytes = self.bytes.saturating_add(other.bytes);
        other.refused.iter().for_each(|(reason, times)| self.refuse(*reason, *times));
    }

    /// The cache was asked for none of the statements.
    pub fn is_empty(&self) -> bool {
        *self == CachedFigures::default()
    }

    /// There are a few dozen reasons, of which a statement's form meets one or two.
    fn refuse(&mut self, reason: u8, times: u64) {
        match self.refused.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += times,
            None => self.refused.push((reason, times)),
        }
    }
}
