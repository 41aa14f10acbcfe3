//! The same packets, sent to a server and through the program: the answers must be the same bytes.
//!
//! A case is a talk over a [`Wire`], which writes down every packet that comes back. It runs twice on the same server,
//! first directly, then through the program, where another session with another state uses the backend connection
//! between any two commands. Then both minutes are compared line by line.

mod attributes;
mod bulk;
mod changes;
mod commands;
mod cursors;
mod idle;
mod ids;
mod infile;
mod kills;
mod tracking;
mod wire;

use lab::{Family, Replication, ReplicationOptions};
use std::sync::OnceLock;

use crate::support::{Front, blocking};
pub use wire::{Wire, execute, long, short};

pub use ::wire::Capabilities;
pub use ::wire::exchange::Expect;

/// The capabilities of a modern driver.
pub const MODERN: Capabilities = net::query::CAPABILITIES;
/// The capabilities of an old one: both forms of EOF, no tracking.
pub const OLD: Capabilities = MODERN.difference(Capabilities::DEPRECATE_EOF).difference(Capabilities::SESSION_TRACK);

/// One server without replicas, for all cases of a family. It goes with this process.
pub async fn lone(family: Family) -> &'static Replication {
    static MARIADB: OnceLock<Replication> = OnceLock::new();
    static MYSQL: OnceLock<Replication> = OnceLock::new();
    let cell = if family == Family::MariaDb { &MARIADB } else { &MYSQL };
    let start = move || {
        let config = ["max_allowed_packet=64M", "local_infile=ON", "log_bin_trust_function_creators=ON"];
        let config = config.into_iter().map(str::to_owned).collect();
        Replication::start(ReplicationOptions { config, ..ReplicationOptions::new(family, 0) }).unwrap()
    };
    blocking(move || cell.get_or_init(start)).await
}

/// One talk, to be had twice.
pub struct Case {
    pub family: Family,
    /// Its database is made anew before each run.
    pub database: &'static str,
    /// The statements that root runs in it then.
    pub setup: &'static str,
    pub capabilities: Capabilities,
}

impl Case {
    async fn prepare(&self, servers: &'static Replication) {
        let Case { database, setup, .. } = self;
        let sql = format!("DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}; USE {database};\n{setup}");
        blocking(move || servers.primary().sql(&sql).unwrap()).await;
    }

    /// Runs the talk both ways and compares.
    pub async fn run(&self, talk: impl AsyncFn(&mut Wire)) {
        let servers = lone(self.family).await;
        self.prepare(servers).await;
        let address = servers.primary().address().to_string();
        let mut direct = Wire::open(&address, self.database, self.capabilities).await;
        talk(&mut direct).await;
        let expected = direct.close().await;
        self.prepare(servers).await;
        let front = Front::start(servers, |setup| {
            setup.proxy = "workers = 1\ndrain_ms = 200".into();
            setup.pool = "max_connections_per_server = 2".into();
        })
        .await;
        let mut through = Wire::open_shared(&front.address, self.database, self.capabilities).await;
        talk(&mut through).await;
        let got = through.close().await;
        front.is_pinned_by(&[]).await;
        compare(&expected, &got);
    }
}

/// Differences told at most.
const TOLD_MAX: usize = 40;

fn compare(expected: &[String], got: &[String]) {
    let (mut wrong, mut reported, mut command) = (String::new(), 0, "");
    for at in 0..expected.len().max(got.len()) {
        let [direct, through] = [expected, got].map(|lines| lines.get(at).map_or("nothing", String::as_str));
        if direct.starts_with('>') {
            command = direct;
        }
        if direct != through && reported < TOLD_MAX {
            wrong += &format!("   {command}\n-- {direct}\n++ {through}\n");
            reported += 1;
        }
    }
    assert!(expected == got, "-- directly, ++ through:\n{wrong}");
}

/// Makes a test for each family of one function that takes the family.
macro_rules! both {
    ($($name:ident)*) => {
        mod mariadb {
            $(#[tokio::test]
            async fn $name() {
                super::$name(lab::Family::MariaDb).await;
            })*
        }
        mod mysql {
            $(#[tokio::test]
            async fn $name() {
                if crate::support::has_mysql() {
                    super::$name(lab::Family::MySql).await;
                }
            })*
        }
    };
}
pub(crate) use both;
