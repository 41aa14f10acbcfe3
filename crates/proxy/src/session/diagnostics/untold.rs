//! Changes of the session that a server has still to tell.
//!
//! Only OK packets have room for them. Behind an error, or a result in the old framing, a server tells them with the next
//! OK of the connection that tells of a change, which would be another session's.

use sql::{Asks, Effect};
use wire::packet::HEADER_BYTES;
use wire::{Status, reply};

use crate::session::environment::Environment;
use crate::session::query::Query;
use crate::session::relay::{Outcome, RelayError, StateChange, changes_of};
use crate::session::reset::ask;
use crate::session::{Held, Session};

/// Set to the value that it has: servers tell what is left to tell with the next OK that has a change of its own.
const TOUCHED: &str = "default_week_format";

/// Whether a part of a statement does what its text does not show: a routine, or a text that is made elsewhere.
pub(in crate::session) fn is_hidden(effect: &Effect) -> bool {
    matches!(effect, Effect::MayChangeSession | Effect::ExecuteText { .. })
}

/// Whether a statement may have changed the session in a way that its reply could not tell.
pub(in crate::session) fn may_be(query: &Query<'_>, outcome: &Outcome) -> bool {
    let statement = &query.statement;
    // The status flags say that there is something to tell; an error has none. SET STATEMENT takes its values back when its
    // reply is on its way.
    let waits = |status: Status| status.contains(Status::SESSION_STATE_CHANGED);
    let passing = |effect: &Effect| matches!(effect, Effect::WhileRunning { .. });
    outcome.ended_by_eof && outcome.status.is_some_and(waits)
        || query.runs_text() && statement.effects.iter().any(passing)
        || outcome.error.is_some()
            && query.runs_text()
            && (statement.asks.contains(Asks::STORED_FUNCTIONS) || statement.effects.iter().any(is_hidden))
}

impl Session {
    /// Has the server report the rest. Gives whether the connection is still good.
    pub(in crate::session) async fn ask_untold(&mut self, held: &mut Held, query: &Query<'_>) -> bool {
        let Ok(outcome) = self.env.send_question(held).await else { return false };
        self.belief.learn_changes(query, &outcome);
        held.lease.origin.state = self.belief.state.clone();
        self.env.show_pins(self.belief.pins.bits());
        true
    }
}

impl Environment {
    async fn send_question(&mut self, held: &mut Held) -> Result<Outcome, RelayError> {
        let reply = ask(&mut held.lease, &format!("SET SESSION {TOUCHED}=@@session.{TOUCHED}"), &self.worker).await?;
        let mut outcome = Outcome::default();
        let payload = reply.as_deref().and_then(|reply| reply.get(HEADER_BYTES..));
        if let Some(Ok(ok)) = payload.map(|payload| reply::Ok::parse(payload, held.lease.origin.capabilities)) {
            changes_of(&ok, &mut outcome.changes)?;
        }
        // The report of a change belongs to the question itself.
        outcome.changes.retain(|change| match change {
            StateChange::Variable(name, _) => name != TOUCHED,
            change => *change != StateChange::Some,
        });
        Ok(outcome)
    }
}
