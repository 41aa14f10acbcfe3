//! The result cache: asked before a server is, filled by what a server answers, and told of what was written.
//!
//! Only a session that could run the statement on any connection asks: one that keeps none, with autocommit. What the cache promises is
//! said in [`cache`]; here it is seen to that a fill runs where all is that was written before ([`Session::has_all_writes`]), and that the
//! epochs move before a writer hears of its write ([`Session::end_answers`]).

mod context;
mod hit;
mod in_tier;
mod rights;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use cache::{
    Answer, Comment, Context, Epochs, Follow, Found, Freshness, Known, Question, Refusal, Stamp, TableId, Ticket,
};
use cluster::grants::Fingerprint;
use cluster::tables::{Scope, TableCatalog};
use cluster::view::ServerId;
use config::{CacheFreshness, CacheMode, Consistency, Split};
use sql::{FoundRows, Kind};
use stats::digests::CacheSaid;
use wire::command::{Command, Execute, query_text_at};
use wire::{Capabilities, Status};

use super::client::Request;
use super::found_rows::counts_found_rows;
use super::relay::{Copied, Outcome, StateChange};
use super::work::{Body, Work};
use super::{Held, Session};
use crate::error::SessionEnd;
use crate::route::rules::{Action, CacheRule};
use crate::route::{Needs, Pin, Route, Target};
use in_tier::{Looked, Marked, Wanted};

pub(super) use context::ContextHere;

/// So often the tier is looked into for a statement, while others write what it asks for.
const TRIES_MAX: u32 = 2;

/// What the cache says to a statement.
#[derive(Debug)]
pub(super) enum Asked {
    /// The client has its answer.
    Answered,
    /// A server answers, and that is kept.
    Fill(Box<Fill>),
    /// A server answers; what the digest's counts hear of that.
    No(Option<CacheSaid>),
}

/// A statement whose answer is to be kept.
#[derive(Debug)]
pub(super) struct Fill {
    ticket: Ticket,
    stamp: Stamp,
    asked: AskedFor,
    at: Instant,
    rule: Arc<str>,
    cache: CacheRule,
    /// The answer goes into the shared tier, too.
    tier: Option<Box<Marked>>,
}

/// What the cache is asked for; a text is that of the request.
#[derive(Debug)]
struct AskedFor {
    context: Context,
    /// The rights that stand for the user there.
    rights: Option<Fingerprint>,
    /// The text of a prepared statement, and its parameters with their types.
    prepared: Option<(Arc<[u8]>, Vec<u8>)>,
}

impl AskedFor {
    fn question<'a>(&'a self, request: &'a Request, capabilities: Capabilities) -> (Question<'a>, Comment<'a>) {
        let (text, parameters) = match &self.prepared {
            Some((text, parameters)) => (&**text, Some(&**parameters)),
            None => (text_of(request, capabilities), None),
        };
        let comment = cache::comment(text);
        (Question { context: &self.context, text: comment.rest, parameters }, comment)
    }
}

impl Session {
    /// Asks the cache for a statement of which a rule says so.
    pub(super) async fn ask_cache(
        &mut self,
        work: &Work,
        request: &Request,
        rule: &Action,
        cache: &CacheRule,
    ) -> Result<Asked, SessionEnd> {
        let refuse = |refusal: Refusal| {
            if let Some(count) = cache.counts.refused.get(refusal as usize) {
                count.add_one();
            }
            Ok(Asked::No(Some(super::cached::refused(refusal))))
        };
        if let Err(refusal) = self.may_ask(work, request) {
            return refuse(refusal);
        }
        let mut asked = match self.asked(work, request, cache) {
            Ok(asked) => asked,
            Err(refusal) => return refuse(refusal),
        };
        let (mut question, comment) = asked.question(request, self.client.capabilities);
        if comment.off {
            return refuse(Refusal::Asked);
        }
        let advises = cache.wanted.mode == CacheMode::Advise;
        let ttl = comment.ttl.map_or(cache.wanted.ttl, |asked| asked.min(cache.wanted.ttl));
        // Who says how old an answer may be means it.
        let stale = if comment.ttl.is_some() { Duration::ZERO } else { cache.wanted.stale };
        let freshness = Freshness { ttl, stale };
        let (store, shared) = (self.worker.shared.cache.clone(), self.cluster.shared.clone());
        let epochs = shared.epochs.get_or_init(Epochs::default);
        let mut at = Instant::now();
        let (tier, came) = (self.tier_for(cache), at);
        if tier.is_none() && cache.wanted.tier && !advises {
            // It is configured from the next start on.
            return refuse(Refusal::NoTier);
        }
        let (mut has_waited, mut tries) = (false, 0);
        let follow = match cache.wanted.freshness {
            CacheFreshness::Ttl => None,
            CacheFreshness::Follow => match shared.follow.get() {
                Some(follow) => Some(&**follow),
                None => return refuse(Refusal::NotFollowing),
            },
        };
        // The question for this user alone, where its rights do not do.
        let own_context = std::cell::OnceCell::new();
        if tier.is_some() && asked.rights.is_some() {
            // Of rights that were changed through another process nothing may be known here.
            question.context = own_context.get_or_init(|| self.own_context());
        }
        loop {
            if follow.is_some_and(|follow| !follow.serves(at)) {
                return refuse(Refusal::NotFollowing);
            }
            let found = store.ask(&question, epochs, freshness, at, comment.anew);
            let (answer, is_stale) = match found {
                Found::Hit(answer) => (answer, false),
                Found::Stale(answer) => (answer, true),
                Found::Pass(Refusal::Rights) if own_context.get().is_none() => {
                    question.context = own_context.get_or_init(|| self.own_context());
                    continue;
                }
                Found::Pass(refusal) => return refuse(refusal),
                Found::Wait(filling) if !has_waited && !advises => {
                    has_waited = true;
                    cache.counts.waits.add_one();
                    let limit = self.worker.shared.config.load().cache.fill_wait;
                    // Whatever became of it, the cache is asked again.
                    let mut place = None;
                    let _ = tokio::time::timeout(limit, poll_fn(|cx| filling.poll_over(&mut place, cx))).await;
                    at = Instant::now();
                    continue;
                }
                Found::Wait(_) => return Ok(Asked::No(None)),
                Found::Fill(ticket) => {
                    let Some(dialect) = self.dialect_of(work) else { return refuse(Refusal::Command) };
                    if let Err(refusal) = cache::judge(&work.statement, question.text, &dialect) {
                        return refuse(refusal);
                    }
                    // From now on all that is written is noted.
                    self.all_writes();
                    self.cluster.shared.published.watch_tables();
                    let stamp = || self.stamp(work, request, epochs, follow, at);
                    let stamped = match &tier {
                        None => stamp().map(|(stamp, _)| (stamp, Looked::Nowhere)),
                        Some(tier) => {
                            let (question, rule, anew) = (&question, &rule.name, comment.anew);
                            let wanted = Wanted { question, ttl, anew, rule };
                            Box::pin(self.look_in_tier(tier, work, stamp, wanted)).await
                        }
                    };
                    let (stamp, tier) = match stamped {
                        Ok((stamp, Looked::Nowhere)) => (stamp, None),
                        Ok((stamp, Looked::Fill(marked))) => (stamp, Some(marked)),
                        Ok((stamp, Looked::Answer(known))) => {
                            tries += 1;
                            // Others take it from here; so does this session, unless something was written.
                            if ticket.keep(&question, stamp, *known, epochs).is_err() || tries > TRIES_MAX {
                                return Ok(Asked::No(None));
                            }
                            continue;
                        }
                        Err(refusal) => return refuse(refusal),
                    };
                    if let Some(rights) = asked.rights.filter(|_| own_context.get().is_none())
                        && !self.rights_cover(&rights, work, request)
                    {
                        // The others with these rights ask for themselves at once.
                        let known = self.nothing_for_others(work, rule, at);
                        let _ = ticket.keep(&question, stamp, known, epochs);
                        question.context = own_context.get_or_init(|| self.own_context());
                        continue;
                    }
                    cache.counts.misses.add_one();
                    let (rule, cache) = (rule.name.clone(), cache.clone());
                    if let Some(own) = own_context.into_inner() {
                        asked.context = own;
                    }
                    return Ok(Asked::Fill(Box::new(Fill { ticket, stamp, asked, at, rule, cache, tier })));
                }
            };
            if let Some(tier) = &tier {
                match Box::pin(self.is_good_in_tier(tier, &answer, came)).await {
                    Ok(true) => {}
                    Ok(false) if tries < TRIES_MAX => {
                        tries += 1;
                        store.forget(&question, &answer);
                        continue;
                    }
                    Ok(false) => return Ok(Asked::No(None)),
                    Err(refusal) => return refuse(refusal),
                }
            }
            cache.counts.stale.add(u64::from(is_stale));
            if advises {
                count_hit(cache, &answer);
                let saved_us = micros(answer.known.took);
                return Ok(Asked::No(Some(CacheSaid::Hit { saved_us, bytes: 0 })));
            }
            let text = |session: &Session| session.digest_text(work, request);
            poll_fn(|cx| Poll::Ready(self.give_answer(cx, cache, &answer, at, text))).await?;
            return Ok(Asked::Answered);
        }
    }

    /// The stamp of an answer that is about to be read, and the tables that it is read from.
    fn stamp(
        &self,
        work: &Work,
        request: &Request,
        epochs: &Epochs,
        follow: Option<&Follow>,
        at: Instant,
    ) -> Result<(Stamp, Scope), Refusal> {
        let mut scope = Scope::Any;
        let tables = || {
            scope = self.scope_of(work, request, TableCatalog::read_by);
            ids(&scope)
        };
        let stamp = match follow {
            Some(follow) => follow.stamp(epochs, at, tables)?,
            None => epochs.stamp(tables),
        };
        match stamp {
            Stamp::Any(_) => Err(Refusal::UnknownTables),
            stamp => Ok((stamp, scope)),
        }
    }

    /// Whether a session may have this command answered by the cache at all.
    fn may_ask(&self, work: &Work, request: &Request) -> Result<(), Refusal> {
        let statement = &*work.statement;
        match () {
            () if !matches!(work.command, Command::Query | Command::StmtExecute) || request.sequence != 0 => {
                Err(Refusal::Command)
            }
            () if work.opens_cursor => Err(Refusal::Command),
            () if statement.hint.is_some() => Err(Refusal::Hint),
            () if self.held.is_some() || !self.pins.is_empty() => Err(Refusal::Pinned),
            () if !self.facts().autocommit => Err(Refusal::AutocommitOff),
            () if !matches!(work.body, Body::AsCame | Body::Execute(_)) => Err(Refusal::Rewritten),
            () if self.is_in_system_schema() => Err(Refusal::ServerTables),
            // Only the server knows what FOUND_ROWS() is behind it, and it is asked for nothing but SQL_CALC_FOUND_ROWS.
            () if !matches!(statement.found_rows, FoundRows::Rows { .. } | FoundRows::Uncut)
                && !counts_found_rows(statement) =>
            {
                Err(Refusal::Session)
            }
            () => Ok(()),
        }
    }

    /// What the cache is asked for.
    fn asked(&mut self, work: &Work, request: &Request, cache: &CacheRule) -> Result<AskedFor, Refusal> {
        let Body::Execute(id) = work.body else {
            let (context, rights) = self.context(cache, None);
            return Ok(AskedFor { context, rights, prepared: None });
        };
        let capabilities = self.client.capabilities;
        // Whether columns are described in a reply depends on what its connection has sent before.
        if capabilities.contains(Capabilities::CACHE_METADATA) {
            return Err(Refusal::Command);
        }
        let known = self.statements.find_mut(id).ok_or(Refusal::Command)?;
        let arguments = request.payload().get(1..).unwrap_or_default();
        let execute = Execute::parse(arguments, known.parameters, capabilities).map_err(|_| Refusal::Command)?;
        let count = execute.count.unwrap_or(u64::from(known.parameters));
        let types = known.types_of(count, execute.types).unwrap_or_default();
        let mut parameters = Vec::new();
        write_parameters(&mut parameters, count, types, &execute);
        let (text, prepared_in) = (known.key.text.clone(), known.state.clone());
        let (context, rights) = self.context(cache, Some(prepared_in));
        Ok(AskedFor { context, rights, prepared: Some((text, parameters)) })
    }

    /// What others with the same rights find: each has to ask for itself.
    fn nothing_for_others(&self, work: &Work, rule: &Action, at: Instant) -> Known {
        Known {
            reply: Err(Refusal::Rights),
            rows: 0,
            found_rows: None,
            status: 0,
            server: 0,
            took: Duration::ZERO,
            asked: at,
            rule: rule.name.clone(),
            digest: work.statement.digest,
            cluster: self.cluster.shared.name.clone(),
            tier: None,
        }
    }

    /// A fill reads where all is that anybody has written; for want of a replica that has it, on the primary.
    pub(super) fn route_fill(&mut self, route: &mut Route, fill: &Fill) {
        let is_elsewhere = matches!(route.target, Target::Reader | Target::Named(_));
        if fill.tier.is_some() && is_elsewhere && !self.cluster.view().same_data {
            // No replica is known to have what was written through other processes.
            if self.identity.split != Split::Replica && self.cluster.primary().is_some() {
                route.target = Target::Primary;
            }
            return;
        }
        if self.identity.split != Split::Replica && self.cluster.primary().is_some() && is_elsewhere {
            route.consistency = Consistency::Cluster;
            self.judge_named(route);
            self.judge_replicas(route);
        }
    }

    /// Where the answer of this server goes to, if it may be kept.
    pub(super) fn copy_for(&self, fill: Option<&Fill>, server: ServerId) -> Option<Box<Copied>> {
        let fill = fill?;
        let bytes_max = match fill.cache.wanted.mode {
            // Only its size counts.
            CacheMode::Advise => 0,
            _ => self.worker.shared.cache.bounds().entry_max,
        };
        let is_good = fill.tier.as_ref().is_none_or(|marked| self.is_home(marked, server));
        (is_good && self.has_all_writes(server)).then(|| Box::new(Copied::new(bytes_max)))
    }

    /// Whether a server has all that any session of this process has written and was told of.
    fn has_all_writes(&self, server: ServerId) -> bool {
        // The newest one: the log of another primary may be followed before this worker hears of it.
        let view = self.cluster.shared.published.view.load();
        if view.same_data || view.primary == Some(server) && view.group.is_none() {
            return true;
        }
        let positions = self.cluster.shared.published.positions.load();
        let all = self.all_writes();
        let needs = Needs { own: None, all: std::slice::from_ref(&all), before: None, positions: &positions };
        needs.lacking(server).is_none()
    }

    /// Keeps what a server answered. Behind [`Session::learn`]: what that could not learn from the reply, a kept one would not
    /// tell either.
    pub(super) fn keep_answer(
        &self,
        fill: Fill,
        work: &Work,
        request: &Request,
        held: &Held,
        outcome: &mut Outcome,
        took: Duration,
    ) {
        let Fill { ticket, stamp, asked, at, rule, cache, tier } = fill;
        let refuse = |refusal: Refusal| {
            if let Some(count) = cache.counts.refused.get(refusal as usize) {
                count.add_one();
            }
            self.count_cached(work, super::cached::refused(refusal));
        };
        let advises = cache.wanted.mode == CacheMode::Advise;
        let Some(copied) = outcome.copied.take() else { return refuse(Refusal::Behind) };
        let status = outcome.status.unwrap_or_default();
        let mut plain = Status::OF_SESSION | Status::NO_INDEX | Status::NO_GOOD_INDEX | Status::QUERY_WAS_SLOW;
        let changes = outcome.changes.iter().any(|change| !only_counts(change));
        // What was told is known.
        plain.set(Status::SESSION_STATE_CHANGED, !outcome.changes.is_empty());
        let reply = match () {
            () if outcome.error.is_some() => return refuse(Refusal::Failed),
            () if outcome.warnings > 0 || outcome.warned_before => Err(Refusal::Warnings),
            () if self.held.is_some() || !self.pins.is_empty() => return refuse(Refusal::Pinned),
            () if changes || !(status - plain).is_empty() => Err(Refusal::Changes),
            () if self.past.found_rows_unsure => Err(Refusal::Session),
            () if outcome.rows.is_none() => Err(Refusal::NotARead),
            () if advises => copied.fits(self.worker.shared.cache.bounds().entry_max).map(|()| Box::default()),
            () => copied.into_reply(),
        };
        if let Err(refusal) = reply {
            refuse(refusal);
        }
        let is_kept = reply.is_ok();
        let mut known = Known {
            reply,
            rows: outcome.rows.unwrap_or(0),
            found_rows: self.past.found_rows,
            status: status.bits(),
            server: held.lease.server().0,
            took,
            asked: at,
            rule,
            digest: work.statement.digest,
            cluster: self.cluster.shared.name.clone(),
            tier: None,
        };
        let packed = tier.and_then(|marked| marked.pack(&mut known));
        let (question, _) = asked.question(request, self.client.capabilities);
        let Some(epochs) = self.cluster.shared.epochs.get() else { return };
        match ticket.keep(&question, stamp, known, epochs) {
            Ok(()) if is_kept => {
                cache.counts.kept.add_one();
                if let Some(packed) = packed {
                    self.put_into_tier(&packed, &cache, at);
                }
            }
            Ok(()) => {}
            Err(refusal) => refuse(refusal),
        }
    }

    /// What was written ends the life of what was read before it: at the end of the transaction, before the client hears of that.
    pub(super) fn end_answers(&mut self, work: &Work, request: &Request) {
        if self.cluster.shared.epochs.get().is_none() {
            // Nobody has ever kept an answer, and who keeps the first one reads what is written by now; what is open may be
            // committed behind that.
            self.written_for_cache = self.pins.has(Pin::Transaction).then_some(Scope::Any);
            return;
        }
        if super::consistency::may_write(work) {
            // Behind the reply: what a definition has changed while the statement ran is known, or known to be unknown.
            let scope = self.scope_of(work, request, TableCatalog::written_by);
            self.written_for_cache = Some(match &self.written_for_cache {
                Some(before) => before.and(&scope),
                None => scope,
            });
        }
        let Some(written) = &self.written_for_cache else { return };
        let in_transaction = self.pins.has(Pin::Transaction);
        // These commit nothing by themselves; of all else that is not sure.
        let goes_on = matches!(work.statement.kind, Kind::Insert | Kind::Update | Kind::Delete | Kind::Select)
            && work.statement.parts == 1;
        if in_transaction && goes_on {
            return;
        }
        if let Some(epochs) = self.cluster.shared.epochs.get() {
            epochs.written(ids(written).as_deref());
        }
        if self.worker.shared.tier.is_some() {
            self.written_for_tier = Some(written.clone());
        }
        if !in_transaction {
            self.written_for_cache = None;
        }
    }

    /// A statement went wrong of which nobody knows what it has done.
    pub(super) fn end_all_answers(&self, work: &Work) {
        if let Some(epochs) = self.cluster.shared.epochs.get().filter(|_| !work.statement.access.only_reads()) {
            epochs.written(None);
        }
    }
}

/// Whether a command is one that the cache is asked for: a query that is run.
pub(super) fn is_for_cache(work: &Work) -> bool {
    work.runs_text() && work.statement.kind == Kind::Select
}

/// Writes the parameters of an execution so that those that differ in anything are other bytes.
fn write_parameters(out: &mut Vec<u8>, count: u64, types: &[u8], execute: &Execute<'_>) {
    out.clear();
    out.reserve(16 + types.len() + execute.null_bitmap.len() + execute.values.len());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&(types.len() as u64).to_le_bytes());
    for part in [types, execute.null_bitmap, execute.values] {
        out.extend_from_slice(part);
    }
}

/// The text of COM_QUERY.
fn text_of(request: &Request, capabilities: Capabilities) -> &[u8] {
    let arguments = request.payload().get(1..).unwrap_or_default();
    &arguments[query_text_at(arguments, capabilities).unwrap_or(arguments.len())..]
}

/// MySQL tells each statement's number as a change of a variable.
fn only_counts(change: &StateChange) -> bool {
    matches!(change, StateChange::Variable(name, _) if name == "statement_id")
}

/// The epochs' names of what is touched; `None` is anything.
fn ids(scope: &Scope) -> Option<Vec<TableId>> {
    match scope {
        Scope::Any => None,
        Scope::Tables(keys) => Some(keys.iter().map(|key| TableId::of(key.0)).collect()),
    }
}

/// Counts that an answer was given, or could have been.
fn count_hit(cache: &CacheRule, answer: &Answer) {
    cache.counts.hits.add_one();
    cache.counts.saved_us.add(micros(answer.known.took));
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
