//! Messages of the statement before, for a client that asks for them: what the session has kept, when the connection that runs
//! the question would know nothing of them.

use sql::{AskedDiagnostics, Asks, DiagnosticsItem, Kind, ShownMessages, Statement};
use wire::Capabilities;
use wire::codec::{Reader, Write};
use wire::command::Command;
use wire::packet::{self, First};
use wire::{reply, sqlstate};

use super::found_rows::NEVER_BEGUN;
use super::read_back;
use crate::error::Refusal;
use crate::pool::{NO_MESSAGES, Origin};
use crate::session::Session;
use crate::session::belief::Belief;
use crate::session::client::Request;
use crate::session::long_text::LONG_TEXT_BYTES;
use crate::session::query::Query;
use crate::session::relay::Outcome;

/// The columns of SHOW WARNINGS: level, code, message.
pub(in crate::session) const COLUMNS: usize = 3;
/// Longest message that GET DIAGNOSTICS is answered with here.
const MESSAGE_BYTES_MAX: usize = 512;

/// Longer SIGNALs are not kept.
const SIGNAL_BYTES_MAX: usize = 4096;

/// One message, as far as it is known.
struct Condition {
    code: u16,
    message: String,
    /// `None` where SIGNAL may have chosen it.
    state: Option<[u8; 5]>,
}

impl Session {
    /// Whether a connection has this session's messages themselves, and no stand-ins for them.
    pub(in crate::session) fn knows_messages(&self, origin: &Origin) -> bool {
        self.has_messages_on(origin) && !origin.stands_in
    }

    /// Whether a connection has this session's messages, or stand-ins for them.
    pub(in crate::session) fn has_messages_on(&self, origin: &Origin) -> bool {
        let has_none = || self.belief.past.surely_has_no_messages();
        origin.messages == self.messages_mark() || origin.messages == Some(NO_MESSAGES) && has_none()
    }

    /// Answers SHOW WARNINGS and SHOW ERRORS from what was kept, in rows of the binary protocol if asked.
    pub(in crate::session) fn answer_messages(&mut self, text: &[u8], binary: bool) -> bool {
        if self.here.held.as_ref().is_some_and(|held| self.knows_messages(&held.lease.origin)) {
            return false;
        }
        let Some(kept) = &self.belief.past.warnings else { return false };
        // MariaDB keeps messages through SET NAMES. Those that can be made again as they were are made on a server, which shows them as they
        // should be now; others are not to be lost.
        if self.belief.past.warnings_charset.as_deref() != self.belief.results_charset()
            && self.belief.makes_same_messages(self.client.capabilities)
        {
            return false;
        }
        let Some(shown) = sql::shown_messages(text, &self.belief.facts().dialect) else { return false };
        let Some(answer) = chosen(kept, shown, binary, self.client.capabilities) else { return false };
        self.client.put(&crate::session::result_end::with_status(answer, self.belief.status));
        self.belief.past.answered(-1);
        self.belief.past.own_messages = 0;
        true
    }

    /// A text with a SET of the values in place of each GET DIAGNOSTICS that it begins with; `None` where they are not all known, a later
    /// statement asks for messages as well, or the connection that the session keeps knows them itself.
    pub(in crate::session) fn diagnostics_as_set(&self, statement: &Statement, text: &[u8]) -> Option<Vec<u8>> {
        // A SET announces a change, GET DIAGNOSTICS does not.
        let is_heard = statement.parts > 1 && self.belief.tracking.hears_of_any();
        if statement.kind != Kind::Diagnostics || is_heard || text.len() > LONG_TEXT_BYTES {
            return None;
        }
        let knows = |held: &crate::session::Held| {
            self.knows_messages(&held.lease.origin) && !self.belief.past.row_count_is_here
        };
        if self.here.held.as_ref().is_some_and(knows) {
            return None;
        }
        let (asked, rest) = sql::asked_diagnostics(text, &self.belief.facts().dialect)?;
        let conditions = self.conditions()?;
        let mut sets = Vec::new();
        for asked in asked {
            sets.extend_from_slice(if sets.is_empty() { b"SET " } else { b";SET " });
            sets.extend_from_slice(self.diagnostics_set(asked, &conditions)?.as_bytes());
        }
        let rest = text.get(rest..).filter(|rest| !rest.is_empty());
        if let Some(rest) = rest {
            let asks = self.here.cluster.classify(rest, &self.belief.facts().dialect).asks;
            if asks.contains(Asks::DIAGNOSTICS) {
                return None;
            }
            let asks_gtid = self.belief.asks_last_gtid(asks, rest);
            // SET has changed ROW_COUNT().
            let rewritten = self.rewritten(rest, asks, false, asks_gtid);
            sets.push(b';');
            sets.extend_from_slice(rewritten.as_ref().map_or(rest, |rewritten| &rewritten.text));
        }
        Some(sets)
    }

    /// The assignments of one GET DIAGNOSTICS.
    fn diagnostics_set(&self, asked: AskedDiagnostics, conditions: &[Condition]) -> Option<String> {
        let AskedDiagnostics { condition, items } = asked;
        if condition.is_some() && self.belief.past.signal.is_some() {
            // The SIGNAL is run again ahead of it.
            return None;
        }
        // A server says that there is no such one.
        let condition = match condition {
            Some(number) => Some(conditions.get(usize::try_from(number.checked_sub(1)?).ok()?)?),
            None => None,
        };
        let assigned = |(variable, item): &(String, DiagnosticsItem)| {
            Some(format!("{variable}={}", self.belief.diagnostic(*item, conditions.len(), condition)?))
        };
        let assignments: Option<Vec<String>> = items.iter().map(assigned).collect();
        Some(assignments?.join(","))
    }

    /// The messages, if they are known.
    fn conditions(&self) -> Option<Vec<Condition>> {
        let past = &self.belief.past;
        if past.messages_unsure || past.messages_unread {
            return None;
        }
        if !past.has_messages() {
            return Some(Vec::new());
        }
        let of_error = past.error.as_ref().map(|error| (error.code, error.message.as_str(), error.sqlstate));
        let Some(kept) = &past.warnings else {
            let of = |error: &Refusal| Condition {
                code: error.code,
                message: error.message.clone(),
                state: Some(error.sqlstate),
            };
            return Some(past.errors_before().iter().chain([past.error.as_ref()?]).map(of).collect());
        };
        let rows = read_back::rows(kept, COLUMNS, self.client.capabilities).ok()?;
        let condition = |row: read_back::Row| {
            let mut values = row.into_iter().skip(1);
            let code = String::from_utf8(values.next()??).ok()?.parse().ok()?;
            let message = String::from_utf8(values.next()??).ok()?;
            let reported = of_error.filter(|(of, text, _)| *of == code && *text == message).map(|(.., state)| state);
            let known = || (!past.signals).then(|| sqlstate::sqlstate(code, self.belief.is_mariadb()));
            Some(Condition { state: reported.or_else(known), code, message })
        };
        rows.into_iter().map(condition).collect()
    }
}

impl Belief {
    /// A value as an expression that gives it the type that GET DIAGNOSTICS gives it.
    fn diagnostic(&self, item: DiagnosticsItem, count: usize, condition: Option<&Condition>) -> Option<String> {
        let number = |number: usize| Some(format!("CAST({number} AS UNSIGNED)"));
        Some(match item {
            DiagnosticsItem::Number => number(count)?,
            DiagnosticsItem::RowCount => self.past.row_count.to_string(),
            DiagnosticsItem::MysqlErrno => number(usize::from(condition?.code))?,
            DiagnosticsItem::MessageText => self.metadata_text(&condition?.message)?,
            DiagnosticsItem::ReturnedSqlstate => self.metadata_text(std::str::from_utf8(&condition?.state?).ok()?)?,
            // SIGNAL may have given them.
            DiagnosticsItem::ClassOrigin | DiagnosticsItem::SubclassOrigin | DiagnosticsItem::Name
                if self.past.signals =>
            {
                return None;
            }
            DiagnosticsItem::ClassOrigin | DiagnosticsItem::SubclassOrigin => {
                self.metadata_text(self.origin_of(condition?.state?, item))?
            }
            DiagnosticsItem::Name => self.metadata_text("")?,
        })
    }

    /// Text in the character set of the servers' own. MySQL warns of that when it is named.
    fn metadata_text(&self, text: &str) -> Option<String> {
        let plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'\\';
        if text.len() > MESSAGE_BYTES_MAX || text.chars().any(|c| c.len_utf8() > 3) {
            return None;
        }
        if !text.bytes().all(plain) {
            let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
            return self.is_mariadb().then(|| format!("_utf8mb3 X'{hex}' COLLATE utf8mb3_general_ci"));
        }
        let text = text.replace('\'', "''");
        Some(match self.is_mariadb() {
            true => format!("_utf8mb3'{text}' COLLATE utf8mb3_general_ci"),
            false => format!("CONCAT(LEFT(VERSION(),0),'{text}')"),
        })
    }

    /// The standard that defined a SQLSTATE: MariaDB does not say.
    fn origin_of(&self, state: [u8; 5], item: DiagnosticsItem) -> &'static str {
        let class = matches!(state[0], b'0'..=b'4' | b'A'..=b'H');
        let subclass = class || state.ends_with(b"000");
        match item {
            _ if self.is_mariadb() => "",
            DiagnosticsItem::ClassOrigin if class => "ISO 9075",
            DiagnosticsItem::SubclassOrigin if subclass => "ISO 9075",
            _ => "MySQL",
        }
    }
}

/// The text of a SIGNAL that gives the same condition wherever it runs.
pub(in crate::session) fn signal_to_repeat(query: &Query<'_>) -> Option<Box<str>> {
    let Query { statement, command, .. } = query;
    let is_one = statement.kind == Kind::Diagnostics && statement.parts == 1 && *command == Command::Query;
    let is_constant = statement.asks.is_empty() && statement.effects.is_empty();
    let text = query.text().filter(|_| is_one && is_constant)?;
    std::str::from_utf8(text.bytes).ok().filter(|text| text.len() <= SIGNAL_BYTES_MAX).map(Box::from)
}

/// Whether SIGNAL may have made messages of the statement.
pub(in crate::session) fn may_signal(statement: &Statement, request: &Request, outcome: &Outcome) -> bool {
    use Kind::{Call, Compound, Diagnostics, PreparedText, Unknown};
    let never_begun = outcome.error.as_ref().is_some_and(|error| NEVER_BEGUN.contains(&error.code));
    if never_begun && outcome.status.is_none() {
        return false;
    }
    let says_so = || memchr::memmem::find(&request.payload().to_ascii_lowercase(), b"signal").is_some();
    statement.asks.contains(Asks::STORED_FUNCTIONS)
        || matches!(statement.kind, Call | Compound | Diagnostics | PreparedText | Unknown)
        || statement.parts > 1 && (statement.effects.iter().any(super::unreported::is_hidden) || says_so())
}

/// The kept reply to SHOW WARNINGS with those of its rows that are to be shown.
fn chosen(kept: &[u8], shown: ShownMessages, binary: bool, capabilities: Capabilities) -> Option<Vec<u8>> {
    let (mut rest, mut out, mut sequence) = (kept, Vec::with_capacity(kept.len()), 1);
    let mut next = || match packet::first(rest, usize::MAX) {
        First::Whole { payload, taken, .. } => {
            rest = &rest[taken..];
            Some(payload)
        }
        _ => None,
    };
    for at in 0..1 + COLUMNS + usize::from(!capabilities.contains(Capabilities::DEPRECATE_EOF)) {
        let payload = next()?;
        (at > 0 || payload == [COLUMNS as u8]).then_some(())?;
        sequence = packet::append(&mut out, sequence, payload);
    }
    let (mut skipped, mut given) = (0, 0);
    loop {
        let payload = next()?;
        if payload.first() == Some(&reply::EOF) {
            packet::append(&mut out, sequence, payload);
            return Some(out);
        }
        let mut reader = Reader::new(payload);
        let [level, code, message] = [(); COLUMNS].map(|()| reader.text_value("message"));
        let (level, code, message) = (level.ok()??, code.ok()??, message.ok()??);
        if shown.errors_only && level != b"Error" {
            continue;
        }
        if skipped < shown.offset {
            skipped += 1;
            continue;
        }
        if given == shown.limit {
            continue;
        }
        given += 1;
        let row = if binary { binary_row(level, code, message)? } else { payload.to_vec() };
        sequence = packet::append(&mut out, sequence, &row);
    }
}

/// A row of SHOW WARNINGS in the binary protocol: no value is NULL, the code is an INT.
fn binary_row(level: &[u8], code: &[u8], message: &[u8]) -> Option<Vec<u8>> {
    let code: u32 = std::str::from_utf8(code).ok()?.parse().ok()?;
    let mut row = vec![0, 0];
    row.put_lenenc_bytes(level);
    row.put_u32(code);
    row.put_lenenc_bytes(message);
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::packets;

    /// A kept reply with these levels, codes and messages.
    fn kept(rows: &[[&str; 3]]) -> Vec<u8> {
        let payload = |row: &[&str; 3]| {
            let mut payload = Vec::new();
            row.iter().for_each(|value| payload.put_lenenc_bytes(value.as_bytes()));
            payload
        };
        let rows: Vec<Vec<u8>> = rows.iter().map(payload).collect();
        let mut payloads = vec![&b"\x03"[..], b"level", b"code", b"message"];
        payloads.extend(rows.iter().map(Vec::as_slice));
        payloads.push(b"\xfe\0\0\x02\0\0\0");
        packets(&payloads)
    }

    #[test]
    fn rows_are_chosen_by_level_and_place() {
        let all = kept(&[["Warning", "1292", "a"], ["Error", "1048", "b"], ["Error", "1062", "c"]]);
        let show = |errors_only, offset, limit| {
            let shown = ShownMessages { errors_only, offset, limit };
            chosen(&all, shown, false, Capabilities::DEPRECATE_EOF).unwrap()
        };
        assert_eq!(show(false, 0, u64::MAX), all);
        assert_eq!(show(true, 1, 5), kept(&[["Error", "1062", "c"]]));
        assert_eq!(show(false, 1, 1), kept(&[["Error", "1048", "b"]]));
        assert_eq!(show(false, 0, 0), kept(&[]));
    }

    #[test]
    fn replies_of_other_shapes_are_left_alone() {
        let all = kept(&[["Warning", "1292", "a"]]);
        let shown = ShownMessages { errors_only: false, offset: 0, limit: 9 };
        for cut in 0..all.len() {
            assert_eq!(chosen(&all[..cut], shown, false, Capabilities::DEPRECATE_EOF), None, "{cut}");
        }
        assert_eq!(binary_row(b"Error", b"1048", b"b").unwrap(), b"\0\0\x05Error\x18\x04\0\0\x01b");
        assert_eq!(binary_row(b"Error", b"x", b"b"), None);
    }
}
