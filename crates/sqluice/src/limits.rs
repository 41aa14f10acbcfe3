//! What the system lets this process have.

use config::Config;
use rustix::process::{Resource, getrlimit, setrlimit};

/// Files that are open besides sockets of clients and servers.
const OTHER_FILES: u64 = 64;

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

/// Files that are open when all sessions and all backend connections that the configuration allows are there.
fn files_needed(config: &Config) -> u64 {
    let sessions: u64 = config.listeners.values().map(|listener| u64::from(listener.max_sessions)).sum();
    let backends = config.clusters.values().map(|cluster| {
        let per_server = u64::from(cluster.pool.max_connections_per_server) * cluster.servers.len() as u64;
        match cluster.pool.max_connections {
            0 => per_server,
            limit => per_server.min(limit.into()),
        }
    });
    sessions + backends.sum::<u64>() + OTHER_FILES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_and_backend_connections_are_counted() {
        let text = |pool: &str| {
            format!(
                "[cluster.main]\nkind = \"replication\"\nmonitor = {{ user = \"m\", password = \"p\" }}\n\
                 servers.a = {{ address = \"h:1\" }}\nservers.b = {{ address = \"h:2\" }}\n\
                 pool = {{ max_connections_per_server = 30, {pool} }}\n\
                 [listener.x]\naddress = \"127.0.0.1:0\"\ncluster = \"main\"\nmax_sessions = 500\n"
            )
        };
        let needed = |pool| {
            files_needed(&config::parse("x.toml", &text(pool), &config::MemorySource::default()).unwrap().config)
        };
        assert_eq!(needed("max_connections = 0"), 500 + 2 * 30 + OTHER_FILES);
        assert_eq!(needed("max_connections = 40"), 500 + 40 + OTHER_FILES);
    }
}
