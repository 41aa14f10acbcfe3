//! Sockets, TLS, compression and logging in to a server.
//!
//! [`wire`] says what to send, this crate sends it. From the bottom up: [`stream`] is a connection of any kind,
//! [`packets`] reads one packet at a time as login needs it, [`tls`] makes the configurations for both sides, [`client`]
//! connects and logs in to a server, and [`query`] asks it: the monitor, the lab and the tests use that; sessions do not.

pub mod address;
pub mod announce;
pub mod client;
mod compressed;
mod dial;
pub mod known;
pub mod packets;
pub mod query;
mod socket;
pub mod stream;
pub mod tls;
mod tls_socket;
mod trust;

pub use address::Address;
pub use dial::open;
pub use stream::Stream;
pub use tls_socket::TlsSocket;
