//! Users whom a server has just refused a further connection (1203, 1226). To make room for another try of theirs would cost a connection
//! of somebody else, and most likely in vain.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use facts::view::ServerId;
use net::Address;
use net::client::{Cause, ConnectError, Phase};
use wire::errno;
use wire::handshake::ServerError;

use super::{LeaseError, Pools};
use crate::shared::is_of_an_hour;

/// So long a connection of somebody else is not closed for such a user.
const PERIOD: Duration = Duration::from_secs(1);
/// Users that are remembered; beyond that all are forgotten.
const USERS_MAX: usize = 1000;

/// The users of a worker whom a server of a cluster has just refused.
#[derive(Debug, Default)]
pub struct Refused(HashMap<(ServerId, Arc<str>), Refusal>);

#[derive(Debug)]
struct Refusal {
    at: Instant,
    address: Address,
    said: ServerError,
}

impl Refused {
    /// Remembers an error of a login if it is such a refusal.
    pub fn note(&mut self, server: ServerId, user: &Arc<str>, error: &ConnectError, now: Instant) {
        let Cause::Server(said) = &error.cause else { return };
        if !matches!(said.code, errno::ER_TOO_MANY_USER_CONNECTIONS | errno::ER_USER_LIMIT_REACHED) {
            return;
        }
        if self.0.len() >= USERS_MAX {
            self.0.clear();
        }
        let refusal = Refusal { at: now, address: error.address.clone(), said: said.clone() };
        self.0.insert((server, user.clone()), refusal);
    }

    /// The error that another try of this user would most likely get.
    pub fn lately(&mut self, server: ServerId, user: &Arc<str>, now: Instant) -> Option<ConnectError> {
        self.0.retain(|_, refusal| now.duration_since(refusal.at) < PERIOD);
        let Refusal { address, said, .. } = self.0.get(&(server, user.clone()))?;
        Some(ConnectError { address: address.clone(), phase: Phase::Login, cause: Cause::Server(said.clone()) })
    }

    /// A connection has ended: those who have had too many at a time may try again.
    pub fn room(&mut self) {
        self.0.retain(|_, refusal| is_of_an_hour(&refusal.said));
    }
}

impl Pools {
    /// The error that another login of this user would most likely get: one was refused a moment ago.
    pub(super) fn lately_refused(&self, server: ServerId, user: &Arc<str>) -> Option<LeaseError> {
        let mut refused = self.refused.borrow_mut();
        if refused.0.is_empty() {
            return None;
        }
        refused.lately(server, user, Instant::now()).map(|error| LeaseError::Open(Box::new(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: ServerId = ServerId(1);

    fn error(code: u16, message: &str) -> ConnectError {
        let said = ServerError { code, sqlstate: None, message: message.into() };
        let address = "127.0.0.1:3306".parse().unwrap();
        ConnectError { address, phase: Phase::Login, cause: Cause::Server(said) }
    }

    #[test]
    fn a_refused_user_is_remembered_for_a_second() {
        let (mut refused, now) = (Refused::default(), Instant::now());
        let (app, other): (Arc<str>, Arc<str>) = ("app".into(), "other".into());
        refused.note(SERVER, &app, &error(1226, "… 'max_connections_per_hour' …"), now);
        refused.note(SERVER, &other, &error(1045, "Access denied"), now);
        assert_eq!(refused.lately(SERVER, &app, now).unwrap().server_error().unwrap().code, 1226);
        assert!(refused.lately(SERVER, &other, now).is_none());
        assert!(refused.lately(ServerId(2), &app, now).is_none());
        assert!(refused.lately(SERVER, &app, now + PERIOD).is_none());
    }

    #[test]
    fn a_connection_that_ends_is_room_for_those_with_too_many_at_a_time() {
        let (mut refused, now) = (Refused::default(), Instant::now());
        let (hour, many): (Arc<str>, Arc<str>) = ("hour".into(), "many".into());
        refused.note(SERVER, &hour, &error(1226, "… 'max_connections_per_hour' …"), now);
        refused.note(SERVER, &many, &error(1203, "… 'max_user_connections' …"), now);
        refused.room();
        assert!(refused.lately(SERVER, &hour, now).is_some() && refused.lately(SERVER, &many, now).is_none());
    }

    #[test]
    fn no_more_users_are_remembered_than_the_bound() {
        let (mut refused, now) = (Refused::default(), Instant::now());
        for number in 0..=USERS_MAX {
            refused.note(SERVER, &number.to_string().into(), &error(1203, ""), now);
        }
        assert_eq!(refused.0.len(), 1);
    }
}
