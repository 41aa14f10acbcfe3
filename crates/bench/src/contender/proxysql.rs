//! ProxySQL: reads to one host group, all else to another; digests on, as by default. More rules, which never fit, come
//! before these.

use std::path::Path;
use std::process::Command;

use lab::{APP_DATABASE, APP_PASSWORD, APP_USER, MONITOR_PASSWORD, MONITOR_USER};

use super::{CACHE_MB, CACHE_TTL_MS, Setup, folder, write};
use crate::process::Daemon;
use crate::world::World;

/// Connections to a server, when the load says nothing: what Sqluice has by default.
const SERVER_CONNECTIONS: u32 = 100;

pub(super) fn start(program: &Path, world: &World, setup: &Setup, port: u16) -> anyhow::Result<Daemon> {
    let folder = folder()?;
    let file = folder.path().join("proxysql.cnf");
    write(&file, &text(folder.path(), world, setup, port))?;
    let mut command = Command::new(program);
    // In the foreground, with nothing of an earlier run.
    command.args(["--foreground", "--initial", "--config"]).arg(file).arg("--datadir").arg(folder.path());
    Daemon::start(command, folder)
}

fn text(folder: &Path, world: &World, setup: &Setup, port: u16) -> String {
    let (folder, threads, use_ssl) = (folder.display(), setup.workers, u8::from(setup.tls));
    let connections = setup.server_connections.unwrap_or(SERVER_CONNECTIONS);
    let addresses = world.addresses();
    // Host group 0 writes. Reads go to the replicas, or to the primary when it is alone, as with the others.
    let readers = if addresses.len() > 1 { &addresses[1..] } else { &addresses[..] };
    let groups = [(0, &addresses[..1]), (1, readers)];
    let server = |group: i32, address: &std::net::SocketAddr| {
        format!(
            "{{ address=\"{}\", port={}, hostgroup={group}, max_connections={connections}, use_ssl={use_ssl} }}",
            address.ip(),
            address.port()
        )
    };
    let servers: Vec<String> =
        groups.iter().flat_map(|(group, list)| list.iter().map(|address| server(*group, address))).collect();
    format!(
        "datadir=\"{folder}\"\n\
         admin_variables=\n{{\n  admin_credentials=\"admin:admin\"\n  mysql_ifaces=\"{folder}/admin.sock\"\n}}\n\
         mysql_variables=\n{{\n  threads={threads}\n  max_connections=30000\n  interfaces=\"127.0.0.1:{port}\"\n  \
         monitor_username=\"{MONITOR_USER}\"\n  monitor_password=\"{MONITOR_PASSWORD}\"\n  \
         free_connections_pct=100\n  have_ssl={has_ssl}\n  query_digests=true\n  query_cache_size_MB={CACHE_MB}\n    commands_stats=true\n}}\n\
         mysql_servers=\n(\n  {servers}\n)\n\
         mysql_users=\n(\n  {{ username=\"{APP_USER}\", password=\"{APP_PASSWORD}\", default_hostgroup=0, \
         default_schema=\"{APP_DATABASE}\", max_connections=30000, active=1 }}\n)\n\
         mysql_query_rules=\n(\n  {rules}\
         {{ rule_id=1000001, active=1, match_digest=\"^SELECT.*FOR UPDATE\", destination_hostgroup=0, apply=1 }},\n  \
         {{ rule_id=1000002, active=1, match_digest=\"^SELECT\", destination_hostgroup=1{cache_ttl}, apply=1 }}\n)\n",
        has_ssl = setup.tls,
        rules = rules(setup.rules),
        cache_ttl = if setup.cache.is_some() { format!(", cache_ttl={CACHE_TTL_MS}") } else { String::new() },
        servers = servers.join(",\n  "),
    )
}

/// So many rules, counted with the one that sends reads to their host group.
fn rules(count: u32) -> String {
    let rule = |number: u32| {
        format!(
            "{{ rule_id={number}, active=1, match_digest=\"^SELECT .* FROM other_{number} WHERE\", destination_hostgroup=1, \
             apply=1 }},\n  "
        )
    };
    (1..count).map(rule).collect()
}
