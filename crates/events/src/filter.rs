//! The queries that become events.

/// The queries that become events, whatever time they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queries {
    /// None.
    #[default]
    Off,
    /// Those that ended in an error.
    Errors,
    /// The same, and those that may have changed data.
    Writes,
    /// All.
    All,
}

/// The choice of a rule for the queries that it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByRule {
    /// They become no events.
    Never,
    /// Those of one session in so many become events; for the others the worker's choice counts. 0 and 1 are all.
    Always {
        /// One session in so many.
        sample: u32,
    },
}

/// The choice of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// By their kind.
    pub queries: Queries,
    /// Those that took this many microseconds, too; 0 is off.
    pub slow_us: u64,
    /// Of the queries by their kind, one session in so many; errors and slow ones are never left out. 0 and 1 are all.
    pub sample: u32,
    /// Their text is kept with its literals.
    pub texts: bool,
}

impl Filter {
    /// No query becomes an event.
    #[inline]
    pub fn is_off(&self) -> bool {
        self.queries == Queries::Off && self.slow_us == 0
    }

    /// Whether a query of this length is slow.
    #[inline]
    pub fn is_slow(&self, total_us: u64) -> bool {
        self.slow_us > 0 && total_us >= self.slow_us
    }

    /// Whether a query of this session becomes an event.
    #[inline]
    pub fn takes(&self, rule: Option<ByRule>, session: u32, writes: bool, failed: bool, total_us: u64) -> bool {
        match rule {
            Some(ByRule::Never) => return false,
            Some(ByRule::Always { sample }) if is_of_sample(sample, session) => return true,
            Some(ByRule::Always { .. }) | None => {}
        }
        if self.is_slow(total_us) {
            return true;
        }
        match self.queries {
            Queries::Off => false,
            _ if failed => true,
            Queries::Errors => false,
            Queries::Writes => writes && is_of_sample(self.sample, session),
            Queries::All => is_of_sample(self.sample, session),
        }
    }
}

/// Sampling is by session, so that a session's queries are all there or none is.
fn is_of_sample(sample: u32, session: u32) -> bool {
    sample <= 1 || session.is_multiple_of(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_queries_and_errors_are_taken_beside_the_sample() {
        let filter = Filter { queries: Queries::All, slow_us: 1000, sample: 10, texts: false };
        assert!(filter.takes(None, 20, false, false, 0));
        assert!(!filter.takes(None, 21, false, false, 999));
        assert!(filter.takes(None, 21, false, false, 1000));
        assert!(filter.takes(None, 21, false, true, 0));
    }

    #[test]
    fn a_rule_comes_before_the_choice_of_the_worker() {
        let all = Filter { queries: Queries::All, slow_us: 1000, ..Filter::default() };
        assert!(!all.takes(Some(ByRule::Never), 20, true, true, 5000));
        let off = Filter::default();
        assert!(off.takes(Some(ByRule::Always { sample: 1 }), 21, false, false, 0));
        let some = Some(ByRule::Always { sample: 10 });
        assert!(off.takes(some, 20, false, false, 0) && !off.takes(some, 21, false, true, 0));
        assert!(all.takes(some, 21, false, false, 0), "outside the sample the worker's choice counts");
    }

    #[test]
    fn each_choice_holds_the_one_before() {
        let takes = |queries, writes, failed| Filter { queries, ..Filter::default() }.takes(None, 1, writes, failed, 5);
        for (queries, read, write, error) in [
            (Queries::Off, false, false, false),
            (Queries::Errors, false, false, true),
            (Queries::Writes, false, true, true),
            (Queries::All, true, true, true),
        ] {
            assert_eq!(takes(queries, false, false), read, "{queries:?}");
            assert_eq!(takes(queries, true, false), write, "{queries:?}");
            assert_eq!(takes(queries, false, true), error, "{queries:?}");
        }
        assert!(Filter::default().is_off());
        assert!(!Filter { slow_us: 1, ..Filter::default() }.is_off());
    }
}
