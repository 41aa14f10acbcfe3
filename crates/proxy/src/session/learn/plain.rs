//! The replies that most reads get: of a session that is not pinned, with nothing to tell but their rows.

use std::time::Instant;

use wire::Status;

use crate::pool::NO_MESSAGES;
use crate::session::belief::Belief;
use crate::session::query::Query;
use crate::session::relay::Outcome;
use crate::session::{Held, Session};
use route::Route;

impl Belief {
    /// Whether a reply leaves on the session no more than [`Session::learn_plain`] notes: rows of a read that neither asks nor
    /// changes anything else, in a session without pins.
    #[inline]
    pub(super) fn is_plain(&self, query: &Query<'_>, outcome: &Outcome) -> bool {
        self.pins.is_empty()
            && query.statement.is_plain_read()
            && query.hides.is_none()
            && query.runs_text()
            && !query.opens_cursor
            && outcome.has_rows_alone()
            && outcome.status.is_some_and(|status| !(status ^ self.status).intersects(Status::OF_MODES))
    }
}

impl Session {
    /// Notes a [plain](Belief::is_plain) reply: what [`Session::learn`] would note of it, and nothing else.
    #[inline]
    pub(super) fn learn_plain(
        &mut self,
        held: &mut Held,
        query: &Query<'_>,
        route: &Route,
        outcome: &Outcome,
        over: Instant,
    ) {
        let origin = &mut held.lease.origin;
        let past = &mut self.belief.past;
        past.ran_on = (!outcome.pipelined).then_some((origin.last_session, origin.thread_id));
        past.counted_rows(outcome.rows);
        past.has_no_messages();
        (origin.messages, origin.stands_in) = (Some(NO_MESSAGES), false);
        if let Some(status) = outcome.status {
            self.belief.status = status & Status::OF_SESSION;
        }
        self.note_transaction_reads(false, query, true);
        self.learn_what_was_written(held, query, route, outcome, (Vec::new(), over));
    }
}
