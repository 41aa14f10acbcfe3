//! The end of a query: the figures of its server and of its digest.

use std::sync::Arc;
use std::time::Instant;

use stats::digests::{CacheSaid, DigestName, Ran, RanBy};
use wire::exchange::Expect;

use super::query::Query;
use super::relay::Outcome;
use super::{Held, Session};

/// The end of a query.
#[derive(Clone, Copy, Debug)]
pub(super) enum End<'a> {
    /// A server's reply went to the client.
    Relayed(&'a Ran),
    /// An answer of the result cache went to the client.
    Cached(&'a Ran),
    /// An error of Sqluice's own went to the client, after a wait since this moment.
    Refused(Instant),
    /// Its server was lost, or refused it: the client got an error, the answer that was proven, or the end of the connection.
    Lost(Instant),
}

impl Session {
    /// The reply of a server was relayed. Gives when it was over.
    #[inline(always)]
    pub(super) fn finish_relayed(
        &self,
        held: &Held,
        query: &Query<'_>,
        outcome: &Outcome,
        started: Instant,
    ) -> Instant {
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
        self.finish(query, End::Relayed(&ran));
        now
    }

    /// The one exit of queries: here and nowhere else they are counted.
    pub(super) fn finish(&self, query: &Query<'_>, end: End<'_>) {
        let unanswered = |at| {
            let by = RanBy::Nobody;
            Ran { failed: true, rows_sent: 0, rows_affected: 0, by, time_us: 0, at, question: 0 }
        };
        match end {
            End::Relayed(ran) | End::Cached(ran) => self.count_digest(query, ran),
            End::Refused(at) | End::Lost(at) => self.count_digest(query, &unanswered(at)),
        }
    }

    fn count_digest(&self, query: &Query<'_>, ran: &Ran) {
        if query.runs_text() {
            self.count_digest_of(query.statement.digest, ran, || query.digest());
            if let Some(said) = query.cache.said.get() {
                self.worker.digests.borrow_mut().cache_said(self.digest_key(query.statement.digest), said);
            }
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
    }

    /// Counts the result cache's part in a statement that was counted before.
    pub(super) fn count_cached(&self, query: &Query<'_>, said: CacheSaid) {
        query.cache.said.set(Some(said));
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
