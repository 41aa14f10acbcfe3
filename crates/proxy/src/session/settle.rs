//! Behind a reply: what has to be asked before the connection may serve somebody else, and giving it back.

use std::sync::atomic::Ordering;
use std::time::Duration;

use stats::micros;
use wire::errno;

use super::diagnostics::unreported;
use super::environment::Environment;
use super::learn::{alters_schema, defines_what_stays};
use super::query::Query;
use super::relay::Outcome;
use super::{Held, Session, kill};
use crate::error::SessionEnd;

/// The maker of code waits so long for its reply until that code has been read: without a monitor it is never read.
const DEFINITION_WAIT: Duration = Duration::from_secs(5);

impl Session {
    /// Gives a connection back behind a [plain](Outcome::is_plain) reply that the client has. Where something is to be asked or
    /// waited for first, the connection is the caller's still, for [`Session::settle`].
    #[inline]
    pub(super) fn give_back_at_once(&mut self, held: Held, outcome: &Outcome) -> Option<Held> {
        if outcome.is_plain
            && self.belief.past.is_known()
            && !self.client.has_unsent()
            && self.env.handle.end_statement_at_once()
        {
            held.lease.give_back();
            return None;
        }
        Some(held)
    }

    /// The session keeps its connection while it is pinned, else the connection returns to the pool.
    pub(super) async fn settle(
        &mut self,
        mut held: Held,
        query: &Query<'_>,
        outcome: &Outcome,
    ) -> Result<(), SessionEnd> {
        if outcome.error.is_none() && !self.here.cluster.catalog_is_fresh() {
            Box::pin(self.wait_for_definition(&mut held, query)).await;
        }
        self.client.flush().await.map_err(SessionEnd::ClientLost)?;
        if outcome.error.is_none() && query.ends_session(|| self.belief.releases()) {
            return Err(SessionEnd::ClientLeft);
        }
        // A session that was killed may be killed once more: nothing is asked after that.
        let failed = outcome.error.as_ref().is_some_and(|error| error.code != errno::ER_QUERY_INTERRUPTED);
        let unread = std::mem::take(&mut self.belief.past.messages_unread)
            && (failed || outcome.error.is_none())
            && self.has_messages_on(&held.lease.origin);
        let (asks_one_use, asks_locks) = self.belief.asks_of_pins();
        let settles =
            self.belief.pins.is_empty() || self.belief.only_user_variables_pin() || asks_one_use || asks_locks;
        // MariaDB would report it with the next change, and a connection that is kept reports more changes than the client has asked for.
        let mariadb = held.lease.origin.mariadb;
        let waits = unreported::waits_behind(query, outcome, mariadb);
        let hears_more = waits && (settles || mariadb) || settles && unreported::waits_by_flag(outcome);
        // A pinned session's connection shows its messages, but not those that stand in for them.
        let asks_messages = self.belief.past.messages_unsure && (settles || held.lease.origin.stands_in);
        // Each later question would change the answer.
        let counts = (settles || asks_messages || self.belief.past.found_rows_stand_in)
            && std::mem::take(&mut self.belief.past.found_rows_unsure);
        // On MySQL any question takes the messages away, elsewhere that for hidden variables.
        let asks_of_pins = asks_one_use || asks_locks;
        let asks_more = hears_more || counts || asks_of_pins || self.belief.only_user_variables_pin();
        let mut kept = unread && !mariadb && asks_more;
        if kept || asks_more || asks_messages {
            self.belief.past.is_here();
        }
        if kept && !Box::pin(self.keep_warnings(&mut held)).await
            || counts && !Box::pin(self.read_found_rows(&mut held)).await
            || asks_messages && !Box::pin(self.count_messages(&mut held)).await
            || hears_more && !Box::pin(self.ask_unreported(&mut held, query)).await
            || asks_one_use && !Box::pin(self.ask_one_use(&mut held)).await
            || asks_locks && !Box::pin(self.ask_user_locks(&mut held)).await
        {
            self.lose_pinned_state();
            return Err(SessionEnd::ServerLost("what it had to tell of the session is gone with it".into()));
        }
        if self.belief.only_user_variables_pin() {
            let take_away = unread && !kept && self.belief.pins.has_hidden_user_variables();
            kept |= take_away;
            let good = !take_away || Box::pin(self.keep_warnings(&mut held)).await;
            if !good || !Box::pin(self.read_back(&mut held)).await {
                self.lose_pinned_state();
                return Err(SessionEnd::ServerLost("its user variables are gone with it".into()));
            }
        }
        if !self.belief.pins.is_empty() {
            // MariaDB keeps them beyond the end of a transaction, behind which another connection may be asked for them.
            self.belief.past.messages_unread = unread && !kept && mariadb;
            self.here.held = Some(held);
            return Ok(());
        }
        if unread && !kept && !Box::pin(self.keep_warnings(&mut held)).await {
            return Ok(());
        }
        self.release_known(held).await;
        Ok(())
    }

    /// All sessions may run new code, and choose an altered schema, as soon as its maker has the reply. Behind a definition the catalog
    /// is never fresh.
    async fn wait_for_definition(&mut self, held: &mut Held, query: &Query<'_>) {
        if alters_schema(query) {
            self.wait_for_altered_schema(held).await;
        } else if defines_what_stays(query, &self.belief.catalog) || self.belief.executes_definition(query) {
            self.here.cluster.fresh_catalog(DEFINITION_WAIT).await;
        }
    }

    /// Gives a connection back when the values that are in doubt are known; the session may keep it for one of them.
    async fn release_known(&mut self, mut held: Held) {
        if !self.belief.past.variables.is_empty() {
            self.belief.past.is_here();
            if !Box::pin(self.read_variables(&mut held)).await {
                return;
            }
            if !self.belief.pins.is_empty() {
                self.here.held = Some(held);
                return;
            }
        }
        if self.belief.past.doubt.is_none() || Box::pin(self.read_insert_id(&mut held)).await {
            self.release(held).await;
        }
    }

    /// Gives a connection back, unless somebody has just killed what ran on it.
    pub(super) async fn release(&mut self, mut held: Held) {
        if std::mem::take(&mut self.belief.past.found_rows_unsure) && !Box::pin(self.read_found_rows(&mut held)).await {
            return;
        }
        if !self.env.handle.end_statement(kill::KILL_WAIT).await {
            held.lease.give_back();
        }
    }

    /// The session is over: what it held is cleaned and given back, or closed.
    pub(super) async fn end(mut self) {
        self.env.worker.stats.sessions.add(-1);
        self.env.show_pins(0);
        if let Some(held) = self.here.held.take() {
            Box::pin(self.clean_up(held)).await;
        }
    }
}

impl Environment {
    /// Shows others which query runs.
    #[inline]
    pub(super) fn show_query(&self, query: &Query<'_>) {
        self.handle.activity.begin_query(query.statement.digest, self.worker.uptime_s.get());
    }

    /// Tells the counts and the session list what the session is pinned by.
    pub(super) fn show_pins(&mut self, bits: u32) {
        // Only the session itself writes it.
        let before = self.handle.pins.load(Ordering::Relaxed);
        if before == bits {
            return;
        }
        self.handle.pins.store(bits, Ordering::Relaxed);
        let transaction = 1 << route::Pin::Transaction as u32;
        if (before ^ bits) & transaction != 0 {
            let now = || micros(self.worker.shared.started.elapsed());
            self.handle.activity.set_transaction((bits & transaction != 0).then(now));
        }
        let mut changed = before ^ bits;
        while changed != 0 {
            let index = changed.trailing_zeros() as usize;
            changed &= changed - 1;
            let is_pinned = bits >> index & 1 == 1;
            if let Some(gauge) = self.worker.stats.pins.at(index) {
                gauge.add(if is_pinned { 1 } else { -1 });
            }
            if let (Some(count), true) = (self.worker.stats.pinned.at(index), is_pinned) {
                count.add_one();
            }
        }
    }
}
