//! The primary of servers that replicate, as it is or should be, and by whose word.
//!
//! [`Claim`] has the states: no server was named, Sqluice promoted one, or an outside manager named one.
//!
//! | state | becomes | when |
//! |---|---|---|
//! | any | `Appointed` | Sqluice has promoted a server |
//! | any | `External` | an outside manager names a server |
//! | `Appointed` | `Nobody` | another server is published as the primary |
//! | `External` | `Appointed` or `Nobody`, as before | the time of its word is over |
//!
//! The times of [`Reign`] are no states of it: a primary may be well while no claim stands, and the other way round.
//! The lease ([`super::held_lease`]) and the writer of a group ([`super::group_writer`]) are independent of all this.

use std::time::{Duration, Instant};

use facts::view::ServerId;

use super::preferred::MoveOn;

/// A server that Sqluice promoted: it is the primary although a stray one may take writes too.
struct Appointment {
    server: ServerId,
    /// The move that the failover left to be done: the role moves on to a server that is preferred.
    move_on: Option<MoveOn>,
}

/// By whose word a server is the primary.
#[derive(Default)]
enum Claim {
    /// No server was named: the servers' own state decides.
    #[default]
    Nobody,
    /// Sqluice promoted it.
    Appointed(Appointment),
    /// An outside manager named it, and its word counts until then. `before` stands again afterwards.
    External { server: ServerId, until: Instant, before: Option<Appointment> },
}

/// The primary that was, and the one that should be.
#[derive(Default)]
pub(super) struct Reign {
    /// The primary that was published last, be it down since.
    last_primary: Option<ServerId>,
    claim: Claim,
    /// Since when there is no primary although every server was asked.
    vacant_since: Option<Instant>,
    /// Since when the primary is well. It is not read while a failover or a switchover is under way: then it is out of date.
    well_since: Option<Instant>,
}

impl Reign {
    /// The primary that was published last, be it down since.
    pub(super) fn last_primary(&self) -> Option<ServerId> {
        self.last_primary
    }

    /// The server that Sqluice promoted last, unless another one was the primary since.
    pub(super) fn appointed(&self) -> Option<ServerId> {
        self.appointment().map(|appointment| appointment.server)
    }

    /// The server that an outside manager named, while its word counts.
    pub(super) fn external_primary(&self) -> Option<ServerId> {
        match &self.claim {
            Claim::External { server, .. } => Some(*server),
            Claim::Nobody | Claim::Appointed(_) => None,
        }
    }

    /// The move that the last failover left to be done.
    pub(super) fn move_on(&self) -> Option<&MoveOn> {
        self.appointment()?.move_on.as_ref()
    }

    /// Sqluice has promoted this server. The primary that an external manager named is void.
    pub(super) fn appoint(&mut self, server: ServerId) {
        let before = self.take_appointment().filter(|before| before.server == server);
        self.claim = Claim::Appointed(before.unwrap_or(Appointment { server, move_on: None }));
    }

    /// The role is to move on, or is not any more; only a server that was appointed can hand it on.
    pub(super) fn plan_move(&mut self, move_on: Option<MoveOn>) {
        if let Claim::Appointed(appointment) | Claim::External { before: Some(appointment), .. } = &mut self.claim {
            appointment.move_on = move_on;
        }
    }

    /// An outside manager named this server.
    pub(super) fn name_external(&mut self, server: ServerId, until: Instant) {
        let before = self.take_appointment();
        self.claim = Claim::External { server, until, before };
    }

    /// Ends the word of an outside manager when its time is over. Gives the server that it named.
    pub(super) fn end_external(&mut self, now: Instant) -> Option<ServerId> {
        let Claim::External { server, until, .. } = self.claim else { return None };
        if now < until {
            return None;
        }
        self.claim = self.take_appointment().map_or(Claim::Nobody, Claim::Appointed);
        Some(server)
    }

    /// This primary, or none, was published.
    pub(super) fn published(&mut self, primary: Option<ServerId>) {
        let Some(primary) = primary else { return };
        self.last_primary = Some(primary);
        let other = |appointment: &Appointment| appointment.server != primary;
        match &mut self.claim {
            Claim::Appointed(appointment) if other(appointment) => self.claim = Claim::Nobody,
            Claim::External { before, .. } if before.as_ref().is_some_and(other) => *before = None,
            Claim::Nobody | Claim::Appointed(_) | Claim::External { .. } => {}
        }
    }

    /// Notes whether there is no primary although every server was asked.
    pub(super) fn note_vacant(&mut self, now: Instant, vacant: bool) {
        self.vacant_since = vacant.then(|| self.vacant_since.unwrap_or(now));
    }

    /// Whether there has been no primary for this long.
    pub(super) fn is_vacant_for(&self, now: Instant, time: Duration) -> bool {
        self.vacant_since.is_some_and(|since| now.saturating_duration_since(since) >= time)
    }

    /// Notes whether the primary is well.
    pub(super) fn note_well(&mut self, now: Instant, well: bool) {
        self.well_since = well.then(|| self.well_since.unwrap_or(now));
    }

    /// Whether the primary has been well for this long.
    pub(super) fn is_well_for(&self, now: Instant, time: Duration) -> bool {
        self.well_since.is_some_and(|since| now.saturating_duration_since(since) >= time)
    }

    fn appointment(&self) -> Option<&Appointment> {
        match &self.claim {
            Claim::Nobody => None,
            Claim::Appointed(appointment) => Some(appointment),
            Claim::External { before, .. } => before.as_ref(),
        }
    }

    /// Leaves no claim behind.
    fn take_appointment(&mut self) -> Option<Appointment> {
        match std::mem::take(&mut self.claim) {
            Claim::Nobody => None,
            Claim::Appointed(appointment) => Some(appointment),
            Claim::External { before, .. } => before,
        }
    }
}
