//! Reads on pipelines: which may share a connection with reads of other sessions, and how their sessions take the replies.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use config::Pipelines;
use facts::view::ServerId;
use sql::{Access, Asks, FoundRows, Kind};
use wire::command::Command;
use wire::exchange::{Exchange, Expect};
use wire::{Capabilities, Status};

use super::attempts::{Attempts, Sharing};
use super::belief::Belief;
use super::cache::Fill;
use super::checkout::Choice;
use super::client::Client;
use super::diagnostics::found_rows::is_of_nothing;
use super::environment::Environment;
use super::kill::{KILL_WAIT, Kill};
use super::prepare_again::StatementOnPipeline;
use super::query::{Body, Query};
use super::recover::{Failed, Next};
use super::relay::{Copied, GIVEN_UP, Outcome, Relay, RelayError, Withhold};
use super::tracking::Hearing;
use super::who::Who;
use super::{Held, Session};
use crate::error::SessionEnd;
use crate::outgoing::{Expected, Outgoing, Purpose};
use crate::pipeline::{Answer, CleanEnd, Pipeline, Place, REQUEST_BYTES_MAX, Read, Wanted, Why};
use crate::pool::{Connection, ConnectionEnd, Lease, UserLease};
use route::Route;

/// Pipelines that a query may be on, one after the other, before it runs on a connection of its own.
const TRIES_MAX: usize = 3;

/// A query on a pipeline.
struct Appended {
    server: ServerId,
    place: Place,
    /// Where its reply goes to as well, if the result cache may keep it.
    copy: Option<Box<Copied>>,
}

/// The outcome of a query that was to run on a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piped {
    /// The client has its reply.
    Over,
    /// It has to run on a connection of its own.
    Alone,
}

impl Session {
    /// Whether a query may run on a pipeline: a single read that leaves nothing, in a session without a transaction or a pin, and
    /// that is answered the same on any connection in the session's state.
    #[inline]
    pub(super) fn may_share(&self, query: &Query<'_>) -> bool {
        let statement = &*query.statement;
        statement.kind == Kind::Select
            && self.who.wants_pipelines(query) != Pipelines::Off
            && self.here.cluster.pipelines.is_on()
            && self.belief.pins.is_empty()
            && matches!(statement.access, Access::Read)
            && statement.asks.is_empty()
            && statement.effects.is_empty()
            && statement.parts == 1
            && self.may_share_now(query)
    }

    fn may_share_now(&self, query: &Query<'_>) -> bool {
        let (statement, past, facts) = (&*query.statement, &self.belief.past, self.belief.facts());
        let as_it_is = match query.command {
            Command::Query => matches!(query.body, Body::AsCame),
            Command::StmtExecute => matches!(query.body, Body::Execute(_)) && !query.opens_cursor,
            _ => false,
        };
        let counts_itself = match statement.found_rows {
            FoundRows::Rows { skipped: 0 } | FoundRows::One => true,
            FoundRows::Uncut => !self.cuts_results(),
            FoundRows::Aggregate => !self.belief.may_leave_found_rows(query),
            _ => false,
        };
        as_it_is
            && counts_itself
            && statement.transaction.is_none()
            && statement.hint.is_none()
            && !statement.insert_id_unsure
            && query.hides.is_none()
            && query.expect == Expect::Results
            && query.request.packets.len() <= REQUEST_BYTES_MAX
            && facts.autocommit
            && self.here.held.is_none()
            && self.transaction.log.is_none()
            && self.who.identity.connections_max == 0
            && !self.belief.needs_text_instead(query)
            && !self.belief.tracking.hides()
            && past.doubt.is_none()
            && past.variables.is_empty()
            && !past.messages_unsure
            && !past.found_rows_unsure
    }

    /// Whether a query looks for a pipeline at once. Where nothing else runs, a connection of its own is as good.
    #[inline]
    pub(super) fn shares_now_or_later(&self, query: &Query<'_>) -> Sharing {
        if self.here.cluster.loads.is_quiet() && self.who.wants_pipelines(query) != Pipelines::Always {
            self.env.runs_alone(Why::Quiet);
            return Sharing::Begins;
        }
        Sharing::Now
    }

    /// Whether the connection that a query has waited for becomes a pipeline: others that wait may share it then.
    #[inline]
    pub(super) fn begins_pipeline(&self, query: &Query<'_>, held: &Held, attempts: &Attempts) -> bool {
        attempts.has_waited
            && matches!(attempts.sharing, Sharing::Begins | Sharing::Waits(_))
            && held.lease.is_waited_for()
            && self.may_begin_pipeline(query, held, attempts)
    }

    fn may_begin_pipeline(&self, query: &Query<'_>, held: &Held, attempts: &Attempts) -> bool {
        let (cluster, identity) = (&self.here.cluster, &self.who.identity);
        let view = cluster.view();
        let Some(server) = view.server(held.lease.server()) else { return false };
        let wanted = Wanted { server, key: &identity.key, login: identity.login, state: &self.belief.state };
        held.awaits.is_none()
            && (self.who.wants_pipelines(query) == Pipelines::Always
                || cluster.pipelines.is_short(query.statement.digest, attempts.at))
            && !self.limits_differ(&held.lease.origin)
            && cluster.pipelines.may_begin(&cluster.pools, &wanted, &held.lease)
    }

    /// Runs a query on a pipeline if there is one for it, or `own`, a connection of its own, can become one. The result cache keeps
    /// its answer if it fills it; the fill is left if it is not over. When its server failed it, on a connection that was its own by
    /// then, the route may be that of another try.
    pub(super) async fn run_on_pipeline(
        &mut self,
        query: &Query<'_>,
        own: Option<Lease>,
        route: &mut Route,
        fill: &mut Option<Box<Fill>>,
        attempts: &mut Attempts,
    ) -> Result<Piped, SessionEnd> {
        // Alone, unless there is no place for it now.
        let is_own = own.is_some();
        attempts.sharing = Sharing::Never;
        let asked = self.ask_pipelines(query, own, route, fill.as_deref(), attempts).await;
        let (Appended { server, place, mut copy }, mut answer) = match asked {
            Ok(asked) => asked,
            Err(why) => {
                if !is_own {
                    attempts.sharing = self.belief.shares_later(query);
                }
                return Ok(self.env.runs_alone(why));
            }
        };
        if answer == Answer::Long {
            answer = match Box::pin(self.wait_for_long(server, &place)).await {
                Ok(answer) => answer,
                Err(failed) => {
                    let next = Box::pin(self.go_on(query, route, *failed, attempts)).await?;
                    return Ok(if next == Next::Answered { Piped::Over } else { Piped::Alone });
                }
            };
        }
        if let Answer::Alone(_) | Answer::Long | Answer::LostLong = answer {
            self.here.end_load();
            return Ok(self.env.runs_alone(if let Answer::Alone(why) = answer { why } else { Why::Lost }));
        }
        let clean = if let Answer::Clean(end) = answer { Some(end) } else { None };
        let is_as_expected = match clean {
            Some(end) => {
                end.status & Status::OF_SESSION == self.belief.status
                    && !(query.statement.found_rows == FoundRows::Aggregate
                        && self.belief.past.found_rows != Some(1)
                        && is_of_nothing(&place.reply()))
            }
            None => true,
        };
        let taken = match is_as_expected {
            true => {
                let mut take = |cx: &mut Context<'_>| {
                    self.take_reply(cx, (&place, clean, copy.take()), query, route, (fill, attempts))
                };
                poll_fn(|cx| Poll::Ready(take(cx))).await
            }
            false => None,
        };
        drop(place);
        match taken {
            None => {
                self.here.end_load();
                Ok(self.env.runs_alone(Why::Reply))
            }
            Some(Err(RelayError::Client(error))) => Err(SessionEnd::ClientLost(error)),
            Some(Err(error)) => Err(SessionEnd::ServerLost(format!("{error:?}"))),
            Some(Ok(())) => {
                self.client.flush().await.map_err(SessionEnd::ClientLost)?;
                Ok(Piped::Over)
            }
        }
    }

    /// Asks for the first news of a query on a pipeline; on another one, if a read ahead of it was long.
    ///
    /// # Errors
    /// Why it has to run on a connection of its own.
    async fn ask_pipelines(
        &mut self,
        query: &Query<'_>,
        mut own: Option<Lease>,
        route: &Route,
        fill: Option<&Fill>,
        attempts: &mut Attempts,
    ) -> Result<(Appended, Answer), Why> {
        let (mut tries, mut since) = (0, attempts.begun);
        loop {
            let appended = self.append_to_pipeline(query, own.take(), route, fill, attempts)?;
            let answer = poll_fn(|cx| appended.place.poll_answer(cx)).await;
            tries += 1;
            if let Some(until) = appended.place.waited_until() {
                self.env.handle.activity.waited(until.saturating_duration_since(since));
                // The server had it then, as far as it has it.
                (attempts.at, since) = (until, until);
            }
            // It is as short as it was before the one ahead of it was long.
            if answer != Answer::Alone(Why::BehindLong) || tries >= TRIES_MAX {
                return Ok((appended, answer));
            }
            self.here.end_load();
        }
    }

    /// Waits for the end of a read that is long. Others see it run, and can kill it; the server may be given up.
    async fn wait_for_long(&mut self, server: ServerId, place: &Place) -> Result<Answer, Box<Failed>> {
        let thread_id = place.pipeline().with_lease(|lease| {
            let thread_id = lease.origin.thread_id;
            (lease, thread_id)
        });
        self.env.handle.begin_statement(server, thread_id.unwrap_or(0));
        if let (true, Some(thread_id)) = (self.env.handle.take_noted_kill(), thread_id) {
            // Should it fail, the read goes on, as it does when the killer's own try fails.
            let _ = self.kill_on_server(server, thread_id, Kill { query_only: true, soft: false }).await;
        }
        let answer = poll_fn(|cx| match self.env.handle.abandoned.load(Ordering::Relaxed) {
            true => Poll::Ready(None),
            false => place.poll_answer(cx).map(Some),
        })
        .await;
        let (lease, end, text) = match answer {
            None => (place.give_up(), ConnectionEnd::GivenUp, GIVEN_UP.to_owned()),
            Some(Answer::LostLong) => match place.take_lost() {
                Some(lost) => (Some(lost.lease), lost.end, lost.text),
                None => return Ok(Answer::LostLong),
            },
            Some(answer) => {
                if self.env.handle.end_statement(KILL_WAIT).await {
                    // Somebody kills what runs there, which may be the next read.
                    drop(place.give_up());
                }
                return Ok(answer);
            }
        };
        match lease {
            None => Ok(Answer::LostLong),
            Some(lease) => {
                let outcome = Outcome { sent: true, end, ..Outcome::default() };
                Err(Box::new(Failed { held: alone(lease), error: RelayError::Server(text), outcome }))
            }
        }
    }

    /// Appends a query to a pipeline.
    ///
    /// # Errors
    /// Why it has to run on a connection of its own.
    fn append_to_pipeline(
        &mut self,
        query: &Query<'_>,
        own: Option<Lease>,
        route: &Route,
        fill: Option<&Fill>,
        attempts: &mut Attempts,
    ) -> Result<Appended, Why> {
        let cluster = self.here.cluster.clone();
        let (chosen, pipeline) = match own {
            Some(own) => (own.server(), cluster.pipelines.begin(own)),
            None => self.find_pipeline(query, route, attempts)?,
        };
        let mut out = self.env.worker.outgoing.take();
        let written = pipeline.with_lease(|mut lease| {
            let written =
                !self.limits_differ(&lease.origin) && self.write_shared(&mut lease, &pipeline, query, &mut out);
            (lease, written)
        });
        if written != Some(true) {
            pipeline.leave();
            self.env.worker.outgoing.keep(out);
            return Err(Why::NoConnection);
        }
        // Before it is sent: a server that hears of a write while it reads may not have read it.
        let copy = self.copy_for(fill, chosen);
        self.here.begin_load(chosen);
        let place = pipeline.append(query.statement.digest, attempts.begun, &mut out);
        self.env.worker.outgoing.keep(out);
        Ok(Appended { server: chosen, place, copy })
    }

    /// A pipeline for a query, and its server.
    ///
    /// # Errors
    /// Why it has to run on a connection of its own.
    fn find_pipeline(
        &self,
        query: &Query<'_>,
        route: &Route,
        attempts: &mut Attempts,
    ) -> Result<(ServerId, Rc<Pipeline>), Why> {
        let cluster = &self.here.cluster;
        let always = self.who.wants_pipelines(query) == Pipelines::Always;
        if !always && !cluster.pipelines.is_short(query.statement.digest, attempts.at) {
            return Err(Why::UnknownForm);
        }
        let view = cluster.view();
        let Choice::Server(chosen, None) = self.choose(route, &view, attempts, &mut None) else {
            return Err(Why::Position);
        };
        let server = view.server(chosen).ok_or(Why::Position)?;
        if !always && cluster.loads.outstanding(chosen) == 0 {
            return Err(Why::Quiet);
        }
        let identity = &self.who.identity;
        let wanted = Wanted { server, key: &identity.key, login: identity.login, state: &self.belief.state };
        let pipeline = cluster.pipelines.find(&cluster.pools, &wanted).ok_or(Why::NoConnection)?;
        Ok((chosen, pipeline))
    }

    /// Writes a query for a pipeline. Gives whether it could: else what it lacks there is on its way for later ones.
    fn write_shared(
        &mut self,
        connection: &mut Connection,
        pipeline: &Rc<Pipeline>,
        query: &Query<'_>,
        out: &mut Outgoing,
    ) -> bool {
        let statement = match query.body {
            Body::Execute(id) => match self.prepared_on_pipeline(connection, id, query) {
                StatementOnPipeline::There(server_id) => Some((id, server_id)),
                StatementOnPipeline::Lacks(mut setup) => {
                    pipeline.append_setup(Read::new(0, Instant::now(), &mut setup));
                    return false;
                }
                StatementOnPipeline::Never => return false,
            },
            _ => None,
        };
        for id in connection.origin.statements.take_closing() {
            out.command(connection, Command::StmtClose, &id.to_le_bytes(), Purpose::Client, Expect::Nothing);
        }
        if let Some(as_came) = self.write_body(connection, query, &query.body, statement, out) {
            out.bytes.extend_from_slice(as_came);
        }
        out.expect(connection, query.expect, Purpose::Client);
        true
    }

    /// Gives the client its reply, and learns from it. `None` if the connection is gone, which there is no reply without.
    fn take_reply(
        &mut self,
        cx: &mut Context<'_>,
        (place, clean, copy): (&Place, Option<CleanEnd>, Option<Box<Copied>>),
        query: &Query<'_>,
        route: &Route,
        (fill, attempts): (&mut Option<Box<Fill>>, &Attempts),
    ) -> Option<Result<(), RelayError>> {
        place.pipeline().with_lease(|lease| {
            let mut held = alone(lease);
            let mut outcome = Outcome { sent: true, pipelined: true, ..Outcome::default() };
            outcome.taps.copy = copy;
            let as_came = |end: &CleanEnd| end.as_came && outcome.taps.copy.is_none();
            let relayed = match clean.filter(as_came) {
                Some(end) if !self.belief.tracking.has_late() => {
                    self.client.pass_whole(cx, &place.reply(), end, &mut outcome)
                }
                _ => self.relay_whole(cx, &mut held, query, &place.reply(), &mut outcome),
            };
            if relayed.is_ok() {
                held.lease.stats().pipelined.add_one();
                let (over, took) = self.finish_relayed(&held, query, route, &outcome, (attempts.begun, attempts.at));
                // A read leaves nothing that the shared tier must hear of.
                let _ = self.learn(&mut held, query, route, &outcome, over);
                // Its messages are those of its error: others have used the connection since.
                self.belief.past.messages_unread = false;
                if let Some(fill) = fill.take() {
                    self.keep_answer(*fill, query, held.lease.server(), &mut outcome, took);
                }
            }
            (held.lease, relayed)
        })
    }

    fn relay_whole(
        &mut self,
        cx: &mut Context<'_>,
        held: &mut Held,
        query: &Query<'_>,
        reply: &[u8],
        outcome: &mut Outcome,
    ) -> Result<(), RelayError> {
        let capabilities: Capabilities = held.lease.origin.capabilities;
        let expected = Expected { exchange: Exchange::new(query.expect, capabilities), purpose: Purpose::Client };
        let mut pending = VecDeque::from([expected]);
        let hearing = Hearing::behind(&self.belief.tracking, &self.belief.state, &query.statement);
        let mut relay = Relay {
            worker: &self.env.worker,
            handle: &self.env.handle,
            client: &mut self.client,
            connection: &mut held.lease,
            pending: &mut pending,
            tracking: &self.belief.tracking,
            withhold: Withhold::Nothing,
            hearing: Some(hearing),
            file_allowed: query.statement.asks.contains(Asks::LOCAL_FILE),
            prepare_as: 0,
            keeps_end: false,
            rows_stay: false,
            warnings: None,
            outcome,
        };
        relay.take_whole(cx, reply)
    }
}

impl Client {
    /// Passes on a whole reply in which nothing is to be changed; the pipeline has found its end.
    fn pass_whole(
        &mut self,
        cx: &mut Context<'_>,
        reply: &[u8],
        end: CleanEnd,
        outcome: &mut Outcome,
    ) -> Result<(), RelayError> {
        (outcome.status, outcome.ended_by_eof) = (Some(end.status), end.is_eof);
        (outcome.rows, outcome.rows_sent) = (Some(end.rows), end.rows);
        (outcome.reply_bytes, outcome.delivered) = (reply.len() as u64, true);
        match self.poll_send(cx, reply) {
            Poll::Ready(Err(error)) => Err(RelayError::Client(error)),
            // The socket may take the rest later.
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }
}

impl Who {
    /// As a rule says, else as user or listener do.
    fn wants_pipelines(&self, query: &Query<'_>) -> Pipelines {
        query.plan.pipelines().unwrap_or(self.identity.pipelines)
    }
}

impl Environment {
    #[inline]
    fn runs_alone(&self, why: Why) -> Piped {
        if let Some(count) = self.worker.stats.unpipelined.at(why as usize) {
            count.add_one();
        }
        Piped::Alone
    }
}

impl Belief {
    /// Whether a query goes to a pipeline that begins while it waits for a connection of its own.
    fn shares_later(&self, query: &Query<'_>) -> Sharing {
        let Body::Execute(id) = query.body else { return Sharing::Waits(None) };
        // MySQL's keep the types of the last execution.
        match self.statements.find(id) {
            Some(known) if self.is_mariadb() || known.parameters == 0 => Sharing::Waits(Some(id)),
            _ => Sharing::Begins,
        }
    }
}

/// A connection as a session holds one, without the user's right to it: many sessions use it at once.
fn alone(lease: Lease) -> Held {
    Held { lease, awaits: None, _user: UserLease::default() }
}
