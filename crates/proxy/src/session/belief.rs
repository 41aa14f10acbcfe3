//! The state that a client believes its session has, on whichever backend connection the next statement runs.
//!
//! It lives from one login, COM_CHANGE_USER or COM_RESET_CONNECTION to the next. The replies of servers write it
//! ([`super::learn`]), and the few statements that Sqluice answers itself.

use std::cell::Cell;
use std::sync::Arc;

use ::facts::catalog::Catalog;
use route::Pins;
use route::state::{StateFacts, StateMap};
use sql::Family;
use wire::Status;

use super::diagnostics::past::Past;
use super::idle::IdleLimits;
use super::packet_limit::PacketLimit;
use super::statements::ClientStatements;
use super::tracking::ClientTracking;
use crate::shared::CountedHere;

/// The state that the client believes it has.
#[derive(Debug)]
pub(super) struct Belief {
    /// Schema, variables, character sets.
    pub state: Arc<StateMap>,
    /// The servers' defaults when the session began.
    pub catalog_at_login: CountedHere<Catalog>,
    /// The servers' defaults and definitions that were looked at last.
    pub catalog: CountedHere<Catalog>,
    /// The facts that follow from `state` and `catalog`; made anew when one of them changes.
    pub facts: Cell<StateFacts>,
    /// The flags of the last reply.
    pub status: Status,
    /// The prepared statements.
    pub statements: ClientStatements,
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
            tracking: ClientTracking::of_servers(&catalog),
            catalog_at_login: catalog.clone(),
            catalog,
            status: Status::AUTOCOMMIT,
            statements: ClientStatements::default(),
            past: Past::default(),
            pins: Pins::default(),
            idle_limits: Cell::default(),
            idle_defaults: Cell::default(),
            packet_limit: PacketLimit::default(),
        }
    }
}
