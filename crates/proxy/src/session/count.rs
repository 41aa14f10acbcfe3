//! What a statement leaves in the figures: its server's, and its digest's.

use std::sync::Arc;
use std::time::Instant;

use stats::digests::{CacheSaid, DigestName, Ran, RanBy};
use wire::exchange::Expect;

use super::query::Query;
use super::relay::Outcome;
use super::{Held, Session};

impl Session {
    /// Gives when the reply was over.
    pub(super) fn count(&self, held: &Held, query: &Query<'_>, outcome: &Outcome, started: Instant) -> Instant {
        let (server, stats, now) = (held.lease.server(), held.lease.stats(), Instant::now());
        let took = now.saturating_duration_since(started);
        self.cluster.loads.end(server);
        if query.expect != Expect::Nothing {
            let waited = outcome.first_byte.map_or(took, |first_byte| first_byte.saturating_duration_since(started));
            self.cluster.loads.first_byte(server, waited, now);
        }
        match query.statement.access {
            access if access.only_reads() => stats.reads.add_one(),
            // SET and USE neither read nor write.
            sql::Access::Primary(sql::Why::SessionChange) => {}
            _ => stats.writes.add_one(),
        }
        if outcome.error.is_some() {
            stats.errors.add_one();
        }
        let time_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        stats.latency_us.record(time_us);
        let ran = Ran {
            failed: outcome.error.is_some(),
            rows_sent: outcome.rows_sent,
            rows_affected: outcome.rows_affected,
            by: if self.cluster.primary() == Some(server) { RanBy::Primary } else { RanBy::Replica },
            time_us,
            at: now,
            question: self.question(query),
        };
        self.count_digest(query, &ran);
        now
    }

    /// The client has got an error of Sqluice's own instead of a reply, or no reply at all.
    pub(super) fn count_refused(&self, query: &Query<'_>, at: Instant) {
        let ran = Ran { failed: true, rows_sent: 0, rows_affected: 0, by: RanBy::Nobody, time_us: 0, at, question: 0 };
        self.count_digest(query, &ran);
    }

    pub(super) fn count_digest(&self, query: &Query<'_>, ran: &Ran) {
        if query.runs_text() {
            self.count_digest_of(query.statement.digest, ran, || query.digest());
        }
    }

    /// The same of a digest whose text is made when it is wanted; 0 is none.
    pub(super) fn count_digest_of(&self, digest: u64, ran: &Ran, text: impl Fn() -> Option<String>) {
        if digest == 0 {
            return;
        }
        let key = self.digest_key(digest);
        if !self.worker.digests.borrow_mut().count(key, ran) {
            self.worker.change_digests(|digests| digests.admit(key, ran, || self.digest_name(digest, text())));
        }
        if let Some(said) = self.cache_said.take() {
            self.worker.digests.borrow_mut().cache_said(key, said);
        }
    }

    /// What the result cache did for a statement that was counted before.
    pub(super) fn count_cached(&self, query: &Query<'_>, said: CacheSaid) {
        self.cache_came.set(Some(said));
        self.worker.digests.borrow_mut().cache_said(self.digest_key(query.statement.digest), said);
    }

    /// Stands for digest, schema and user.
    fn digest_key(&self, digest: u64) -> u64 {
        // All three are spread over all bits.
        digest ^ self.facts().schema_hash.rotate_left(21) ^ self.identity.user_hash.rotate_left(42)
    }

    /// The text of a statement without its literals, and whose it is.
    #[cold]
    fn digest_name(&self, hash: u64, text: Option<String>) -> DigestName {
        DigestName {
            hash,
            text: text.map_or_else(Arc::default, Arc::from),
            user: self.identity.user.clone(),
            schema: self.state.schema().unwrap_or_default().into(),
        }
    }
}
