//! Reads on pipelines: a read shares its connection with reads of other sessions, and its session waits for its reply.

mod append;
mod eligible;
mod reply;

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use facts::view::ServerId;
use sql::FoundRows;
use wire::Status;

use super::attempts::{Attempts, Sharing};
use super::cache::Fill;
use super::diagnostics::found_rows::is_of_nothing;
use super::environment::Environment;
use super::kill::{KILL_WAIT, Kill};
use super::query::Query;
use super::recover::{Failed, Next};
use super::relay::{Copied, GIVEN_UP, Outcome, RelayError};
use super::{Held, Session};
use crate::error::SessionEnd;
use crate::pipeline::{Answer, Place, Why};
use crate::pool::{ConnectionEnd, Lease, UserLease};
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
                    // The client gets this reply; run again, the read would not be killed again.
                    place.close_behind_reply();
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

/// A connection as a session holds one, without the user's right to it: many sessions use it at once.
fn alone(lease: Lease) -> Held {
    Held { lease, awaits: None, _user: UserLease::default() }
}
