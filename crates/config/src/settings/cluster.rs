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
    doc: "Servers that hold the same data. At least one cluster with at least one server is needed.",
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
    "How the servers keep the same data.",
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
                "Sqluice follows a primary that somebody else moves, and moves none itself unless it is told to",
            ),
            Word::new(Failover::Advise.word(), "Sqluice says what it would do, and does nothing"),
            Word::new(Failover::Auto.word(), "Sqluice promotes another server, and attaches servers that come back"),
        ],
    },
    "What happens when the primary is gone.",
);
/// `max_lag_ms`
pub static MAX_LAG: Setting = millis(
    "max_lag_ms",
    5_000,
    100,
    86_400_000,
    "A replica that is further behind the primary than this takes no reads.",
);
/// `down_after`
pub static DOWN_AFTER: Setting =
    count("down_after", 3, 1, 100, "Failed probes in a row until a server counts as down.");
/// `up_after`
pub static UP_AFTER: Setting =
    count("up_after", 2, 1, 100, "Good probes in a row until a server that was down is used again.");
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
    "How often the accounts of users are read from the servers. A failed login reads them sooner.",
);
/// `catalog_refresh_s`
pub static CATALOG_REFRESH: Setting = seconds(
    "catalog_refresh_s",
    60,
    1,
    86_400,
    "How often the servers are asked which stored functions only read, so that a SELECT with them may go to a replica; and, for \
     `consistency = \"table\"`, what views, triggers and foreign keys there are.",
);

/// `compression` of a cluster
pub static COMPRESSION: Setting = live(
    "compression",
    Kind::Choice {
        default: Some(ServerCompression::Off.word()),
        words: &[
            Word::new(ServerCompression::Off.word(), "none"),
            Word::new(ServerCompression::Zlib.word(), "zlib, where the server has it"),
            Word::new(ServerCompression::Zstd.word(), "zstd, where the server has it (MySQL since 8.0.18)"),
        ],
    },
    "Whether connections to the servers are compressed. It is worth its work over long distances only.",
);
/// `send_passwords`
pub static SEND_PASSWORDS: Setting = live(
    "send_passwords",
    Kind::Choice {
        default: Some(SendPasswords::Known.word()),
        words: &[
            Word::new(
                SendPasswords::Known.word(),
                "to a server whose certificate is verified, and to one that shows the certificate or RSA key that was the first one \
                 at its address since the start or the last reload",
            ),
            Word::new(
                SendPasswords::Verified.word(),
                "to a server whose certificate is verified, or on a local socket",
            ),
            Word::new(SendPasswords::Any.word(), "to whoever answers"),
        ],
    },
    "To which servers passwords are sent in a form that the server can read: through TLS, or encrypted with an RSA key that the \
     server sends. `caching_sha2_password` needs that once for each account, PAM and its like each time; \
     `mysql_native_password` and `ed25519` never.",
);
/// `mark_writes`
pub static MARK_WRITES: Setting = live(
    "mark_writes",
    Kind::Flag { default: true },
    "Whether INSERT, UPDATE, REPLACE and DELETE are sent behind a short comment that names the connection, as in \
     `/*sq:6f0c2a91d37e.1b*/`. By it a server's log tells whose a write was whose reply was lost with its server. Connections that \
     are opened from then on take a change.",
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
    "Whether servers are told the client's address by a PROXY header. They must allow it (`proxy_protocol_networks`). \
     Connections are then shared by clients of the same address only.",
);

/// `servers.NAME`
pub static SERVERS: Section = Section {
    key: "servers",
    form: Form::Named,
    doc: "The servers of the cluster. Which of them is the primary is found out, not written here.",
    settings: &[&ADDRESS, &WEIGHT, &ZONE, &MAX_CONNECTIONS, &RULE],
    sections: &[],
};

/// `address` of a server
pub static ADDRESS: Setting =
    live("address", Kind::Address { port_zero: false }, "Where the server is.").required().example("\"10.0.0.1:3306\"");
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
    "Where the server stands; the proxy prefers servers of its own zone.",
)
.example("\"a\"");
/// `max_connections` of a server
pub static MAX_CONNECTIONS: Setting = limit(
    "max_connections",
    0,
    100_000,
    "only the pool's limits",
    "Most connections that Sqluice opens to this server, where it takes fewer than the others.",
);

/// `monitor`
pub static MONITOR: Section = Section {
    key: "monitor",
    form: Form::Single,
    doc: "How the servers are watched. `sqluice init` prints the rights the user needs. Exactly one of `password`, \
          `password_file` and `password_env` is given.",
    settings: &[&USER, &PASSWORD, &PASSWORD_FILE, &PASSWORD_ENV, &INTERVAL, &TIMEOUT, &HEARTBEAT, &HEARTBEAT_SCHEMA],
    sections: &[],
};

/// `user`
pub static USER: Setting =
    live("user", Kind::Text { default: None, max: 128 }, "The user that the monitor logs in with.")
        .required()
        .example("\"sqluice\"");
/// `password`
pub static PASSWORD: Setting =
    live("password", Kind::Secret, "The password itself. A file or the environment keeps it out of this file.")
        .example("\"…\"");
/// `password_file`
pub static PASSWORD_FILE: Setting = live(
    "password_file",
    Kind::Path,
    "A file whose content is the password; one line end after it is ignored. Nobody else should be able to read it.",
)
.example("\"/etc/sqluice/monitor.pw\"");
/// `password_env`
pub static PASSWORD_ENV: Setting =
    live("password_env", Kind::Variable, "An environment variable whose value is the password.")
        .example("\"SQLUICE_MONITOR_PASSWORD\"");
/// `interval_ms`
pub static INTERVAL: Setting = millis("interval_ms", 500, 50, 60_000, "Time between two probes of a server.");
/// `timeout_ms`
pub static TIMEOUT: Setting =
    millis("timeout_ms", 1_000, 50, 60_000, "A probe that is not answered after this time has failed.");
/// `heartbeat`
pub static HEARTBEAT: Setting = live(
    "heartbeat",
    Kind::Choice {
        default: Some(Heartbeat::Auto.word()),
        words: &[
            Word::new(Heartbeat::Auto.word(), "written where the user's rights allow it"),
            Word::new(Heartbeat::On.word(), "written; it is an error when the rights are missing"),
            Word::new(Heartbeat::Off.word(), "not written; lag is what the server says"),
        ],
    },
    "Whether a row is written on the primary to measure how far replicas are behind.",
);
/// `heartbeat_schema`
pub static HEARTBEAT_SCHEMA: Setting = live(
    "heartbeat_schema",
    Kind::Text { default: Some("sqluice"), max: 64 },
    "The schema that holds the heartbeat table.",
);

/// `pool`
pub static POOL: Section = Section {
    key: "pool",
    form: Form::Single,
    doc: "Connections from Sqluice to the servers, shared by all sessions of the cluster.",
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
    "Connections that are kept open to each server although nothing uses them, so that a rush need not wait for logins.",
);
/// `idle_timeout_s`
pub static IDLE_TIMEOUT: Setting =
    seconds("idle_timeout_s", 60, 1, 86_400, "A connection that nothing used for this long is closed.");
/// `spare_timeout_s`
pub static SPARE_TIMEOUT: Setting = seconds(
    "spare_timeout_s",
    5,
    1,
    86_400,
    "A connection that nothing used for this long is closed if its user has more connections to the server than sessions.",
);
/// `max_age_s`
pub static MAX_AGE: Setting = seconds(
    "max_age_s",
    3_600,
    10,
    604_800,
    "A connection older than this is closed when it is next free, so that none lives forever.",
);
/// `wait_ms`
pub static WAIT: Setting = millis(
    "wait_ms",
    10_000,
    0,
    600_000,
    "Longest time a statement waits for a connection when all are in use. After that the client gets an error.",
);
/// `wait_max`
pub static WAIT_MAX: Setting =
    count("wait_max", 10_000, 0, 1_000_000, "How many statements may wait at a time. One more gets an error at once.");
/// `statements_max`
pub static STATEMENTS_MAX: Setting = count(
    "statements_max",
    200,
    1,
    10_000,
    "Prepared statements kept on one connection; the least recently used is closed. Keep this times the number of \
     connections below the server's max_prepared_stmt_count.",
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
    "After so much silence TCP asks whether the server is still there; after twice as much the connection is lost.",
);
/// `user_timeout_ms` of the pool
pub static USER_TIMEOUT: Setting = whole(
    "user_timeout_ms",
    Unit::Millis,
    0,
    0,
    3_600_000,
    Some("the system's own limit"),
    "A server that takes nothing of what was sent to it for this long is lost. TCP counts one that is busy and does not read \
     as well, such as a long LOAD DATA that waits for a lock; the monitor finds one that is gone.",
);

/// `tls`
pub static TLS: Section = Section {
    key: "tls",
    form: Form::Single,
    doc: "TLS towards the servers.",
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
            Word::new(ServerTlsMode::Preferred.word(), "when the server offers it; the certificate is not checked"),
            tls::REQUIRED,
            tls::VERIFY_CA,
            tls::VERIFY_IDENTITY,
        ],
    },
    "Whether connections to servers are encrypted, and how strictly certificates are checked.",
);
