//! Changes of the session that a server has still to tell.
//!
//! Only OK packets have room for them. Behind an error, or a result in the old framing, a server tells them with the next
//! OK of the connection that tells of a change, which would be another session's.

use facts::catalog::Hidden;
use sql::{Asks, Effect};
use wire::command::Command;
use wire::exchange::{Exchange, Expect};
use wire::packet::{self, HEADER_BYTES};
use wire::{Capabilities, Status, reply};

use crate::pool::Connection;
use crate::session::query::Query;
use crate::session::relay::{Outcome, RelayError, StateChange, changes_of};
use crate::session::reset::{ask, read_reply};
use crate::session::write::write;
use crate::session::{Held, Session};
use crate::worker::Worker;

/// Set to the value that it has: servers tell what is left to tell with the next OK that has a change of its own.
const TOUCHED: &str = "default_week_format";

/// Longest reply to COM_PING: an OK packet with reports.
const PING_BYTES_MAX: usize = 64 * 1024;

/// Whether a part of a statement does what its text does not show: a routine, or a text that is made elsewhere.
pub(in crate::session) fn is_hidden(effect: &Effect) -> bool {
    matches!(effect, Effect::MayChangeSession | Effect::ExecuteText { .. })
}

/// Whether a result in the old framing says that there is something to report, for which it has no room.
pub(in crate::session) fn waits_by_flag(outcome: &Outcome) -> bool {
    outcome.ended_by_eof && outcome.status.is_some_and(|status| status.contains(Status::SESSION_STATE_CHANGED))
}

/// Whether a server may have something to report behind this reply. An error has no status flags that would say so, and SET STATEMENT
/// takes its values back when its reply is on its way. MySQL reports it with the OK of COM_PING, MariaDB does not.
pub(in crate::session) fn waits_behind(query: &Query<'_>, outcome: &Outcome, mariadb: bool) -> bool {
    let passing = |effect: &Effect| matches!(effect, Effect::WhileRunning { .. });
    query.runs_text() && query.statement.effects.iter().any(passing)
        || outcome.error.is_some() && (mariadb || outcome.status_behind.is_none()) && runs_code(query)
}

/// Whether a statement runs code that its text does not show.
pub(in crate::session) fn runs_hidden(query: &Query<'_>) -> bool {
    let statement = &query.statement;
    query.runs_text() && (statement.asks.contains(Asks::STORED_FUNCTIONS) || statement.effects.iter().any(is_hidden))
}

/// The same, or it reads a view that runs code, or fires triggers that may set variables.
pub(in crate::session) fn runs_code(query: &Query<'_>) -> bool {
    let fires =
        |hidden: Hidden| !query.statement.access.only_reads() && (hidden.sets_variables || hidden.sets_settings);
    runs_hidden(query) || query.runs_text() && query.hides.is_some_and(|hidden| hidden.runs_code() || fires(hidden))
}

impl Session {
    /// Asks by COM_PING for the status behind an error, or behind a result in the old framing. The question leaves messages and
    /// FOUND_ROWS() as they are. MySQL's OK reports the changes that the reply had no room for. Without an answer the outcome
    /// stays as it was.
    pub(in crate::session) async fn ask_behind_reply(&mut self, held: &mut Held, outcome: &mut Outcome) {
        let connection = &mut *held.lease;
        let capabilities = connection.origin.capabilities;
        let Ok(Some(reply)) = ping(connection, &self.env.worker).await else { return };
        let payload = reply.get(HEADER_BYTES..).unwrap_or_default();
        let Ok(ok) = reply::Ok::parse(payload, capabilities) else { return };
        if changes_of(&ok, &mut outcome.changes).is_ok() {
            outcome.status_behind = Some(ok.status);
            self.note_late(&ok, None);
        }
    }

    /// The client hears these reports with a later answer, if it wants to.
    fn note_late(&self, ok: &reply::Ok<'_>, question: Option<&str>) {
        if self.client.capabilities.contains(Capabilities::SESSION_TRACK) {
            self.belief.tracking.note_late(ok, question, self.belief.is_mariadb());
        }
    }

    /// Has the server report the rest. Gives whether the connection is still good.
    pub(in crate::session) async fn ask_unreported(&mut self, held: &mut Held, query: &Query<'_>) -> bool {
        let Ok(outcome) = self.send_question(held).await else { return false };
        self.belief.learn_changes(query, &outcome);
        held.lease.origin.state = self.belief.state.clone();
        self.env.show_pins(self.belief.pins.bits());
        true
    }
}

impl Session {
    async fn send_question(&self, held: &mut Held) -> Result<Outcome, RelayError> {
        let question = format!("SET SESSION {TOUCHED}=@@session.{TOUCHED}");
        let reply = ask(&mut held.lease, &question, &self.env.worker).await?;
        let mut outcome = Outcome::default();
        let payload = reply.as_deref().and_then(|reply| reply.get(HEADER_BYTES..));
        if let Some(Ok(ok)) = payload.map(|payload| reply::Ok::parse(payload, held.lease.origin.capabilities)) {
            changes_of(&ok, &mut outcome.changes)?;
            self.note_late(&ok, Some(TOUCHED));
        }
        // The report of a change belongs to the question itself.
        outcome.changes.retain(|change| match change {
            StateChange::Variable(name, _) => name != TOUCHED,
            change => *change != StateChange::Some,
        });
        Ok(outcome)
    }
}

/// Sends COM_PING; gives its reply, `None` when it failed.
async fn ping(connection: &mut Connection, worker: &Worker) -> Result<Option<Vec<u8>>, RelayError> {
    let mut bytes = Vec::new();
    packet::append(&mut bytes, 0, &[Command::Ping.byte()]);
    write(connection, &bytes).await?;
    let mut exchange = Exchange::new(Expect::Results, connection.origin.capabilities);
    read_reply(connection, &mut exchange, worker, PING_BYTES_MAX).await
}
