//! The MySQL and MariaDB client/server protocol as state machines: bytes in, events out.
//!
//! Nothing here knows a socket, a clock or a runtime. The life of a connection is, in this order:
//!
//! 1. [`greeting`] and [`handshake`]: logging in, as a server towards clients and as a client towards servers;
//! 2. [`command`]: what a client asks for;
//! 3. [`exchange`]: where in its reply a server is, and when it is over;
//! 4. [`reply`]: the packets that end replies, read and written.
//!
//! [`packet`] and [`codec`] are below all of them. [`compress`] stands between them and the wire where both sides agreed
//! on it, and a [`proxy_header`] before all else where a proxy in front tells whose connection it is.

pub mod attributes;
pub mod auth;
pub mod binlog;
pub mod capability;
pub mod codec;
pub mod command;
pub mod compress;
pub mod errno;
pub mod exchange;
pub mod greeting;
pub mod handshake;
pub mod packet;
pub mod parameters;
pub mod proxy_header;
pub mod reply;
pub mod sqlstate;
pub mod status;

pub use capability::Capabilities;
pub use status::Status;
