//! The data plane: workers, sessions, routing and pools.
