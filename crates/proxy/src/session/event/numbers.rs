//! The numbers that put the events of a session in order: of its statements, and of its transactions.

use route::Pin;
use sql::TransactionStep;
use wire::Status;

use super::super::Session;
use super::super::count::{End, Finished};

/// The numbers of a session's last statement and transaction. They count while queries may become events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::session) struct Numbers {
    statement: u32,
    transaction: u32,
    /// The last statement has ended its transaction and begun another one.
    is_another: bool,
}

/// The numbers of one statement; 0 is no transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbered {
    pub statement: u32,
    pub transaction: u32,
}

impl Numbers {
    /// The next statement, before and behind which a transaction is open or not.
    fn next(&mut self, (was_open, is_open): (bool, bool), step: Option<TransactionStep>) -> Numbered {
        self.statement = self.statement.wrapping_add(1);
        // BEGIN commits what is open; COMMIT AND CHAIN begins another one behind itself.
        let begins = matches!(step, Some(TransactionStep::Begin { .. }));
        let chains = matches!(step, Some(TransactionStep::Commit { .. } | TransactionStep::Rollback { .. }));
        let is_new = if was_open { self.is_another || self.transaction == 0 || begins && is_open } else { is_open };
        if is_new {
            self.transaction = self.transaction.wrapping_add(1).max(1);
        }
        self.is_another = was_open && is_open && chains;
        let transaction = if was_open || is_open { self.transaction } else { 0 };
        Numbered { statement: self.statement, transaction }
    }
}

impl Session {
    /// Numbers a query that is over, and whose effects are not learned yet.
    pub(super) fn number(&self, query: &impl Finished, end: End<'_>) -> Numbered {
        let was_open = self.belief.pins.has(Pin::Transaction);
        let status = match end {
            End::Relayed(_, relayed) => relayed.outcome.status_behind.or(relayed.outcome.status),
            _ => None,
        };
        let is_open = status.map_or(was_open, |status| status.contains(Status::IN_TRANSACTION));
        let mut numbers = self.who.numbers.get();
        let numbered = numbers.next((was_open, is_open), query.transaction_step());
        self.who.numbers.set(numbers);
        numbered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Option<TransactionStep> = Some(TransactionStep::Begin { read_only: None, snapshot: false });
    const COMMIT: Option<TransactionStep> = Some(TransactionStep::Commit { chain: false, release: None });

    #[test]
    fn statements_of_one_transaction_have_its_number() {
        let mut numbers = Numbers::default();
        let mut seen = Vec::new();
        for (open, step) in [
            ((false, false), None),
            ((false, true), BEGIN),
            ((true, true), None),
            ((true, false), COMMIT),
            ((false, false), None),
            // Without autocommit any statement begins one.
            ((false, true), None),
            // BEGIN in a transaction: another one.
            ((true, true), BEGIN),
            // COMMIT AND CHAIN belongs to the one that it ends.
            ((true, true), COMMIT),
            ((true, true), None),
            ((true, true), Some(TransactionStep::Savepoint)),
            // A definition commits what is open.
            ((true, false), Some(TransactionStep::ImplicitCommit)),
            ((false, false), COMMIT),
        ] {
            seen.push(numbers.next(open, step).transaction);
        }
        assert_eq!(seen, [0, 1, 1, 1, 0, 2, 3, 3, 4, 4, 4, 0]);
        assert_eq!(numbers.statement, 12);
    }

    #[test]
    fn a_transaction_that_began_unseen_has_a_number() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.next((true, true), None), Numbered { statement: 1, transaction: 1 });
        assert_eq!(numbers.next((true, false), COMMIT), Numbered { statement: 2, transaction: 1 });
    }
}
