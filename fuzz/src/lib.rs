//! Rules that hold for any bytes that come from a network or a file.
//!
//! Each target is a function that takes bytes and panics when something does not hold. `./dev fuzz` looks for such bytes with
//! libFuzzer; `tests/replay.rs` runs all targets over the inputs that are kept in `corpus/` and `found/`.

#![allow(clippy::panic, reason = "a target says by panicking that something does not hold")]

mod input;
mod targets;

pub use input::Input;

/// Something to be tried with any bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of its folders below `corpus/` and `found/`.
    pub name: &'static str,
    /// Panics if something does not hold for these bytes.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 12] = [
    Target { name: "packet", run: targets::packet::run },
    Target { name: "compress", run: targets::compress::run },
    Target { name: "login_client", run: targets::login_client::run },
    Target { name: "login_server", run: targets::login_server::run },
    Target { name: "exchange", run: targets::exchange::run },
    Target { name: "sql", run: targets::sql::run },
    Target { name: "config", run: targets::config::run },
    Target { name: "proxy_header", run: targets::proxy_header::run },
    Target { name: "execute", run: targets::execute::run },
    Target { name: "track", run: targets::track::run },
    Target { name: "binlog", run: targets::binlog::run },
    Target { name: "changes", run: targets::changes::run },
];

/// The target of this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
