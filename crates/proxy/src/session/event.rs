//! Events of a session: its logins, its queries, and its end.

mod numbers;
mod params;

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use config::{LogMode, RuleLog};
use events::{AnsweredBy, Body, ByRule, Client, Ended, Event, Login, ServerError, TEXT_BYTES_MAX, Text, Trace};
use route::Route;
use stats::digests::{DigestName, Ran, RanBy};
use stats::micros;

use super::count::{End, Finished};
use super::environment::Environment;
use super::local::Answered;
use super::query::{Arrived, QueryText};
use super::relay::{Outcome, StateChange};
use super::who::Who;
use super::{Held, Session};
use crate::error::{Refusal, SessionEnd};
use crate::login_log::{REASON_CHARS_MAX, cut};
use crate::sessions::SessionHandle;
use crate::shared::ListenerShared;
use crate::worker::Worker;
pub(super) use numbers::Numbers;

/// Most characters of an unproven name in an event: no account and no schema has a longer one.
const NAME_CHARS_MAX: usize = 128;

/// The facts of a reply that only its relay has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relayed<'a> {
    /// The connection.
    pub held: &'a Held,
    /// The query's route.
    pub route: &'a Route,
    /// The outcome of the reply.
    pub outcome: &'a Outcome,
    /// When the server had the query.
    pub started: Instant,
}

/// The client of a listener, as events show it.
pub(super) fn client(handle: &SessionHandle, listener: &ListenerShared, user: Arc<str>, tls: bool) -> Arc<Client> {
    Arc::new(Client {
        address: handle.client(),
        user,
        listener: listener.name.clone(),
        cluster: listener.cluster.name.clone(),
        tls,
        program: handle.login().and_then(|login| login.program),
        account: None,
    })
}

/// The event of a client that was not let in. A client that goes away before it has tried to log in causes none: health checks of
/// load balancers do that all the time.
pub(super) fn login_refused(
    worker: &Worker,
    handle: &SessionHandle,
    listener: &ListenerShared,
    tried: &LoginTried,
    why: String,
) {
    worker.put_event(|| {
        let schema = cut(&tried.schema, NAME_CHARS_MAX).into();
        let failure = Some(cut(why.as_bytes(), REASON_CHARS_MAX));
        let login = Login { schema, failure, total_us: micros(tried.begun.elapsed()) };
        let client = client(handle, listener, cut(&tried.user, NAME_CHARS_MAX).into(), tried.tls);
        Event { at: SystemTime::now(), session: handle.id, client, body: Body::Login(login) }
    });
}

/// The facts of a login, as far as the client has sent them.
#[derive(Debug)]
pub(super) struct LoginTried {
    /// When the client came.
    pub begun: Instant,
    /// The user's name; empty if the client has not said it.
    pub user: Vec<u8>,
    /// The schema that it asked for; empty if none.
    pub schema: Vec<u8>,
    /// Its connection is encrypted.
    pub tls: bool,
}

impl LoginTried {
    /// A client has come now.
    pub(super) fn begin() -> LoginTried {
        LoginTried { begun: Instant::now(), user: Vec::new(), schema: Vec::new(), tls: false }
    }

    /// The client has sent its user's name. The name is unproven: no more is kept than events show.
    pub(super) fn names(&mut self, user: &[u8], schema: Option<&[u8]>, tls: bool) {
        let kept = |name: &[u8]| name.get(..NAME_CHARS_MAX * 4).unwrap_or(name).to_vec();
        (self.user, self.schema, self.tls) = (kept(user), kept(schema.unwrap_or_default()), tls);
    }
}

/// The reason of a client's failed login, if it has tried one.
pub(super) fn failure(end: &SessionEnd) -> Option<String> {
    match end {
        SessionEnd::ClientLeft | SessionEnd::ClientLost(_) | SessionEnd::TurnedAway(_) => None,
        SessionEnd::LoginRefused(why) => Some(why.message.clone()),
        end => Some(end.to_string()),
    }
}

/// The event of a session's end.
pub(super) fn ended(worker: &Worker, session: u32, who: &Who, logged_in: Instant, end: &SessionEnd) {
    if let Some(client) = who.client.clone() {
        let ended = Ended { reason: end.to_string(), total_us: micros(logged_in.elapsed()) };
        worker.put_event(|| Event { at: SystemTime::now(), session, client, body: Body::Logout(ended) });
    }
}

impl Session {
    /// The client has logged in: from now on events show its user.
    pub(super) fn note_login(&mut self, begun: Instant, changes_user: bool) {
        let user = self.who.identity.user.clone();
        let tls = self.who.login.fingerprint.is_some();
        let mut client = client(&self.env.handle, &self.env.listener, user, tls);
        if self.env.worker.events.are_made() {
            Arc::make_mut(&mut client).account = self.account();
        }
        self.who.client = Some(client.clone());
        let schema = self.belief.state.schema().unwrap_or_default().into();
        let login = Login { schema, failure: None, total_us: micros(begun.elapsed()) };
        let body = if changes_user { Body::ChangeUser(login) } else { Body::Login(login) };
        self.env.put_event(client, body);
    }

    /// The client wanted to be another user, and was refused.
    pub(super) fn note_change_refused(&self, user: &[u8], begun: Instant, why: &str) {
        let (user, why) = (cut(user, NAME_CHARS_MAX).into(), cut(why.as_bytes(), REASON_CHARS_MAX));
        let client = client(&self.env.handle, &self.env.listener, user, self.who.login.fingerprint.is_some());
        let login = Login { schema: "".into(), failure: Some(why), total_us: micros(begun.elapsed()) };
        self.env.put_event(client, Body::ChangeUser(login));
    }

    /// The session is over.
    pub(super) fn note_end(&self, logged_in: Instant, end: &SessionEnd) {
        ended(&self.env.worker, self.env.handle.id, &self.who, logged_in, end);
    }

    /// The arrival of a query that comes now, if it may become an event.
    #[inline]
    pub(super) fn arrival(&self) -> Option<Arrived> {
        let at = self.env.worker.events.arrival()?;
        Some(Arrived { at, given_bytes: self.client.given_bytes() })
    }

    /// A query is over: it becomes an event if the operator has chosen such queries.
    #[inline]
    pub(super) fn note_query(&self, query: &impl Finished, end: End<'_>) {
        if let Some(filter) = self.env.worker.events.filter() {
            self.put_query(filter, query, end);
        }
    }

    #[inline(never)]
    fn put_query(&self, filter: events::Filter, query: &impl Finished, end: End<'_>) {
        let Some(client) = &self.who.client else { return };
        let digest = query.digest_that_ran();
        if digest == 0 {
            return;
        }
        // Those that become no events are numbered, too.
        let numbered = self.number(query, end);
        let (ran, relayed) = match end {
            End::Relayed(ran, relayed) => (Some(ran), Some(relayed)),
            End::Cached(ran) => (Some(ran), None),
            End::Local(_) | End::Refused(..) | End::Lost(_) => (None, None),
        };
        let over = ran.map_or_else(Instant::now, |ran| ran.at);
        let total_us = query.arrived().map_or(0, |arrived| micros(over.saturating_duration_since(arrived.at)));
        let error = error(&end, filter.texts);
        let failed = error.is_some() || matches!(end, End::Lost(_));
        let Some(trace) = self.chosen(filter, query, failed, total_us) else { return };
        let text = if filter.texts { query.text(self) } else { None };
        let cut_text = |text: QueryText<'_>| Text {
            bytes: text.bytes.get(..TEXT_BYTES_MAX).unwrap_or(text.bytes).into(),
            dialect: text.dialect,
        };
        let (params, bulk_rows) = self.params(query, filter.texts);
        let body = Body::Query(events::Query {
            digest: self.named_digest(digest, query),
            text: text.map(cut_text),
            text_cut: text.is_some_and(|text| text.bytes.len() > TEXT_BYTES_MAX),
            writes: query.writes(),
            slow: filter.is_slow(total_us),
            command: query.command(),
            answered_by: answered_by(&end),
            route_reason: relayed.map(|relayed| relayed.route.reason.word()),
            rule: query.rule().cloned(),
            error,
            rows_sent: ran.map_or(0, |ran| ran.rows_sent),
            rows_affected: ran.map_or(0, |ran| ran.rows_affected),
            warnings: relayed.map_or(0, |relayed| relayed.outcome.warnings),
            bytes_in: query.bytes_in(),
            bytes_out: bytes_out(self.client.given_bytes(), query, end),
            gtid: relayed.filter(|_| query.writes()).and_then(|relayed| last_commit(relayed.outcome)),
            wait_us: relayed.map_or(0, |relayed| {
                query.arrived().map_or(0, |arrived| micros(relayed.started.saturating_duration_since(arrived.at)))
            }),
            first_us: relayed.map_or(0, |relayed| match relayed.outcome.first_byte {
                Some(first_byte) => micros(first_byte.saturating_duration_since(relayed.started)),
                None => ran.map_or(0, |ran| ran.time_us),
            }),
            total_us,
            trace,
            statement: numbered.statement,
            transaction: numbered.transaction,
            pins: self.belief.pins.words().collect(),
            rewritten: query.is_rewritten(self),
            params,
            bulk_rows,
        });
        self.env.put_event(client.clone(), body);
    }

    /// The trace of a query, if it has one; nothing at all if the query becomes no event. One that becomes spans is always an event,
    /// unless a rule says that it is none.
    fn chosen(
        &self,
        filter: events::Filter,
        query: &impl Finished,
        failed: bool,
        total_us: u64,
    ) -> Option<Option<Box<Trace>>> {
        let rule = query.log().map(by_rule);
        if rule == Some(ByRule::Never) {
            return None;
        }
        let traces = &self.env.worker.events.traces;
        let before = traces.makes_spans().then(|| self.trace_of(query, traces.keeps(failed, filter.is_slow(total_us))));
        let is_traced = before.iter().flatten().any(|trace| trace.spans);
        let takes = || filter.takes(rule, self.env.handle.id, query.writes(), failed, total_us);
        (is_traced || takes()).then(|| before.unwrap_or_else(|| self.trace_of(query, false)))
    }

    /// The form of a query, shared with the table of digests if that has it.
    fn named_digest(&self, digest: u64, query: &impl Finished) -> Arc<DigestName> {
        let known = self.env.worker.digests.borrow().name(self.digest_key(digest));
        known.unwrap_or_else(|| Arc::new(self.digest_name(digest, query.form(self))))
    }
}

impl Environment {
    fn put_event(&self, client: Arc<Client>, body: Body) {
        let session = self.handle.id;
        self.worker.put_event(|| Event { at: SystemTime::now(), session, client, body });
    }
}

/// The position of the last commit that the server has reported.
fn last_commit(outcome: &Outcome) -> Option<Box<str>> {
    outcome.changes.iter().rev().find_map(|change| match change {
        StateChange::Committed(gtid) => Some(gtid.as_str().into()),
        _ => None,
    })
}

fn by_rule(log: RuleLog) -> ByRule {
    match log.mode {
        LogMode::On => ByRule::Always { sample: log.sample },
        LogMode::Off => ByRule::Never,
    }
}

fn answered_by(end: &End<'_>) -> AnsweredBy {
    match end {
        End::Relayed(ran, relayed) => {
            AnsweredBy::Server { name: relayed.held.lease.server_name().clone(), primary: ran.by == RanBy::Primary }
        }
        End::Cached(_) => AnsweredBy::Cache,
        End::Refused(..) => AnsweredBy::Refused,
        End::Lost(_) => AnsweredBy::Lost,
        End::Local(_) => AnsweredBy::Sqluice,
    }
}

fn error(end: &End<'_>, texts: bool) -> Option<ServerError> {
    let of = |refusal: &Refusal| {
        let message = &refusal.message.as_bytes()[..refusal.message.len().min(TEXT_BYTES_MAX)];
        let text = if texts { String::from_utf8_lossy(message).into() } else { Box::default() };
        ServerError { code: refusal.code, sqlstate: refusal.sqlstate, text }
    };
    match end {
        End::Relayed(_, relayed) => relayed.outcome.error.as_ref().map(of),
        End::Refused(_, refusal) => Some(of(refusal)),
        End::Local(Answered::Error(code)) => Some(ServerError { code: *code, sqlstate: *b"HY000", text: "".into() }),
        End::Cached(_) | End::Local(_) | End::Lost(_) => None,
    }
}

/// Bytes of the reply, as far as they are with the client or on their way to it; it has been given so many by now.
fn bytes_out(given_bytes: u64, query: &impl Finished, end: End<'_>) -> Option<u64> {
    match end {
        End::Relayed(..) | End::Local(_) => Some(given_bytes.saturating_sub(query.arrived()?.given_bytes)),
        End::Cached(Ran { by: RanBy::Cache { bytes, .. }, .. }) => Some(*bytes),
        // The error follows.
        End::Cached(_) | End::Refused(..) | End::Lost(_) => None,
    }
}
