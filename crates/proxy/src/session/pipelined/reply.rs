//! The reply of a read on a pipeline, on its way to the client.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use sql::Asks;
use wire::Capabilities;
use wire::command::Command;
use wire::exchange::Exchange;

use super::alone;
use crate::outgoing::{Expected, Purpose};
use crate::pipeline::{CleanEnd, Place};
use crate::session::attempts::Attempts;
use crate::session::cache::Fill;
use crate::session::client::Client;
use crate::session::query::Query;
use crate::session::relay::{Copied, Outcome, Relay, RelayError};
use crate::session::tracking::Hearing;
use crate::session::withhold::Withhold;
use crate::session::{Held, Session};
use route::Route;

impl Session {
    /// Gives the client its reply, and learns from it. `None` if the connection is gone, which there is no reply without.
    pub(super) fn take_reply(
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
                let _ = self.learn(&mut held, query, route, &mut outcome, over);
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
        let statement = (&*query.statement, query.command == Command::Query);
        let hearing = Hearing::behind(&self.belief.tracking, &self.belief.state, statement);
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
            texts: None,
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
        (outcome.replies, outcome.rows, outcome.rows_sent) = (1, Some(end.rows), end.rows);
        (outcome.reply_bytes, outcome.delivered) = (reply.len() as u64, true);
        match self.poll_send(cx, reply) {
            Poll::Ready(Err(error)) => Err(RelayError::Client(error)),
            // The socket may take the rest later.
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }
}
