//! The statements of a text of several, each with the reports that a client wants to hear behind it, and announcements without reports.

use facts::catalog::Catalog;
use sql::{Effect, Kind, Statement, TransactionStep, Value};
use wire::Status;

use super::{ClientTracking, TRANSACTION_INFO, Transactions, is_tracking_variable};

/// The list of variables that a client hears of.
const VARIABLES: &str = "session_track_system_variables";

/// The announcements, by an OK packet that lists no change, that a statement may make.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    /// It begins a transaction, or ends it.
    steps: bool,
    /// It sets the reports of transactions to their state.
    sets_state: bool,
    /// It sets the list of variables.
    sets_variables: bool,
}

impl Step {
    /// Of one statement.
    #[inline]
    pub(super) fn of(statement: &Statement) -> Step {
        use TransactionStep::{Begin, Commit, Rollback};
        let steps = matches!(statement.transaction, Some(Begin { .. } | Commit { .. } | Rollback { .. }));
        let (mut sets_state, mut sets_variables) = (false, false);
        for effect in &statement.effects {
            if let Effect::Variable { name, value } = effect {
                sets_state |= name == TRANSACTION_INFO && Transactions::of(literal(value)) == Transactions::State;
                sets_variables |= name == VARIABLES;
            }
        }
        Step { steps, sets_state, sets_variables }
    }

    /// Whether the OK packet with this status does. One explicit transaction follows another, which is news only where reports tell
    /// how it began; MariaDB tells of explicit ones only a client that has asked for it. Reports that are set anew have
    /// nothing to report. And MySQL ends the reports of all variables with that of their list, which is not on the list by then.
    pub(super) fn announces(
        self,
        transactions: &dyn Fn() -> Transactions,
        before: &ClientTracking,
        now: &ClientTracking,
        mariadb: bool,
        status: Status,
    ) -> bool {
        let follows = self.steps && now.in_explicit() && status.contains(Status::IN_TRANSACTION);
        let hears = || match transactions() {
            Transactions::Off | Transactions::Explicit => !mariadb,
            Transactions::State => true,
            Transactions::Characteristics => false,
        };
        let unlists = || !mariadb && before.wants(b"*") && !now.wants(b"*");
        self.sets_state || follows && hears() || self.sets_variables && unlists()
    }
}

/// The statements of a text.
#[derive(Debug)]
pub struct Parts {
    /// Up to the first one that may have several replies.
    parts: Vec<Part>,
    /// The reports that the client wants to hear behind those.
    behind: ClientTracking,
}

/// One of the statements of a text.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) step: Step,
    /// The client's own setting for reports of transactions, if a statement of the text has set it by then.
    pub(super) transactions: Option<Transactions>,
    /// The reports that the client wants to hear with its reply.
    tracking: ClientTracking,
}

impl Parts {
    /// Whether the statements of a text may differ in the reports that a client hears, or announce changes without one.
    pub fn matter_in(statement: &Statement) -> bool {
        let sets = |effect: &Effect| matches!(effect, Effect::Variable { name, .. } if name == TRANSACTION_INFO || is_tracking_variable(name));
        statement.parts > 1 && (statement.transaction.is_some() || statement.effects.iter().any(sets))
    }

    /// Of these statements, for a client that wants to hear this `before` the text.
    pub fn of(statements: &[Statement], before: &ClientTracking, catalog: &Catalog) -> Parts {
        let (mut behind, mut transactions) = (before.clone(), None);
        let mut parts = Vec::with_capacity(statements.len());
        let mut is_counted = true;
        for statement in statements {
            is_counted &= !matches!(statement.kind, Kind::Call | Kind::Compound | Kind::PreparedText | Kind::Unknown);
            for effect in &statement.effects {
                if let Effect::Variable { name, value } = effect
                    && name == TRANSACTION_INFO
                {
                    transactions = Some(Transactions::of(literal(value)));
                }
            }
            behind = behind.after(&statement.effects, catalog).unwrap_or(behind);
            if is_counted {
                parts.push(Part { step: Step::of(statement), transactions, tracking: behind.clone() });
            }
        }
        Parts { parts, behind }
    }

    /// The statement of this reply, by its number from 1 on.
    pub(super) fn part(&self, reply: usize) -> Option<&Part> {
        self.parts.get(reply.checked_sub(1)?)
    }

    /// The reports that a client wants to hear with this reply, by its number from 1 on.
    pub fn tracking(&self, reply: usize) -> &ClientTracking {
        self.part(reply).map_or(&self.behind, |part| &part.tracking)
    }
}

impl ClientTracking {
    /// Goes on where another choice of the same client ends: what it has heard of, and has still to hear.
    pub fn goes_on_from(&self, before: &ClientTracking) {
        self.explicit.set(before.explicit.get());
        self.late.replace(before.late.take());
    }
}

fn literal(value: &Value) -> Option<&str> {
    match value {
        Value::Literal(literal) => Some(literal),
        Value::Default | Value::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use sql::{Dialect, Encoding, Family, Modes, NoFunctions};

    use super::*;

    /// The statements of a text.
    fn statements(text: &str) -> Vec<Statement> {
        let dialect =
            Dialect { family: Family::MySql, version: 90_700, modes: Modes::empty(), encoding: Encoding::Utf8 };
        let mut statements = Vec::new();
        sql::statements(text.as_bytes(), &dialect, &mut |part| {
            statements.push(sql::classify(part, &dialect, &NoFunctions));
            false
        });
        statements
    }

    #[test]
    fn reports_are_wanted_from_the_statement_on_that_asks_for_them() {
        let catalog = Catalog::default();
        let before = ClientTracking::of_servers(&catalog);
        let text = "DO 1; SET session_track_state_change = ON; DO 2; CALL p(); SET session_track_state_change = OFF";
        let parts = Parts::of(&statements(text), &before, &catalog);
        let wanted: Vec<_> = (0..=5).map(|reply| parts.tracking(reply).state).collect();
        assert_eq!(wanted, [false, false, true, true, false, false], "a CALL has any number of replies");
    }

    #[test]
    fn a_transaction_that_follows_another_is_announced_as_the_client_hears_of_transactions() {
        let catalog = Catalog::default();
        let before = ClientTracking::of_servers(&catalog);
        let text = "DO 1; BEGIN; SET session_track_transaction_info = 'STATE'; BEGIN";
        let parts = Parts::of(&statements(text), &before, &catalog);
        let announced = |mariadb: bool, transactions: Transactions| -> Vec<bool> {
            let announces = |reply: usize| {
                let part = parts.part(reply).unwrap();
                let own = || part.transactions.unwrap_or(transactions);
                part.tracking.explicit.set(super::super::reports::Explicit::Begun);
                part.step.announces(&own, &before, &part.tracking, mariadb, Status::IN_TRANSACTION)
            };
            (1..=4).map(announces).collect()
        };
        assert_eq!(announced(false, Transactions::Off), [false, true, true, true]);
        assert_eq!(announced(true, Transactions::Off), [false, false, true, true]);
        assert_eq!(announced(false, Transactions::Characteristics), [false, false, true, true]);
    }
}
