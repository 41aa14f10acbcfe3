//! The writer of a Galera group or of a replication group. Such a group decides by itself who belongs to it, so there is no
//! claim ([`super::reign`]): an operator may request another writer, and the place of the writer may be vacant, each without
//! the other.

use std::time::Instant;

use facts::view::ServerId;

/// The writer that is requested, and since when there is none.
#[derive(Default)]
pub(super) struct GroupWriter {
    requested: Option<ServerId>,
    vacant_since: Option<Instant>,
}

impl GroupWriter {
    /// The server that an operator wants to take the writes, until it does.
    pub(super) fn requested(&self) -> Option<ServerId> {
        self.requested
    }

    /// An operator wants this server to take the writes.
    pub(super) fn request(&mut self, server: ServerId) {
        self.requested = Some(server);
    }

    /// The request is fulfilled.
    pub(super) fn fulfil(&mut self) {
        self.requested = None;
    }

    /// Since when the writer is lost, or should be another one.
    pub(super) fn vacant_since(&self) -> Option<Instant> {
        self.vacant_since
    }

    /// The writer is lost, or should be another one, since then unless it was noted before. Gives the moment.
    pub(super) fn note_vacant(&mut self, since: Instant) -> Instant {
        *self.vacant_since.get_or_insert(since)
    }

    /// The group has its writer.
    pub(super) fn note_settled(&mut self) {
        self.vacant_since = None;
    }
}
