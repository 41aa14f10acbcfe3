//! The effects of tables and views that the text of a statement does not show.

use ::facts::catalog::Hidden;
use sql::{Asks, Kind};

use super::Session;
use super::belief::Belief;
use super::cluster_session::ClusterSession;
use super::query::Query;

impl Session {
    /// Finds the effects of tables and views that the text does not show: a read of a view that writes is a write.
    #[inline]
    pub(super) fn find_hidden(&self, query: &mut Query<'_>) {
        query.catalog_was_fresh = self.here.cluster.catalog_is_fresh();
        if query.prepares() {
            return;
        }
        if !query.catalog_was_fresh {
            query.find_unread_code();
        }
        if !self.belief.catalog.hidden.is_empty() {
            query.hides = [query.hides, self.belief.hidden_in(query)].into_iter().flatten().reduce(Hidden::and);
            if query.hides.is_some_and(|hidden| hidden.writes) {
                query.hide_write();
            }
            if query.statement.access.only_reads() {
                query.hides = query.hides.and_then(Hidden::of_reads);
            }
            if let Some(hidden) = &mut query.hides
                && !query.statement.access.only_reads()
            {
                hidden.leaves = hidden.all_leaves();
            }
        }
    }
}

impl Query<'_> {
    /// Takes all that a statement may run for code that nobody has read: a view, a trigger or a function was defined a moment ago.
    #[cold]
    fn find_unread_code(&mut self) {
        if self.statement.uses_tables || self.statement.kind == Kind::PreparedText {
            self.hides = Some(Hidden { unread: true, ..Hidden::default() });
        }
        // The function of a prepared statement may be another one by now.
        if self.statement.asks.contains(Asks::STORED_FUNCTIONS) {
            self.hide_write();
        }
    }

    /// It may run code that was defined a moment ago, and pin its session by that: on a replica the next write would be refused.
    pub(super) fn may_run_unread_code(&self) -> bool {
        !self.catalog_was_fresh && self.hides.is_some_and(|code| code.unread)
    }
}

impl ClusterSession {
    /// Whether the routines, views and triggers that a query may run are those that it was understood with: none was defined since
    /// the catalog was read, not by those whose connection it waited for either.
    #[inline]
    pub(super) fn knows_code_of(&self, query: &Query<'_>) -> bool {
        query.catalog_was_fresh && self.cluster.catalog_is_fresh()
    }
}

impl Belief {
    #[inline(never)]
    fn hidden_in(&self, query: &Query<'_>) -> Option<Hidden> {
        use sql::Kind::{Account, Administration, Definition, Handler, Lock, PreparedText, Show};
        if !query.statement.uses_tables && query.statement.kind != PreparedText {
            return None;
        }
        match query.tables()? {
            Ok(named) => {
                let names = named.read.iter().chain(&named.written);
                let found = names.filter_map(|name| {
                    self.catalog.hidden(name.schema.as_deref().or_else(|| self.schema_of(query))?, &name.name)
                });
                found.reduce(Hidden::and)
            }
            Err(_)
                if matches!(query.statement.kind, Account | Administration | Definition | Handler | Lock)
                    && query.statement.parts <= 1 =>
            {
                None
            }
            Err(_) if query.statement.kind == Show && !query.text().is_some_and(|text| may_hold_query(text.bytes)) => {
                None
            }
            // PREPARE, EXECUTE IMMEDIATE, compound statements: any word may be a name.
            Err(_) => self.catalog.hidden_in(query.text()?.bytes, self.schema_of(query)),
        }
    }
}

/// Whether a SHOW may hold a query, in its WHERE. Other names in it are not read.
fn may_hold_query(text: &[u8]) -> bool {
    const SELECT: &[u8] = b"select";
    text.contains(&b'(') && text.windows(SELECT.len()).any(|window| window.eq_ignore_ascii_case(SELECT))
}
