//! The packets of a reply that are neither columns nor rows: Sqluice learns from them, and the client gets them as it must see them.

use std::time::Instant;

use wire::exchange::{Event, Packet};
use wire::packet::HEADER_BYTES;
use wire::reply::{self, Eof, Ok, Prepared};
use wire::{Status, errno};

use super::{Copied, Relay, RelayError, Span, administration};
use crate::error::Refusal;
use crate::outgoing::{Expected, Purpose};
use crate::session::tracking::Hearing;
use crate::session::withhold::NOT_IN_GROUP;

/// How much of a refused file's name stands in the client's error.
const FILE_NAME_TOLD_MAX: usize = 200;

/// Errors of a server that takes no statement on this connection any more.
const ENDS_CONNECTION: [u16; 3] = [errno::ER_SERVER_SHUTDOWN, errno::ER_CONNECTION_KILLED, NOT_IN_GROUP];

impl Relay<'_> {
    /// A packet of the client's reply: learn from it, and forward it as it is or as this client must see it.
    pub(super) fn client_packet(
        &mut self,
        packet: &Packet<'_>,
        rows: u64,
        run: &mut Span,
        bytes: &[u8],
        start: usize,
        end: usize,
    ) -> Result<(), RelayError> {
        let is_put = match packet.event {
            Event::RowsEnd(Ok { status, .. }) | Event::Eof(Eof { status, .. })
                if self.rows_stay && status.contains(Status::CURSOR_EXISTS) =>
            {
                self.end_in_cursor(packet, rows, run, bytes)?
            }
            Event::Ok(ok) => self.ok_packet(packet.sequence, &ok, None, run, bytes)?,
            Event::RowsEnd(ok) => self.ok_packet(packet.sequence, &ok, Some(rows), run, bytes)?,
            Event::ColumnsEnd(eof) => self.eof_packet(packet.sequence, eof, run, bytes),
            Event::Eof(eof) => {
                self.outcome.learn_end(eof, rows);
                self.eof_packet(packet.sequence, eof, run, bytes)
            }
            Event::Error(_) if self.outcome.unprepared.is_some() => {
                // The execution fails because its statement is not there. The client gets the error of the preparation instead.
                self.outcome.unprepared()?;
                false
            }
            Event::Error(error) => {
                let message = String::from_utf8_lossy(error.message).into_owned();
                let refusal = Refusal { code: error.code, sqlstate: error.sqlstate, message };
                let untouched = !self.outcome.delivered && run.end == run.start;
                if untouched && self.pending.len() == 1 && self.withhold.applies(&error) && end == bytes.len() {
                    return Err(RelayError::Withheld(refusal));
                }
                self.requote(packet.sequence, refusal, run, bytes)
            }
            Event::Prepared(prepared) => {
                self.outcome.prepared = Some(prepared);
                self.outcome.warnings = prepared.warnings;
                self.put_run(run, bytes);
                let id_at = start + HEADER_BYTES + Prepared::STATEMENT_AT.start;
                self.client.put(&bytes[start..id_at]);
                self.client.put(&self.prepare_as.to_le_bytes());
                self.client.put(&bytes[id_at + Prepared::STATEMENT_AT.len()..end]);
                true
            }
            Event::Infile(name) if !self.file_allowed => {
                self.put_run(run, bytes);
                let name = String::from_utf8_lossy(&name[..name.len().min(FILE_NAME_TOLD_MAX)]).into_owned();
                return Err(RelayError::UnexpectedInfile { sequence: packet.sequence, name });
            }
            Event::Infile(_) | Event::Progress | Event::Text(_) => false,
        };
        if !is_put && bytes[start + HEADER_BYTES - 1] == packet.sequence {
            self.pass(run, bytes, start, end);
            return Ok(());
        }
        if !is_put {
            self.put_run(run, bytes);
            self.client.put_packet(packet.sequence, |out| out.extend_from_slice(&bytes[start + HEADER_BYTES..end]));
        }
        self.outcome.delivered = true;
        Ok(())
    }

    /// Notes an error that ends the reply; gives whether the client gets another message in its place, which is put then.
    fn requote(&mut self, sequence: u8, mut refusal: Refusal, run: &mut Span, bytes: &[u8]) -> bool {
        let own = match self.texts {
            Some(texts) if refusal.code == errno::ER_PARSE_ERROR => {
                texts.requoted(&refusal.message, self.connection.origin.mariadb)
            }
            _ => None,
        };
        let is_requoted = own.is_some();
        if let Some(own) = own {
            self.put_run(run, bytes);
            self.outcome.of_server = Some(std::mem::replace(&mut refusal.message, own));
            self.client.put_error(sequence, &refusal);
        }
        self.outcome.error = Some(refusal);
        is_requoted
    }

    /// An OK packet, at the end of `rows` if there were any; gives whether the client gets another one in its place, which is put then.
    fn ok_packet(
        &mut self,
        sequence: u8,
        ok: &Ok<'_>,
        rows: Option<u64>,
        run: &mut Span,
        bytes: &[u8],
    ) -> Result<bool, RelayError> {
        self.outcome.learn(ok)?;
        self.outcome.rows = rows;
        self.outcome.rows_sent += rows.unwrap_or(0);
        let warnings = self.warnings.unwrap_or(ok.warnings);
        // MariaDB's may say that it reports, and report nothing.
        let reports = !ok.session_state.is_empty() || ok.status.contains(Status::SESSION_STATE_CHANGED);
        if !reports && warnings == ok.warnings && !self.tracking.has_late() {
            return Ok(false);
        }
        self.turn_to_part();
        self.put_run(run, bytes);
        let header = if rows.is_some() { reply::EOF } else { reply::OK };
        // The server's reports on the session are for Sqluice; the client gets those that it asked for itself.
        let unmoved = self.hearing.as_ref().and_then(|hearing| hearing.unmoved_schema());
        let (reported, is_none_any_more) = match unmoved.filter(|_| self.connection.origin.mariadb) {
            Some(schema) => self.tracking.reported_without_move(ok, schema),
            None => self.tracking.reported_with(ok),
        };
        let mariadb = self.connection.origin.mariadb;
        let turns_on = |hearing: &Hearing<'_>| hearing.turns_on_transactions(self.outcome.replies);
        let begins_anew = mariadb && self.connection.origin.tells_characteristics;
        let reported = match self.hearing.as_ref().filter(|_| begins_anew) {
            Some(hearing) if turns_on(hearing) => self.tracking.with_no_transaction(&reported),
            _ => reported,
        };
        let reported = match &self.hearing {
            Some(hearing) if hearing.is_silent => self.tracking.without_change(reported),
            _ => reported,
        };
        let is_whole = reported.is_empty() && warnings == ok.warnings;
        // MySQL announces changes behind a BEGIN in a transaction, too, and lists none; a commit's GTID was for Sqluice.
        let as_came = is_none_any_more || ok.empty_report && !self.tracking.hides();
        let announces = self.announces(ok, rows.is_some());
        let empty_report = reported.is_empty() && (as_came && !mariadb || announces);
        let is_whole = is_whole && !empty_report;
        let ok = Ok { session_state: &reported, empty_report, warnings, ..*ok };
        let capabilities = self.client.capabilities;
        match &mut self.outcome.taps.copy {
            Some(copied) if is_whole => copied.take_packet(sequence, |out| ok.write(out, header, capabilities)),
            Some(copied) => copied.give_up(cache::Refusal::Changes),
            None => {}
        }
        self.client.put_packet(sequence, |out| ok.write(out, header, capabilities));
        Ok(true)
    }

    /// From this reply on the client hears what it has asked for by then.
    #[inline]
    fn turn_to_part(&mut self) {
        let Some(parts) = self.hearing.as_ref().and_then(|hearing| hearing.parts) else { return };
        let now = parts.tracking(self.outcome.replies);
        now.goes_on_from(self.tracking);
        self.tracking = now;
    }

    /// Whether the server announces changes with this OK packet, at the end of rows or without any, and lists none.
    fn announces(&self, ok: &Ok<'_>, has_rows: bool) -> bool {
        let mariadb = self.connection.origin.mariadb;
        let copied = self.outcome.taps.copy.as_deref().and_then(Copied::reply);
        let opened = || has_rows && copied.is_none_or(administration::has_opened);
        let reply: (usize, &Ok<'_>, &dyn Fn() -> bool) = (self.outcome.replies, ok, &opened);
        let announces = |hearing: &Hearing<'_>| hearing.announces(reply, self.tracking, mariadb);
        self.hearing.as_ref().is_some_and(announces) || self.tracking.announces_characteristics(ok)
    }

    /// The end of the columns of an execution whose rows stay in a cursor. MySQL ends it as a statement that has said nothing: by
    /// an OK, which knows of no warnings. Gives that it is put.
    #[cold]
    fn end_in_cursor(
        &mut self,
        packet: &Packet<'_>,
        rows: u64,
        run: &mut Span,
        bytes: &[u8],
    ) -> Result<bool, RelayError> {
        let (status, session_state) = match packet.event {
            Event::RowsEnd(ok) => {
                self.outcome.learn(&ok)?;
                (ok.status, self.tracking.reported_with(&ok).0)
            }
            Event::Eof(eof) => {
                self.outcome.learn_end(eof, rows);
                (eof.status, Vec::new())
            }
            _ => return std::result::Result::Ok(false),
        };
        self.outcome.rows = Some(0);
        self.put_run(run, bytes);
        let ended = Ok {
            affected_rows: 0,
            insert_id: 0,
            status: status - Status::CURSOR_EXISTS - Status::SESSION_STATE_CHANGED,
            warnings: 0,
            info: b"",
            session_state: &session_state,
            empty_report: false,
        };
        let capabilities = self.client.capabilities;
        self.client.put_packet(packet.sequence, |out| ended.write(out, reply::OK, capabilities));
        std::result::Result::Ok(true)
    }

    /// An EOF packet; gives whether the client gets another one in its place, which is put then.
    fn eof_packet(&mut self, sequence: u8, eof: Eof, run: &mut Span, bytes: &[u8]) -> bool {
        let mut reported = Eof { warnings: self.warnings.unwrap_or(eof.warnings), ..eof };
        if eof.status.contains(Status::SESSION_STATE_CHANGED) && !self.hearing.as_ref().is_some_and(Hearing::is_of_any)
        {
            // It is about all that Sqluice tracks; this framing has no room to tell what it is.
            reported.status -= Status::SESSION_STATE_CHANGED;
        }
        if reported == eof {
            return false;
        }
        self.put_run(run, bytes);
        if let Some(copied) = &mut self.outcome.taps.copy {
            copied.take_packet(sequence, |out| reported.write(out));
        }
        self.client.put_packet(sequence, |out| reported.write(out));
        true
    }

    /// A packet of the reply to a fix-up, which the client does not see.
    pub(super) fn fix_up_packet(&mut self, packet: &Packet<'_>, rows: u64) -> Result<(), RelayError> {
        if matches!(self.pending.front(), Some(Expected { purpose: Purpose::Wait, .. })) {
            // A server that cannot wait has not shown that it has it, either.
            if matches!(packet.event, Event::Error(_)) || packet.over && rows == 0 {
                let why = "the server has not applied in time what the statement must find";
                return Err(RelayError::NotThere(Refusal::own(errno::ER_LOCK_WAIT_TIMEOUT, b"HY000", why)));
            }
            if packet.over {
                self.outcome.there_at = Some(Instant::now());
            }
            return Ok(());
        }
        let is_signal = matches!(self.pending.front(), Some(Expected { purpose: Purpose::Signal, .. }));
        if let (Event::Error(error), false) = (packet.event, is_signal) {
            let message = String::from_utf8_lossy(error.message).into_owned();
            let refusal = Refusal { code: error.code, sqlstate: error.sqlstate, message };
            let prepares = matches!(self.pending.front(), Some(Expected { purpose: Purpose::Prepare(_), .. }));
            if prepares && !ENDS_CONNECTION.contains(&refusal.code) {
                self.outcome.unprepared = Some(Box::new(refusal));
                return Ok(());
            }
            return Err(RelayError::FixUp(refusal));
        }
        if let (Event::Prepared(prepared), Some(Expected { purpose: Purpose::Prepare(key), .. })) =
            (packet.event, self.pending.front())
        {
            let max = self.connection.origin.statements_max;
            self.connection.origin.statements.insert(key.clone(), prepared.statement, max);
            self.outcome.prepared = Some(prepared);
        }
        Ok(())
    }
}
