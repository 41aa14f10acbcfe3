//! Open files: the limit of the system, and how they are shared out.

use std::collections::BTreeMap;

use config::{Cluster, Config};
use proxy::shared::FileShares;
use rustix::process::{Resource, getrlimit, setrlimit};

/// Files that are open besides sockets of clients and servers: standard streams, the log, libraries, the journal.
const OTHER_FILES: u64 = 32;
/// Files of an event loop, of a worker or the admin listener.
const LOOP_FILES: u64 = 4;
/// Connections to one server besides those of its pool: the monitor's, those that take a step or kill a statement, and those that
/// follow its log.
const MONITOR_FILES: u64 = 6;
/// Connections of the admin listener, the listener itself, and its event loop.
const ADMIN_FILES: u64 = admin::CONNECTIONS_MAX as u64 + 2 + LOOP_FILES;

/// Raises the limit of open files as far as the system lets an ordinary process do it, and warns when the configuration
/// may need more.
pub(crate) fn raise_open_files(config: &Config) {
    let before = getrlimit(Resource::Nofile);
    let wanted = rustix::process::Rlimit { current: before.maximum, maximum: before.maximum };
    if before.current != before.maximum
        && let Err(error) = setrlimit(Resource::Nofile, wanted)
    {
        tracing::warn!("the limit of open files could not be raised: {error}");
    }
    let (limit, needed) = (getrlimit(Resource::Nofile).current, files_needed(config));
    // No limit at all is `None`.
    if let Some(limit) = limit.filter(|limit| *limit < needed) {
        tracing::warn!(
            limit,
            needed,
            "this process may open fewer files than the configuration's sessions and backend connections need; raise \
             the limit (LimitNOFILE in a systemd unit, ulimit -n in a shell) or lower max_sessions"
        );
    }
}

/// How the files that this process may open now are shared out.
pub(crate) fn shares(config: &Config) -> FileShares {
    share_out(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), config)
}

/// Says how many clients fit.
pub(crate) fn announce(shares: &FileShares) {
    let backend_connections: u64 = shares.backends_max.values().map(|max| u64::from(*max)).sum();
    tracing::info!(
        open_files_max = shares.open_files,
        clients_max = shares.clients_max,
        "so many clients fit into the limit of open files"
    );
    if backend_connections > 0 {
        tracing::warn!(
            open_files_max = shares.open_files,
            backend_connections_max = backend_connections,
            "pools get fewer backend connections than they are configured to have, because of the limit of open files"
        );
    }
}

/// Shares out so many files. The process's own files come first; backend connections get what they may need at most, but no
/// more than clients.
fn share_out(open_files: u64, config: &Config) -> FileShares {
    let left = open_files.saturating_sub(own_files(config));
    let wanted: u64 = config.clusters.values().map(|cluster| backends(config, cluster)).sum();
    let granted = wanted.min(left / 2);
    let part = |cluster: &Cluster| {
        let whole = u128::from(backends(config, cluster)) * u128::from(granted);
        u32::try_from(whole.checked_div(wanted.into()).unwrap_or(0)).unwrap_or(u32::MAX).max(1)
    };
    let mut backends_max = BTreeMap::new();
    if granted < wanted {
        backends_max.extend(config.clusters.iter().map(|(name, cluster)| (name.clone(), part(cluster))));
    }
    FileShares { open_files, clients_max: u32::try_from(left - granted).unwrap_or(u32::MAX).max(1), backends_max }
}

/// Files that are not sockets of clients or of pools.
fn own_files(config: &Config) -> u64 {
    let workers = match config.proxy.workers {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        count => count,
    };
    let servers: usize = config.clusters.values().map(|cluster| cluster.servers.len()).sum();
    OTHER_FILES
        + LOOP_FILES * workers as u64
        + MONITOR_FILES * servers as u64
        + config.listeners.len() as u64
        + if config.admin.is_some() { ADMIN_FILES } else { 0 }
}

/// All sessions of all listeners.
fn sessions(config: &Config) -> u64 {
    config.listeners.values().map(|listener| u64::from(listener.max_sessions)).sum()
}

/// Most backend connections of a cluster: without a limit, one for each session.
fn backends(config: &Config, cluster: &Cluster) -> u64 {
    let of_server = |server: &config::Server| match proxy::shared::limit_of(
        cluster.pool.max_connections_per_server,
        Some(server.max_connections),
    ) {
        0 => sessions(config),
        limit => limit.into(),
    };
    let per_server: u64 = cluster.servers.values().map(of_server).sum();
    match cluster.pool.max_connections {
        0 => per_server,
        limit => per_server.min(limit.into()),
    }
}

/// Files that are open when all sessions and all backend connections that the configuration allows are there.
fn files_needed(config: &Config) -> u64 {
    let backends: u64 = config.clusters.values().map(|cluster| backends(config, cluster)).sum();
    sessions(config) + backends + own_files(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pool: &str) -> Config {
        let text = format!(
            "[proxy]\nworkers = 2\n[admin]\naddress = \"127.0.0.1:0\"\n\
             [cluster.main]\nkind = \"replication\"\nmonitor = {{ user = \"m\", password = \"p\" }}\n\
             servers.a = {{ address = \"h:1\" }}\nservers.b = {{ address = \"h:2\" }}\n\
             pool = {{ max_connections_per_server = 30, {pool} }}\n\
             [listener.x]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\nmax_sessions = 500\n"
        );
        config::parse("x.toml", &text, &config::MemorySource::default()).unwrap().config
    }

    fn own() -> u64 {
        OTHER_FILES + 2 * LOOP_FILES + 2 * MONITOR_FILES + 1 + ADMIN_FILES
    }

    #[test]
    fn sessions_and_backend_connections_are_counted() {
        assert_eq!(files_needed(&config("max_connections = 0")), 500 + 2 * 30 + own());
        assert_eq!(files_needed(&config("max_connections = 40")), 500 + 40 + own());
        let unlimited = |mut config: Config| {
            config.clusters.values_mut().for_each(|cluster| cluster.pool.max_connections_per_server = 0);
            config
        };
        assert_eq!(files_needed(&unlimited(config("max_connections = 0"))), 500 + 2 * 500 + own());
    }

    #[test]
    fn what_the_process_needs_comes_first_and_backend_connections_next() {
        let shares = |open_files| {
            let shares = share_out(open_files, &config("max_connections = 0"));
            (shares.clients_max, shares.backends_max.get("main").copied())
        };
        assert_eq!(shares(own() + 1000), (940, None), "the pool has what it may need");
        assert_eq!(shares(own() + 80), (40, Some(40)), "backend connections get no more than clients");
        assert_eq!(shares(own()), (1, Some(1)), "one of each is tried in any case");
        assert_eq!(shares(u64::MAX), (u32::MAX, None));
    }
}
