//! Keeping: where the answer to a question comes from, when it is kept, and what ends it.
//!
//! A fill runs where all is that was written to its tables before ([`Session::has_writes_to`]), and the epochs move before a writer hears of its write
//! ([`Session::end_answers`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use cache::{AnswerParts, Refusal, Stamp, Summary, Ticket, WriteFacts, table_writes};
use config::CacheMode;
use facts::tables::{TableScope, WrittenRows};
use facts::view::ServerId;
use sql::Kind;
use wire::Status;

use super::super::Session;
use super::super::cached::refused;
use super::super::consistency::may_write;
use super::super::query::Query;
use super::super::relay::{Copied, Outcome, StateChange};
use super::in_tier::Marked;
use super::in_transaction::at_rest;
use super::question::AskedFor;
use crate::session::cluster_session::ClusterSession;
use crate::shared::Moment;
use policy::CacheRule;
use route::{Needs, Pin};

/// A statement whose answer is to be kept.
#[derive(Debug)]
pub(in crate::session) struct Fill {
    pub(super) ticket: Ticket,
    pub(super) stamp: Stamp,
    /// The tables that are read.
    pub(super) reads: TableScope,
    pub(super) asked: AskedFor,
    pub(super) at: Instant,
    pub(super) rule: Arc<str>,
    pub(super) cache: CacheRule,
    /// The answer goes into the shared tier, too.
    pub(super) tier: Option<Box<Marked>>,
}

impl Fill {
    /// The tables that are read.
    pub(in crate::session) fn reads(&self) -> &TableScope {
        &self.reads
    }

    /// The answer goes into the shared cache, too.
    pub(in crate::session) fn is_shared(&self) -> bool {
        self.tier.is_some()
    }
}

impl Session {
    /// Where the answer of this server goes to, if it may be kept.
    pub(in crate::session) fn copy_for(&self, fill: Option<&Fill>, server: ServerId) -> Option<Box<Copied>> {
        let fill = fill?;
        let bytes_max = match fill.cache.wanted.mode {
            // Only its size counts.
            CacheMode::Advise => 0,
            _ => self.env.worker.shared.cache.bounds().entry_max,
        };
        let is_good = fill.tier.as_ref().is_none_or(|marked| self.here.is_shared_primary(marked, server));
        (is_good && self.has_writes_to(&fill.reads, server)).then(|| Box::new(Copied::new(bytes_max)))
    }

    /// From now on all that is written is noted by table.
    pub(in crate::session) fn watch_writes(&self) {
        let (view, positions) = (self.here.cluster.view(), self.here.cluster.shared.published.positions.load());
        let moment = Moment { view: &view, positions: &positions, window: self.window() };
        self.here.cluster.shared.writes.watch_by_table(moment);
        self.here.cluster.shared.published.watch_tables();
    }

    /// Whether a server has all writes to these tables that servers confirmed to any session of this process.
    pub(super) fn has_writes_to(&self, tables: &TableScope, server: ServerId) -> bool {
        // The newest one: the log of another primary may be followed before this worker hears of it.
        let view = self.here.cluster.shared.published.view.load();
        if view.same_data || view.primary == Some(server) && view.group.is_none() {
            return true;
        }
        let positions = self.here.cluster.shared.published.positions.load();
        let moment = Moment { view: &self.here.cluster.view(), positions: &positions, window: self.window() };
        let all = self.here.cluster.shared.writes.last_of(tables, moment);
        let needs = Needs { own: None, all: &all, before: None, positions: &positions };
        needs.lacking(server).is_none()
    }

    /// Keeps what a server answered. Behind [`Session::learn`]: what that could not learn from the reply, a kept one would not
    /// tell either.
    pub(in crate::session) fn keep_answer(
        &self,
        fill: Fill,
        query: &Query<'_>,
        server: ServerId,
        outcome: &mut Outcome,
        took: Duration,
    ) {
        let Fill { ticket, stamp, asked, at, rule, cache, tier, .. } = fill;
        let refuse = |refusal: Refusal| {
            if let Some(count) = cache.counts.refused.get(refusal as usize) {
                count.add_one();
            }
            self.count_cached(query, refused(refusal));
        };
        let Some(copied) = outcome.taps.copy.take() else { return refuse(Refusal::Behind) };
        let reply = match self.reply_to_keep(*copied, outcome, cache.wanted.mode) {
            Ok(reply) => reply,
            Err(refusal) => return refuse(refusal),
        };
        let status = outcome.status.unwrap_or_default();
        if let Err(refusal) = reply {
            refuse(refusal);
        }
        let is_kept = reply.is_ok();
        let (reply, status) = match reply {
            Ok(reply) => {
                let (reply, status) = at_rest(reply, status);
                (Ok(reply), status)
            }
            Err(refusal) => (Err(refusal), status),
        };
        let mut known = AnswerParts {
            reply,
            summary: Summary {
                rows: outcome.rows.unwrap_or(0),
                found_rows: self.belief.past.found_rows,
                status: status.bits(),
                server: server.0,
                took,
                asked: at,
                digest: query.statement.digest,
            },
            rule,
            cluster: self.here.cluster.shared.name.clone(),
            tier: None,
        };
        let packed = tier.and_then(|marked| marked.pack(&mut known));
        let (question, _) = asked.question(query);
        let Some(epochs) = self.here.cluster.shared.epochs.get() else { return };
        match ticket.keep(&question, stamp, known, epochs) {
            Ok(()) if is_kept => {
                cache.counts.kept.add_one();
                if let Some(packed) = packed {
                    self.env.put_into_tier(&packed, &cache, at);
                }
            }
            Ok(()) => {}
            Err(refusal) => refuse(refusal),
        }
    }

    /// The packets of a reply, or the reason why this question's answers are not kept. The error is a reason that belongs to
    /// this one reply: the next one may be kept.
    fn reply_to_keep(
        &self,
        copied: Copied,
        outcome: &Outcome,
        mode: CacheMode,
    ) -> Result<Result<Box<[u8]>, Refusal>, Refusal> {
        let status = outcome.status.unwrap_or_default();
        let mut plain = Status::OF_SESSION | Status::NO_INDEX | Status::NO_GOOD_INDEX | Status::QUERY_WAS_SLOW;
        let changes = outcome.changes.iter().any(|change| !only_counts(change));
        // The reported changes are known.
        plain.set(Status::SESSION_STATE_CHANGED, !outcome.changes.is_empty());
        Ok(match () {
            () if outcome.error.is_some() => return Err(Refusal::Failed),
            () if outcome.warnings > 0 || outcome.warned_before => Err(Refusal::Warnings),
            () if !self.belief.pins.is_empty() && self.transaction_may_ask().is_err() => return Err(Refusal::Pinned),
            () if changes || !(status - plain).is_empty() => Err(Refusal::Changes),
            () if self.belief.past.found_rows_unsure => Err(Refusal::Session),
            () if outcome.rows.is_none() => Err(Refusal::NotARead),
            () if mode == CacheMode::Advise => {
                copied.fits(self.env.worker.shared.cache.bounds().entry_max).map(|()| Box::default())
            }
            () => copied.into_reply(),
        })
    }

    /// The writes end the life of results that were read before them: at the end of the transaction, before the client hears
    /// of that. Gives the writes that the shared tier must hear of, if there is one.
    pub(in crate::session) fn end_answers(&mut self, query: &Query<'_>, reported: WriteFacts) -> Option<WrittenRows> {
        if self.here.cluster.shared.epochs.get().is_none() {
            // Nobody has ever kept an answer, and who keeps the first one reads what is written by now; what is open may be
            // committed behind that.
            self.here.written_for_cache =
                self.belief.pins.has(Pin::Transaction).then(|| WrittenRows::all(TableScope::Any));
            return None;
        }
        if may_write(query) {
            // Behind the reply: what a definition has changed while the statement ran is known, or known to be unknown.
            let written = self.written_by(query, reported);
            self.here.written_for_cache = Some(match &self.here.written_for_cache {
                Some(before) => before.and(&written),
                None => written,
            });
        }
        let written = self.here.written_for_cache.as_ref()?;
        let in_transaction = self.belief.pins.has(Pin::Transaction);
        // These commit nothing by themselves; of all else that is not sure.
        let goes_on = matches!(query.statement.kind, Kind::Insert | Kind::Update | Kind::Delete | Kind::Select)
            && query.statement.parts == 1;
        if in_transaction && goes_on {
            return None;
        }
        if let Some(epochs) = self.here.cluster.shared.epochs.get() {
            epochs.written(table_writes(written).as_deref());
        }
        let for_tier = self.env.worker.shared.tier.is_some().then(|| written.clone());
        if !in_transaction {
            self.here.written_for_cache = None;
        }
        for_tier
    }
}

impl ClusterSession {
    /// A statement failed with an unknown effect.
    pub(in crate::session) fn end_all_answers(&self, query: &Query<'_>) {
        if let Some(epochs) = self.cluster.shared.epochs.get().filter(|_| !query.statement.access.only_reads()) {
            epochs.written(None);
        }
    }
}

/// MySQL tells each statement's number as a change of a variable.
fn only_counts(change: &StateChange) -> bool {
    matches!(change, StateChange::Variable(name, _) if name == "statement_id")
}
