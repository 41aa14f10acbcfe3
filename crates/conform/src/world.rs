//! The servers of a run: one that is asked directly, and a primary with replicas for Sqluice.

use anyhow::Context as _;
use lab::{Binaries, Family, Replication, ReplicationOptions, Server};

/// The same for all servers.
const CONFIG: [&str; 5] = [
    // Statements that wait for one another fail soon, and alike on both sides.
    "innodb_lock_wait_timeout=1",
    // Stored functions by a user who may not everything.
    "log_bin_trust_function_creators=ON",
    "max_allowed_packet=16M",
    // Else schemas that are dropped wait for locks on the statistics of all tables.
    "innodb_stats_persistent=OFF",
    // Else FOUND_ROWS() of a new session of MariaDB is what the session left that had the thread before.
    "thread_cache_size=0",
];

/// Servers of one family.
pub struct World {
    family: Family,
    direct: Replication,
    cluster: Replication,
}

impl World {
    /// Starts all servers.
    ///
    /// # Errors
    /// One did not start.
    pub fn start(family: Family, replicas: usize) -> anyhow::Result<World> {
        let mut config = CONFIG.map(str::to_owned).to_vec();
        if family == Family::MySql {
            // Off in the lab, on by default: Sqluice reads user variables there.
            config.push("performance_schema=ON".into());
        }
        let options =
            |replicas| ReplicationOptions { config: config.clone(), ..ReplicationOptions::new(family, replicas) };
        std::thread::scope(|scope| {
            let direct = scope.spawn(|| Replication::start(options(0)));
            let cluster = Replication::start(options(replicas)).context("the servers behind Sqluice")?;
            let direct = direct.join().map_err(|_| anyhow::anyhow!("starting a server panicked"))?;
            let direct = direct.context("the server that is asked directly")?;
            // Scripts set global variables to their defaults. Those of other lanes must not see it sooner on one side.
            for name in crate::generate::global_variables() {
                for server in [direct.primary(), cluster.primary()] {
                    // Some cannot be set, as scripts find out.
                    let _ = server.sql(&format!("SET GLOBAL {name} = DEFAULT"));
                }
            }
            Ok(World { family, direct, cluster })
        })
    }

    /// Which family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The server that is asked directly.
    pub fn direct(&self) -> &Server {
        self.direct.primary()
    }

    /// The servers behind Sqluice.
    pub fn cluster(&self) -> &Replication {
        &self.cluster
    }
}

/// The families whose servers are there: MariaDB, and MySQL when it is named.
///
/// # Errors
/// No server was found at all.
pub fn families() -> anyhow::Result<Vec<Family>> {
    Ok(Binaries::find()?.families())
}
