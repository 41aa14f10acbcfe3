//! The servers of a round: a primary and two replicas, semi-synchronous without a fallback, or a Galera group of three.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use lab::{Family, Galera, GaleraOptions, Replication, ReplicationOptions, Server};

use crate::load::{beside, table};
use crate::room;

/// Longer than any round, so that a commit is never acknowledged without a replica.
const SEMI_SYNC_WAIT_MS: u32 = 600_000;
/// A member that is lost is given up after a second instead of five.
const GROUP: &str = "evs.keepalive_period=PT0.2S;evs.suspect_timeout=PT1S;evs.inactive_timeout=PT3S;\
                     evs.inactive_check_period=PT0.1S";
/// With these settings members tell what became of a write.
const GROUP_LOGS: [&str; 4] =
    ["log_bin=binlog", "log_slave_updates=ON", "wsrep_gtid_mode=ON", "wsrep_gtid_domain_id=7"];
/// Room that the primary's small disk has beyond what it holds at first.
const SMALL_DISK_ROOM_MB: u64 = 48;
/// Longest wait for replicas to follow again after the set-up changed something.
const SYNC_LIMIT: Duration = Duration::from_secs(30);

/// How the servers are set up beyond the usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terrain {
    /// Each has an address of its own, which can be cut off.
    pub(crate) own_addresses: bool,
    /// The primary's data is on a small disk of its own.
    pub(crate) small_disk: bool,
}

#[derive(Debug)]
enum Servers {
    Replication(Replication),
    Group(Galera),
}

/// Servers. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct World {
    servers: Servers,
    terrain: Terrain,
}

impl World {
    /// Starts them, with the tables of the load.
    ///
    /// # Errors
    /// A server does not start, or this machine does not allow what the terrain needs.
    pub(crate) fn start(family: Family, terrain: Terrain, clients: u32) -> anyhow::Result<World> {
        let wait = SEMI_SYNC_WAIT_MS;
        let mut config = match family {
            Family::MariaDb => vec![
                "rpl_semi_sync_slave_enabled=ON".to_owned(),
                "rpl_semi_sync_master_wait_point=AFTER_SYNC".to_owned(),
                format!("rpl_semi_sync_master_timeout={wait}"),
            ],
            Family::MySql => vec![
                // Where replicas tell when they last heard their source; on by default, and off in the lab to save memory.
                "performance_schema=ON".to_owned(),
                "plugin_load_add=semisync_source.so".to_owned(),
                "plugin_load_add=semisync_replica.so".to_owned(),
                "rpl_semi_sync_replica_enabled=ON".to_owned(),
                format!("rpl_semi_sync_source_timeout={wait}"),
                // Commits in doubt are proven by the statements in the binary log, which MariaDB writes by default.
                "binlog_rows_query_log_events=ON".to_owned(),
            ],
        };
        if terrain.own_addresses {
            config.push("bind_address=0.0.0.0".to_owned());
        }
        let init_sql = table::schema(clients);
        let servers =
            Replication::start(ReplicationOptions { config, init_sql, ..ReplicationOptions::new(family, 2) })?;
        let world = World { servers: Servers::Replication(servers), terrain };
        if terrain.own_addresses {
            world.move_to_own_addresses()?;
        }
        if terrain.small_disk {
            world.move_to_small_disk()?;
        }
        world.server(0).sql(match family {
            Family::MariaDb => "SET GLOBAL rpl_semi_sync_master_enabled = ON",
            Family::MySql => "SET GLOBAL rpl_semi_sync_source_enabled = ON",
        })?;
        if let Servers::Replication(servers) = &world.servers {
            servers.wait_in_sync(SYNC_LIMIT)?;
        }
        Ok(world)
    }

    /// Starts a Galera group, with the tables of the load.
    ///
    /// # Errors
    /// Galera's library is missing, or a server does not start.
    pub(crate) fn start_group(clients: u32) -> anyhow::Result<World> {
        let options = GaleraOptions {
            provider_options: GROUP.to_owned(),
            config: GROUP_LOGS.map(str::to_owned).to_vec(),
            init_sql: table::schema(clients) + beside::TABLE,
            ..GaleraOptions::new(3)
        };
        Ok(World { servers: Servers::Group(Galera::start(&options)?), terrain: Terrain::default() })
    }

    /// The Galera group.
    ///
    /// # Errors
    /// The servers are none.
    pub(crate) fn group(&self) -> anyhow::Result<&Galera> {
        match &self.servers {
            Servers::Group(group) => Ok(group),
            Servers::Replication(_) => bail!("these servers are no Galera group"),
        }
    }

    /// A server's log, from its first start on.
    pub(crate) fn log(&self, index: usize) -> anyhow::Result<String> {
        let log = std::fs::read(self.log_file(index)).context("cannot read a server's log")?;
        Ok(String::from_utf8_lossy(&log).into_owned())
    }

    /// Keeps the logs of a group's members in this folder, under names that begin with `name`: who belonged to it is there.
    pub(crate) fn keep(&self, folder: &Path, name: &str) -> anyhow::Result<()> {
        if self.is_group() {
            for index in 0..self.all().len() {
                std::fs::copy(self.log_file(index), folder.join(format!("{name}-db{}.log", index + 1)))?;
            }
        }
        Ok(())
    }

    fn log_file(&self, index: usize) -> PathBuf {
        self.server(index).folder().join("server.log")
    }

    pub(crate) fn is_group(&self) -> bool {
        matches!(self.servers, Servers::Group(_))
    }

    /// Where Sqluice and the others find a server.
    pub(crate) fn address(&self, index: usize) -> String {
        let server = self.server(index);
        match self.terrain.own_addresses {
            true => format!("{}:{}", room::address(index), server.port()),
            false => server.address().to_string(),
        }
    }

    pub(crate) fn server(&self, index: usize) -> &Server {
        &self.all()[index]
    }

    pub(crate) fn all(&self) -> &[Server] {
        match &self.servers {
            Servers::Replication(servers) => servers.servers(),
            Servers::Group(group) => group.servers(),
        }
    }

    /// Checksums of the application's tables on each of these servers.
    pub(crate) fn checksum(&self, index: usize) -> anyhow::Result<String> {
        let tables = table::NAMES.map(|name| format!("{}.{name}", lab::APP_DATABASE)).join(", ");
        Ok(self.server(index).sql(&format!("CHECKSUM TABLE {tables}"))?)
    }

    fn move_to_own_addresses(&self) -> anyhow::Result<()> {
        for index in 0..self.all().len() {
            room::add(index)?;
        }
        let host = room::address(0);
        for replica in self.all().iter().skip(1) {
            // The heartbeat period is said again: servers set it back with the host.
            replica.sql(&match replica.family() {
                Family::MariaDb => format!(
                    "STOP SLAVE; CHANGE MASTER TO MASTER_HOST = '{host}', MASTER_HEARTBEAT_PERIOD = 1; START SLAVE"
                ),
                Family::MySql => format!(
                    "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{host}', SOURCE_HEARTBEAT_PERIOD = 1; \
                     START REPLICA"
                ),
            })?;
        }
        Ok(())
    }

    fn data(&self) -> PathBuf {
        self.server(0).folder().join("data")
    }

    fn move_to_small_disk(&self) -> anyhow::Result<()> {
        let primary = self.server(0);
        primary.stop()?;
        let (data, kept) = (self.data(), self.server(0).folder().join("kept"));
        std::fs::rename(&data, &kept).context("cannot move the primary's data")?;
        std::fs::create_dir(&data)?;
        let (data, kept) = (data.display().to_string(), kept.display().to_string());
        let size = folder_mb(&kept)? + SMALL_DISK_ROOM_MB;
        room::run("mount", &["-t", "tmpfs", "-o", &format!("size={size}m"), "none", &data])?;
        room::run("cp", &["-a", &format!("{kept}/."), &data])?;
        primary.restart()?;
        Ok(())
    }

    /// Fills the primary's small disk to the last byte.
    pub(crate) fn fill_disk(&self) -> anyhow::Result<()> {
        let mut file = File::create(self.data().join("filler")).context("cannot fill the disk")?;
        let block = vec![0; 1 << 16];
        // An error is what is wanted: the disk is full.
        while file.write_all(&block).is_ok() {}
        while file.write_all(&[0]).is_ok() {}
        Ok(())
    }

    /// Gives the room back.
    pub(crate) fn empty_disk(&self) -> anyhow::Result<()> {
        std::fs::remove_file(self.data().join("filler")).context("cannot remove the filler")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.terrain.small_disk {
            self.server(0).kill9();
            // It goes with this process's mounts at the latest.
            let _ = room::run("umount", &["-l", &self.data().display().to_string()]);
        }
        if self.terrain.own_addresses {
            for index in 0..self.all().len() {
                let _ = room::run("ip", &["address", "del", &format!("{}/32", room::address(index)), "dev", "lo"]);
            }
        }
    }
}

fn folder_mb(path: &str) -> anyhow::Result<u64> {
    let output = std::process::Command::new("du").args(["-sm", path]).output().context("cannot run du")?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.split_whitespace().next().and_then(|size| size.parse().ok()).context("du says no size")
}
