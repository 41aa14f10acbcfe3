//! The facts that follow from a session's state and the servers' defaults.

use std::sync::Arc;

use sql::Dialect;
use wire::Capabilities;

use super::Session;
use super::tracking::TrackWish;
use route::state::{StateFacts, StateMap};

impl Session {
    /// When servers get other defaults, the session keeps those that it began with, as on a server of its own.
    pub(super) fn look_at_catalog(&mut self) {
        if self.cluster.has_catalog(&self.seen) {
            return;
        }
        let now = self.cluster.catalog();
        if let Some(kept) = self.state.keep_beginning(&self.began, &now) {
            self.state = Arc::new(kept);
        }
        self.seen = now;
        self.renew_facts();
    }

    /// The facts that follow from the session's state.
    pub(super) fn facts(&self) -> StateFacts {
        let facts = self.facts.get();
        if facts.fingerprint == self.state.fingerprint() { facts } else { self.renew_facts() }
    }

    pub(super) fn renew_facts(&self) -> StateFacts {
        let Dialect { family, version, .. } = self.facts.get().dialect;
        let facts = self.state.facts(&self.seen, family, version);
        self.facts.set(facts);
        self.renew_idle_limits();
        self.handle.set_schema(self.state.schema_name());
        facts
    }

    /// The session begins anew, with the servers' defaults of today.
    pub(super) async fn begin_anew(&mut self, collation: u16, schema: Option<&str>) {
        self.identity.consistency = self.identity.configured;
        let catalog = self.cluster.fresh_catalog(super::login::FRESH_CATALOG_WAIT).await;
        self.wish = TrackWish::of_servers(&catalog);
        // With MySQL the capability counts for ever, with MariaDB until the first reset.
        let ignores = !self.is_mariadb() && self.identity.key.capabilities.contains(Capabilities::IGNORE_SPACE);
        self.state = Arc::new(StateMap::of_session(&catalog, collation, schema).ignoring_space(ignores, &catalog));
        self.began = catalog.clone();
        self.seen = catalog;
        self.begin_idle_limits();
        self.packet_limit.begin(&self.began);
        self.renew_facts();
    }
}
