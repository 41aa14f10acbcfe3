//! The common part of all groups of servers, whatever holds them together.

use std::thread;
use std::time::{Duration, Instant};

use crate::client::POLL_INTERVAL;
use crate::server::free_port;
use crate::{LabError, Server};

/// How often a group is started when a port that was free is taken by then.
const START_TRIES: u32 = 3;
/// Longest that a member may take to become what it is to be.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// Starts a group, more than once if that is needed.
pub(crate) fn start<T>(mut once: impl FnMut() -> Result<T, LabError>) -> Result<T, LabError> {
    let mut tries = 1;
    loop {
        match once() {
            // Another process may have taken a port that was free a moment ago.
            Err(LabError::Start { .. }) if tries < START_TRIES => tries += 1,
            started => return started,
        }
    }
}

/// So many ports for what members say to one another.
pub(crate) fn free_ports(count: usize) -> Result<Vec<u16>, LabError> {
    let mut ports = Vec::new();
    while ports.len() < count {
        let port = free_port()?;
        if !ports.contains(&port) {
            ports.push(port);
        }
    }
    Ok(ports)
}

/// No server runs but this one.
pub(crate) fn is_alone(servers: &[Server], index: usize) -> bool {
    servers.iter().enumerate().all(|(other, server)| other == index || !server.is_running())
}

/// Waits until this is said of a member.
pub(crate) fn wait_for(
    server: &Server,
    what: &str,
    wanted: &str,
    ask: impl Fn() -> Result<String, LabError>,
) -> Result<(), LabError> {
    let deadline = Instant::now() + WAIT_LIMIT;
    loop {
        let reported = ask()?;
        let reported = reported.trim();
        if reported == wanted {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let what = format!("has {what} = {reported}, not {wanted}, after {WAIT_LIMIT:?}");
            return Err(LabError::Start { port: server.port(), what, log: server.log_tail() });
        }
        thread::sleep(POLL_INTERVAL);
    }
}
