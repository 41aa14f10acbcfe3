//! The value of FOUND_ROWS(): from replies where they have it, else from a query.

use sql::{Asks, FoundRows, Kind};
use wire::codec::Reader;
use wire::command::Command;
use wire::errno;
use wire::exchange::Expect;

use crate::error::SessionEnd;
use crate::outgoing::Outgoing;
use crate::outgoing::Purpose;
use crate::pool::Connection;
use crate::session::belief::Belief;
use crate::session::query::Query;
use crate::session::relay::{Copied, Outcome, packets_of};
use crate::session::{Held, Session};
use route::Pin;

/// Errors of a CALL or a compound statement of which nothing has run: no schema, no such routine, its
/// text, its arguments, no right to it.
pub(in crate::session) const NEVER_BEGUN: [u16; 7] = [
    errno::ER_NO_DB_ERROR,
    errno::ER_BAD_DB_ERROR,
    errno::ER_PARSE_ERROR,
    errno::ER_SP_DOES_NOT_EXIST,
    errno::ER_SP_WRONG_NO_OF_ARGS,
    errno::ER_PROCACCESS_DENIED_ERROR,
    errno::ER_SP_NOT_VAR_ARG,
];

/// Errors that MariaDB meets when a query has begun to run: with values, rows that are there already or are too many, locks,
/// limits. Those it meets before leave FOUND_ROWS() alone.
const WHILE_RUNNING: [u16; 24] = [
    errno::ER_BAD_NULL_ERROR,
    errno::ER_DUP_ENTRY,
    errno::ER_TOO_MANY_ROWS,
    errno::ER_LOCK_WAIT_TIMEOUT,
    errno::ER_LOCK_DEADLOCK,
    errno::ER_SUBQUERY_NO_1_ROW,
    errno::ER_WARN_DATA_OUT_OF_RANGE,
    errno::WARN_DATA_TRUNCATED,
    errno::ER_TRUNCATED_WRONG_VALUE,
    errno::ER_NO_DEFAULT_FOR_FIELD,
    errno::ER_DIVISION_BY_ZERO,
    errno::ER_TRUNCATED_WRONG_VALUE_FOR_FIELD,
    errno::ER_ILLEGAL_VALUE_FOR_TYPE,
    errno::ER_DATA_TOO_LONG,
    errno::ER_WRONG_VALUE_FOR_TYPE,
    errno::ER_CANT_UPDATE_USED_TABLE_IN_SF_OR_TRG,
    errno::ER_ROW_IS_REFERENCED_2,
    errno::ER_NO_REFERENCED_ROW_2,
    errno::ER_NO_PARTITION_FOR_GIVEN_VALUE,
    errno::ER_SIGNAL_EXCEPTION,
    errno::ER_DATA_OUT_OF_RANGE,
    errno::ER_BAD_DATA,
    errno::ER_STATEMENT_TIMEOUT,
    errno::ER_CONSTRAINT_FAILED,
];

/// More rows than these are not made again for a count.
pub(super) const ROWS_GIVEN_MAX: u64 = 64;

impl Session {
    /// Notes the value of FOUND_ROWS() behind this statement, which ran on the connection that the session kept, or on
    /// another one.
    pub(in crate::session) fn learn_found_rows(&mut self, query: &Query<'_>, outcome: &Outcome, kept: bool) {
        self.belief.past.asks_found_rows |= query.statement.asks.contains(Asks::FOUND_ROWS);
        self.belief.past.found_rows_own = None;
        let counted = match query.statement.found_rows {
            FoundRows::Left => return self.belief.leave_found_rows(kept),
            _ if outcome.error.is_some() && self.belief.failed_uncounted(&query.statement, outcome) => {
                return self.belief.leave_found_rows(kept);
            }
            _ if outcome.error.is_some() => None,
            // The last result in there counts, reported or not.
            FoundRows::Unsure => None,
            FoundRows::One => Some(1),
            FoundRows::Matched => outcome.matched,
            FoundRows::Uncut if self.cuts_results() => None,
            FoundRows::Uncut => outcome.rows,
            FoundRows::Aggregate
                if outcome.rows == Some(1) && self.belief.past.found_rows != Some(1) && may_be_of_nothing(outcome) =>
            {
                self.belief.past.found_rows_own = Some(1);
                None
            }
            FoundRows::Rows { skipped: 0 } | FoundRows::Aggregate => outcome.rows,
            // Behind the last row there may have been any number before it.
            FoundRows::Rows { skipped } => {
                outcome.rows.filter(|rows| *rows > 0).map(|rows| rows.saturating_add(skipped))
            }
        };
        self.belief.past.found_rows_given = false;
        // MySQL leaves it where it sees that a WHERE clause can never be true.
        if query.statement.found_rows == FoundRows::Matched && counted == Some(0) {
            self.belief.past.found_rows_own = Some(0);
        }
        if self.belief.past.found_rows_own == Some(0) && !kept {
            (self.belief.past.found_rows_unsure, self.belief.past.found_rows_stand_in) = (true, false);
            return;
        }
        self.belief.past.found_rows_unsure = counted.is_none();
        self.belief.past.found_rows_stand_in &= counted.is_none();
        self.belief.past.found_rows_are_here = false;
        self.belief.past.found_rows = counted.or(self.belief.past.found_rows);
    }

    /// Behind an answer that the cache is to keep: asks what FOUND_ROWS() is, where SQL_CALC_FOUND_ROWS keeps the connection for the case
    /// that the client asks for it. It is kept with the answer, and the session needs that connection no more.
    pub(in crate::session) async fn ask_found_rows(
        &mut self,
        held: &mut Held,
        query: &Query<'_>,
    ) -> Result<(), SessionEnd> {
        // Messages would have to be read first.
        let asks = counts_found_rows(&query.statement)
            && self.belief.past.found_rows_unsure
            && self.belief.past.error.is_none();
        let keeps_only = self.belief.pins.bits() == 1 << Pin::FoundRows as u8
            || self.belief.pins.has(Pin::FoundRows) && self.transaction_may_ask().is_ok();
        if !asks || !keeps_only || self.belief.past.messages_unread {
            return Ok(());
        }
        self.client.flush().await.map_err(SessionEnd::ClientLost)?;
        let before = self.belief.past.found_rows.take();
        if !Box::pin(self.read_found_rows(held)).await {
            self.lose_pinned_state();
            return Err(SessionEnd::ServerLost("what it had to tell of the session is gone with it".into()));
        }
        self.belief.past.is_here();
        // It did not say: the session keeps the connection, and nothing is kept with the answer.
        if self.belief.past.found_rows.is_none() {
            self.belief.past.found_rows = before;
            return Ok(());
        }
        self.belief.past.found_rows_unsure = false;
        self.belief.pins.put(Pin::FoundRows, false);
        self.env.show_pins(self.belief.pins.bits());
        Ok(())
    }

    /// Whether `sql_select_limit` is less than anything.
    pub(in crate::session) fn cuts_results(&self) -> bool {
        const NAME: &str = "sql_select_limit";
        let catalog = self.here.cluster.catalog();
        let limit = self.belief.state.variable_or_global(NAME, &catalog);
        limit.is_some_and(|limit| limit.parse() != Ok(u64::MAX))
    }
}

impl Belief {
    /// The session's own count, ahead of a statement behind which only the server knows it: what leaves it as it was, such as
    /// a CALL of a procedure without a query, must not leave another session's, and code must not find that. PREPARE has it go
    /// ahead too: then it is there for EXECUTE, which must find ROW_COUNT() as well.
    #[inline]
    pub(in crate::session) fn give_found_rows(
        &mut self,
        connection: &Connection,
        query: &Query<'_>,
        in_code: Asks,
        out: &mut Outgoing,
    ) {
        if in_code.contains(Asks::FOUND_ROWS_IN_CODE) || self.may_leave_found_rows(query) {
            self.put_found_rows(connection, out);
        }
    }

    /// Whether a statement may leave the count as it was, which the session must find then.
    #[inline]
    pub(in crate::session) fn may_leave_found_rows(&self, query: &Query<'_>) -> bool {
        match query.statement.found_rows {
            // A session that has never asked for the count is spared that, but for its first statement.
            FoundRows::Aggregate => {
                (self.past.asks_found_rows || self.past.found_rows.is_none()) && self.past.found_rows != Some(1)
            }
            _ => may_leave_count(query),
        }
    }

    /// Whether the connection that the session keeps gets the count ahead of the statement.
    pub(in crate::session) fn gives_found_rows_where_kept(&self, query: &Query<'_>) -> bool {
        self.past.found_rows_are_here
            && !self.past.found_rows_unsure
            && !self.takes_no_query()
            && self.may_leave_found_rows(query)
    }

    #[cold]
    fn put_found_rows(&mut self, connection: &Connection, out: &mut Outgoing) {
        let is_here = self.past.found_rows_are_here || self.pins.is_empty() && !self.past.is_of(&connection.origin);
        let count = self.past.found_rows.unwrap_or(0);
        if !is_here || self.takes_no_query() || self.past.found_rows_unsure {
            return;
        }
        (self.past.found_rows_given, self.past.found_rows_stand_in) = (true, count > ROWS_GIVEN_MAX);
        let text = self.found_rows_again();
        out.command(connection, Command::Query, text.as_bytes(), Purpose::Variables, Expect::Results);
    }

    /// Whether no query may go ahead of a statement: the server refuses it, or it would stand among those that the session traces,
    /// and take the place of the last trace.
    pub(super) fn takes_no_query(&self) -> bool {
        [Pin::Xa, Pin::ExpiredPassword, Pin::Tracing].into_iter().any(|pin| self.pins.has(pin))
            || self.tracking.in_transaction_of_new_table()
    }

    /// A query behind which FOUND_ROWS() is the session's own; 0 stands in for a larger one.
    pub(super) fn found_rows_again(&self) -> String {
        match self.past.found_rows.unwrap_or(0) {
            count @ 1..=ROWS_GIVEN_MAX => {
                let rows = vec!["SELECT 1"; usize::try_from(count).unwrap_or(1)];
                // `sql_select_limit` cuts nothing that has a limit of its own.
                format!("{} LIMIT {count}", rows.join(" UNION ALL "))
            }
            _ => "SELECT 1 FROM DUAL WHERE 1=0".to_owned(),
        }
    }

    /// The count is as it was. A connection that is not kept, and was not given it, has another one.
    pub(super) fn leave_found_rows(&mut self, kept: bool) {
        match std::mem::take(&mut self.past.found_rows_given) {
            true => self.past.found_rows_are_here = self.past.found_rows_stand_in,
            false => self.past.found_rows_are_here |= !kept,
        }
    }

    /// Whether a statement that failed has left FOUND_ROWS() alone.
    fn failed_uncounted(&self, statement: &sql::Statement, outcome: &Outcome) -> bool {
        let Some(error) = &outcome.error else { return false };
        // MySQL takes the count over when all is well.
        let alone = !self.is_mariadb() || !WHILE_RUNNING.contains(&error.code);
        // A session that was killed may be killed once more: nothing is asked behind that.
        error.code == errno::ER_QUERY_INTERRUPTED
            || match statement.kind {
                Kind::Call | Kind::Compound => outcome.status.is_none() && NEVER_BEGUN.contains(&error.code),
                // Of several the first one failed.
                _ => alone && (statement.parts <= 1 || outcome.status.is_none()),
            }
    }
}

/// Whether a statement that counts in a way of its own may leave the count as it was: all but a single SELECT, which counts itself,
/// and an INSERT … SELECT. An UPDATE or DELETE with a subquery or of several tables counts or does not as the server runs it.
fn may_leave_count(query: &Query<'_>) -> bool {
    let statement = &query.statement;
    let counts_itself = || {
        matches!(statement.kind, Kind::Select | Kind::Insert | Kind::Definition)
            && statement.parts <= 1
            && !statement.asks.contains(Asks::STORED_FUNCTIONS)
    };
    let may = statement.kind == Kind::PreparedText || statement.found_rows == FoundRows::Unsure && !counts_itself();
    may && query.runs_text()
}

fn may_be_of_nothing(outcome: &Outcome) -> bool {
    outcome.taps.copy.as_deref().and_then(Copied::reply).is_some_and(is_of_nothing)
}

/// Whether all values of the only row are NULL or 0, as aggregate functions make them of nothing.
pub(in crate::session) fn is_of_nothing(reply: &[u8]) -> bool {
    let mut packets = packets_of(reply);
    // The number of columns, their descriptions, in the old framing what ends those; the row, what ends that.
    let Some(count) = packets.next().and_then(|payload| payload.first().copied()).map(usize::from) else {
        return false;
    };
    let rest: Vec<&[u8]> = packets.skip(count).collect();
    let row = match rest.as_slice() {
        [row, _end] | [_, row, _end] => row,
        _ => return false,
    };
    let mut reader = Reader::new(row);
    let mut value = || reader.text_value("value").ok();
    let is_nothing = |value: Option<&[u8]>| value.is_none_or(|text| text.iter().all(|byte| b"0.".contains(byte)));
    // A row of the binary protocol begins with 0; such a value of text would be empty.
    match row.first() {
        Some(0) => row.get(1 + (count + 9) / 8..).is_some_and(|values| values.iter().all(|byte| *byte == 0)),
        _ => (0..count).all(|_| value().is_some_and(is_nothing)),
    }
}

/// Whether SQL_CALC_FOUND_ROWS is all that a statement does to its session.
pub(in crate::session) fn counts_found_rows(statement: &sql::Statement) -> bool {
    statement.kind == Kind::Select && statement.effects[..] == [sql::Effect::CalcFoundRows]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::relay::Taps;
    use crate::testing::packets as written;

    fn of_nothing(payloads: &[&[u8]]) -> bool {
        let mut copied = Copied::new(4096);
        copied.take(&written(payloads));
        may_be_of_nothing(&Outcome {
            taps: Taps { copy: Some(Box::new(copied)), ..Taps::default() },
            ..Outcome::default()
        })
    }

    #[test]
    fn rows_of_nothing_are_all_null_or_0() {
        let end = &b"\xfe\0\0\x02\0\0\0"[..];
        assert!(of_nothing(&[b"\x02", b"a", b"b", b"\xfb\x010", end]));
        assert!(of_nothing(&[b"\x01", b"a", b"\xfe\0\0\x02\0", b"\x040.00", b"\xfe\0\0\x02\0"]));
        assert!(!of_nothing(&[b"\x02", b"a", b"b", b"\xfb\x0210", end]));
        assert!(of_nothing(&[b"\x02", b"a", b"b", b"\0\x04\0\0\0\0\0\0\0\0", end]));
        assert!(!of_nothing(&[b"\x02", b"a", b"b", b"\0\x04\x01\0\0\0\0\0\0\0", end]));
        assert!(!of_nothing(&[b"\x01", b"a"]));
    }
}
