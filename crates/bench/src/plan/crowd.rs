//! The loads `tail` and `idle`: more clients than connections to the server.

use std::time::Duration;

use anyhow::bail;

use super::{Options, Point, Work, connections};
use crate::contender::Kind;
use crate::generate::{self, Query};
use crate::system::OTHER_FILES;

/// The load `tail`.
const TAIL_CLIENTS: u32 = 10_000;
/// Its connections to the server, for proxies that share them.
pub(super) const TAIL_CONNECTIONS: u32 = 40;
/// Until all of them have their place in the queue.
const TAIL_WARM_UP: Duration = Duration::from_secs(3);
/// The load `idle`.
const IDLE_CLIENTS: u32 = 20_000;
const QUICK_IDLE_CLIENTS: u32 = 4_000;
/// Connections to the server with idle clients, for proxies that share them.
pub(super) const IDLE_CONNECTIONS: u32 = 100;

/// So many clients that share few connections to the server.
///
/// # Errors
/// The system allows too few open files.
pub(super) fn tail(options: &Options, seconds: u32) -> anyhow::Result<Point> {
    let clients = connections(options, &[TAIL_CLIENTS]).first().copied().unwrap_or(TAIL_CLIENTS);
    check_files(options, clients)?;
    let crowd = generate::Work {
        clients,
        threads: 1,
        warm_up: TAIL_WARM_UP,
        measured: Duration::from_secs(seconds.into()),
        query: Query::Point,
        pause: Duration::ZERO,
        reconnect: false,
        tls: false,
    };
    Ok(Point {
        group: "text".to_owned(),
        label: format!("{clients} on {TAIL_CONNECTIONS}"),
        tls: false,
        cold: None,
        work: Work::Crowd { crowd, direct_clients: TAIL_CONNECTIONS },
    })
}

/// Whether a process may have so many clients.
///
/// # Errors
/// The system allows too few open files.
pub(super) fn check_files(options: &Options, clients: u32) -> anyhow::Result<()> {
    let files = u64::from(clients) + OTHER_FILES;
    if options.files < files {
        bail!(
            "{clients} clients need {files} open files, and this system allows a process {}: raise the limit (ulimit -Hn, \
             LimitNOFILE of a systemd unit, /etc/security/limits.conf), or take fewer clients (--connections N)",
            options.files
        );
    }
    Ok(())
}

/// As many clients as the system allows; gives a note about that.
pub(super) fn idle(options: &Options) -> (Vec<Point>, String) {
    let usual = if options.quick { QUICK_IDLE_CLIENTS } else { IDLE_CLIENTS };
    let wanted = connections(options, &[usual]).first().copied().unwrap_or(usual);
    let allowed = u32::try_from(options.files.saturating_sub(OTHER_FILES)).unwrap_or(u32::MAX).max(1);
    let clients = wanted.min(allowed);
    let point = |tls: bool| {
        let (warm_up, measured) = (Duration::from_secs(1), Duration::ZERO);
        let (query, pause, reconnect) = (Query::Point, Duration::ZERO, false);
        let work = generate::Work { clients, threads: 2, warm_up, measured, query, pause, reconnect, tls };
        let name = if tls { "TLS" } else { "plain" };
        Point { group: "idle".to_owned(), label: name.to_owned(), tls, cold: None, work: Work::Idle(work) }
    };
    let note = format!(
        "A process may have {} open files here: {clients} clients of {wanted}; a proxy with a connection to the server for each has {}.",
        options.files,
        Kind::HaProxy.clients_max(options.files).min(clients.into())
    );
    (vec![point(false), point(true)], note)
}

#[cfg(test)]
mod tests {
    use super::super::{plan, tests::options};
    use super::*;
    use crate::load::Load;

    #[test]
    fn too_few_files_are_said_or_made_do_with() {
        let few = Options { files: 1024, ..options() };
        let error = plan(Load::Tail, &few).unwrap_err().to_string();
        assert!(error.contains("10300") && error.contains("1024") && error.contains("ulimit"), "{error}");
        let idle = plan(Load::Idle, &few).unwrap();
        assert!(idle.notes[0].contains("724 clients of 20000"), "{:?}", idle.notes);
        // Without a proxy there is no memory of a proxy.
        assert_eq!(idle.contenders, [Kind::HaProxy]);
        let alone = Options { contenders: vec![Kind::Direct], ..options() };
        assert!(plan(Load::Idle, &alone).is_err());
    }
}
