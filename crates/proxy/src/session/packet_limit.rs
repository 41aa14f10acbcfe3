//! `max_allowed_packet` of a session. No client can set it: a server gives each session the global value of its login, and shows
//! the global value of its last COM_RESET_CONNECTION or COM_CHANGE_USER. The longest command that a connection takes is that
//! of its login for ever (seen with MariaDB 10.11 and MySQL 9.7), for a client's session as for a pooled connection.

use std::cell::Cell;

use facts::catalog::Catalog;

use super::Session;
use super::belief::Belief;
use super::client::Request;
use crate::error::{Refusal, SessionEnd};
use crate::pool::Origin;
use route::state::{PACKET_MAX as NAME, packet_max};

/// A server takes as much whatever `max_allowed_packet` is: its default of `net_buffer_length`.
const ALWAYS_TAKEN_BYTES: u64 = 16 * 1024;

/// `max_allowed_packet` of a session; 0 where it is not known.
#[derive(Debug, Default)]
pub(super) struct PacketLimit {
    /// The value that the session shows.
    shown_bytes: Cell<u64>,
    /// The value of its login, which commands are measured by.
    login_bytes: Cell<u64>,
    /// A server refuses a command of so many bytes.
    refused_bytes: Cell<u64>,
}

impl PacketLimit {
    /// The session has begun with these global values.
    pub(super) fn begin(&self, globals: &Catalog) {
        let bytes = packet_max(globals);
        self.shown_bytes.set(bytes);
        self.login_bytes.set(bytes);
        self.refused_bytes.set(if bytes == 0 { u64::MAX } else { bytes.max(ALWAYS_TAKEN_BYTES) });
    }

    /// The session was reset when these were the global values.
    pub(super) fn reset(&self, globals: &Catalog) {
        self.shown_bytes.set(packet_max(globals));
    }

    /// A server refuses a command of so many bytes.
    #[inline]
    pub(super) fn refused_bytes(&self) -> u64 {
        self.refused_bytes.get()
    }
}

impl Session {
    /// Whether a connection has another limit than the session, where a new connection would have the session's, or at least
    /// take enough. Functions such as REPEAT() end their results at it. Where no new connection would do better, one that takes
    /// more does: Sqluice refuses what is too long, and shows the session's own value.
    #[inline]
    pub(super) fn limits_differ(&self, origin: &Origin) -> bool {
        origin.packet_max != self.belief.packet_limit.login_bytes.get() && self.new_one_fits_better(origin.packet_max)
    }

    #[cold]
    fn new_one_fits_better(&self, limit: u64) -> bool {
        let (own, new) = (self.belief.packet_limit.login_bytes.get(), packet_max(&self.here.cluster.catalog()));
        (new == own || limit < own && new > own) && self.here.cluster.catalog_is_fresh()
    }

    /// Ends the session behind a command that servers refuse for its length.
    #[cold]
    pub(super) async fn refuse_length(&mut self, request: &Request) -> Option<SessionEnd> {
        if request.payload().len() as u64 >= self.belief.packet_limit.refused_bytes() {
            return Some(self.client.too_long(Refusal::packet_too_large(), &self.env.worker).await);
        }
        None
    }
}

impl Belief {
    /// The session's value, for a text that may read it.
    pub(super) fn packet_limit_to_show(&self, text: &[u8]) -> Option<u64> {
        let is_named = || text.windows(NAME.len()).any(|window| window.eq_ignore_ascii_case(NAME.as_bytes()));
        let bytes = self.packet_limit.shown_bytes.get();
        (bytes != 0 && is_named()).then_some(bytes)
    }

    /// The session's value, for SHOW VARIABLES.
    pub(super) fn packet_limit_to_list(&self) -> Option<u64> {
        Some(self.packet_limit.shown_bytes.get()).filter(|bytes| *bytes != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_take_what_their_buffer_holds() {
        let limit = PacketLimit::default();
        let catalog = |value: &str| {
            let globals = [(NAME.to_owned(), value.to_owned())].into_iter().collect();
            Catalog { globals, ..Catalog::default() }
        };
        limit.begin(&catalog("4096"));
        assert_eq!(limit.refused_bytes(), ALWAYS_TAKEN_BYTES);
        limit.begin(&catalog("20480"));
        assert_eq!(limit.refused_bytes(), 20_480);
        limit.reset(&catalog("1048576"));
        assert_eq!(
            (limit.shown_bytes.get(), limit.refused_bytes()),
            (1_048_576, 20_480),
            "a reset changes what is shown"
        );
        limit.begin(&Catalog::default());
        assert_eq!(limit.refused_bytes(), u64::MAX, "servers say it themselves");
    }
}
