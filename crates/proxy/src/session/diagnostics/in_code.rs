//! ROW_COUNT() and FOUND_ROWS() for code that a statement runs and its text does not hold: routines, triggers, views, prepared
//! texts. They cannot be put into the text. A connection that has others gets the session's own ahead of the statement.

use sql::{Asks, Kind, Modes};
use wire::Capabilities;
use wire::command::{Command, MULTI_STATEMENTS_OFF, MULTI_STATEMENTS_ON};
use wire::exchange::Expect;

use super::found_rows::ROWS_GIVEN_MAX;
use crate::outgoing::{Outgoing, Purpose};
use crate::pool::{Connection, Origin};
use crate::session::Past;
use crate::session::belief::Belief;
use crate::session::cluster_session::ClusterSession;
use crate::session::query::Query;

/// A larger ROW_COUNT() is not made again.
const ROW_COUNT_GIVEN_MAX: i64 = 256;

/// Makes ROW_COUNT() of a block `n`.
const COUNTING: &str = "WHILE n>0 DO SELECT 1 INTO a; SET n=n-1; END WHILE";

const COUNTS_IN_CODE: Asks = Asks::ROW_COUNT_IN_CODE.union(Asks::FOUND_ROWS_IN_CODE);

impl ClusterSession {
    /// The counts that code may ask for which a statement runs and its text does not hold.
    #[inline]
    pub(super) fn counts_in_code(&self, query: &Query<'_>) -> Asks {
        let statement = &query.statement;
        if statement.kind == Kind::Xa {
            // Nothing can be given to a connection behind XA START, and code may ask for the count then.
            return Asks::FOUND_ROWS_IN_CODE;
        }
        let runs_code = statement.uses_tables || matches!(statement.kind, Kind::Call | Kind::Unknown);
        if !runs_code && !statement.asks.intersects(COUNTS_IN_CODE) && query.hides.is_none() {
            return Asks::empty();
        }
        // The catalog has to be read again before it tells the code of routines, views and triggers.
        if statement.kind == Kind::Unknown || !self.knows_code_of(query) {
            return COUNTS_IN_CODE;
        }
        let hidden = query.hides.map_or(Asks::empty(), |hidden| hidden.may_ask().in_code());
        let mut asks = (statement.asks | hidden) & COUNTS_IN_CODE;
        if statement.kind == Kind::Definition && !query.body.is_another_text() {
            // The query of a CREATE TABLE … SELECT, where a value in place of the call would name a column anew.
            asks |= statement.asks.in_code();
        }
        let runs_routine = statement.kind == Kind::Call || statement.asks.contains(Asks::STORED_FUNCTIONS);
        if runs_routine && let Some(prepared) = query.prepared() {
            // It was read when it was prepared: its routines may be others by now.
            asks |= self.cluster.classify(&prepared.key.text, &prepared.dialect).asks & COUNTS_IN_CODE;
        }
        asks
    }
}

impl Belief {
    /// Gives a connection the session's ROW_COUNT(), behind all else that goes ahead of the statement. No server has a statement that makes
    /// a larger one than 0 and leaves nothing else, but MariaDB's compound statements; elsewhere 0 stands in for it.
    pub(super) fn give_row_count(
        &mut self,
        connection: &Connection,
        query: &Query<'_>,
        in_code: Asks,
        out: &mut Outgoing,
    ) {
        if !self.needs_row_count(&connection.origin, query, in_code, out) {
            return;
        }
        match self.past.row_count {
            ..=-1 => {
                let several = connection.origin.key.capabilities.contains(Capabilities::MULTI_STATEMENTS);
                let option = if several { MULTI_STATEMENTS_ON } else { MULTI_STATEMENTS_OFF };
                let arguments = option.to_le_bytes();
                out.command(connection, Command::SetOption, &arguments, Purpose::Variables, Expect::Results);
            }
            // Its queries would take the messages that GET DIAGNOSTICS asks for.
            count @ 1..=ROW_COUNT_GIVEN_MAX
                if self.can_count_again(connection)
                    && (!is_sent_diagnostics(query) || self.past.surely_has_no_messages()) =>
            {
                let text = match self.past.found_rows_unsure {
                    // The connection knows it.
                    true => counting_on(count),
                    false => {
                        let found = self.found_rows_again();
                        format!("BEGIN NOT ATOMIC DECLARE a,n INT DEFAULT {count}; {COUNTING}; {found}; END")
                    }
                };
                out.command(connection, Command::Query, text.as_bytes(), Purpose::Variables, Expect::Results);
            }
            _ => out.command(connection, Command::Ping, &[], Purpose::Variables, Expect::Results),
        }
    }

    fn needs_row_count(&self, origin: &Origin, query: &Query<'_>, in_code: Asks, out: &Outgoing) -> bool {
        if in_code.contains(Asks::ROW_COUNT_IN_CODE) || is_sent_diagnostics(query) {
            return !out.pending.is_empty() || self.past.row_count_is_here || !self.past.is_of(origin);
        }
        // The text of a session that keeps its connection may ask it, unless the value was put in.
        query.statement.asks.contains(Asks::ROW_COUNT)
            && !out.pending.is_empty()
            && !self.pins.is_empty()
            && !query.body.is_another_text()
    }

    /// Whether a compound statement can make the counts again.
    fn can_count_again(&self, connection: &Connection) -> bool {
        let is_plain = !self.facts().dialect.modes.contains(Modes::ORACLE);
        connection.origin.mariadb && is_plain && !self.takes_no_query()
    }
}

/// A block behind which ROW_COUNT() is this, and FOUND_ROWS() is as it was: it does nothing if that is too large to be made again.
fn counting_on(count: i64) -> String {
    let rows = vec!["SELECT 1"; usize::try_from(ROWS_GIVEN_MAX).unwrap_or(1)].join(" UNION ALL ");
    format!(
        "BEGIN NOT ATOMIC DECLARE a,n INT DEFAULT {count}; DECLARE f BIGINT UNSIGNED DEFAULT FOUND_ROWS(); \
         IF f<={ROWS_GIVEN_MAX} THEN {COUNTING}; {rows} LIMIT f; END IF; END"
    )
}

/// Whether GET DIAGNOSTICS itself goes to the server, as it does when it was prepared: its item ROW_COUNT asks for the count.
fn is_sent_diagnostics(query: &Query<'_>) -> bool {
    query.statement.kind == Kind::Diagnostics && query.runs_text() && !query.sets_diagnostics.get()
}

impl Past {
    /// Whether the session's last statement was the last one of any session on this connection.
    pub(super) fn is_of(&self, origin: &Origin) -> bool {
        self.ran_on == Some((origin.last_session, origin.thread_id))
    }
}
