//! The reply of a read on a pipeline, on its way to the client.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use sql::Asks;
use wire::command::Command;
use wire::exchange::Exchange;
use wire::packet::HEADER_BYTES;
use wire::{Capabilities, Status, reply};

use super::alone;
use crate::outgoing::{Expected, Purpose};
use crate::pipeline::{CleanEnd, LastPacket, Place};
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
            let relayed = match clean.filter(|end| outcome.taps.copy.is_none() && self.hears_nothing_with(end)) {
                Some(end) => self.client.pass_whole(cx, &place.reply(), end, &mut outcome),
                None => self.relay_whole(cx, &mut held, query, &place.reply(), &mut outcome),
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

    /// The client hears no report with the end of this result, neither one that it has still to hear nor one of the read itself.
    #[inline]
    fn hears_nothing_with(&self, end: &CleanEnd) -> bool {
        let tracking = &self.belief.tracking;
        let wants = match end.last {
            LastPacket::AsCame => false,
            LastPacket::Reports { .. } => tracking.hears_of_each_statement(),
            LastPacket::Relayed => true,
        };
        !wants && !tracking.has_late()
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
    /// Passes on a whole reply whose client hears no report; the pipeline has found its end.
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
        let as_came = match end.last {
            LastPacket::Reports { bytes } => {
                self.put_without_reports(reply, bytes, end.status);
                &[]
            }
            LastPacket::AsCame | LastPacket::Relayed => reply,
        };
        match self.poll_send(cx, as_came) {
            Poll::Ready(Err(error)) => Err(RelayError::Client(error)),
            // The socket may take the rest later.
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }

    /// Puts a reply, and in place of its last packet, which has so many bytes, one with these flags alone.
    fn put_without_reports(&mut self, whole: &[u8], last_bytes: usize, status: Status) {
        let (rows, last) = whole.split_at(whole.len() - last_bytes);
        self.put(rows);
        let ended = reply::Ok {
            affected_rows: 0,
            insert_id: 0,
            status,
            warnings: 0,
            info: b"",
            session_state: b"",
            empty_report: false,
        };
        let capabilities = self.capabilities;
        self.put_packet(last[HEADER_BYTES - 1], |out| ended.write(out, reply::EOF, capabilities));
    }
}
