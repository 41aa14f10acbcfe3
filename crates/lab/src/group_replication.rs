//! A replication group of MySQL servers (Group Replication).
//!
//! All begin with a copy of one datadir, so that none needs the state of another one at its start.

use std::fs;

use crate::accounts::{REPL_PASSWORD, REPL_USER, accounts_sql};
use crate::{Family, LabError, Server, ServerOptions, group};

/// The name of the lab's groups; it is also the source of the GTIDs that they write.
pub const GROUP_NAME: &str = "5c1d1ce0-0000-4000-8000-00000000cafe";

/// The kind of group to start.
#[derive(Debug, Clone)]
pub struct GroupReplicationOptions {
    /// How many members.
    pub servers: usize,
    /// All members take writes.
    pub multi_primary: bool,
    /// More configuration lines for all members.
    pub config: Vec<String>,
    /// Statements that root runs once, after the accounts are made.
    pub init_sql: String,
}

impl GroupReplicationOptions {
    /// A group of so many members with one primary, the standard accounts, and the server's own limits of time.
    pub fn new(servers: usize) -> GroupReplicationOptions {
        GroupReplicationOptions { servers, multi_primary: false, config: Vec::new(), init_sql: String::new() }
    }
}

/// A replication group.
#[derive(Debug)]
pub struct GroupReplication {
    servers: Vec<Server>,
}

impl GroupReplication {
    /// Starts all members, with the accounts made, and waits until they are online. Server 0 is the primary at first.
    ///
    /// # Errors
    /// When there is no MySQL, it has no such plugin, or a server does not start; nothing stays behind.
    pub fn start(options: &GroupReplicationOptions) -> Result<GroupReplication, LabError> {
        group::start(|| start(options))
    }

    /// All servers, in the order of their index.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// One server by its index; its `server_id` is one more.
    ///
    /// # Panics
    /// When there is no such server.
    pub fn server(&self, index: usize) -> &Server {
        &self.servers[index]
    }

    /// Starts a server again, after a stop or a kill, and has it join the group; when no other one runs, it forms the group anew.
    ///
    /// # Errors
    /// When it does not start, or is not online in time.
    pub fn restart(&self, index: usize) -> Result<(), LabError> {
        let server = self.server(index);
        server.restart()?;
        join(server, group::is_alone(&self.servers, index))
    }
}

fn start(options: &GroupReplicationOptions) -> Result<GroupReplication, LabError> {
    let ports = group::free_ports(options.servers)?;
    let mut seed = Server::prepare(ServerOptions::new(Family::MySql))?;
    seed.launch()?;
    seed.sql(&accounts_sql(Family::MySql))?;
    if !options.init_sql.is_empty() {
        seed.sql(&options.init_sql)?;
    }
    seed.stop()?;
    let datadir = seed.folder().join("data");
    // Each member makes a server_uuid of its own.
    let uuid = datadir.join("auto.cnf");
    fs::remove_file(&uuid).map_err(LabError::file("remove", &uuid))?;
    let mut servers = Vec::new();
    for index in 0..options.servers {
        let mut server = ServerOptions {
            server_id: u32::try_from(index + 1).unwrap_or(u32::MAX),
            config: lines(options, &ports, index),
            seed: Some(datadir.clone()),
            ..ServerOptions::new(Family::MySql)
        };
        server.config.extend(options.config.iter().cloned());
        servers.push(Server::prepare(server)?);
    }
    for (index, server) in servers.iter_mut().enumerate() {
        server.launch()?;
        server.sql(&format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_USER = '{REPL_USER}', SOURCE_PASSWORD = '{REPL_PASSWORD}' \
             FOR CHANNEL 'group_replication_recovery'"
        ))?;
        join(server, index == 0)?;
    }
    Ok(GroupReplication { servers })
}

/// One member's configuration beside that of all servers of the lab.
fn lines(options: &GroupReplicationOptions, ports: &[u16], index: usize) -> Vec<String> {
    let members: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let single = if options.multi_primary { "OFF" } else { "ON" };
    vec![
        // The members tell one another's state in its tables.
        "performance_schema=ON".to_owned(),
        "plugin_load_add=group_replication.so".to_owned(),
        // Without a version the plugin does not start, although members talk without TLS.
        "tls_version=TLSv1.2,TLSv1.3".to_owned(),
        "group_replication_start_on_boot=OFF".to_owned(),
        "group_replication_communication_stack=XCOM".to_owned(),
        "group_replication_recovery_get_public_key=ON".to_owned(),
        format!("group_replication_group_name={GROUP_NAME}"),
        format!("group_replication_local_address={}", members[index]),
        format!("group_replication_group_seeds={}", members.join(",")),
        format!("group_replication_single_primary_mode={single}"),
        format!(
            "group_replication_enforce_update_everywhere_checks={}",
            if options.multi_primary { "ON" } else { "OFF" }
        ),
    ]
}

fn join(server: &Server, forms: bool) -> Result<(), LabError> {
    let sql = match forms {
        true => {
            "SET GLOBAL group_replication_bootstrap_group = ON; START GROUP_REPLICATION; \
             SET GLOBAL group_replication_bootstrap_group = OFF"
        }
        false => "START GROUP_REPLICATION",
    };
    server.sql(sql).map_err(|error| {
        let what = format!("does not join its group: {error}");
        LabError::Start { port: server.port(), what, log: server.log_tail() }
    })?;
    group::wait_for(server, "its state in the group", "ONLINE", || {
        server.sql(
            "SELECT MEMBER_STATE FROM performance_schema.replication_group_members WHERE MEMBER_ID = @@server_uuid",
        )
    })
}
