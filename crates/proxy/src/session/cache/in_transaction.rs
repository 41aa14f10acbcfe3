//! The cache in a transaction: one that has only read, and whose statements each see what is committed by then, READ COMMITTED, is answered
//! as a session without one is.
//!
//! A snapshot (REPEATABLE READ, SERIALIZABLE) is the server's alone: an answer from outside is of another moment. So is uncommitted
//! data (READ UNCOMMITTED): it may never be committed, so that no write invalidates it. A transaction that has
//! written, or locked something, sees and means more than what others have committed. Its answers say in their status flags that it is
//! open, which is put into them when they are given; what is kept has the flags of a session without one.
//!
//! On a replica only what that replica has answered is given: another server's answer may be newer, and what the transaction reads
//! next must not go back behind it.

use std::borrow::Cow;

use cache::{Answer, Refusal};
use facts::tables::TableScope;
use facts::view::ServerId;
use sql::{Access, Effect, TransactionStep, Why};
use wire::Status;
use wire::exchange::{Advance, Event, Exchange};

use super::super::checksum::Checksum;
use super::super::query::Query;
use super::super::relay::{Outcome, Taps};
use super::super::result_end::with_flags;
use super::super::{Held, Session};
use crate::session::belief::Belief;
use crate::session::cluster_session::ClusterSession;
use route::Pin;

/// The status flags that tell of transactions.
const OF_TRANSACTION: Status = Status::IN_TRANSACTION.union(Status::AUTOCOMMIT).union(Status::IN_READ_ONLY_TRANSACTION);

/// Why a session may keep its connection and ask the cache all the same, if it is in a transaction.
const HARMLESS: u32 = 1 << Pin::Transaction as u32 | 1 << Pin::NextStatement as u32 | 1 << Pin::FoundRows as u32;

/// The reads of the open transaction, and of the next one, as far as SET TRANSACTION has said.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::session) struct TransactionReads {
    /// Nothing but plain reads so far.
    only: bool,
    /// Each statement sees what is committed by then.
    newest: bool,
    /// The same of the next transaction; `None` is as the session says.
    next: Option<bool>,
}

impl Session {
    /// Whether the cache may be asked in the session's transaction, or because there is none.
    #[inline]
    pub(super) fn may_ask_here(&self) -> Result<(), Refusal> {
        let facts = self.belief.facts();
        if facts.null_is_last_id {
            return Err(Refusal::Session);
        }
        if facts.reads_uncommitted && !self.belief.pins.has(Pin::Transaction) {
            // A write that is rolled back ends no answer that was read from it.
            return Err(Refusal::Uncommitted);
        }
        if self.here.held.is_none() && self.belief.pins.is_empty() {
            // A read opens one that has read nothing before.
            return if facts.autocommit || facts.reads_newest { Ok(()) } else { Err(Refusal::AutocommitOff) };
        }
        self.transaction_may_ask()
    }

    /// The same of a session that is pinned.
    pub(in crate::session) fn transaction_may_ask(&self) -> Result<(), Refusal> {
        if !self.belief.pins.has(Pin::Transaction)
            || self.belief.pins.bits() & !HARMLESS != 0
            || !self.transaction.reads.only
        {
            return Err(Refusal::Pinned);
        }
        if self.transaction.reads.newest { Ok(()) } else { Err(Refusal::Snapshot) }
    }

    /// Whether the connection that the session keeps, if it does, is one to a server that has all writes to these tables. Asked behind the
    /// stamp, and ahead of the statement.
    pub(super) fn transaction_has_writes_to(&self, tables: &TableScope) -> bool {
        let here = self.here.held.as_ref().map(|held: &Held| held.lease.server());
        let has = here.is_none_or(|server| self.has_writes_to(tables, server));
        if !has {
            self.here.cluster.shared.published.want_positions();
        }
        has
    }

    /// Notes what a statement was for the open transaction. Behind the notes of pins.
    #[inline]
    pub(in crate::session) fn note_transaction_reads(&mut self, was_open: bool, query: &Query<'_>, succeeded: bool) {
        let is_open = self.belief.pins.has(Pin::Transaction);
        if is_open || self.transaction.reads.next.is_some() || !query.statement.effects.is_empty() {
            self.note_in_transaction(was_open, query, succeeded);
        }
    }

    fn note_in_transaction(&mut self, was_open: bool, query: &Query<'_>, succeeded: bool) {
        use TransactionStep::{Begin, Commit, Rollback};
        let statement = &*query.statement;
        for effect in statement.effects.iter().filter(|_| succeeded && query.runs_text()) {
            match effect {
                Effect::TransactionCharacteristics { session: false, isolation: Some(level), .. } => {
                    self.transaction.reads.next = Some(level == "READ COMMITTED");
                }
                // Whether the session's own or what was said before holds for the next one is not looked into.
                _ if self.belief.pins.has(Pin::NextStatement) && sets_isolation(effect) => {
                    self.transaction.reads.next = Some(false);
                }
                _ => {}
            }
        }
        if !self.belief.pins.has(Pin::Transaction) {
            if !self.belief.pins.has(Pin::NextStatement) {
                self.transaction.reads.next = None;
            }
            return;
        }
        let alone = statement.parts <= 1 && statement.effects.is_empty();
        let (begins, chains, snapshot) = match statement.transaction {
            Some(Begin { snapshot, .. }) => (true, false, snapshot),
            Some(Commit { chain, .. } | Rollback { chain, .. }) => (false, chain, false),
            _ => (false, false, false),
        };
        let newest = self.belief.facts().reads_newest;
        let reads = &mut self.transaction.reads;
        if begins || chains || !was_open {
            reads.only = alone && (begins || chains || only_reads(query));
            // AND CHAIN goes on with what it was.
            if !chains || !was_open {
                reads.newest = reads.next.take().unwrap_or(newest) && !snapshot;
            }
        } else {
            reads.only &= only_reads(query);
        }
    }

    /// An answer of the cache is one of the transaction's, as a server's would be: who runs it again elsewhere compares it, too.
    pub(super) fn log_answer(&mut self, query: &Query<'_>, answer: &Answer) {
        if self.here.held.is_none() || self.transaction.log.is_none() {
            return;
        }
        let reply = answer.reply().unwrap_or_default();
        let mut exchange = Exchange::new(query.expect, self.client.capabilities);
        let (mut sum, mut at) = (Checksum::default(), 0);
        while !exchange.is_over() {
            match exchange.advance(reply.get(at..).unwrap_or_default()) {
                Ok(Advance::Pass(n)) => {
                    sum.bytes(reply.get(at..at + n).unwrap_or_default());
                    at += n;
                }
                Ok(Advance::Packet(packet)) => {
                    sum.event(&packet.event);
                    at += packet.taken;
                    debug_assert!(!matches!(packet.event, Event::Infile(_)));
                }
                Ok(Advance::Needs(_)) | Err(_) => break,
            }
        }
        let outcome = Outcome { taps: Taps { sum: Some(sum), ..Taps::default() }, ..Outcome::default() };
        self.log(query, &outcome);
    }
}

impl Belief {
    /// The reply of an answer, with the flags of the session's transaction.
    pub(super) fn reply_here<'a>(&self, answer: &'a Answer) -> Cow<'a, [u8]> {
        let reply = answer.reply().unwrap_or_default();
        let flags = self.transaction_flags();
        if flags == Status::AUTOCOMMIT {
            return Cow::Borrowed(reply);
        }
        Cow::Owned(with_flags(reply.to_vec(), OF_TRANSACTION, flags))
    }

    /// The session's status behind an answer that was kept with this one.
    pub(super) fn status_behind(&self, kept: Status) -> Status {
        ((kept & Status::OF_SESSION) - OF_TRANSACTION) | self.transaction_flags()
    }

    fn transaction_flags(&self) -> Status {
        let mut flags = Status::empty();
        flags.set(Status::AUTOCOMMIT, self.facts().autocommit);
        if self.pins.has(Pin::Transaction) {
            flags |= self.status & (Status::IN_TRANSACTION | Status::IN_READ_ONLY_TRANSACTION);
        }
        flags
    }
}

impl ClusterSession {
    /// Whether an answer of this server may be given in between those of the connection that the session keeps.
    pub(super) fn fits_transaction(&self, server: u16) -> bool {
        let Some(held) = &self.held else { return true };
        let (here, view) = (held.lease.server(), self.cluster.shared.published.view.load());
        here == ServerId(server) || view.same_data || view.primary == Some(here) && view.group.is_none()
    }
}

/// The form of a reply and its status that is kept: without the flags of the transaction that it was read in.
pub(super) fn at_rest(reply: Box<[u8]>, status: Status) -> (Box<[u8]>, Status) {
    if status & OF_TRANSACTION == Status::AUTOCOMMIT {
        return (reply, status);
    }
    let reply = with_flags(reply.into_vec(), OF_TRANSACTION, Status::AUTOCOMMIT);
    (reply.into(), (status - OF_TRANSACTION) | Status::AUTOCOMMIT)
}

/// Whether a statement leaves nothing in its transaction, neither writes nor locks.
fn only_reads(query: &Query<'_>) -> bool {
    let statement = &*query.statement;
    query.prepares()
        || statement.access.only_reads() && !statement.asks.contains(sql::Asks::STORED_FUNCTIONS)
        || matches!(statement.access, Access::Primary(Why::Transaction | Why::SessionChange | Why::SessionState))
            && statement.parts <= 1
            && !statement.asks.contains(sql::Asks::STORED_FUNCTIONS)
}

fn sets_isolation(effect: &Effect) -> bool {
    match effect {
        Effect::TransactionCharacteristics { isolation, .. } => isolation.is_some(),
        Effect::Variable { name, .. } => matches!(&**name, "tx_isolation" | "transaction_isolation"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use wire::packet;

    use super::*;

    #[test]
    fn what_is_kept_has_the_flags_of_no_transaction() {
        let ends = [&[0xfe, 0, 0, 3, 0][..], &[0xfe, 0, 0, 0x21, 0x20, 0, 0]];
        for end in ends {
            let mut reply = Vec::new();
            packet::append(&mut reply, 1, &[1]);
            packet::append(&mut reply, 2, b"\x03def");
            packet::append(&mut reply, 3, b"\xfb");
            let before = reply.clone();
            packet::append(&mut reply, 4, end);
            let status = Status::from_bits_retain(u16::from_le_bytes([end[3], end[4]]));
            let (kept, status) = at_rest(reply.into(), status);
            assert_eq!(status & OF_TRANSACTION, Status::AUTOCOMMIT);
            assert_eq!(kept[..before.len()], before[..]);
            let end_at = before.len() + packet::HEADER_BYTES;
            assert_eq!(kept[end_at + 3..end_at + 5], status.bits().to_le_bytes());
        }
        // The rest of a long row is no end.
        let mut row = vec![b'x'; packet::PAYLOAD_BYTES_MAX];
        row.extend([0xfe, 1, 2, 3, 4]);
        let mut reply = Vec::new();
        packet::append(&mut reply, 3, &row);
        let (kept, _) = at_rest(reply.clone().into(), Status::IN_TRANSACTION);
        assert!(*kept == *reply);
    }
}
