//! `[listener.NAME]`.

use super::{Form, Kind, Section, Setting, Unit, Word, count, limit, live, millis, replay, seconds, whole};
use crate::{ClientCert, ClientCompression, Consistency, Pipelines, ProxyIn, Split, TlsMode, TlsVersion};

/// `[listener.NAME]`
pub static LISTENER: Section = Section {
    key: "listener",
    form: Form::Named,
    doc: "An address to which clients connect. The file needs at least one.",
    settings: &[
        &ADDRESS,
        &CLUSTER,
        &SPLIT,
        &PIPELINES,
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
        &replay::MODE,
        &replay::BYTES_MAX,
        &replay::STATEMENTS_MAX,
        &replay::ATTEMPTS_MAX,
        &replay::TIME,
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
    "The address: `host:port`, `[ipv6]:port` or `unix:/path`. Port 0 is a free port.",
)
.restart()
.required()
.example("\"0.0.0.0:3306\"");
/// `cluster`
pub static CLUSTER: Setting =
    live("cluster", Kind::Text { default: None, max: 64 }, "The cluster of this listener's clients.")
        .restart()
        .required()
        .example("\"main\"");

/// Versions of TLS.
pub(super) const TLS_VERSIONS: &[Word] =
    &[Word::new(TlsVersion::V12.word(), "TLS 1.2 and 1.3"), Word::new(TlsVersion::V13.word(), "TLS 1.3 only")];

pub(super) const SPLIT_WORDS: &[Word] = &[
    Word::new(Split::Auto.word(), "reads outside transactions go to replicas, all other statements to the primary"),
    Word::new(Split::Primary.word(), "all statements go to the primary"),
    Word::new(Split::Replica.word(), "all statements go to replicas"),
];

/// `split`
pub static SPLIT: Setting = live(
    "split",
    Kind::Choice { default: Some(Split::Auto.word()), words: SPLIT_WORDS },
    "The servers for the \
         statements of this listener.",
);
pub(super) const PIPELINES_WORDS: &[Word] = &[
    Word::new(Pipelines::On.word(), "reads whose forms are known to be short do, while others run"),
    Word::new(Pipelines::Off.word(), "each statement has a connection of its own while it runs"),
    Word::new(Pipelines::Always.word(), "all reads do that may, known or not; for tests"),
];

/// `pipelines`
pub static PIPELINES: Setting = live(
    "pipelines",
    Kind::Choice { default: Some(Pipelines::On.word()), words: PIPELINES_WORDS },
    "Whether reads of several sessions share connections to the servers (docs/guides/pipelines.md).",
);
pub(super) const CONSISTENCY_WORDS: &[Word] = &[
    Word::new(
        Consistency::Session.word(),
        "the writes of its own session: on a replica that has them, else on the primary",
    ),
    Word::new(
        Consistency::Cluster.word(),
        "the writes of all sessions of this process: on a replica that has them, else on the primary",
    ),
    Word::new(
        Consistency::Table.word(),
        "the writes of all sessions of this process to the tables that the read names: on a replica that has them, \
         else on the primary",
    ),
    Word::new(Consistency::None.word(), "no particular writes: a replica may lag as much as `max_lag_ms` allows"),
];

/// `consistency`
pub static CONSISTENCY: Setting = live(
    "consistency",
    Kind::Choice { default: Some(Consistency::Session.word()), words: CONSISTENCY_WORDS },
    "The writes that a read is sure to see.",
);
/// `consistency_wait_ms`
pub static CONSISTENCY_WAIT: Setting = millis(
    "consistency_wait_ms",
    0,
    0,
    60_000,
    "Longest wait of a read for a replica that has these writes. After that the read goes to the primary.",
);
/// `consistency_window_ms`
pub static CONSISTENCY_WINDOW: Setting = whole(
    "consistency_window_ms",
    Unit::Millis,
    0,
    0,
    86_400_000,
    Some("as long as the cluster's `max_lag_ms`"),
    "A session's reads stay on the primary for this time after a write without a position: the server has no binary \
     log or no GTIDs.",
);
/// `max_sessions`
pub static MAX_SESSIONS: Setting = count(
    "max_sessions",
    10_000,
    1,
    1_000_000,
    "Most sessions at a time. Sqluice refuses one more with the error `Too many connections`.",
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
    "Most sessions of one client address at a time, over all listeners. All IPv6 addresses of a /64 network count as \
     one.",
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
    "After this number of failed logins of one address, without a good one in between, the next logins wait: 100 ms, \
     then twice as long with each failure. After a minute without a failure they do not wait.",
);
/// `login_delay_max_ms`
pub static LOGIN_DELAY_MAX: Setting =
    millis("login_delay_max_ms", 2_000, 0, 60_000, "Longest wait of such a login; at most half of `login_timeout_ms`.");
/// `addresses_exempt`
pub static ADDRESSES_EXEMPT: Setting = live(
    "addresses_exempt",
    Kind::Networks,
    "Addresses without limits for addresses and without delay, such as load balancers that send no PROXY header.",
)
.example("[\"10.0.0.0/8\"]");
/// `prepared_memory_max`
pub static PREPARED_MEMORY_MAX: Setting = live(
    "prepared_memory_max",
    Kind::Size { default: 32 << 20, min: 1 << 16, max: 1 << 36 },
    "Most bytes of the texts of one session's prepared statements. Sqluice refuses one more with the error for \
     `max_prepared_stmt_count`.",
);
/// `login_timeout_ms`
pub static LOGIN_TIMEOUT: Setting = millis(
    "login_timeout_ms",
    10_000,
    100,
    600_000,
    "Sqluice disconnects a client that has not logged in after this \
         time.",
);
/// `idle_timeout_s`
pub static IDLE_TIMEOUT: Setting = seconds(
    "idle_timeout_s",
    28_800,
    1,
    31_536_000,
    "Sqluice closes a session that is silent for this time. The default is the servers' default of wait_timeout.",
);
/// `hold_ms`
pub static HOLD: Setting = millis(
    "hold_ms",
    60_000,
    0,
    600_000,
    "Longest wait of a statement while the cluster has no primary. After that the client gets an error.",
);
/// `max_packet`
pub static MAX_PACKET: Setting = live(
    "max_packet",
    Kind::Size { default: 1 << 30, min: 1 << 16, max: 1 << 30 },
    "The largest statement that a client may send, like the servers' max_allowed_packet.",
);
/// `local_infile`
pub static LOCAL_INFILE: Setting = live(
    "local_infile",
    Kind::Flag { default: true },
    "Whether clients may use LOAD DATA LOCAL INFILE. A server that requests a client's file after any other \
     statement never gets it.",
);
/// `server_version`
pub static SERVER_VERSION: Setting = live(
    "server_version",
    Kind::Text { default: None, max: 64 },
    "The version that Sqluice shows to clients. Without it, a version that fits the cluster.",
)
.example("\"10.11.6-MariaDB\"");

/// `compression` of a listener
pub static COMPRESSION: Setting = live(
    "compression",
    Kind::Choice {
        default: Some(ClientCompression::All.word()),
        words: &[
            Word::new(ClientCompression::All.word(), "zlib, and zstd if the servers are MySQL"),
            Word::new(ClientCompression::Zlib.word(), "zlib"),
            Word::new(ClientCompression::Zstd.word(), "zstd if the servers are MySQL"),
            Word::new(ClientCompression::Off.word(), "none"),
        ],
    },
    "The compression that Sqluice offers to clients. Only clients that request it get it.",
);
/// `proxy_protocol` of a listener
pub static PROXY_PROTOCOL: Setting = live(
    "proxy_protocol",
    Kind::Choice {
        default: Some(ProxyIn::Off.word()),
        words: &[
            Word::new(ProxyIn::Off.word(), "Sqluice accepts no header"),
            Word::new(
                ProxyIn::Optional.word(),
                "addresses in `proxy_protocol_from` may send one, as with MariaDB's servers",
            ),
            Word::new(ProxyIn::Required.word(), "addresses in `proxy_protocol_from` must send one"),
        ],
    },
    "A PROXY header, version 1 or 2, in which a proxy before Sqluice sends the client's address.",
);
/// `proxy_protocol_from`
pub static PROXY_PROTOCOL_FROM: Setting = live(
    "proxy_protocol_from",
    Kind::Networks,
    "The proxies whose PROXY headers Sqluice accepts. It refuses a header from any other address.",
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
    "After this time without data, TCP checks whether the client is still there. After twice the time without a \
     reply the session ends.",
);
/// `user_timeout_ms` of a listener
pub static USER_TIMEOUT: Setting = whole(
    "user_timeout_ms",
    Unit::Millis,
    0,
    0,
    3_600_000,
    Some("the system's own limit"),
    "Sqluice closes a client that takes no data for this long. A client that is there and does not read counts too. \
     If this is below the servers' net_write_timeout (which drivers raise to stream large results), a client that \
     pauses loses its connection.",
);
/// `backlog`
pub static BACKLOG: Setting = count(
    "backlog",
    4_096,
    1,
    65_535,
    "Clients that may wait in the kernel until Sqluice accepts them; `net.core.somaxconn` can reduce this.",
)
.restart();
/// `socket_mode`
pub static SOCKET_MODE: Setting = live(
    "socket_mode",
    Kind::Text { default: Some("0777"), max: 4 },
    "Permissions of a Unix socket's file, in octal. Users with the permission to write may connect.",
)
.restart();

/// `tls` of a listener
pub static TLS: Section = Section {
    key: "tls",
    form: Form::Single,
    doc: "TLS between clients and Sqluice. Without `cert_file` Sqluice makes a certificate at start, which encrypts \
         but proves no identity.",
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
            Word::new(TlsMode::Required.word(), "Sqluice refuses a client without TLS, except on a Unix socket"),
            Word::new(TlsMode::Off.word(), "not offered"),
        ],
    },
    "Whether clients may or must encrypt.",
);
/// `min_version` of a listener's `tls`
pub static TLS_MIN_VERSION: Setting = live(
    "min_version",
    Kind::Choice { default: Some(TlsVersion::V12.word()), words: TLS_VERSIONS },
    "The lowest version of TLS for clients.",
);
/// `cert_file` of a listener
pub static CERT_FILE: Setting =
    live("cert_file", Kind::Path, "The certificate chain (PEM) that clients see. Needs `key_file`.")
        .example("\"/etc/sqluice/server.pem\"");
/// `key_file` of a listener
pub static KEY_FILE: Setting =
    live("key_file", Kind::Path, "Private key (PEM) of `cert_file`.").example("\"/etc/sqluice/server.key\"");
/// `client_ca_file` of a listener
pub static CLIENT_CA_FILE: Setting = live(
    "client_ca_file",
    Kind::Path,
    "Certificate authorities (PEM) of clients' certificates. Accounts with REQUIRE X509, SUBJECT or ISSUER need it. \
     Clients without a certificate can use other accounts. Without it Sqluice requests no certificate.",
)
.example("\"/etc/sqluice/clients-ca.pem\"");

/// `client_cert`
pub static CLIENT_CERT: Setting = live(
    "client_cert",
    Kind::Choice {
        default: Some(ClientCert::Optional.word()),
        words: &[
            Word::new(ClientCert::Optional.word(), "the account decides"),
            Word::new(ClientCert::Required.word(), "every client with TLS must show one"),
        ],
    },
    "Whether a client must show a certificate of `client_ca_file`.",
);
