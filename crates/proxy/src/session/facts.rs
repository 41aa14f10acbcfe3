//! The facts that follow from a session's state and the servers' defaults.

use std::sync::Arc;

use wire::Capabilities;

use super::tracking::ClientTracking;
use super::{Held, Session};
use route::state::StateMap;

impl Session {
    /// When servers get other defaults, the session keeps those that it began with, as on a server of its own.
    pub(super) fn look_at_catalog(&mut self) {
        if !self.here.cluster.catalog_is_fresh() {
            self.take_newest_catalog();
        }
        if self.here.cluster.has_catalog(&self.belief.catalog) {
            return;
        }
        let now = self.here.cluster.catalog();
        if let Some(kept) = self.belief.state.keep_beginning(&self.belief.catalog_at_login, &now) {
            self.belief.state = Arc::new(kept);
        }
        if let Some(kept) = self.belief.state.with_former_collation(&self.belief.catalog, &now) {
            self.belief.state = Arc::new(kept);
        }
        self.belief.catalog = now;
        self.belief.renew_facts();
        self.show_changed_state();
    }

    /// The session has altered a schema on this connection: other sessions keep the collation that they found there.
    pub(super) async fn wait_for_altered_schema(&mut self, held: &mut Held) {
        let now = self.here.cluster.fresh_catalog(super::login::FRESH_CATALOG_WAIT).await;
        if let Some(new) = self.belief.state.with_new_collation(&self.belief.catalog, &now) {
            self.belief.state = Arc::new(new);
        }
        self.look_at_catalog();
        // The connection has the new collation, whatever the session had.
        held.lease.origin.forget_collation();
    }

    /// Somebody has defined code, and the catalog may be here already: the maker, of another worker, has the reply then, and nobody
    /// may run the code as one that is unknown.
    #[cold]
    fn take_newest_catalog(&self) {
        if self.here.cluster.shared.published.catalog_is_fresh() {
            self.env.worker.take_published(&self.here.cluster);
        }
    }

    /// A connection that no session has used yet has the servers' defaults of now. If somebody has just changed one, the session
    /// waits until it knows which, and keeps the one that it began with.
    pub(super) async fn wait_for_defaults(&mut self) {
        let published = &self.here.cluster.shared.published;
        if !published.defaults_are_known() {
            self.here.cluster.fresh_catalog(super::login::FRESH_CATALOG_WAIT).await;
        } else if !Arc::ptr_eq(&self.here.cluster.catalog(), &published.catalog.load()) {
            self.env.worker.take_published(&self.here.cluster);
        }
        self.look_at_catalog();
    }

    /// The state that the last statement has left counts from now on: its limits on the client's silence, and the schema
    /// that others see.
    #[inline]
    pub(super) fn show_state(&self) {
        let fingerprint = self.belief.state.fingerprint();
        if self.env.shown.replace(fingerprint) != fingerprint {
            self.show_changed_state();
        }
    }

    fn show_changed_state(&self) {
        self.renew_idle_limits();
        self.env.handle.set_schema(self.belief.state.schema_name());
    }

    /// The session begins anew, with the servers' defaults of today.
    pub(super) async fn begin_anew(&mut self, collation: u16, schema: Option<&str>) {
        self.who.identity.consistency = self.who.identity.configured;
        let catalog = self.here.cluster.fresh_catalog(super::login::FRESH_CATALOG_WAIT).await;
        self.belief.tracking = ClientTracking::of_servers(&catalog);
        // With MySQL the capability counts for ever, with MariaDB until the first reset.
        let ignores =
            !self.belief.is_mariadb() && self.who.identity.key.capabilities.contains(Capabilities::IGNORE_SPACE);
        self.belief.state =
            Arc::new(StateMap::of_session(&catalog, collation, schema).ignoring_space(ignores, &catalog));
        self.belief.catalog_at_login = catalog.clone();
        self.belief.catalog = catalog;
        self.begin_idle_limits();
        self.belief.packet_limit.reset(&self.belief.catalog_at_login);
        self.belief.renew_facts();
        self.show_changed_state();
    }
}
