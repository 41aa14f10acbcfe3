//! `[listener.NAME]` and `[user.NAME]`.

use super::{Kind, Section, Setting, Word, count, limit, live, millis, seconds};
use crate::{Split, TlsMode};

/// `[listener.NAME]`
pub static LISTENER: Section = Section {
    key: "listener",
    named: true,
    doc: "An address that clients connect to. At least one is needed.",
    settings: &[
        &ADDRESS,
        &CLUSTER,
        &SPLIT,
        &MAX_SESSIONS,
        &MAX_SESSIONS_PER_USER,
        &LOGIN_TIMEOUT,
        &IDLE_TIMEOUT,
        &HOLD,
        &MAX_PACKET,
        &LOCAL_INFILE,
        &SERVER_VERSION,
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

const SPLIT_WORDS: &[Word] = &[
    Word::new(Split::Auto.word(), "reads outside transactions go to replicas, all else to the primary"),
    Word::new(Split::Primary.word(), "all goes to the primary"),
    Word::new(Split::Replica.word(), "all goes to replicas"),
];

/// `split`
pub static SPLIT: Setting =
    live("split", Kind::Choice { default: Some(Split::Auto.word()), words: SPLIT_WORDS }, "Where statements go.");
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
    10_000,
    0,
    600_000,
    "How long a statement waits while the cluster has no primary. After that the client gets an error.",
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
    Kind::Flag { default: false },
    "Whether LOAD DATA LOCAL INFILE, by which a server reads a client's files, is let through.",
);
/// `server_version`
pub static SERVER_VERSION: Setting = live(
    "server_version",
    Kind::Text { default: None, max: 64 },
    "The version that clients are told. Without it, one that fits the cluster.",
)
.example("\"10.11.6-MariaDB\"");

/// `tls` of a listener
pub static TLS: Section = Section {
    key: "tls",
    named: false,
    doc: "TLS towards clients. Without `cert_file` a certificate is made at start, which encrypts but proves nothing.",
    settings: &[&TLS_MODE, &CERT_FILE, &KEY_FILE],
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
/// `cert_file` of a listener
pub static CERT_FILE: Setting =
    live("cert_file", Kind::Path, "Certificate chain (PEM) that clients see. Needs `key_file`.")
        .example("\"/etc/sqluice/server.pem\"");
/// `key_file` of a listener
pub static KEY_FILE: Setting =
    live("key_file", Kind::Path, "Private key (PEM) of `cert_file`.").example("\"/etc/sqluice/server.key\"");

/// `[user.NAME]`
pub static USER: Section = Section {
    key: "user",
    named: true,
    doc: "What is special about a user. Users need no entry: their accounts are those of the servers. At most one of \
          `password`, `password_file`, `password_env` and `native_hash` is given.",
    settings: &[
        &PASSWORD,
        &PASSWORD_FILE,
        &PASSWORD_ENV,
        &NATIVE_HASH,
        &USER_MAX_SESSIONS,
        &USER_MAX_CONNECTIONS,
        &USER_SPLIT,
        &USER_CLUSTER,
    ],
    sections: &[],
};

/// `password`
pub static PASSWORD: Setting =
    live("password", Kind::Secret, "The password, for servers whose accounts the monitor may not read.")
        .example("\"…\"");
/// `password_file`
pub static PASSWORD_FILE: Setting =
    live("password_file", Kind::Path, "A file whose content is the password; one line end after it is ignored.")
        .example("\"/etc/sqluice/app.pw\"");
/// `password_env`
pub static PASSWORD_ENV: Setting =
    live("password_env", Kind::Variable, "An environment variable whose value is the password.")
        .example("\"SQLUICE_APP_PASSWORD\"");
/// `native_hash`
pub static NATIVE_HASH: Setting = live(
    "native_hash",
    Kind::Secret,
    "The password's hash as mysql_native_password stores it: `*` and 40 hexadecimal digits.",
)
.example("\"*…\"");
/// `max_sessions` of a user
pub static USER_MAX_SESSIONS: Setting = limit(
    "max_sessions",
    0,
    1_000_000,
    "only the listener's limits",
    "Most sessions of this user at a time, over all listeners.",
);
/// `max_connections` of a user
pub static USER_MAX_CONNECTIONS: Setting =
    limit("max_connections", 0, 100_000, "only the pool's limits", "Most connections to servers for this user.");
/// `split` of a user
pub static USER_SPLIT: Setting = live(
    "split",
    Kind::Choice { default: None, words: SPLIT_WORDS },
    "Where this user's statements go. Without it, as the listener says.",
)
.example("\"primary\"");
/// `cluster` of a user
pub static USER_CLUSTER: Setting =
    live("cluster", Kind::Text { default: None, max: 64 }, "The only cluster this user may use. Without it, any.")
        .example("\"main\"");
