//! `[cluster.NAME]` and the tables in it.

use super::etcd::ETCD;
use super::failover::{PROMOTION, REPLICATION, RULE};
use super::galera::GALERA;
use super::{Form, Kind, Section, Setting, Unit, Word, count, limit, live, millis, seconds, tls, whole};
use crate::{ClusterKind, Failover, Heartbeat, ProxyOut, SendPasswords, ServerCompression, ServerTlsMode};

/// `[cluster.NAME]`
pub static CLUSTER: Section = Section {
    key: "cluster",
    form: Form::Named,
    doc: "Servers that hold the same data. The file needs at least one cluster with one server.",
    settings: &[
        &KIND,
        &FAILOVER,
        &MAX_LAG,
        &DOWN_AFTER,
        &UP_AFTER,
        &SLOW_START,
        &ACCOUNTS_REFRESH,
        &CATALOG_REFRESH,
        &COMPRESSION,
        &SEND_PASSWORDS,
        &PROXY_PROTOCOL,
        &MARK_WRITES,
    ],
    sections: &[&SERVERS, &MONITOR, &PROMOTION, &REPLICATION, &ETCD, &GALERA, &POOL, &TLS],
};

/// `kind`
pub static KIND: Setting = live(
    "kind",
    Kind::Choice {
        default: None,
        words: &[
            Word::new(ClusterKind::Standalone.word(), "one server"),
            Word::new(ClusterKind::Replication.word(), "one primary and its replicas"),
            Word::new(ClusterKind::Galera.word(), "members of a Galera group, or of a Percona XtraDB Cluster"),
            Word::new(
                ClusterKind::GroupReplication.word(),
                "members of a replication group of MySQL (Group Replication)",
            ),
            Word::new(ClusterKind::Ndb.word(), "SQL nodes of a MySQL NDB Cluster; experimental"),
        ],
    },
    "The way in which the servers keep the same data.",
)
.restart()
.required()
.example("\"replication\"");
/// `failover`
pub static FAILOVER: Setting = live(
    "failover",
    Kind::Choice {
        default: Some(Failover::Off.word()),
        words: &[
            Word::new(
                Failover::Off.word(),
                "Sqluice follows a primary that somebody else moves; it moves the primary only at your command",
            ),
            Word::new(Failover::Advise.word(), "Sqluice logs what it would do, and does nothing"),
            Word::new(Failover::Auto.word(), "Sqluice promotes another server, and attaches servers that come back"),
        ],
    },
    "The reaction to the loss of the primary.",
);
/// `max_lag_ms`
pub static MAX_LAG: Setting =
    millis("max_lag_ms", 5_000, 100, 86_400_000, "A replica with more lag behind the primary than this gets no reads.");
/// `down_after`
pub static DOWN_AFTER: Setting =
    count("down_after", 3, 1, 100, "A server counts as down after this number of failed probes in a row.");
/// `up_after`
pub static UP_AFTER: Setting = count(
    "up_after",
    2,
    1,
    100,
    "Sqluice uses a server that was down again after this number of good probes in a \
         row.",
);
/// `slow_start_s`
pub static SLOW_START: Setting = seconds(
    "slow_start_s",
    10,
    0,
    3_600,
    "A server that came up gets its full share of reads only after this time; 0 gives it at once.",
);
/// `accounts_refresh_s`
pub static ACCOUNTS_REFRESH: Setting = seconds(
    "accounts_refresh_s",
    30,
    1,
    86_400,
    "Time between two readings of the users' accounts from the servers. After a failed login Sqluice reads them \
     sooner.",
);
/// `catalog_refresh_s`
pub static CATALOG_REFRESH: Setting = seconds(
    "catalog_refresh_s",
    60,
    1,
    86_400,
    "Time between two readings of the stored functions: a SELECT with functions that only read may go to a replica. \
     For `consistency = \"table\"` Sqluice also reads views, triggers and foreign keys.",
);

/// `compression` of a cluster
pub static COMPRESSION: Setting = live(
    "compression",
    Kind::Choice {
        default: Some(ServerCompression::Off.word()),
        words: &[
            Word::new(ServerCompression::Off.word(), "none"),
            Word::new(ServerCompression::Zlib.word(), "zlib, if the server has it"),
            Word::new(ServerCompression::Zstd.word(), "zstd, if the server has it (MySQL since 8.0.18)"),
        ],
    },
    "Compression of connections to the servers. It saves time only over long distances.",
);
/// `send_passwords`
pub static SEND_PASSWORDS: Setting = live(
    "send_passwords",
    Kind::Choice {
        default: Some(SendPasswords::Known.word()),
        words: &[
            Word::new(
                SendPasswords::Known.word(),
                "a server with a verified certificate; or one that shows the same certificate or RSA key as the \
                 first server at its address since the start or the last reload",
            ),
            Word::new(SendPasswords::Verified.word(), "a server with a verified certificate, or on a local socket"),
            Word::new(SendPasswords::Any.word(), "any server"),
        ],
    },
    "The servers to which Sqluice sends a password in a form that they can read: through TLS, or encrypted with an \
     RSA key that the server sends. `caching_sha2_password` needs that once for each account, PAM and similar \
     plugins each time, `mysql_native_password` and `ed25519` never.",
);
/// `mark_writes`
pub static MARK_WRITES: Setting = live(
    "mark_writes",
    Kind::Flag { default: true },
    "Sqluice puts a short comment with the name of the connection before INSERT, UPDATE, REPLACE and DELETE, as in \
     `/*sq:6f0c2a91d37e.1b*/`. With it Sqluice finds a write in the binary log after its reply was lost. A change \
     applies to new connections.",
);
/// `proxy_protocol` of a cluster
pub static PROXY_PROTOCOL: Setting = live(
    "proxy_protocol",
    Kind::Choice {
        default: Some(ProxyOut::Off.word()),
        words: &[
            Word::new(ProxyOut::Off.word(), "servers see Sqluice's address"),
            Word::new(ProxyOut::V1.word(), "as a line of text"),
            Word::new(ProxyOut::V2.word(), "binary"),
        ],
    },
    "A PROXY header with the client's address for each connection to a server. The servers must allow it \
     (`proxy_protocol_networks`). Only clients with the same address then share connections.",
);

/// `servers.NAME`
pub static SERVERS: Section = Section {
    key: "servers",
    form: Form::Named,
    doc: "The servers of the cluster. Sqluice detects the primary; the file does not name it.",
    settings: &[&ADDRESS, &WEIGHT, &ZONE, &MAX_CONNECTIONS, &RULE],
    sections: &[],
};

/// `address` of a server
pub static ADDRESS: Setting = live(
    "address",
    Kind::Address { port_zero: false },
    "The address of the \
         server.",
)
.required()
.example("\"10.0.0.1:3306\"");
/// `weight`
pub static WEIGHT: Setting = live(
    "weight",
    Kind::Whole { unit: super::Unit::Count, default: 100, min: 0, max: 1000, zero: Some("no reads") },
    "The server's share of the reads, compared with the other replicas.",
);
/// `zone` of a server
pub static ZONE: Setting = live(
    "zone",
    Kind::Text { default: Some(""), max: 64 },
    "The place of the server. Sqluice prefers servers of its own zone.",
)
.example("\"a\"");
/// `max_connections` of a server
pub static MAX_CONNECTIONS: Setting = limit(
    "max_connections",
    0,
    100_000,
    "only the pool's limits",
    "Most connections that Sqluice opens to this server, if it allows fewer than the others.",
);

/// `monitor`
pub static MONITOR: Section = Section {
    key: "monitor",
    form: Form::Single,
    doc: "The monitor, which watches the servers. `sqluice init` prints the privileges that its user needs. Give \
         exactly one of `password`, `password_file` and `password_env`.",
    settings: &[&USER, &PASSWORD, &PASSWORD_FILE, &PASSWORD_ENV, &INTERVAL, &TIMEOUT, &HEARTBEAT, &HEARTBEAT_SCHEMA],
    sections: &[],
};

/// `user`
pub static USER: Setting =
    live("user", Kind::Text { default: None, max: 128 }, "The user with which the monitor logs in.")
        .required()
        .example("\"sqluice\"");
/// `password`
pub static PASSWORD: Setting =
    live("password", Kind::Secret, "The password. A file or the environment keeps it out of this file.")
        .example("\"…\"");
/// `password_file`
pub static PASSWORD_FILE: Setting = live(
    "password_file",
    Kind::Path,
    "A file with the password; Sqluice ignores one line end after it. Only Sqluice's user should be able to read it.",
)
.example("\"/etc/sqluice/monitor.pw\"");
/// `password_env`
pub static PASSWORD_ENV: Setting = live("password_env", Kind::Variable, "An environment variable with the password.")
    .example("\"SQLUICE_MONITOR_PASSWORD\"");
/// `interval_ms`
pub static INTERVAL: Setting = millis("interval_ms", 500, 50, 60_000, "Time between two probes of a server.");
/// `timeout_ms`
pub static TIMEOUT: Setting =
    millis("timeout_ms", 1_000, 50, 60_000, "A probe without a reply in this time has failed.");
/// `heartbeat`
pub static HEARTBEAT: Setting = live(
    "heartbeat",
    Kind::Choice {
        default: Some(Heartbeat::Auto.word()),
        words: &[
            Word::new(Heartbeat::Auto.word(), "Sqluice writes it if the user's privileges allow it"),
            Word::new(Heartbeat::On.word(), "Sqluice writes it; missing privileges are an error"),
            Word::new(Heartbeat::Off.word(), "Sqluice does not write it; the lag is what the server reports"),
        ],
    },
    "A row that Sqluice writes on the primary to measure the lag of the replicas.",
);
/// `heartbeat_schema`
pub static HEARTBEAT_SCHEMA: Setting =
    live("heartbeat_schema", Kind::Text { default: Some("sqluice"), max: 64 }, "The schema of the heartbeat table.");

/// `pool`
pub static POOL: Section = Section {
    key: "pool",
    form: Form::Single,
    doc: "Connections from Sqluice to the servers. All sessions of the cluster share them.",
    settings: &[
        &POOL_MAX,
        &POOL_MAX_PER_SERVER,
        &POOL_MAX_PER_USER,
        &MIN_IDLE,
        &IDLE_TIMEOUT,
        &SPARE_TIMEOUT,
        &MAX_AGE,
        &WAIT,
        &WAIT_MAX,
        &STATEMENTS_MAX,
        &PIPELINES,
        &PIPELINE_TIME,
        &PIPELINE_REPLY_MAX,
        &CONNECT_TIMEOUT,
        &KEEPALIVE,
        &USER_TIMEOUT,
    ],
    sections: &[],
};

/// `max_connections` of the pool
pub static POOL_MAX: Setting =
    limit("max_connections", 0, 1_000_000, "no limit", "Most connections to all servers of the cluster together.");
/// `max_connections_per_server`
pub static POOL_MAX_PER_SERVER: Setting =
    count("max_connections_per_server", 100, 1, 100_000, "Most connections to one server.");
/// `max_connections_per_user`
pub static POOL_MAX_PER_USER: Setting = limit(
    "max_connections_per_user",
    0,
    100_000,
    "no limit",
    "Most connections for one user, to all servers together.",
);
/// `min_idle`
pub static MIN_IDLE: Setting = count(
    "min_idle",
    0,
    0,
    10_000,
    "Idle connections that Sqluice keeps open to each server, so that sudden load need not wait for logins.",
);
/// `idle_timeout_s`
pub static IDLE_TIMEOUT: Setting =
    seconds("idle_timeout_s", 60, 1, 86_400, "Sqluice closes a connection that was idle for this time.");
/// `spare_timeout_s`
pub static SPARE_TIMEOUT: Setting = seconds(
    "spare_timeout_s",
    5,
    1,
    86_400,
    "Sqluice closes a connection that was idle for this time if its user has more connections to the server than \
     sessions.",
);
/// `max_age_s`
pub static MAX_AGE: Setting =
    seconds("max_age_s", 3_600, 10, 604_800, "Sqluice closes an older connection when it is idle the next time.");
/// `wait_ms`
pub static WAIT: Setting = millis(
    "wait_ms",
    10_000,
    0,
    600_000,
    "Longest wait of a statement for a connection while all are in use. After that the client gets an error.",
);
/// `wait_max`
pub static WAIT_MAX: Setting =
    count("wait_max", 10_000, 0, 1_000_000, "Most statements that may wait at a time. One more gets an error at once.");
/// `statements_max`
pub static STATEMENTS_MAX: Setting = count(
    "statements_max",
    200,
    1,
    10_000,
    "Prepared statements that Sqluice keeps on one connection; beyond that it closes the least recently used one. \
     This number times the number of connections should be below the server's max_prepared_stmt_count.",
);
/// `pipelines` of the pool
pub static PIPELINES: Setting = limit(
    "pipelines",
    4,
    64,
    "none",
    "Most connections of a worker to one server that short reads of several sessions share at a time. Of limited \
     connections they take half.",
);
/// `pipeline_time_ms`
pub static PIPELINE_TIME: Setting = millis(
    "pipeline_time_ms",
    10,
    1,
    1_000,
    "Longest time of the server for a read on a shared connection. If a read takes longer, Sqluice runs those behind \
     it on other connections. Forms that take longer than a tenth of this in more than 1 of 100 runs do not share.",
);
/// `pipeline_reply_max`
pub static PIPELINE_REPLY_MAX: Setting = live(
    "pipeline_reply_max",
    Kind::Size { default: 16 << 10, min: 1 << 10, max: 1 << 20 },
    "Largest reply on a shared connection. Forms with larger ones in more than 1 of 100 runs do not share.",
);
/// `connect_timeout_ms`
pub static CONNECT_TIMEOUT: Setting =
    millis("connect_timeout_ms", 2_000, 50, 60_000, "Longest time for connecting and logging in to a server.");

/// `keepalive_s` of the pool
pub static KEEPALIVE: Setting = whole(
    "keepalive_s",
    Unit::Seconds,
    15,
    0,
    7_200,
    Some("never"),
    "After this time without data, TCP checks whether the server is still there. After twice the time without a \
     reply the connection is lost.",
);
/// `user_timeout_ms` of the pool
pub static USER_TIMEOUT: Setting = whole(
    "user_timeout_ms",
    Unit::Millis,
    0,
    0,
    3_600_000,
    Some("the system's own limit"),
    "A server that takes no data for this long is lost. Also a busy server may take no data, such as during a LOAD \
     DATA that waits for a lock. The monitor finds dead servers anyway.",
);

/// `tls`
pub static TLS: Section = Section {
    key: "tls",
    form: Form::Single,
    doc: "TLS between Sqluice and the servers.",
    settings: &tls::settings(&TLS_MODE),
    sections: &[],
};

/// `mode` of a cluster's `tls`
pub static TLS_MODE: Setting = live(
    "mode",
    Kind::Choice {
        default: Some(ServerTlsMode::Preferred.word()),
        words: &[
            tls::DISABLED,
            Word::new(
                ServerTlsMode::Preferred.word(),
                "if the server offers it; Sqluice does not check the \
                 certificate",
            ),
            tls::REQUIRED,
            tls::VERIFY_CA,
            tls::VERIFY_IDENTITY,
        ],
    },
    "Encryption of connections to the servers, and the check of their certificates.",
);
