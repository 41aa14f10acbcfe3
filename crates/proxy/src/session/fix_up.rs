//! The fix-up: commands ahead of a statement that give its connection the session's state.

use std::sync::Arc;

use sql::{Asks, Effect, Kind, Value};
use wire::command::Command;
use wire::exchange::Expect;

use super::belief::Belief;
use super::query::{Body, Query};
use super::relay::{Outcome, Relay, RelayError};
use super::tracking::TRANSACTION_INFO;
use super::withhold::Withhold;
use super::write::write;
use super::{Held, Session};
use crate::outgoing::{Outgoing, Purpose};
use crate::pool::{Connection, Origin};
use route::Pin;
use route::state::StateMap;

/// Makes a connection tell all changes of its state.
const TRACK_EVERYTHING: &str = "session_track_schema=1,session_track_state_change=1,session_track_system_variables='*'";

/// A schema that every user may choose: MariaDB does not look at one that a connection is in.
const ANY_SCHEMA: &[u8] = b"information_schema";

/// Makes the flags of replies those of the mode that is in effect.
const RENEW_MODE_FLAGS: &[u8] = b"SET sql_mode=@@sql_mode";

/// Whether a text may name a table that lists the user variables of its connection: `information_schema.USER_VARIABLES`, which
/// SHOW USER_VARIABLES shows too (MariaDB), `performance_schema.user_variables_by_thread` (MySQL).
fn names_list_of_variables(text: &[u8]) -> bool {
    memchr::memchr_iter(b'_', text).any(|at| {
        let (before, behind) = text.split_at(at);
        let user = before.last_chunk::<4>().is_some_and(|word| word.eq_ignore_ascii_case(b"user"));
        user && behind.get(1..10).is_some_and(|word| word.eq_ignore_ascii_case(b"variables"))
    })
}

impl Session {
    /// Puts what brings the connection to `wanted` into `out`; gives whether a server may refuse it, so that a write must not go
    /// along: the schema changes, or a variable that not every user may set. The connection counts as being in that state from
    /// now on: should a fix-up fail, it is closed.
    pub(super) fn fix_up(&self, connection: &mut Connection, wanted: &Arc<StateMap>, out: &mut Outgoing) -> bool {
        let may_be_refused = self.bring_to(connection, wanted, out);
        let origin = &connection.origin;
        if (origin.mode_flags_unsure || origin.wrote_nothing) && origin.last_session != self.env.handle.id {
            take_away_marks(connection, out);
        }
        may_be_refused
    }

    fn bring_to(&self, connection: &mut Connection, wanted: &Arc<StateMap>, out: &mut Outgoing) -> bool {
        for id in connection.origin.statements.take_closing() {
            out.command(connection, Command::StmtClose, &id.to_le_bytes(), Purpose::Client, Expect::Nothing);
        }
        if self.belief.pins.has(Pin::ExpiredPassword) {
            // The server takes nothing but a new password, and the connection is the session's alone.
            return false;
        }
        // A session without a schema gets a connection that has one only for what does the same there.
        connection.origin.in_some_schema |= connection.origin.state.schema().is_some();
        connection.origin.in_some_schema &= wanted.schema().is_none();
        if connection.origin.tracks && connection.origin.state.fingerprint() == wanted.fingerprint() {
            return false;
        }
        if connection.origin.unset_variables(wanted) {
            reset_ahead(connection, out);
        }
        let difference = connection.origin.state.difference(wanted);
        if difference.is_empty() && connection.origin.tracks {
            return false;
        }
        self.env.worker.stats.fix_ups.add_one();
        if connection.origin.state.variable(TRANSACTION_INFO) != wanted.variable(TRANSACTION_INFO) {
            connection.origin.tells_characteristics = false;
        }
        if difference.reset {
            reset_ahead(connection, out);
        }
        // A reset leaves the schema, but with the server's character set for it instead of its own.
        let stale = std::mem::take(&mut connection.origin.schema_is_stale);
        let altered = connection.origin.state.found_another_collation(wanted, &self.belief.catalog);
        if altered && connection.origin.mariadb {
            out.command(connection, Command::InitDb, ANY_SCHEMA, Purpose::Schema, Expect::Results);
        }
        let stale = stale || altered;
        let schema = difference.schema.as_deref().or_else(|| wanted.schema().filter(|_| stale));
        if let Some(schema) = schema {
            out.command(connection, Command::InitDb, schema.as_bytes(), Purpose::Schema, Expect::Results);
        }
        let may_be_refused = schema.is_some() || difference.may_be_refused;
        let mut set = difference.set;
        if !set.is_empty() {
            // The server warns of variables that it means to take away, and may have other messages than before.
            connection.origin.messages = None;
        }
        if !connection.origin.tracks {
            set.push_str(if set.is_empty() { "SET " } else { "," });
            set.push_str(TRACK_EVERYTHING);
            // It cannot be set inside a transaction, not even by a client that changed what else is tracked.
            if !connection.origin.mariadb && !self.belief.pins.has(Pin::Transaction) {
                let wanted = if self.belief.tracking.all_gtids() { "ALL_GTIDS" } else { "OWN_GTID" };
                set.push_str(&format!(",session_track_gtids={wanted}"));
            }
            connection.origin.tracks = true;
        }
        if !set.is_empty() {
            out.command(connection, Command::Query, set.as_bytes(), Purpose::Variables, Expect::Results);
        }
        if !difference.set_user.is_empty() {
            let set = difference.set_user.as_bytes();
            out.command(connection, Command::Query, set, Purpose::Variables, Expect::Results);
        }
        connection.origin.state = wanted.clone();
        may_be_refused
    }

    /// Sends what is in `out` and waits for its replies.
    pub(super) async fn settle_fix_ups(
        &mut self,
        connection: &mut Connection,
        out: &mut Outgoing,
    ) -> Result<(), RelayError> {
        write(connection, &out.bytes).await?;
        out.bytes.clear();
        let mut outcome = Outcome::default();
        let mut relay = Relay {
            worker: &self.env.worker,
            handle: &self.env.handle,
            client: &mut self.client,
            connection,
            pending: &mut out.pending,
            tracking: &self.belief.tracking,
            withhold: Withhold::Nothing,
            file_allowed: false,
            hearing: None,
            prepare_as: 0,
            keeps_end: false,
            rows_stay: false,
            texts: None,
            warnings: None,
            outcome: &mut outcome,
        };
        relay.run().await?;
        outcome.unprepared()
    }

    /// Brings a connection to the session's state, without a statement.
    pub(super) async fn bring_to_state(&mut self, held: &mut Held) -> Result<(), RelayError> {
        let mut out = Outgoing::default();
        self.fix_up(&mut held.lease, &self.belief.state.clone(), &mut out);
        self.settle_fix_ups(&mut held.lease, &mut out).await
    }
}

impl Belief {
    /// Whether the statement, or code that it runs, names a user variable that only sessions before this one had, or may list them. To
    /// MySQL, one that was never set has the type of what stands around it, and to MariaDB a length that no other has; one that is NULL
    /// has a type of its own, which only a reset takes away.
    pub(super) fn finds_variables_of_others(&self, origin: &Origin, query: &Query<'_>) -> bool {
        let statement = &query.statement;
        let gives_type = |effect: &Effect| matches!(effect, Effect::UserVariable { value: Value::Literal(text), .. } if !text.eq_ignore_ascii_case("null"));
        let only_gives_types = statement.kind == Kind::Set && statement.effects.iter().all(gives_type);
        if !self.pins.is_empty() {
            return false;
        }
        let once_set = origin.once_set.iter().map(String::as_str).filter(|name| !self.state.has_user_variable(name));
        let mut names = once_set.chain(origin.state.user_variables_beyond(&self.state)).peekable();
        if names.peek().is_none() {
            return false;
        }
        if query.may_pin() || !self.facts().autocommit {
            // Later statements may name them, and find no time for it.
            return true;
        }
        if query.asks_variables_in_code() {
            return true;
        }
        let text = match &query.body {
            Body::OfStatement(_) => None,
            _ => query.text(),
        };
        if text.as_ref().is_some_and(|text| names_list_of_variables(text.bytes)) {
            return true;
        }
        let names_any = statement.asks.contains(Asks::USER_VARIABLES)
            || statement.effects.iter().any(|effect| matches!(effect, Effect::UserVariable { .. }));
        if !names_any || only_gives_types && !statement.effects.is_empty() {
            return false;
        }
        let Some(text) = text.map(|text| text.bytes.to_ascii_lowercase()) else { return false };
        let holds = |part: &str| memchr::memmem::find(&text, part.as_bytes()).is_some();
        let quoted = ["@`", "@'", "@\""].into_iter().any(holds);
        names.any(|name| quoted || holds(&format!("@{name}")))
    }
}

/// Takes away the marks that another session's statement has left on a connection without changing its state.
#[cold]
fn take_away_marks(connection: &mut Connection, out: &mut Outgoing) {
    if std::mem::take(&mut connection.origin.mode_flags_unsure) {
        out.command(connection, Command::Query, RENEW_MODE_FLAGS, Purpose::Variables, Expect::Results);
    }
    if std::mem::take(&mut connection.origin.wrote_nothing) {
        out.command(connection, Command::Query, b"COMMIT", Purpose::Variables, Expect::Results);
    }
}

/// COM_RESET_CONNECTION ahead of a statement.
pub(super) fn reset_ahead(connection: &mut Connection, out: &mut Outgoing) {
    out.command(connection, Command::ResetConnection, &[], Purpose::Reset, Expect::Results);
    connection.origin.is_reset();
}
