//! The end of a query: the figures of its server and of its digest, and its event.

use std::sync::Arc;
use std::time::{Duration, Instant};

use config::RuleLog;
use sql::TransactionStep;
use stats::digests::{CacheSaid, Counted, DigestName, Ran, RanBy};
use wire::command::Command;
use wire::exchange::Expect;

use super::client::Request;
use super::event::Relayed;
use super::local::Answered;
use super::query::{Arrived, Body, Query, QueryText};
use super::relay::Outcome;
use super::{Held, Session};
use crate::error::Refusal;
use route::Route;
use route::state::StateMap;

/// The end of a query.
#[derive(Clone, Copy, Debug)]
pub(super) enum End<'a> {
    /// A server's reply went to the client.
    Relayed(&'a Ran, Relayed<'a>),
    /// An answer of the result cache went to the client.
    Cached(&'a Ran),
    /// Sqluice has answered without a server and without a look into the result cache.
    Local(Answered),
    /// An error of Sqluice's own went to the client, after a wait that began at this moment.
    Refused(Instant, &'a Refusal),
    /// Its server was lost, or refused it: the client got an error, the answer that was proven, or the end of the connection.
    Lost(Instant),
}

impl End<'_> {
    /// The code of the error that the client got; 0 if it is not known.
    #[inline]
    fn error(&self) -> Option<u16> {
        match self {
            End::Relayed(ran, _) | End::Cached(ran) => ran.error,
            End::Local(Answered::Error(code)) => Some(*code),
            End::Local(_) => None,
            End::Refused(_, refusal) => Some(refusal.code),
            End::Lost(_) => Some(0),
        }
    }
}

/// The facts of a query that its end counts.
pub(super) trait Finished {
    /// The digest of the text that it ran; 0 if it ran none.
    fn digest_that_ran(&self) -> u64;

    /// Its text without the literals.
    fn form(&self, session: &Session) -> Option<String>;

    /// The result cache's part in it, if that did not answer.
    fn cache_said(&self) -> Option<CacheSaid>;

    /// Its text, and the way to read it.
    fn text(&self, session: &Session) -> Option<QueryText<'_>>;

    /// Its text, if that is one read with all its values, which any session reads alike.
    fn sample(&self) -> Option<&[u8]>;

    /// The name of its command.
    fn command(&self) -> &'static str;

    /// The packets that it came in.
    fn request(&self) -> &Request;

    /// The rule that decided.
    fn rule(&self) -> Option<&Arc<str>>;

    /// The choice of the rule that decides whether it becomes an event.
    fn log(&self) -> Option<RuleLog>;

    /// It may change data.
    fn writes(&self) -> bool;

    /// When it came; `None` while no query becomes an event.
    fn arrived(&self) -> Option<Arrived>;

    /// Bytes of its command, with the heads of its packets; `None` if it was never understood.
    fn bytes_in(&self) -> Option<u64>;

    /// The step of the transaction that it is.
    fn transaction_step(&self) -> Option<TransactionStep>;

    /// A server got another text than the client has sent.
    fn is_rewritten(&self, session: &Session) -> bool;
}

impl Finished for Query<'_> {
    #[inline]
    fn digest_that_ran(&self) -> u64 {
        if self.runs_text() { self.statement.digest } else { 0 }
    }

    fn form(&self, _: &Session) -> Option<String> {
        self.digest()
    }

    #[inline]
    fn cache_said(&self) -> Option<CacheSaid> {
        self.cache.said.get()
    }

    fn text(&self, _: &Session) -> Option<QueryText<'_>> {
        Query::text(self)
    }

    fn sample(&self) -> Option<&[u8]> {
        let is_read = self.statement.kind == sql::Kind::Select && self.statement.access.only_reads();
        let text =
            Query::text(self).filter(|_| is_read && self.statement.parts == 1 && self.command == Command::Query)?;
        (text.dialect.modes.is_empty() && text.dialect.encoding.is_ascii_safe()).then_some(text.bytes)
    }

    fn command(&self) -> &'static str {
        self.command.word()
    }

    fn request(&self) -> &Request {
        self.request
    }

    fn rule(&self) -> Option<&Arc<str>> {
        self.plan.rule().map(|action| &action.name)
    }

    fn log(&self) -> Option<RuleLog> {
        self.plan.log()
    }

    fn writes(&self) -> bool {
        !self.statement.access.only_reads() && self.statement.access != sql::Access::Primary(sql::Why::SessionChange)
    }

    fn arrived(&self) -> Option<Arrived> {
        self.arrived
    }

    fn bytes_in(&self) -> Option<u64> {
        Some(self.request.packets.len() as u64)
    }

    fn transaction_step(&self) -> Option<TransactionStep> {
        self.statement.transaction
    }

    fn is_rewritten(&self, session: &Session) -> bool {
        let prepared = || match self.body {
            Body::Execute(id) => session.belief.statements.find(id).is_some_and(|known| known.prepared.rewritten),
            _ => false,
        };
        self.text_replaced.get() || self.body.is_another_text() && self.command == Command::Query || prepared()
    }
}

/// A query that the result cache found by its bytes: it was never understood.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundByBytes<'q> {
    /// The digest of its text.
    pub digest: u64,
    /// Its text.
    pub text: &'q [u8],
    /// The packets that it came in.
    pub request: &'q Request,
    /// The rule that has the cache answer it.
    pub rule: Option<&'q Arc<str>>,
    /// The choice of the rule that decides whether it becomes an event.
    pub log: Option<RuleLog>,
    /// The state of the session when the text was prepared, or now.
    pub state: &'q StateMap,
}

impl Finished for FoundByBytes<'_> {
    #[inline]
    fn digest_that_ran(&self) -> u64 {
        self.digest
    }

    fn form(&self, session: &Session) -> Option<String> {
        Some(session.belief.digest_text_in(self.text, self.state))
    }

    #[inline]
    fn cache_said(&self) -> Option<CacheSaid> {
        None
    }

    fn text(&self, session: &Session) -> Option<QueryText<'_>> {
        Some(QueryText { bytes: self.text, dialect: session.belief.dialect_in(self.state) })
    }

    fn sample(&self) -> Option<&[u8]> {
        None
    }

    fn command(&self) -> &'static str {
        let byte = self.request.payload().first();
        byte.and_then(|byte| Command::from_byte(*byte)).unwrap_or(Command::Query).word()
    }

    fn request(&self) -> &Request {
        self.request
    }

    fn rule(&self) -> Option<&Arc<str>> {
        self.rule
    }

    fn log(&self) -> Option<RuleLog> {
        self.log
    }

    fn writes(&self) -> bool {
        false
    }

    fn arrived(&self) -> Option<Arrived> {
        None
    }

    fn bytes_in(&self) -> Option<u64> {
        None
    }

    fn transaction_step(&self) -> Option<TransactionStep> {
        None
    }

    fn is_rewritten(&self, _: &Session) -> bool {
        false
    }
}

impl Session {
    /// The reply of a server was relayed: a query was begun at one moment, and the server had it at another. Gives when it was over,
    /// and how long it took.
    #[inline(always)]
    pub(super) fn finish_relayed(
        &self,
        held: &Held,
        query: &Query<'_>,
        route: &Route,
        outcome: &Outcome,
        (begun, started): (Instant, Instant),
    ) -> (Instant, Duration) {
        let (server, stats, now) = (held.lease.server(), held.lease.stats(), Instant::now());
        let took = now.saturating_duration_since(started);
        self.here.end_load();
        let waited = outcome.first_byte.map_or(took, |first_byte| first_byte.saturating_duration_since(started));
        if query.expect != Expect::Nothing {
            self.here.cluster.loads.first_byte(server, waited, now);
        }
        match query.statement.access {
            access if access.only_reads() => {
                stats.reads.add_one();
                self.env.counts.reads.add_one();
            }
            // SET and USE neither read nor write.
            sql::Access::Primary(sql::Why::SessionChange) => {}
            _ => {
                stats.writes.add_one();
                self.env.counts.writes.add_one();
            }
        }
        if outcome.error.is_some() {
            stats.errors.add_one();
        }
        stats.sent_bytes.add(query.request.packets.len() as u64);
        stats.received_bytes.add(outcome.reply_bytes);
        let time_us = stats::micros(took);
        stats.latency_us.record(time_us);
        let ran = Ran {
            error: outcome.error.as_ref().map(|error| error.code),
            rows_sent: outcome.rows_sent,
            rows_affected: outcome.rows_affected,
            reply_bytes: outcome.reply_bytes,
            by: if self.here.cluster.primary() == Some(server) { RanBy::Primary } else { RanBy::Replica },
            pipelined: outcome.pipelined,
            // Nothing was waited for where both are the same moment.
            wait_us: if begun == started { 0 } else { stats::micros(started.saturating_duration_since(begun)) },
            time_us,
            server_us: stats::micros(waited),
            at: now,
            question: self.env.question(query),
        };
        self.finish(query, End::Relayed(&ran, Relayed { held, route, outcome, started }));
        (now, took)
    }

    /// The one exit of queries: here and nowhere else they are counted, and become events.
    #[inline]
    pub(super) fn finish(&self, query: &impl Finished, end: End<'_>) {
        self.count(query, end);
        self.note_query(query, end);
    }

    fn count(&self, query: &impl Finished, end: End<'_>) {
        if let Some(code) = end.error() {
            self.env.worker.stats.error_codes.add_one(code);
            self.env.counts.errors.add_one();
        }
        match end {
            End::Relayed(ran, relayed) => {
                if let Some(count) = self.env.worker.stats.routes.at(relayed.route.reason as usize) {
                    count.add_one();
                }
                self.count_digest(query, ran);
            }
            End::Cached(ran) => {
                self.env.worker.stats.local_answers.add_one();
                self.env.counts.cached.add_one();
                self.count_digest(query, ran);
            }
            End::Local(answered) => {
                if answered == Answered::Ok {
                    self.env.worker.stats.local_answers.add_one();
                }
                // A command without a text has no digest, and needs no look at the clock.
                if query.digest_that_ran() != 0 {
                    let error = match answered {
                        Answered::Error(code) => Some(code),
                        Answered::Ok | Answered::Nothing => None,
                    };
                    self.count_digest(query, &Ran::unserved(error, Instant::now()));
                }
            }
            End::Refused(begun, refusal) => {
                let now = Instant::now();
                let wait_us = stats::micros(now.saturating_duration_since(begun));
                self.count_digest(query, &Ran { wait_us, ..Ran::unserved(Some(refusal.code), now) });
            }
            End::Lost(at) => self.count_digest(query, &Ran::unserved(Some(0), at)),
        }
    }

    fn count_digest(&self, query: &impl Finished, ran: &Ran) {
        let digest = query.digest_that_ran();
        if digest == 0 {
            return;
        }
        let key = self.digest_key(digest);
        let counted = self.env.worker.digests.borrow_mut().count(key, ran);
        if counted != Counted::Done {
            self.env.worker.change_digests(|digests| {
                if counted == Counted::Missing {
                    digests.admit(key, ran, || self.digest_name(digest, query.form(self)));
                }
                digests.sample(key, ran, query.sample());
            });
        }
        if let Some(said) = query.cache_said() {
            self.env.worker.digests.borrow_mut().cache_said(key, said);
        }
    }

    /// Whether the form of this digest, run by this user in this schema, is in the worker's table.
    pub(super) fn knows_digest(&self, digest: u64) -> bool {
        digest == 0 || self.env.worker.digests.borrow().has(self.digest_key(digest))
    }

    /// Counts the result cache's part in a statement that was counted before.
    pub(super) fn count_cached(&self, query: &Query<'_>, said: CacheSaid) {
        query.cache.said.set(Some(said));
        self.env.worker.digests.borrow_mut().cache_said(self.digest_key(query.statement.digest), said);
    }

    /// Stands for digest, schema, user and cluster.
    pub(super) fn digest_key(&self, digest: u64) -> u64 {
        // All three are spread over all bits.
        digest ^ self.belief.facts().schema_hash.rotate_left(21) ^ self.who.identity.user_hash.rotate_left(42)
    }

    /// The text of a statement without its literals, and whose it is.
    #[cold]
    pub(super) fn digest_name(&self, hash: u64, text: Option<String>) -> DigestName {
        DigestName {
            hash,
            text: text.map_or_else(Arc::default, Arc::from),
            user: self.who.identity.user.clone(),
            schema: self.belief.state.schema().unwrap_or_default().into(),
            cluster: self.here.cluster.shared.name.clone(),
        }
    }
}
