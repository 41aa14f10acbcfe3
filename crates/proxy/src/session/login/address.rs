//! The limits of a client's address: connections, sessions, and how soon the next login after failed ones.

use std::net::IpAddr;
use std::time::Instant;
use wire::errno;

use super::super::prove::Prover;
use super::OngoingLogin;
use crate::addresses::FromAddress;
use crate::error::{Refusal, SessionEnd};
use crate::listener::ADDRESS;
use crate::shared::ListenerShared;
use crate::turned_away::TurnedAway;

/// Whether the limits of addresses count for this one.
fn counts(listener: &ListenerShared, address: IpAddr) -> bool {
    !listener.settings.load().addresses_exempt.iter().any(|network| network.contains(address))
}

impl OngoingLogin {
    /// The address of a client whom limits of addresses are for.
    fn limited_address(&self) -> Option<IpAddr> {
        self.handle.client_ip().filter(|address| counts(&self.listener, *address))
    }

    /// Counts as a connection of the client's address; a client beyond the limit gets an error, in a packet of this number.
    pub(super) async fn count_address(&mut self, sequence: u8) -> Result<(), SessionEnd> {
        let Some(address) = self.limited_address() else { return Ok(()) };
        let (logins_max, sessions_max) = {
            let settings = self.listener.settings.load();
            (settings.max_logins_per_address, settings.max_sessions_per_address)
        };
        self.from = self.worker.shared.addresses.connect(address, logins_max, sessions_max);
        if self.from.is_some() {
            return Ok(());
        }
        let refusal = too_many(address);
        // First counted, then told: a client that was told finds itself in the figures.
        self.worker.count_refused(TurnedAway {
            reason: ADDRESS,
            code: refusal.code,
            message: refusal.message.clone(),
            listener: self.listener.name.clone(),
            cluster: self.listener.cluster.name.clone(),
            address: Some(address),
        });
        self.tell(sequence, &refusal).await;
        Err(SessionEnd::TurnedAway(refusal.message))
    }

    /// Counts as a session from now on; the refusal of a client that is one too many.
    pub(super) fn counts_as_session(&self, from: &mut FromAddress) -> Option<Refusal> {
        let max = self.listener.settings.load().max_sessions_per_address;
        if from.log_in(max) {
            return None;
        }
        // It has said who it is: this is the end of a login, with an event of its own.
        self.worker.stats.refused_clients.at(ADDRESS).inspect(|count| count.add_one());
        Some(too_many(self.limited_address()?))
    }
}

fn too_many(address: IpAddr) -> Refusal {
    let why = format_args!(
        "Too many connections: address {address} has as many as it may have (max_logins_per_address or max_sessions_per_address)"
    );
    Refusal::own(errno::ER_CON_COUNT_ERROR, b"08004", why)
}

impl Prover<'_> {
    fn limited_address(&self) -> Option<IpAddr> {
        self.handle.client_ip().filter(|address| counts(self.listener, *address))
    }

    /// Lets a login wait whose address has failed often.
    pub(in crate::session) async fn wait_for_turn(&self) {
        let Some(address) = self.limited_address() else { return };
        let delay = {
            let settings = self.listener.settings.load();
            let max = settings.login_delay_max.min(settings.login_timeout / 2);
            self.worker.shared.addresses.delay(address, Instant::now(), settings.login_delay_after, max)
        };
        if !delay.is_zero() {
            self.worker.stats.delayed_logins.add_one();
            tokio::time::sleep(delay).await;
        }
    }

    /// Remembers how a login ended, as far as its address is concerned.
    pub(in crate::session) fn note_login(&self, is_good: bool) {
        let Some(address) = self.limited_address() else { return };
        let addresses = &self.worker.shared.addresses;
        if is_good {
            return addresses.succeeded(address);
        }
        if !self.was_denied.get() {
            return;
        }
        let (failures, after) =
            (addresses.failed(address, Instant::now()), self.listener.settings.load().login_delay_after);
        // Seldom enough: each time twice as many.
        if after > 0 && failures.is_multiple_of(after) && (failures / after).is_power_of_two() {
            tracing::warn!(
                %address,
                failures,
                listener = %self.listener.name,
                "logins from this address fail one after the other; its next ones wait (login_delay_after)"
            );
        }
    }
}
