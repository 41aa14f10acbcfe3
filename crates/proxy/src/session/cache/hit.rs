//! A hit: what is asked is found by its bytes alone, before it is understood.
//!
//! Whatever was kept was understood then, with its context: that holds for the same bytes in the same context. What may differ is the rule
//! that decides, which is asked for, and whether the session could run a statement on any connection now.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use cache::{Answer, Known, Question};
use cluster::view::ServerId;
use config::{CacheFreshness, CacheMode};
use stats::digests::{Ran, RanBy};
use wire::Status;
use wire::command::{CURSOR_READ_ONLY, Command, Execute};

use super::super::Session;
use super::super::client::Request;
use super::super::request::statement_id;
use super::ContextHere;
use super::question::{text_of, write_parameters};
use crate::error::SessionEnd;
use crate::route::Pin;
use crate::route::rules::CacheRule;

impl Session {
    /// Gives the client the answer that is kept, if one is and may be given without any more thought. Never waits; what the socket
    /// does not take is left to be flushed.
    #[inline(never)]
    pub(in crate::session) fn give_known(
        &mut self,
        cx: &mut TaskContext<'_>,
        request: &Request,
    ) -> Result<bool, SessionEnd> {
        // It is not asked for meanwhile.
        let Some(mut here) = self.cache_context.take() else { return Ok(false) };
        let mut parameters = std::mem::take(&mut here.parameters);
        let given = self.look_up(cx, request, &here, &mut parameters);
        here.parameters = parameters;
        self.cache_context = Some(here);
        given.unwrap_or(Ok(false))
    }

    fn look_up(
        &mut self,
        cx: &mut TaskContext<'_>,
        request: &Request,
        here: &ContextHere,
        parameters: &mut Vec<u8>,
    ) -> Option<Result<bool, SessionEnd>> {
        let may_ask = request.sequence == 0
            && here.wanted.2 == CacheMode::On
            && self.held.is_none()
            && self.pins.is_empty()
            && self.facts().autocommit;
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
            None => (text_of(request, self.client.capabilities), &self.state),
        };
        // A comment may ask for more, and is no part of the question.
        if !text.first()?.is_ascii_alphabetic() || !self.is_context_of(here, prepared_in) {
            return None;
        }
        let prepared_in = &*here.prepared_in;
        let parameters = execution.is_some().then_some(&**parameters);
        let question = Question { context: &here.context, text, parameters };
        let (now, shared) = (Instant::now(), &self.cluster.shared);
        if here.wanted.1 == CacheFreshness::Follow && !shared.follow.load().as_ref()?.serves(now) {
            return None;
        }
        let (store, epochs) = (&self.worker.shared.cache, shared.epochs.get()?);
        let of_user = || store.find(&Question { context: here.own.as_ref()?, ..question }, epochs);
        let answer = store.find(&question, epochs).or_else(of_user)?;
        let digest = answer.known.digest;
        let rules = self.worker.rules.get()?;
        let rule = self.rule_for_read(&rules, digest, text)?;
        let action = rules.action(rule)?;
        let cache = action.cache.as_ref().filter(|_| action.refuse.is_none())?;
        if (cache.wanted.shared, cache.wanted.freshness, cache.wanted.mode) != here.wanted
            || answer.age(now) > cache.wanted.ttl
            || cache.wanted.tier && !self.is_trusted(&answer, now)
        {
            return None;
        }
        rules.count(rule);
        let digest_text = |session: &Session| Some(session.digest_text_in(text, prepared_in));
        Some(self.give_answer(cx, cache, &answer, now, digest_text).map(|()| true))
    }

    /// The text of a prepared statement that is executed in this context without a cursor; its parameters are written as
    /// [`Session::asked`] writes them. `None` if something about them is new.
    fn execution(&self, arguments: &[u8], here: &ContextHere, parameters: &mut Vec<u8>) -> Option<Arc<[u8]>> {
        if arguments.get(4).is_none_or(|flags| flags & CURSOR_READ_ONLY != 0) {
            return None;
        }
        let known = self.statements.find(statement_id(arguments)?)?;
        if !Arc::ptr_eq(&known.state, &here.prepared_in) {
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
        Some(known.key.text.clone())
    }

    /// Gives the client a kept answer. The session is as it would be behind a server's. `digest_text` is asked only if the digest
    /// is new.
    pub(super) fn give_answer(
        &mut self,
        cx: &mut TaskContext<'_>,
        cache: &CacheRule,
        answer: &Answer,
        at: Instant,
        digest_text: impl Fn(&Session) -> Option<String>,
    ) -> Result<(), SessionEnd> {
        let known = &answer.known;
        self.learn_answer(known);
        self.worker.stats.local_answers.add_one();
        let reply = self.reply_here(answer);
        let by = RanBy::Cache { saved_us: micros(known.took), bytes: reply.len() as u64 };
        let ran = Ran { failed: false, rows_sent: known.rows, rows_affected: 0, by, time_us: 0, at, question: 0 };
        self.count_digest_of(known.digest, &ran, || digest_text(self));
        count_hit(cache, answer);
        cache.counts.bytes.add(reply.len() as u64);
        match self.client.poll_answer(cx, &reply) {
            Poll::Ready(Err(error)) => Err(SessionEnd::ClientLost(error)),
            _ => Ok(()),
        }
    }

    /// What a server's reply would have taught.
    fn learn_answer(&mut self, known: &Known) {
        self.status = self.status_behind(Status::from_bits_retain(known.status));
        if self.pins.has(Pin::FoundRows) {
            self.pins.put(Pin::FoundRows, false);
            self.show_pins(self.pins.bits());
        }
        let past = &mut self.past;
        // A connection that is kept does not know of it.
        (past.row_count, past.was_questioned) = (-1, self.held.is_some());
        (past.found_rows, past.found_rows_unsure) = (known.found_rows, false);
        past.error = None;
        (past.warnings, past.warning_count, past.own_messages) = (None, 0, 0);
        (past.messages_unread, past.messages_unsure) = (false, false);
        past.messages = past.messages.wrapping_add(1);
        self.read_last = Some(ServerId(known.server));
    }
}

/// Counts that an answer was given, or could have been.
pub(super) fn count_hit(cache: &CacheRule, answer: &Answer) {
    cache.counts.hits.add_one();
    cache.counts.saved_us.add(micros(answer.known.took));
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
