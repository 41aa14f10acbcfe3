//! READ ONLY transactions on replicas, and how a session leaves one: for a statement that outlives it, or for one that ends it and may
//! write.

use wire::Status;

use super::attempts::Attempts;
use super::belief::Belief;
use super::query::Query;
use super::relay::RelayError;
use super::reset::ask;
use super::{Held, Session};
use crate::error::Refusal;
use route::{Pin, Reason, Route, Target};

impl Session {
    /// A transaction that may write begins, and ends one that is READ ONLY: the session does not stay on that one's replica.
    pub(super) async fn leave_read_only_transaction(&mut self) {
        if !self.belief.transaction_can_move() || !self.belief.status.contains(Status::IN_READ_ONLY_TRANSACTION) {
            return;
        }
        let Some(primary) = self.here.cluster.view().primary else { return };
        let Some(mut held) = self.here.held.take() else { return };
        if held.lease.server() == primary {
            self.here.held = Some(held);
            return;
        }
        match self.read_what_stays(&mut held).await {
            Some(true) => self.clean_up(held).await,
            Some(false) => return self.here.held = Some(held),
            None => {}
        }
        self.lose_pinned_state();
    }

    /// Reads what the session's statements have left on a connection that it leaves. `None` when the connection is lost, false
    /// when there is something that only stays there.
    async fn read_what_stays(&mut self, held: &mut Held) -> Option<bool> {
        if std::mem::take(&mut self.belief.past.found_rows_unsure) && !self.read_found_rows(held).await {
            return None;
        }
        if self.belief.pins.has(Pin::UserVariable) && !self.read_back(held).await {
            return None;
        }
        if self.belief.past.doubt.is_some() && !self.read_insert_id(held).await {
            return None;
        }
        self.belief.pins.put(Pin::FoundRows, false);
        self.belief.past.is_here();
        Some(self.belief.pins.bits() == 1 << Pin::Transaction as u32)
    }

    /// Whether a statement in a READ ONLY transaction on a replica locks, or leaves something on its connection that writes
    /// may need behind the transaction. So does what commits by itself: MySQL reports the transaction's end to a client that
    /// tracks it, so there must be one to end. Preparing it does nothing of this.
    pub(super) fn outlives_read_only_transaction(&self, query: &Query<'_>) -> bool {
        let commits = query.statement.transaction == Some(sql::TransactionStep::ImplicitCommit);
        self.belief.status.contains(Status::IN_READ_ONLY_TRANSACTION)
            && !query.prepares()
            && self.belief.transaction_can_move()
            && (commits || query.will_pin() || route::needs_primary_in_transaction(&query.statement))
            && self
                .here
                .cluster
                .view()
                .primary
                .is_some_and(|primary| self.here.held.as_ref().is_some_and(|held| held.lease.server() != primary))
    }

    /// The open READ ONLY transaction goes on as a new one on the primary, with a newer snapshot: a replica's locks would keep
    /// no writer out, and no session could write beside the rest of the transaction there.
    ///
    /// # Errors
    /// The primary has no place for it; nothing has changed then.
    pub(super) async fn move_read_only_transaction(&mut self) -> Result<(), Refusal> {
        let Some(mut before) = self.here.held.take() else { return Ok(()) };
        match self.read_what_stays(&mut before).await {
            Some(true) => {}
            Some(false) => {
                self.here.held = Some(before);
                return Ok(());
            }
            None => {
                self.lose_pinned_state();
                return Err(Refusal::lost(before.lease.server_name(), "it was lost within a transaction"));
            }
        }
        let route = Route::to(Target::Primary, Reason::Transaction, config::Consistency::Session);
        let begun = match self.checkout(&route, &mut Attempts::new()).await {
            Ok(held) => self.begin_read_only(held).await,
            Err(refusal) => Err(refusal),
        };
        match begun {
            Ok(held) => {
                self.clean_up(before).await;
                self.here.held = Some(held);
                if let Some(log) = &mut self.transaction.log {
                    log.target = Target::Primary;
                }
                Ok(())
            }
            Err(refusal) => {
                self.here.held = Some(before);
                Err(refusal)
            }
        }
    }

    async fn begin_read_only(&mut self, mut held: Held) -> Result<Held, Refusal> {
        self.belief.pins.put(Pin::Transaction, false);
        let begun = match self.bring_to_state(&mut held).await {
            Ok(()) => ask(&mut held.lease, "START TRANSACTION READ ONLY", &self.env.worker).await,
            Err(error) => Err(error),
        };
        self.belief.pins.put(Pin::Transaction, true);
        match begun {
            Ok(Some(_)) => Ok(held),
            Ok(None) => Err(Refusal::lost(held.lease.server_name(), "it begins no transaction")),
            Err(RelayError::FixUp(refusal)) => Err(refusal),
            Err(error) => Err(Refusal::lost(held.lease.server_name(), &format!("{error:?}"))),
        }
    }
}

impl Belief {
    /// Whether nothing keeps the connection but a transaction, and what can be read back.
    fn transaction_can_move(&self) -> bool {
        const MAY_GO: u32 = 1 << Pin::Transaction as u32 | 1 << Pin::UserVariable as u32 | 1 << Pin::FoundRows as u32;
        self.pins.has(Pin::Transaction) && self.pins.bits() & !MAY_GO == 0 && self.past.variables.is_empty()
    }

    /// Whether a statement ends a READ ONLY transaction first and may write then: one that begins another, and with MariaDB
    /// what commits by itself. Preparing it ends nothing.
    pub(super) fn ends_read_only_transaction(&self, query: &Query<'_>) -> bool {
        use sql::TransactionStep::{Begin, ImplicitCommit};
        if query.prepares() {
            return false;
        }
        let read_only = match query.statement.transaction {
            Some(Begin { read_only, .. }) => read_only,
            Some(ImplicitCommit) if self.is_mariadb() => None,
            _ => return false,
        };
        // On MySQL a transaction that is not called READ WRITE goes on as the one that it ends.
        !read_only.unwrap_or_else(|| !self.is_mariadb() || self.facts().reads_only)
    }
}
