//! One client's connection and the state the client believes it has. **Start here:** [`Session::handle`] tells the life
//! of a query.

mod admission;
mod any_schema;
mod attempts;
mod begin;
mod belief;
mod binlog;
mod cache;
mod cached;
mod checkout;
mod checksum;
mod client;
mod cluster_session;
mod consistency;
mod count;
mod diagnostics;
mod environment;
mod event;
mod exchange;
mod facts;
mod fix_up;
mod hidden;
mod hold;
mod idle;
mod ids;
mod init_connect;
mod kill;
mod killed;
mod learn;
mod local;
mod login;
mod long_data;
mod long_text;
mod lost;
mod moving;
mod packet_limit;
mod pipelined;
mod policy;
mod prepare_again;
mod processes;
mod proof;
mod prove;
mod query;
mod read_only;
mod recover;
mod relay;
mod replay;
mod replica_wait;
mod request;
mod reset;
mod result_end;
mod routing;
mod send;
mod serve;
mod settle;
mod stand_in;
mod statements;
mod trace;
mod tracking;
mod transaction;
mod transaction_log;
mod typed;
mod warm;
mod who;
mod withhold;
mod write;

use std::time::Instant;

use stats::digests::CacheSaid;

use crate::error::{Refusal, SessionEnd};
use ::policy::Verdict;
use attempts::{Attempts, Sharing};
use belief::Belief;
use cache::CacheDecision;
use client::{Client, Request};
use cluster_session::{ClusterSession, Held};
use count::End;
use diagnostics::past::{Doubt, Past};
use environment::Environment;
pub use init_connect::ExemptAccounts;
pub use moving::{Moving, arrive};
use pipelined::Piped;
use query::{Query, Received, Understood};
use recover::{Failed, Next};
use relay::Outcome;
use route::{Reason, Route};
pub use serve::spawn;
use transaction::Transaction;
pub use warm::warm_up;
use who::{Identity, Who};

/// One client's session: six parts, each with one lifetime.
#[derive(Debug)]
pub struct Session {
    /// Where it runs: until it moves to another worker.
    env: Environment,
    /// The client's connection: for good.
    client: Client,
    /// The user that has logged in: until COM_CHANGE_USER.
    who: Who,
    /// The state that the client believes it has: until a reset.
    belief: Belief,
    /// The open transaction: until its end.
    transaction: Transaction,
    /// Its part in the cluster.
    here: ClusterSession,
}

impl Session {
    /// The life of a query.
    ///
    /// It is understood; what needs no server is answered. Its route says which server it needs and why. A backend
    /// connection is checked out: the pinned one, or one from the pool, perhaps after a wait. The fix-up, the state that this
    /// connection lacks, goes ahead of the statement in the same write. The reply streams back to the client; the session
    /// takes the state from it; the connection returns to the pool unless the session is pinned. When the
    /// server was lost before the client got a byte, a read is tried again on another one, and a transaction is replayed.
    ///
    /// Gives what the result cache did for it, for sessions that warm the cache.
    async fn handle(&mut self, request: &Request) -> Result<Option<CacheSaid>, SessionEnd> {
        let mut query = match self.receive_plain(request) {
            Ok(query) => query,
            Err(read) => match self.receive(request, read).await? {
                Some(query) => query,
                None => return self.client.flush_answers().await.map(|()| None),
            },
        };
        let verdict = self.ask_policy(&mut query);
        let fill = match verdict.is_pass() && query.plan.cache().is_none() {
            true => None,
            false => match Box::pin(self.answer_by_policy(&query, verdict)).await? {
                CacheDecision::Answered => return Ok(query.cache.came()),
                CacheDecision::Fill(asked) => Some(asked),
                CacheDecision::No(_) => None,
            },
        };
        if self.client.has_unsent() {
            self.client.flush().await.map_err(SessionEnd::ClientLost)?;
        }
        if (self.here.held.is_some() || !query.statement.is_plain_read())
            && let Some(refusal) = self.make_ready(&query).await
        {
            self.finish(&query, End::Refused(Instant::now(), &refusal));
            return self.refuse(request, &refusal).await.map(|()| None);
        }
        let defining = self.here.defining(&query);
        let _granting = self.granting(&query);
        let route = self.route(&query, fill.as_deref());
        if query.streams() {
            return Err(Box::pin(self.stream_binlog(request, &route)).await);
        }
        self.begin_log(&query, &route);
        self.run_on_server(&mut query, route, fill, defining.is_some()).await.map(|()| query.cache.came())
    }

    /// A command that asks for nothing but a server, as nearly all do, is understood at once. For another one, gives what was read of
    /// it so far.
    #[inline]
    fn receive_plain<'r>(&mut self, request: &'r Request) -> Result<Query<'r>, Received> {
        self.look_at_catalog();
        if self.belief.gone_schema.is_some() && self.here.held.is_none() {
            self.belief.choose_gone_schema_again();
        }
        let arrived = self.arrival();
        match self.understand_plain(request) {
            Ok(mut query) => {
                query.arrived = arrived;
                self.find_hidden(&mut query);
                Ok(query)
            }
            Err(statement) => Err(Received { arrived, statement }),
        }
    }

    /// Any other command is understood. One that needs no server is answered and finished; there is no query then.
    async fn receive<'r>(&mut self, request: &'r Request, read: Received) -> Result<Option<Query<'r>>, SessionEnd> {
        let Received { arrived, statement } = read;
        match Box::pin(self.understand(request, statement)).await? {
            Understood::Query(mut query) => {
                query.arrived = arrived;
                self.find_hidden(&mut query);
                Ok(Some(query))
            }
            Understood::Answered(mut query, answered) => {
                query.arrived = arrived;
                self.finish(&*query, End::Local(answered));
                Ok(None)
            }
            Understood::NoCommand => Ok(None),
        }
    }

    /// Policy may answer in place of a server: it refuses the query, or has the result cache answer it.
    async fn answer_by_policy(&mut self, query: &Query<'_>, verdict: Verdict) -> Result<CacheDecision, SessionEnd> {
        if let Verdict::Refuse { rule, text } = verdict {
            self.refuse_by_policy(query, Refusal::by_rule(&rule, &text)).await?;
            return Ok(CacheDecision::Answered);
        }
        let Some((rule, wanted)) = query.plan.cached_by().filter(|_| cache::is_for_cache(query)) else {
            return Ok(CacheDecision::No(None));
        };
        let asked = self.ask_cache(query, rule, wanted).await?;
        query.cache.asked.set(true);
        query.cache.said.set(match &asked {
            CacheDecision::Answered => None,
            CacheDecision::Fill(_) => Some(CacheSaid::Miss),
            // With nothing to say, another session is asking a server.
            CacheDecision::No(said) => *said,
        });
        if matches!(asked, CacheDecision::Answered) {
            self.client.flush_answers().await?;
        }
        Ok(asked)
    }

    /// Does what must come before the route: the session's own settings are taken, and a READ ONLY transaction leaves its
    /// replica for a statement that outlives it.
    async fn make_ready(&mut self, query: &Query<'_>) -> Option<Refusal> {
        if query.statement.asks.contains(sql::Asks::CONNECT_ATTRIBUTES) {
            self.who.identity.show_attributes();
        }
        if self.here.held.is_some() && self.belief.ends_read_only_transaction(query) {
            Box::pin(self.leave_read_only_transaction()).await;
        }
        if self.outlives_read_only_transaction(query)
            && let Err(refusal) = Box::pin(self.move_read_only_transaction()).await
        {
            return Some(refusal);
        }
        if query.statement.effects.is_empty() { None } else { self.who.take_consistency(query) }
    }

    /// Does what must come before the fix-up, on a connection that no session has used yet, or for a statement that asks a
    /// sequence in a session without pins.
    async fn make_connection_ready(&mut self, held: &mut Held, query: &Query<'_>) {
        if !held.lease.origin.tracks {
            self.wait_for_defaults().await;
        }
        if self.belief.asks_free_sequence(query) {
            self.env.forget_sequences(held).await;
        }
    }

    /// Runs a query on a server, and on another one when the first is lost.
    async fn run_on_server(
        &mut self,
        query: &mut Query<'_>,
        mut route: Route,
        mut fill: Option<Box<cache::Fill>>,
        defines: bool,
    ) -> Result<(), SessionEnd> {
        let mut attempts = Attempts::of(query.request.packets.len());
        self.env.show_query(query);
        attempts.sharing = self.sharing_at_first(query);
        let (shares, mut own) = (attempts.sharing != Sharing::Never, None);
        attempts.in_any_schema = self.does_same_in_any_schema(query);
        loop {
            if attempts.sharing == Sharing::Now
                && self.run_on_pipeline(query, own.take(), &mut route, &mut fill, &mut attempts).await? == Piped::Over
            {
                return Ok(());
            }
            let mut held = match self.checkout_unless_shared(&route, &mut attempts).await {
                Ok(Some(held)) => held,
                Ok(None) => continue,
                Err(refusal) if self.belief.leaves_schema(&refusal) => continue,
                Err(refusal) => return self.refuse_query(query, &attempts, &refusal).await,
            };
            if self.begins_pipeline(query, &held, &attempts) {
                (attempts.sharing, own) = (Sharing::Now, Some(held.lease));
                continue;
            }
            if !held.lease.origin.tracks || self.belief.asks_free_sequence(query) {
                Box::pin(self.make_connection_ready(&mut held, query)).await;
            }
            self.env.handle.begin_statement(held.lease.server(), held.lease.origin.thread_id);
            if self.env.handle.take_noted_kill() {
                return Box::pin(self.leave_killed(held, query, &attempts)).await;
            }
            let (mut outcome, began) = (Outcome::default(), (&route, attempts.at));
            if let Err(error) = self.exchange(&mut held, query, began, fill.as_deref(), &mut outcome).await {
                let failed = Failed { held, error, outcome };
                match Box::pin(self.go_on(query, &mut route, failed, &mut attempts)).await? {
                    Next::TryAgain if route.reason == Reason::WritingFunction => query.hide_write(),
                    Next::TryAgain => {}
                    Next::Answered => return Ok(()),
                }
                continue;
            }
            // The time that the server waited is no time of the statement.
            let started = outcome.there_at.unwrap_or(attempts.at);
            let (over, took) = self.finish_relayed(&held, query, &route, &outcome, (attempts.begun, started));
            if shares {
                self.here.cluster.pipelines.ran_alone(query.statement.digest, took, outcome.reply_bytes);
            }
            if self.belief.failed_unseen(query, &outcome) || self.belief.ran_unseen(query, &outcome) {
                Box::pin(self.ask_behind_reply(&mut held, &mut outcome)).await;
            }
            if let Some(written) = self.learn(&mut held, query, &route, &mut outcome, over) {
                Box::pin(self.report_to_tier(written, defines)).await;
            }
            if let Some(fill) = fill.take() {
                self.ask_found_rows(&mut held, query).await?;
                self.keep_answer(*fill, query, held.lease.server(), &mut outcome, took);
            }
            self.log(query, &outcome);
            let Some(held) = self.give_back_at_once(held, &outcome) else { return Ok(()) };
            return self.settle(held, query, &outcome).await;
        }
    }

    /// The server failed, or was lost: decides what follows, and finishes the query if nothing does.
    async fn go_on(
        &mut self,
        query: &Query<'_>,
        route: &mut Route,
        failed: Failed,
        attempts: &mut Attempts,
    ) -> Result<Next, SessionEnd> {
        self.here.end_load();
        self.here.end_all_answers(query);
        self.report_all_to_tier(query).await;
        let next = self.recover(query, route, failed, attempts).await;
        if !matches!(next, Ok(Next::TryAgain)) {
            self.finish(query, End::Lost(attempts.at));
            self.here.end_all_answers(query);
            self.report_all_to_tier(query).await;
        }
        next
    }

    /// A query that no server has got ends with an error of Sqluice's own.
    async fn refuse_query(
        &mut self,
        query: &Query<'_>,
        attempts: &Attempts,
        refusal: &Refusal,
    ) -> Result<(), SessionEnd> {
        self.finish(query, End::Refused(attempts.begun, refusal));
        self.refuse(query.request, refusal).await
    }

    /// Answers with an error of Sqluice's own; the session goes on.
    async fn refuse(&mut self, request: &Request, refusal: &Refusal) -> Result<(), SessionEnd> {
        self.env.worker.stats.own_errors.add_one();
        if self.belief.statements.keep_refusal(request, refusal) {
            return Ok(());
        }
        self.client.put_error(request.sequence.wrapping_add(1), refusal);
        self.client.flush().await.map_err(SessionEnd::ClientLost)
    }
}

impl Belief {
    /// Whether a query asks a sequence on a connection that its session does not keep.
    #[inline]
    fn asks_free_sequence(&self, query: &Query<'_>) -> bool {
        query.statement.asks.contains(sql::Asks::SEQUENCE_VALUE) && self.pins.is_empty()
    }
}

impl Client {
    /// Sends what was answered, unless more is to be answered first.
    async fn flush_answers(&mut self) -> Result<(), SessionEnd> {
        match self.must_flush() {
            true => Box::pin(self.flush()).await.map_err(SessionEnd::ClientLost),
            false => Ok(()),
        }
    }
}
