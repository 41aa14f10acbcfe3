//! A hit: what is asked is found by its bytes alone, before it is understood.
//!
//! Whatever was kept was understood then, with its context: that holds for the same bytes in the same context. Two things may differ: the rule
//! that decides, which is looked up, and whether the session could run a statement on any connection now.

use std::sync::Arc;
use std::time::Instant;

use cache::{Answer, Hit, Question, Summary};
use config::{CacheFreshness, CacheMode};
use facts::view::ServerId;
use stats::digests::{Ran, RanBy};
use wire::Status;
use wire::command::{CURSOR_READ_ONLY, Command, Execute};

use super::super::Session;
use super::super::client::Request;
use super::super::count::{End, Finished, FoundByBytes};
use super::ContextHere;
use super::question::{text_of, write_parameters};
use crate::worker::Worker;
use policy::CacheRule;
use route::Pin;

/// Memory for parameters that a worker keeps.
const PARAMETERS_KEPT_BYTES: usize = 64 * 1024;

/// The reply that a client gets.
#[derive(Debug)]
pub(in crate::session) enum CachedReply {
    /// In memory of the worker's, to be given back.
    Copied(Vec<u8>),
    /// A long one.
    Kept(Answer),
}

impl CachedReply {
    /// Its packets.
    #[inline]
    pub(in crate::session) fn bytes(&self) -> &[u8] {
        match self {
            CachedReply::Copied(bytes) => bytes,
            CachedReply::Kept(answer) => answer.reply().unwrap_or_default(),
        }
    }

    /// It was sent.
    #[inline]
    pub(in crate::session) fn over(self, worker: &Worker) {
        if let CachedReply::Copied(bytes) = self {
            worker.reply.replace(bytes);
        }
    }
}

impl Session {
    /// The answer that is kept, if one is and may be given without any more thought. The session is as it would be behind a
    /// server's then: all that is left is to send it.
    #[inline]
    pub(in crate::session) fn known_reply(&mut self, request: &Request) -> Option<CachedReply> {
        match self.here.cache_context {
            Some(_) => self.find_reply(request),
            None => None,
        }
    }

    #[inline(never)]
    fn find_reply(&mut self, request: &Request) -> Option<CachedReply> {
        self.look_at_catalog();
        // It is not asked for meanwhile.
        let here = self.here.cache_context.take()?;
        let worker = self.env.worker.clone();
        let (mut parameters, mut reply) = (worker.parameters.borrow_mut(), worker.reply.borrow_mut());
        let found = self.look_up(request, &here, &mut parameters, &mut reply);
        self.here.cache_context = Some(here);
        if !parameters.is_empty() {
            parameters.clear();
            parameters.shrink_to(PARAMETERS_KEPT_BYTES);
        }
        Some(match found? {
            Hit::Copied(_) => CachedReply::Copied(std::mem::take(&mut reply)),
            Hit::Kept(answer) => CachedReply::Kept(answer),
        })
    }

    fn look_up(
        &mut self,
        request: &Request,
        here: &ContextHere,
        parameters: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> Option<Hit> {
        let may_ask = request.sequence == 0
            && here.wanted.2 == CacheMode::On
            && self.here.held.is_none()
            && self.belief.pins.is_empty()
            && self.belief.facts().autocommit;
        if !may_ask {
            return None;
        }
        let (command, arguments) = request.payload().split_first()?;
        let execution = match Command::from_byte(*command)? {
            Command::Query => None,
            Command::StmtExecute => Some(self.execution(arguments, here, parameters)?),
            _ => return None,
        };
        let (text, prepared_in) = match &execution {
            Some(text) => (&**text, &here.prepared_in),
            None => (text_of(request, self.client.capabilities), &self.belief.state),
        };
        // A comment may ask for more, and is no part of the question.
        if !text.first()?.is_ascii_alphabetic() || !self.is_context_of(here, prepared_in) {
            return None;
        }
        let prepared_in = &*here.prepared_in;
        let parameters = execution.is_some().then_some(&**parameters);
        let question = Question { context: &here.context, text: sql::without_tags(text), parameters };
        // A result that is too old by this clock is looked at again, by a better one.
        let (now, shared) = (self.env.worker.clock.no_earlier(), &self.here.cluster.shared);
        if here.wanted.1 == CacheFreshness::Follow && !shared.follow.load().as_ref()?.serves(now) {
            return None;
        }
        let (store, epochs) = (&self.env.worker.shared.cache, shared.epochs.get()?);
        let hit = match store.find(&question, epochs, reply) {
            Some(hit) => hit,
            None => store.find(&Question { context: here.own.as_ref()?, ..question }, epochs, reply)?,
        };
        let summary = hit.summary();
        let chain = self.env.worker.chain.get()?;
        let asked = self.belief.asked_of_policy(summary.digest, true);
        let remembered = chain.remembered(self.policy_scope(&chain), asked, text)?;
        let action = remembered.action()?;
        let cache = action.cache.as_ref().filter(|_| action.refuse.is_none())?;
        if (cache.wanted.shared, cache.wanted.freshness, cache.wanted.mode) != here.wanted
            || summary.is_older(cache.wanted.ttl, now)
        {
            return None;
        }
        let bytes = match &hit {
            Hit::Copied(_) if cache.wanted.tier => return None,
            Hit::Copied(_) => reply.len(),
            Hit::Kept(answer) if cache.wanted.tier && !self.env.is_trusted(answer, Instant::now()) => return None,
            Hit::Kept(answer) => answer.reply().map_or(0, <[u8]>::len),
        };
        remembered.count();
        let (digest, rule) = (summary.digest, Some(&action.name));
        let log = remembered.log();
        let query = FoundByBytes { digest, text, request, rule, log, state: prepared_in };
        self.note_answer(&query, cache, summary, bytes, now);
        Some(hit)
    }

    /// The text of a prepared statement that is executed in this context without a cursor; its parameters are written as
    /// [`Session::asked`] writes them. `None` if something about them is new.
    fn execution(&self, arguments: &[u8], here: &ContextHere, parameters: &mut Vec<u8>) -> Option<Arc<[u8]>> {
        if arguments.get(4).is_none_or(|flags| flags & CURSOR_READ_ONLY != 0) {
            return None;
        }
        let known = self.belief.statements.named_in(arguments)?;
        if known.rows_stay || !Arc::ptr_eq(&known.prepared.state, &here.prepared_in) {
            return None;
        }
        let execute = Execute::parse(arguments, known.parameters, self.client.capabilities).ok()?;
        let types = known.types.as_ref();
        if execute.types.is_some_and(|came| types.is_none_or(|(_, known)| **known != *came)) {
            return None;
        }
        let count = execute.count.unwrap_or(u64::from(known.parameters));
        let types = types.filter(|(known, _)| *known == count).map(|(_, types)| &**types).unwrap_or_default();
        write_parameters(parameters, count, types, &execute);
        Some(known.prepared.key.text.clone())
    }

    /// A kept answer of so many bytes is given: the session is as it would be behind a server's.
    pub(super) fn note_answer(
        &mut self,
        query: &impl Finished,
        cache: &CacheRule,
        summary: &Summary,
        bytes: usize,
        at: Instant,
    ) {
        self.learn_answer(summary);
        let by = RanBy::Cache { saved_us: stats::micros(summary.took), bytes: bytes as u64 };
        let ran = Ran { rows_sent: summary.rows, reply_bytes: bytes as u64, by, ..Ran::unserved(None, at) };
        self.finish(query, End::Cached(&ran));
        count_hit(cache, summary);
        cache.counts.bytes.add(bytes as u64);
    }

    /// Learns what a server's reply would have taught.
    fn learn_answer(&mut self, summary: &Summary) {
        self.belief.status = self.belief.status_behind(Status::from_bits_retain(summary.status));
        if self.belief.pins.has(Pin::FoundRows) {
            self.belief.pins.put(Pin::FoundRows, false);
            self.env.show_pins(self.belief.pins.bits());
        }
        let past = &mut self.belief.past;
        // A connection that is kept does not know of it.
        past.row_count = -1;
        (past.row_count_is_here, past.found_rows_are_here) = (true, true);
        (past.found_rows, past.found_rows_unsure) = (summary.found_rows, false);
        past.error = None;
        (past.warnings, past.warning_count, past.own_messages) = (None, 0, 0);
        (past.messages_unread, past.messages_unsure) = (false, false);
        past.messages = past.messages.wrapping_add(1);
        self.here.read_last = Some(ServerId(summary.server));
    }
}

/// Counts that an answer was given, or could have been.
pub(super) fn count_hit(cache: &CacheRule, summary: &Summary) {
    cache.counts.hits.add_one();
    cache.counts.saved_us.add(stats::micros(summary.took));
}
