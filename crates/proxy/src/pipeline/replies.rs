//! The replies on a pipeline: where each ends, whose it is, and whether its session can have it as it is.

use std::rc::Rc;
use std::time::Instant;

use wire::codec::Malformed;
use wire::exchange::{Advance, Event};
use wire::reply::{Change, Ok as OkPacket, STATEMENT_NUMBER};
use wire::{Status, errno};

use super::place::{Answer, CleanEnd, LastPacket, Read, Why};
use super::{Inner, Pipeline};
use crate::outgoing::{Expected, Purpose};
use crate::pool::Origin;

/// A step through the bytes of a reply.
#[derive(Debug, Default)]
struct Step {
    /// How many bytes it took.
    taken: usize,
    /// How the reply has ended, if it has.
    ended: Option<Ended>,
}

/// How a reply has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// With the end of a result that has no warnings and tells nothing of the session.
    Clean(CleanEnd),
    /// With the error of this code.
    Error(u16),
    /// Otherwise.
    Unclean,
}

impl Pipeline {
    /// Takes bytes of the server. Gives whether the first reply is too large for a pipeline, and not all here.
    ///
    /// # Errors
    /// They are no replies, or more than were asked for.
    pub(super) fn take(&self, bytes: &[u8]) -> Result<bool, Malformed> {
        let mut inner = self.inner.borrow_mut();
        let inner = &mut *inner;
        let mut inbox = std::mem::take(&mut inner.inbox);
        if inbox.is_empty() {
            let taken = self.understand(inner, bytes)?;
            inbox.extend_from_slice(&bytes[taken..]);
        } else {
            inbox.extend_from_slice(bytes);
            let taken = self.understand(inner, &inbox)?;
            inbox.drain(..taken);
        }
        inner.inbox = inbox;
        let too_large = |first: &Rc<Read>| first.reply.borrow().len() as u64 > inner.bounds.bytes;
        Ok(inner.sent.front().is_some_and(too_large))
    }

    /// Gives how many bytes were used up.
    fn understand(&self, inner: &mut Inner, bytes: &[u8]) -> Result<usize, Malformed> {
        let (mut taken, before) = (0, inner.sent.len());
        while taken < bytes.len() {
            let Some(read) = inner.sent.front().cloned() else {
                return Err(Malformed("the server sent more than its replies"));
            };
            let step = match &mut inner.lease {
                Some(lease) => read.advance(&bytes[taken..], &mut lease.origin)?,
                None => Step::default(),
            };
            taken += step.taken;
            match step.ended {
                Some(ended) => self.is_over(inner, &read, ended),
                None if step.taken == 0 => break,
                None => {}
            }
        }
        if inner.sent.len() < before {
            inner.first_since = Instant::now();
        }
        Ok(taken)
    }

    /// A reply has ended; the read behind it is the first one, unless this one has more replies.
    fn is_over(&self, inner: &mut Inner, read: &Rc<Read>, ended: Ended) {
        if !read.expected.borrow().is_empty() {
            return;
        }
        inner.sent.pop_front();
        inner.count_gone(1);
        let was_long = read.is_long.take();
        // Only this function and the queue know it.
        if read.digest == 0 || Rc::strong_count(read) <= 1 {
            inner.has_long &= !was_long;
            return;
        }
        let answer = match ended {
            Ended::Clean(end) => Answer::Clean(end),
            // Another run would only be ended again.
            Ended::Error(errno::ER_QUERY_INTERRUPTED | errno::ER_STATEMENT_TIMEOUT) if was_long => Answer::ErrorLong,
            Ended::Error(_) | Ended::Unclean => Answer::Alone(Why::Reply),
        };
        match answer {
            Answer::Clean(_) if !was_long => self.forms.borrow_mut().was_short(read.digest),
            Answer::Alone(_) => self.forms.borrow_mut().was_long(read.digest, Instant::now()),
            _ => {}
        }
        read.was_long.set(was_long);
        // The session of a long read looks for kills before anybody else uses the connection.
        if was_long || !matches!(answer, Answer::Alone(_)) {
            inner.untaken += 1;
            read.is_untaken.set(true);
        }
        read.tell(answer);
    }
}

impl Read {
    /// Goes on in its replies, and keeps the session's.
    fn advance(&self, bytes: &[u8], origin: &mut Origin) -> Result<Step, Malformed> {
        let mut expected = self.expected.borrow_mut();
        let Some(Expected { exchange, purpose }) = expected.front_mut() else {
            return Err(Malformed("a reply that was not asked for"));
        };
        let mut step = Step::default();
        match exchange.advance(bytes)? {
            Advance::Needs(_) => {}
            Advance::Pass(taken) => {
                step.taken = taken;
                // The columns of a prepared statement may be the last of its preparation.
                step.ended = exchange.is_over().then_some(Ended::Unclean);
            }
            Advance::Packet(packet) => {
                step.taken = packet.taken;
                if let (Event::Prepared(prepared), Purpose::Prepare(key)) = (&packet.event, &*purpose) {
                    origin.statements.insert(key.clone(), prepared.statement, origin.statements_max);
                }
                if matches!(packet.event, Event::Infile(_)) {
                    return Err(Malformed("it asked for a file where none is sent"));
                }
                step.ended = packet.over.then(|| ended(&packet.event, exchange.rows(), packet.taken));
                // The connection is not in the state that it counts as being in.
                if matches!((step.ended, &*purpose), (Some(Ended::Error(_)), Purpose::Variables)) {
                    return Err(Malformed("the server refused a fix-up"));
                }
            }
        }
        if matches!(purpose, Purpose::Client) {
            self.reply.borrow_mut().extend_from_slice(&bytes[..step.taken]);
        }
        if step.ended.is_some() {
            expected.pop_front();
        }
        Ok(step)
    }
}

/// How a reply ends with this packet, which has so many bytes, behind so many rows.
fn ended(last: &Event<'_>, rows: u64, bytes: usize) -> Ended {
    let is_clean = |status: Status, warnings: u16| {
        let more = Status::MORE_RESULTS | Status::CURSOR_EXISTS | Status::IN_TRANSACTION;
        warnings == 0 && !status.intersects(more)
    };
    match last {
        Event::RowsEnd(ok) if is_clean(ok.status, ok.warnings) && tells_nothing(ok) => {
            Ended::Clean(CleanEnd { status: ok.status, rows, is_eof: false, last: last_packet(ok, bytes) })
        }
        // This framing has no room for what the flag announces.
        Event::Eof(eof)
            if is_clean(eof.status, eof.warnings) && !eof.status.contains(Status::SESSION_STATE_CHANGED) =>
        {
            Ended::Clean(CleanEnd { status: eof.status, rows, is_eof: true, last: LastPacket::AsCame })
        }
        Event::Error(error) => Ended::Error(error.code),
        _ => Ended::Unclean,
    }
}

/// Whether a packet tells nothing of the session that a read could have changed. Executions of prepared statements report that
/// something has changed, which is their own preparation; MySQL reports the number of each statement.
fn tells_nothing(ok: &OkPacket<'_>) -> bool {
    ok.changes().all(|change| matches!(change, Ok(Change::State | Change::Variable { name: STATEMENT_NUMBER, .. })))
}

/// How the client may get a packet that ends a result.
fn last_packet(ok: &OkPacket<'_>, bytes: usize) -> LastPacket {
    let has_only_flags = (ok.affected_rows, ok.insert_id) == (0, 0) && ok.info.is_empty();
    match (has_only_flags, ok.session_state.is_empty(), ok.status.contains(Status::SESSION_STATE_CHANGED)) {
        (true, true, false) => LastPacket::AsCame,
        (true, false, _) => LastPacket::Reports { bytes },
        _ => LastPacket::Relayed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_packet_of_a_reply_has_flags_alone_or_with_reports_or_is_relayed() {
        let bare = OkPacket {
            affected_rows: 0,
            insert_id: 0,
            status: Status::AUTOCOMMIT,
            warnings: 0,
            info: b"",
            session_state: b"",
            empty_report: false,
        };
        let last = |ok: OkPacket<'_>| match ended(&Event::RowsEnd(ok), 7, 30) {
            Ended::Clean(end) => Some((end.last, end.rows)),
            _ => None,
        };
        let changed = Status::AUTOCOMMIT | Status::SESSION_STATE_CHANGED;
        assert_eq!(last(bare), Some((LastPacket::AsCame, 7)));
        let relayed = Some((LastPacket::Relayed, 7));
        assert_eq!(last(OkPacket { status: changed, ..bare }), relayed, "MariaDB reports nothing");
        let own = OkPacket { status: changed, session_state: b"\x02\x01\x31", ..bare };
        assert_eq!(last(own), Some((LastPacket::Reports { bytes: 30 }, 7)));
        assert_eq!(last(OkPacket { insert_id: 3, ..own }), relayed);
        assert_eq!(last(OkPacket { insert_id: 3, ..bare }), relayed);
        assert_eq!(last(OkPacket { warnings: 1, ..bare }), None);
        let schema = b"\x01\x02\x01x";
        assert_eq!(last(OkPacket { status: changed, session_state: schema, ..bare }), None);
    }
}
