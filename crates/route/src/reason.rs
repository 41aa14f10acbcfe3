//! The reason of a route, in one word that users meet in metrics, events and on the page.

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)*) => {
        /// Why a statement goes where it goes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Reason {
            $($(#[$doc])* $name,)*
        }

        impl Reason {
            /// The words that users meet, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            /// This reason's word.
            pub fn word(self) -> &'static str {
                Self::WORDS[self as usize]
            }
        }
    };
}

reasons! {
    /// The session is pinned.
    Pinned = "pinned",
    /// A comment says so.
    Hint = "hint",
    /// A rule says so.
    Rule = "rule",
    /// The listener or the user says so.
    Configured = "configured",
    /// It reads only.
    Read = "read",
    /// It reads only, and no replica is known to have what its session has written.
    OwnWrite = "own_write",
    /// It reads only, and no replica is known to have what all sessions have written.
    ClusterWrite = "cluster_write",
    /// It reads only, and replicas are behind what its session has read.
    EarlierRead = "earlier_read",
    /// It reads only, and no replica is as near to the primary as a rule wants.
    ReplicaLag = "replica_lag",
    /// It reads only, and its answer goes into the shared cache.
    SharedFill = "shared_fill",
    /// A replica does not know what it names, or what its session has set.
    NotOnReplica = "not_on_replica",
    /// It opens a READ ONLY transaction.
    ReadOnlyTransaction = "read_only_transaction",
    /// The session's transactions are READ ONLY.
    ReadOnlySession = "read_only_session",
    /// It changes only the session.
    SessionChange = "session_change",
    /// autocommit is off.
    AutocommitOff = "autocommit_off",
    /// It opens or ends a transaction.
    Transaction = "transaction",
    /// It changes data.
    Writes = "writes",
    /// It changes the schema.
    Definition = "definition",
    /// It changes accounts.
    Account = "account",
    /// It administers the server.
    Administration = "administration",
    /// It reads what tells of one server: the primary, or a replica while there is no primary.
    ServerState = "server_state",
    /// It reads with locks.
    LockingRead = "locking_read",
    /// SELECT … INTO.
    Into = "into",
    /// It takes or asks for locks.
    Locks = "locks",
    /// It uses a sequence.
    Sequence = "sequence",
    /// It assigns a user variable.
    AssignsVariable = "assigns_variable",
    /// It calls a function with a side effect.
    SideEffect = "side_effect",
    /// It calls a stored function that writes.
    WritingFunction = "writing_function",
    /// It calls a function of which nothing is known.
    UnknownFunction = "unknown_function",
    /// It depends on the connection's own past.
    SessionState = "session_state",
    /// It calls a procedure or is a compound statement.
    Procedure = "procedure",
    /// It reads, but the session will keep its connection, perhaps for writes.
    WillPin = "will_pin",
    /// Its form is not known.
    Unknown = "unknown_statement",
}
