//! The statements of a text of several, each with the reports that a client wants to hear behind it, and announcements without reports.

use facts::catalog::Catalog;
use sql::{Effect, Kind, Leaves, LockKind, Opens, Statement, TransactionStep, Value};
use wire::Status;
use wire::reply::{Change, Ok};

use super::reports::Held;
use super::{ClientTracking, TRANSACTION_INFO, Transactions, is_tracking_variable};

/// The list of variables that a client hears of.
const VARIABLES: &str = "session_track_system_variables";

/// The announcements, by an OK packet that lists no change, that a statement may make.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step {
    /// It begins a transaction, or ends it.
    steps: bool,
    /// It sets the reports of transactions.
    sets_transactions: Option<Transactions>,
    /// It sets the list of variables.
    sets_variables: bool,
    /// It changes or reads whole tables, behind an implicit commit.
    rebuilds: bool,
    /// It makes a temporary table.
    makes_temporary: bool,
    /// The tables that it opens, of which its reply does not tell.
    opens: Opens,
    /// It takes locks of tables.
    locks: bool,
    /// It calls a procedure that may begin a transaction and end it.
    passes: bool,
}

/// The news of the transaction of MySQL's CREATE TABLE … START TRANSACTION, whose state stays empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewTable {
    begins: bool,
    ends: bool,
}

impl NewTable {
    /// Whether an OK packet announces them. They are of its characteristics only, and of its beginning for a client that has asked
    /// for no reports.
    pub(super) fn is_announced(self, transactions: &dyn Fn() -> Transactions) -> bool {
        (self.begins || self.ends)
            && match transactions() {
                Transactions::Off | Transactions::Explicit => self.begins,
                Transactions::State => true,
                Transactions::Characteristics => false,
            }
    }
}

impl Step {
    /// Of one statement.
    #[inline]
    pub(super) fn of(statement: &Statement) -> Step {
        use TransactionStep::{Begin, Commit, ImplicitCommit, Rollback};
        let of_tables = || matches!(statement.kind, Kind::Definition | Kind::Administration);
        let (steps, rebuilds) = match statement.transaction {
            Some(Begin { .. } | Commit { .. } | Rollback { .. }) => (true, false),
            Some(ImplicitCommit) => (false, of_tables()),
            _ => (false, false),
        };
        let (mut sets_transactions, mut sets_variables, mut locks, mut makes_temporary) = (None, false, false, false);
        let mut passes = false;
        // Those of accounts are the server's own.
        let opens = if statement.kind == Kind::Account { Opens::Tables } else { statement.opens };
        for effect in &statement.effects {
            locks |= *effect == Effect::LockTables(LockKind::Tables);
            passes |= statement.kind == Kind::Call
                && matches!(effect, Effect::Leaves(left) if left.contains(Leaves::TRANSACTION));
            makes_temporary |= matches!(effect, Effect::CreateTemporaryTable(_));
            if let Effect::Variable { name, value } = effect {
                if name == TRANSACTION_INFO {
                    sets_transactions = Some(Transactions::of(literal(value)));
                }
                sets_variables |= name == VARIABLES;
            }
        }
        Step { steps, sets_transactions, sets_variables, rebuilds, makes_temporary, opens, locks, passes }
    }

    /// Whether it changes or reads whole tables, behind an implicit commit.
    pub(super) fn rebuilds(self) -> bool {
        self.rebuilds
    }

    /// Whether it turns on reports of transactions, behind this setting.
    pub(super) fn turns_on(self, before: &dyn Fn() -> Transactions) -> bool {
        matches!(self.sets_transactions, Some(Transactions::State | Transactions::Characteristics))
            && before() == Transactions::Off
    }

    /// Whether the server begins a transaction of its own for the statement and ends it. A definition that rebuilds a table counts
    /// rows (ALTER TABLE, CREATE TABLE … SELECT); administration of tables has rows as its result, which say whether a table was
    /// `opened`. A temporary table that gets rows leaves the transaction open, but with a state that is empty. MariaDB tells of
    /// transactions that no statement has begun only without autocommit.
    pub(super) fn passes_transaction(
        self,
        transactions: &dyn Fn() -> Transactions,
        now: &ClientTracking,
        (ok, opened): (&Ok<'_>, &dyn Fn() -> bool),
        mariadb: bool,
    ) -> bool {
        let autocommit = ok.status.contains(Status::AUTOCOMMIT);
        let counts = !ok.info.is_empty();
        let opens = match self.opens {
            Opens::Tables => true,
            Opens::IfThere => ok.warnings == 0,
            Opens::LockedTables => now.locked.get(),
            Opens::Untold => false,
        };
        (opens || self.rebuilds && (counts || opened()) || self.makes_temporary && counts && !autocommit)
            && !(mariadb && autocommit)
            && matches!(transactions(), Transactions::State | Transactions::Characteristics)
    }

    /// Whether it calls a procedure that may begin a transaction and end it.
    pub(super) fn passes(self) -> bool {
        self.passes
    }

    /// Whether the transaction of a procedure has ended ahead of this OK packet of MySQL, by the GTID of its commit: the state of
    /// transactions has changed, and is as before.
    pub(super) fn passed_within(self, transactions: &dyn Fn() -> Transactions, ok: &Ok<'_>, mariadb: bool) -> bool {
        let committed = |change| matches!(change, Change::Gtids(_));
        self.passes
            && !mariadb
            && ok.changes().map_while(Result::ok).any(committed)
            && transactions() != Transactions::Characteristics
    }

    /// Whether it gives up the session's locks of tables and takes others: the state of the transaction changes twice, and is as
    /// before.
    pub(super) fn holds_on(self, transactions: &dyn Fn() -> Transactions, now: &ClientTracking) -> bool {
        self.locks
            && now.held.get() == Held::Locks
            && matches!(transactions(), Transactions::State | Transactions::Characteristics)
    }

    /// Notes that MySQL's CREATE TABLE … START TRANSACTION begins a transaction, or that it ends, behind an OK packet with this status.
    pub(super) fn note_new_table(self, now: &ClientTracking, status: Status) -> NewTable {
        let begins = self.rebuilds && status.contains(Status::IN_TRANSACTION);
        if begins && !now.in_explicit() {
            now.held.set(Held::Table);
        }
        let ends = self.steps && now.held.get() == Held::Table;
        if ends {
            now.held.set(Held::Nothing);
        }
        NewTable { begins, ends }
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
        self.sets_transactions == Some(Transactions::State) || follows && hears() || self.sets_variables && unlists()
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
        self.held.set(before.held.get());
        self.locked.set(before.locked.get());
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
