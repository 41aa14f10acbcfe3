//! The facts of a statement that the result cache's figures count.

use cache::Refusal;
use sql::Kind;
use stats::digests::CacheSaid;

use super::environment::Environment;
use super::query::{Body, Query};
use route::state::hash_of;

/// Longer texts share one number: they are seldom asked again.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// The number of a prepared statement, in front of the rest of its execution.
const STATEMENT_ID_BYTES: usize = 4;

/// A refusal as the digests count it.
pub(super) fn refused(refusal: Refusal) -> CacheSaid {
    CacheSaid::Refused(refusal as u8)
}

impl Environment {
    /// The hash of a read with all its values, the same in all workers; 0 for all else, and while nothing uses it.
    #[inline]
    pub(super) fn question(&self, query: &Query<'_>) -> u64 {
        if !self.worker.digests.borrow().looks_at_questions() {
            return 0;
        }
        if query.statement.kind != Kind::Select || !query.statement.access.only_reads() || !query.runs_text() {
            return 0;
        }
        let Some(text) =
            query.text().map(|text| sql::without_tags(text.bytes)).filter(|text| text.len() <= TEXT_BYTES_MAX)
        else {
            return 0;
        };
        let values = match query.body {
            Body::Execute(_) => query.request.payload().get(1 + STATEMENT_ID_BYTES..).unwrap_or_default(),
            _ => &[],
        };
        if values.len() > TEXT_BYTES_MAX {
            return 0;
        }
        hash_of((text, values)).max(1)
    }
}
