//! The servers: one cluster that stays well, and one that tests may hurt, one at a time.

use std::ops::Deref;
use std::sync::OnceLock;
use std::time::Duration;

use lab::{Binaries, Family, Replication, ReplicationOptions, TlsFiles};
use tokio::sync::{Mutex, MutexGuard};

use super::{Authority, blocking};

/// Longest that a cluster may take to become well again between two tests.
const HEAL_LIMIT: Duration = Duration::from_secs(30);

/// The authority that signed the certificates of all servers.
pub fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(Authority::new)
}

/// Whether a MySQL server was named.
pub fn has_mysql() -> bool {
    Binaries::find().unwrap().families().contains(&Family::MySql)
}

/// The families of servers that are here.
pub fn families() -> impl Iterator<Item = Family> {
    [Family::MariaDb].into_iter().chain(has_mysql().then_some(Family::MySql))
}

fn start(family: Family) -> Replication {
    let (certificate, key) = authority().sign();
    let tls = TlsFiles { authority: authority().file(), certificate, key };
    // Big packets, and stored functions by a user who may not everything.
    let mut config = vec!["max_allowed_packet=64M".into(), "log_bin_trust_function_creators=ON".into()];
    if family == Family::MariaDb {
        // Examples of plugins are of no known maturity.
        config.push("plugin_maturity=unknown".into());
        // Tests may say where their clients are.
        config.push("proxy_protocol_networks=127.0.0.1".into());
    }
    Replication::start(ReplicationOptions { tls: Some(tls), config, ..ReplicationOptions::new(family, 2) }).unwrap()
}

/// A primary and two replicas that no test hurts. They go with this process.
pub async fn calm(family: Family) -> &'static Replication {
    static MARIADB: OnceLock<Replication> = OnceLock::new();
    static MYSQL: OnceLock<Replication> = OnceLock::new();
    let cell = if family == Family::MariaDb { &MARIADB } else { &MYSQL };
    blocking(move || cell.get_or_init(|| start(family))).await
}

/// A cluster that is this test's alone, well at first.
pub struct Failing {
    cluster: &'static Replication,
    _only: MutexGuard<'static, ()>,
}

impl Deref for Failing {
    type Target = &'static Replication;

    fn deref(&self) -> &&'static Replication {
        &self.cluster
    }
}

/// A primary, the first one, and two replicas that the caller may kill, freeze and promote.
pub async fn failing(family: Family) -> Failing {
    static MARIADB: (OnceLock<Replication>, Mutex<()>) = (OnceLock::new(), Mutex::const_new(()));
    static MYSQL: (OnceLock<Replication>, Mutex<()>) = (OnceLock::new(), Mutex::const_new(()));
    let (cell, only) = if family == Family::MariaDb { (&MARIADB.0, &MARIADB.1) } else { (&MYSQL.0, &MYSQL.1) };
    let guard = only.lock().await;
    let cluster = blocking(move || {
        let cluster = cell.get_or_init(|| start(family));
        for (index, server) in cluster.servers().iter().enumerate() {
            if server.is_running() {
                server.thaw().unwrap();
            } else {
                server.restart().unwrap();
            }
            if index != cluster.primary_index() {
                cluster.rejoin(index).unwrap();
            }
        }
        cluster.primary().set_read_only(false).unwrap();
        cluster.wait_in_sync(HEAL_LIMIT).unwrap();
        // Tests count what replicas do by their names.
        if cluster.primary_index() != 0 {
            cluster.promote(0).unwrap();
            cluster.wait_in_sync(HEAL_LIMIT).unwrap();
        }
        cluster
    })
    .await;
    Failing { cluster, _only: guard }
}
