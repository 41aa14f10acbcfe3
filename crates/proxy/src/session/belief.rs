//! The state that a client believes its session has, on whichever backend connection the next statement runs.
//!
//! It lives from one login, COM_CHANGE_USER or COM_RESET_CONNECTION to the next. The replies of servers write it
//! ([`super::learn`]), and the few statements that Sqluice answers itself.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use ::facts::catalog::Catalog;
use route::Pins;
use route::state::{StateFacts, StateMap};
use sql::{Dialect, Family};
use wire::Status;

use super::diagnostics::past::Past;
use super::idle::IdleLimits;
use super::long_data::LongData;
use super::packet_limit::PacketLimit;
use super::statements::{ClientStatements, PackedStatements};
use super::tracking::ClientTracking;
use crate::error::Refusal;
use crate::shared::CountedHere;
use crate::worker::ClusterHere;

/// The state that the client believes it has.
#[derive(Debug)]
pub(super) struct Belief {
    /// Schema, variables, character sets.
    pub state: Arc<StateMap>,
    /// The schema that a server did not know when the session was to be brought into it. Another session may create it again.
    pub gone_schema: Option<Arc<str>>,
    /// The servers' defaults when the session began.
    pub catalog_at_login: CountedHere<Catalog>,
    /// The servers' defaults and definitions that were looked at last.
    pub catalog: CountedHere<Catalog>,
    /// The facts that follow from `state` and `catalog`; made anew when one of them changes.
    facts: Cell<StateFacts>,
    /// The flags of the last reply.
    pub status: Status,
    /// The prepared statements.
    pub statements: ClientStatements,
    /// The values that were sent ahead for them.
    pub long_data: LongData,
    /// The part of session tracking that the client wants to hear.
    pub tracking: ClientTracking,
    /// The results of the last statement that a later one may ask for.
    pub past: Past,
    /// The reasons why the session keeps its backend connection.
    pub pins: Pins,
    /// How long its client may be silent.
    pub idle_limits: Cell<IdleLimits>,
    /// The same as it began.
    pub idle_defaults: Cell<IdleLimits>,
    /// `max_allowed_packet` of its login.
    pub packet_limit: PacketLimit,
}

impl Belief {
    /// That of a session in which nothing was done yet, with servers of this family and version.
    pub(super) fn new(state: Arc<StateMap>, catalog: CountedHere<Catalog>, (family, version): (Family, u32)) -> Belief {
        Belief {
            facts: Cell::new(state.facts(&catalog, family, version)),
            state,
            gone_schema: None,
            tracking: ClientTracking::of_servers(&catalog),
            catalog_at_login: catalog.clone(),
            catalog,
            status: Status::AUTOCOMMIT,
            statements: ClientStatements::default(),
            long_data: LongData::default(),
            past: Past::default(),
            pins: Pins::default(),
            idle_limits: Cell::default(),
            idle_defaults: Cell::default(),
            packet_limit: PacketLimit::default(),
        }
    }

    /// The facts that follow from the state.
    #[inline]
    pub(super) fn facts(&self) -> StateFacts {
        if self.facts.get().fingerprint != self.state.fingerprint() {
            self.renew_facts();
        }
        self.facts.get()
    }

    /// [`StateMap::releases`] of the state.
    pub(super) fn releases(&self) -> bool {
        let facts = self.facts();
        facts.releases.unwrap_or_else(|| {
            let releases = self.state.releases(&self.catalog);
            self.facts.set(StateFacts { releases: Some(releases), ..facts });
            releases
        })
    }

    /// [`StateMap::is_traced`] of the state.
    pub(super) fn is_traced(&self) -> bool {
        let facts = self.facts();
        facts.is_traced.unwrap_or_else(|| {
            let is_traced = self.state.is_traced();
            self.facts.set(StateFacts { is_traced: Some(is_traced), ..facts });
            is_traced
        })
    }

    #[cold]
    pub(super) fn renew_facts(&self) {
        let Dialect { family, version, .. } = self.facts.get().dialect;
        self.facts.set(self.state.facts(&self.catalog, family, version));
    }

    /// A session whose schema was dropped by another one is still in it, as on a server, which looks for it with each
    /// statement: it may have been created again.
    #[cold]
    pub(super) fn choose_gone_schema_again(&mut self) {
        if let Some(gone) = self.gone_schema.take()
            && self.state.schema().is_none()
        {
            Arc::make_mut(&mut self.state).set_schema(Some(&gone));
        }
    }
}

/// A [`Belief`] between two workers; the fields are its own.
#[derive(Debug)]
pub(super) struct PackedBelief {
    state: Arc<StateMap>,
    gone_schema: Option<Arc<str>>,
    catalog_at_login: Arc<Catalog>,
    catalog: Arc<Catalog>,
    facts: StateFacts,
    status: Status,
    statements: PackedStatements,
    tracking: ClientTracking,
    past: Past,
    pins: Pins,
    idle_limits: IdleLimits,
    idle_defaults: IdleLimits,
    packet_limit: PacketLimit,
}

impl Belief {
    /// Leaves a variable that connections begin with different values of as each connection has it, as a server has refused to
    /// set it: it may be of a kind that no session may choose. Gives whether there was one.
    pub(super) fn leave_uneven(&mut self, refusal: &Refusal) -> bool {
        let without = self.state.without_uneven(&self.catalog_at_login, &self.catalog, &refusal.message);
        without.map(|without| self.state = Arc::new(without)).is_some()
    }

    /// It leaves the worker's thread.
    pub(super) fn pack(self) -> PackedBelief {
        let Belief { state, catalog_at_login, catalog, facts, status, statements, .. } = self;
        PackedBelief {
            state,
            gone_schema: self.gone_schema,
            catalog_at_login: Arc::clone(&catalog_at_login),
            catalog: Arc::clone(&catalog),
            facts: facts.get(),
            status,
            statements: statements.pack(),
            tracking: self.tracking,
            past: self.past,
            pins: self.pins,
            idle_limits: self.idle_limits.get(),
            idle_defaults: self.idle_defaults.get(),
            packet_limit: self.packet_limit,
        }
    }
}

impl PackedBelief {
    /// It is on its new worker. A catalog that is known there is counted there.
    pub(super) fn unpack(self, cluster: &ClusterHere) -> Belief {
        let here = cluster.catalog();
        let count = |catalog: Arc<Catalog>| if Arc::ptr_eq(&here, &catalog) { here.clone() } else { Rc::new(catalog) };
        let PackedBelief { state, catalog_at_login, catalog, facts, status, statements, .. } = self;
        Belief {
            state,
            gone_schema: self.gone_schema,
            catalog_at_login: count(catalog_at_login),
            catalog: count(catalog),
            facts: Cell::new(facts),
            status,
            statements: statements.unpack(),
            // A session with long data is pinned, and never moves.
            long_data: LongData::default(),
            tracking: self.tracking,
            past: self.past,
            pins: self.pins,
            idle_limits: Cell::new(self.idle_limits),
            idle_defaults: Cell::new(self.idle_defaults),
            packet_limit: self.packet_limit,
        }
    }
}
