//! `[listener.NAME]`.

use super::{Form, Kind, Section, Setting, Unit, Word, count, limit, live, millis, seconds, whole};
use crate::{ClientCert, ClientCompression, Consistency, ProxyIn, ReplayMode, Split, TlsMode, TlsVersion};

/// `[listener.NAME]`
pub static LISTENER: Section = Section {
    key: "listener",
    form: Form::Named,
    doc: "An address that clients connect to. At least one is needed.",
    settings: &[
        &ADDRESS,
        &CLUSTER,
        &SPLIT,
        &CONSISTENCY,
        &CONSISTENCY_WAIT,
        &CONSISTENCY_WINDOW,
        &MAX_SESSIONS,
        &MAX_SESSIONS_PER_USER,
        &MAX_SESSIONS_PER_ADDRESS,
        &MAX_LOGINS_PER_ADDRESS,
        &LOGIN_DELAY_AFTER,
        &LOGIN_DELAY_MAX,
        &ADDRESSES_EXEMPT,
        &PREPARED_MEMORY_MAX,
        &LOGIN_TIMEOUT,
        &IDLE_TIMEOUT,
        &HOLD,
        &REPLAY,
        &REPLAY_BYTES_MAX,
        &REPLAY_STATEMENTS_MAX,
        &REPLAY_ATTEMPTS_MAX,
        &REPLAY_TIME,
        &MAX_PACKET,
        &LOCAL_INFILE,
        &SERVER_VERSION,
        &COMPRESSION,
        &PROXY_PROTOCOL,
        &PROXY_PROTOCOL_FROM,
        &KEEPALIVE,
        &USER_TIMEOUT,
        &BACKLOG,
        &SOCKET_MODE,
    ],
    sections: &[&TLS],
};

/// `address`
pub static ADDRESS: Setting = live(
    "address",
    Kind::Address { port_zero: true },
    "Where clients connect: `host:port`, `[ipv6]:port` or `unix:/path`. Port 0 takes a free one.",
)
.restart()
.required()
.example("\"0.0.0.0:3306\"");
/// `cluster`
pub static CLUSTER: Setting =
    live("cluster", Kind::Text { default: None, max: 64 }, "The cluster that its clients use.")
        .restart()
        .required()
        .example("\"main\"");

/// Versions of TLS.
pub(super) const TLS_VERSIONS: &[Word] =
    &[Word::new(TlsVersion::V12.word(), "TLS 1.2 and 1.3"), Word::new(TlsVersion::V13.word(), "TLS 1.3 only")];

pub(super) const SPLIT_WORDS: &[Word] = &[
    Word::new(Split::Auto.word(), "reads outside transactions go to replicas, all else to the primary"),
    Word::new(Split::Primary.word(), "all goes to the primary"),
    Word::new(Split::Replica.word(), "all goes to replicas"),
];

/// `split`
pub static SPLIT: Setting =
    live("split", Kind::Choice { default: Some(Split::Auto.word()), words: SPLIT_WORDS }, "Where statements go.");
pub(super) const CONSISTENCY_WORDS: &[Word] = &[
    Word::new(
        Consistency::Session.word(),
        "what its session has written: on a replica that has it, else on the primary",
    ),
    Word::new(
        Consistency::Cluster.word(),
        "what any session of this process has written: on a replica that has it, else on the primary",
    ),
    Word::new(
        Consistency::Table.word(),
        "what any session of this process has written to the tables that the read names: on a replica that has it, else on the primary",
    ),
    Word::new(Consistency::None.word(), "nothing in particular: a replica may be as far behind as `max_lag_ms` allows"),
];

/// `consistency`
pub static CONSISTENCY: Setting = live(
    "consistency",
    Kind::Choice { default: Some(Consistency::Session.word()), words: CONSISTENCY_WORDS },
    "What a read is sure to see.",
);
/// `consistency_wait_ms`
pub static CONSISTENCY_WAIT: Setting = millis(
    "consistency_wait_ms",
    0,
    0,
    60_000,
    "How long a read waits for a replica that has what it is sure to see, before it goes to the primary.",
);
/// `consistency_window_ms`
pub static CONSISTENCY_WINDOW: Setting = whole(
    "consistency_window_ms",
    Unit::Millis,
    0,
    0,
    86_400_000,
    Some("as long as the cluster's `max_lag_ms`"),
    "How long a session's reads stay on the primary behind a write of which the server tells no position, because it has \
     no binary log or no GTIDs.",
);
/// `max_sessions`
pub static MAX_SESSIONS: Setting = count(
    "max_sessions",
    10_000,
    1,
    1_000_000,
    "Most sessions at a time. One more is refused with the error `Too many connections`.",
);
/// `max_sessions_per_user`
pub static MAX_SESSIONS_PER_USER: Setting =
    limit("max_sessions_per_user", 0, 1_000_000, "no limit", "Most sessions of one user at a time.");
/// `max_sessions_per_address`
pub static MAX_SESSIONS_PER_ADDRESS: Setting = limit(
    "max_sessions_per_address",
    0,
    1_000_000,
    "no limit",
    "Most sessions of one client address at a time, over all listeners. IPv6 addresses count by their /64 network.",
);
/// `max_logins_per_address`
pub static MAX_LOGINS_PER_ADDRESS: Setting = limit(
    "max_logins_per_address",
    0,
    1_000_000,
    "no limit",
    "Most connections of one client address that have not logged in yet, over all listeners.",
);
/// `login_delay_after`
pub static LOGIN_DELAY_AFTER: Setting = limit(
    "login_delay_after",
    10,
    1_000_000,
    "never",
    "After so many failed logins of one address, without a good one between them, its next logins wait: 100 ms, then twice as \
     long with each failure. A minute without a failure ends it.",
);
/// `login_delay_max_ms`
pub static LOGIN_DELAY_MAX: Setting = millis(
    "login_delay_max_ms",
    2_000,
    0,
    60_000,
    "The longest that such a login waits; at most half of `login_timeout_ms`.",
);
/// `addresses_exempt`
pub static ADDRESSES_EXEMPT: Setting = live(
    "addresses_exempt",
    Kind::Networks,
    "Addresses for which the limits of addresses and the delay do not count, such as load balancers that send no PROXY header.",
)
.example("[\"10.0.0.0/8\"]");
/// `prepared_memory_max`
pub static PREPARED_MEMORY_MAX: Setting = live(
    "prepared_memory_max",
    Kind::Size { default: 32 << 20, min: 1 << 16, max: 1 << 36 },
    "How long the texts of one session's prepared statements may be together. One more is refused as servers do at \
     `max_prepared_stmt_count`.",
);
/// `login_timeout_ms`
pub static LOGIN_TIMEOUT: Setting =
    millis("login_timeout_ms", 10_000, 100, 600_000, "A client that is not logged in after this time is disconnected.");
/// `idle_timeout_s`
pub static IDLE_TIMEOUT: Setting = seconds(
    "idle_timeout_s",
    28_800,
    1,
    31_536_000,
    "A session that sends nothing for this long is closed. The default is the servers' wait_timeout.",
);
/// `hold_ms`
pub static HOLD: Setting = millis(
    "hold_ms",
    60_000,
    0,
    600_000,
    "How long a statement waits while the cluster has no primary. After that the client gets an error.",
);
/// `replay`
pub static REPLAY: Setting = live(
    "replay",
    Kind::Choice {
        default: Some(ReplayMode::On.word()),
        words: &[
            Word::new(ReplayMode::On.word(), "if its statements give the same each time"),
            Word::new(ReplayMode::Any.word(), "also if it writes what `NOW()`, `UUID()` and the like give"),
            Word::new(ReplayMode::Off.word(), "never: the session ends with its server"),
        ],
    },
    "Whether a transaction whose server is lost is run again on the new primary. It goes on there if every statement has \
     the same reply as before; else it is rolled back, and the client gets an error that says so.",
);
/// `replay_bytes_max`
pub static REPLAY_BYTES_MAX: Setting = live(
    "replay_bytes_max",
    Kind::Size { default: 1 << 20, min: 1 << 10, max: 1 << 30 },
    "A transaction whose statements are longer than this together is not replayed. So much memory may each open transaction take.",
);
/// `replay_statements_max`
pub static REPLAY_STATEMENTS_MAX: Setting =
    count("replay_statements_max", 1_000, 1, 100_000, "A transaction of more statements than this is not replayed.");
/// `replay_attempts_max`
pub static REPLAY_ATTEMPTS_MAX: Setting = count(
    "replay_attempts_max",
    3,
    1,
    100,
    "How often a replay is begun anew because of a deadlock, or because the new primary was lost, too.",
);
/// `replay_time_ms`
pub static REPLAY_TIME: Setting = whole(
    "replay_time_ms",
    Unit::Millis,
    0,
    0,
    600_000,
    Some("as long as `hold_ms`"),
    "How long a replay may take, the wait for a primary included.",
);
/// `max_packet`
pub static MAX_PACKET: Setting = live(
    "max_packet",
    Kind::Size { default: 1 << 30, min: 1 << 16, max: 1 << 30 },
    "The largest statement taken from a client, like the servers' max_allowed_packet.",
);
/// `local_infile`
pub static LOCAL_INFILE: Setting = live(
    "local_infile",
    Kind::Flag { default: true },
    "Whether LOAD DATA LOCAL INFILE is let through. A server that asks for a client's file behind any other statement is refused in any case.",
);
/// `server_version`
pub static SERVER_VERSION: Setting = live(
    "server_version",
    Kind::Text { default: None, max: 64 },
    "The version that clients are told. Without it, one that fits the cluster.",
)
.example("\"10.11.6-MariaDB\"");

/// `compression` of a listener
pub static COMPRESSION: Setting = live(
    "compression",
    Kind::Choice {
        default: Some(ClientCompression::All.word()),
        words: &[
            Word::new(ClientCompression::All.word(), "zlib, and zstd where the servers are MySQL"),
            Word::new(ClientCompression::Zlib.word(), "zlib"),
            Word::new(ClientCompression::Zstd.word(), "zstd where the servers are MySQL"),
            Word::new(ClientCompression::Off.word(), "none"),
        ],
    },
    "Which compression clients are offered. Only a client that asks for it gets it.",
);
/// `proxy_protocol` of a listener
pub static PROXY_PROTOCOL: Setting = live(
    "proxy_protocol",
    Kind::Choice {
        default: Some(ProxyIn::Off.word()),
        words: &[
            Word::new(ProxyIn::Off.word(), "no header is taken"),
            Word::new(
                ProxyIn::Optional.word(),
                "addresses in `proxy_protocol_from` may send one, as with MariaDB's servers",
            ),
            Word::new(ProxyIn::Required.word(), "addresses in `proxy_protocol_from` must send one"),
        ],
    },
    "Whether a proxy in front tells the client's address by a PROXY header, version 1 or 2.",
);
/// `proxy_protocol_from`
pub static PROXY_PROTOCOL_FROM: Setting = live(
    "proxy_protocol_from",
    Kind::Networks,
    "The proxies in front whose PROXY headers are believed. From other addresses a header is refused.",
)
.example("[\"10.0.0.0/8\"]");
/// `keepalive_s` of a listener
pub static KEEPALIVE: Setting = whole(
    "keepalive_s",
    Unit::Seconds,
    15,
    0,
    7_200,
    Some("never"),
    "After so much silence TCP asks whether the client is still there; after twice as much the session ends.",
);
/// `user_timeout_ms` of a listener
pub static USER_TIMEOUT: Setting = whole(
    "user_timeout_ms",
    Unit::Millis,
    0,
    0,
    3_600_000,
    Some("the system's own limit"),
    "A client that takes nothing of what was sent to it for this long is gone. TCP counts one that is there and does not \
     read as well: with a limit below the servers' net_write_timeout (which drivers raise to stream large results), a client \
     that pauses is cut off.",
);
/// `backlog`
pub static BACKLOG: Setting = count(
    "backlog",
    4_096,
    1,
    65_535,
    "Clients that may wait in the kernel to be accepted; `net.core.somaxconn` may be less.",
)
.restart();
/// `socket_mode`
pub static SOCKET_MODE: Setting = live(
    "socket_mode",
    Kind::Text { default: Some("0777"), max: 4 },
    "Permissions of a Unix socket's file, in octal. Who may write it may connect.",
)
.restart();

/// `tls` of a listener
pub static TLS: Section = Section {
    key: "tls",
    form: Form::Single,
    doc: "TLS towards clients. Without `cert_file` a certificate is made at start, which encrypts but proves nothing.",
    settings: &[&TLS_MODE, &TLS_MIN_VERSION, &CERT_FILE, &KEY_FILE, &CLIENT_CA_FILE, &CLIENT_CERT],
    sections: &[],
};

/// `mode` of `tls`
pub static TLS_MODE: Setting = live(
    "mode",
    Kind::Choice {
        default: Some(TlsMode::Optional.word()),
        words: &[
            Word::new(TlsMode::Optional.word(), "offered"),
            Word::new(TlsMode::Required.word(), "a client without TLS is refused, except on a Unix socket"),
            Word::new(TlsMode::Off.word(), "not offered"),
        ],
    },
    "Whether clients may or must encrypt.",
);
/// `min_version` of a listener's `tls`
pub static TLS_MIN_VERSION: Setting = live(
    "min_version",
    Kind::Choice { default: Some(TlsVersion::V12.word()), words: TLS_VERSIONS },
    "The lowest version of TLS that is spoken with clients.",
);
/// `cert_file` of a listener
pub static CERT_FILE: Setting =
    live("cert_file", Kind::Path, "Certificate chain (PEM) that clients see. Needs `key_file`.")
        .example("\"/etc/sqluice/server.pem\"");
/// `key_file` of a listener
pub static KEY_FILE: Setting =
    live("key_file", Kind::Path, "Private key (PEM) of `cert_file`.").example("\"/etc/sqluice/server.key\"");
/// `client_ca_file` of a listener
pub static CLIENT_CA_FILE: Setting = live(
    "client_ca_file",
    Kind::Path,
    "Certificate authorities (PEM) for clients' certificates, which accounts with REQUIRE X509, SUBJECT or ISSUER need. Clients \
     without a certificate are let in to other accounts. Without it no certificate is asked for.",
)
.example("\"/etc/sqluice/clients-ca.pem\"");

/// `client_cert`
pub static CLIENT_CERT: Setting = live(
    "client_cert",
    Kind::Choice {
        default: Some(ClientCert::Optional.word()),
        words: &[
            Word::new(ClientCert::Optional.word(), "accounts that require one decide"),
            Word::new(ClientCert::Required.word(), "every client that uses TLS must show one"),
        ],
    },
    "Whether a client must show a certificate of `client_ca_file`.",
);
