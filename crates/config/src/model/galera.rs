//! `galera` of a cluster.

words! {
    /// Which members of a Galera group take writes.
    Writers {
        /// One; another one takes over when it is lost, and keeps the office.
        One = "one",
        /// All that may.
        All = "all",
    }
}

words! {
    /// Whether members of a Galera group that hand their state to another one, or are desynced, serve.
    Donors {
        /// Only while no synced member of their segment does.
        Avoid = "avoid",
        /// Like any other.
        Use = "use",
    }
}

/// `galera` of a cluster
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Galera {
    /// The members that take writes.
    pub writers: Writers,
    /// The use of donors.
    pub donors: Donors,
}
