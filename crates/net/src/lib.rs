//! Sockets, TLS and logging in to a server.
