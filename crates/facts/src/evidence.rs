//! Evidence: observations of servers that sessions make in passing and tell the control plane.

use crate::view::ServerId;

/// An observation of a server that a session made in passing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// Which server.
    pub server: ServerId,
    /// The kind of observation.
    pub kind: EvidenceKind,
}

/// The kinds of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvidenceKind {
    /// No connection could be opened: refused, unreachable, timed out. Not for a refused login.
    ConnectFailed,
    /// An open connection ended without the session's doing.
    ConnectionLost,
    /// A write was refused because the server is read-only: errors 1290, 1836, and 1792 where the session had not asked
    /// for a read-only transaction. 1290 is also the error of other server options, so this asks for a probe and
    /// proves nothing.
    ReadOnly,
    /// A statement was refused because the server does not belong to its Galera group, or serves no session now (error 1047).
    NotInGroup,
}
