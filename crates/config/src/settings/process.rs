//! `[proxy]`, `[log]` and `[admin]`.

use super::listener::TLS_VERSIONS;
use super::{Form, Kind, Section, Setting, Word, limit, live, millis};
use crate::{LogFormat, TlsMode, TlsVersion};

/// `[proxy]`
pub static PROXY: Section = Section {
    key: "proxy",
    form: Form::Single,
    doc: "The process itself.",
    settings: &[
        &WORKERS,
        &BUSY_POLL,
        &RELIEVE_ABOVE,
        &DIGESTS_MAX,
        &DIGEST_SAMPLES,
        &DRAIN,
        &ZONE,
        &LOGIN_MEMORY_MAX,
        &PREPARED_MEMORY_MAX,
        &COMMAND_MEMORY_MAX,
    ],
    sections: &[],
};

/// `workers`
pub static WORKERS: Setting = limit(
    "workers",
    0,
    1024,
    "one per core",
    "Number of threads that serve sessions. Each has its own event loop, sessions and connections.",
)
.restart();
/// `busy_poll_us`
pub static BUSY_POLL: Setting = limit(
    "busy_poll_us",
    0,
    1000,
    "off",
    "Time in microseconds for which a worker waits actively before it sleeps; that is faster than to wake up. 50 is \
     a good first value. It uses CPU time of a core while statements run, so leave it off if a database runs on the \
     same machine.",
);
/// `relieve_above_percent`
pub static RELIEVE_ABOVE: Setting = limit(
    "relieve_above_percent",
    70,
    100,
    "off",
    "A worker that is busy for more than this share of a core, for some seconds, gives sessions to a worker that is far less \
     busy. They move between two statements; clients notice nothing.",
);
/// `digests_max`
pub static DIGESTS_MAX: Setting = limit(
    "digests_max",
    1_000,
    100_000,
    "off",
    "Digests that each worker counts separately, for each user and schema; it counts all others together. An entry \
     takes up to 2 KiB for the text, up to 8 KiB for the sample and about 2,400 bytes more.",
);
/// `digest_samples`
pub static DIGEST_SAMPLES: Setting = live(
    "digest_samples",
    Kind::Flag { default: true },
    "Whether Sqluice keeps the text of one slow read of each digest in memory, with its literals, so that an operator can \
     have a replica explain it. No reply, page or log shows this text.",
);
/// `drain_ms`
pub static DRAIN: Setting = millis(
    "drain_ms",
    30_000,
    0,
    3_600_000,
    "Time in which sessions may finish their work after the order to stop (SIGTERM).",
);
/// `zone`
pub static ZONE: Setting = live(
    "zone",
    Kind::Text { default: Some(""), max: 64 },
    "The place of this process. Sqluice prefers servers of the same zone for reads; empty means no preference.",
)
.example("\"a\"");
/// `login_memory_max`
pub static LOGIN_MEMORY_MAX: Setting = live(
    "login_memory_max",
    Kind::Size { default: 192 << 20, min: 1 << 20, max: 1 << 36 },
    "Memory for all clients that have not logged in. A connection counts as 12 KiB, a TLS handshake as 32 KiB more, \
     a longer login with its bytes. Sqluice refuses a connection beyond it; a login that needs more waits.",
)
.restart();
/// `prepared_memory_max` of the process
pub static PREPARED_MEMORY_MAX: Setting = live(
    "prepared_memory_max",
    Kind::Size { default: 512 << 20, min: 1 << 20, max: 1 << 40 },
    "Most bytes of the texts of all sessions' prepared statements.",
);
/// `command_memory_max`
pub static COMMAND_MEMORY_MAX: Setting = live(
    "command_memory_max",
    Kind::Size { default: 1 << 30, min: 64 << 20, max: 1 << 40 },
    "Most bytes of all clients' commands longer than 64 KiB, from their first bytes until they have run. A command of \
     16 MiB or more counts twice. Sqluice refuses a command beyond it (1041), unless it is the only one. A client that \
     sends less than 64 KiB of such a command in 30 seconds, and not its end, is disconnected.",
);

/// `[log]`
pub static LOG: Section = Section {
    key: "log",
    form: Form::Single,
    doc: "Log lines, on standard error.",
    settings: &[&FORMAT, &LEVEL],
    sections: &[],
};

/// `format`
pub static FORMAT: Setting = live(
    "format",
    Kind::Choice {
        default: Some(LogFormat::Human.word()),
        words: &[
            Word::new(LogFormat::Human.word(), "for reading"),
            Word::new(LogFormat::Json.word(), "one JSON object a line"),
        ],
    },
    "The form of log lines.",
)
.restart();
/// `level`
pub static LEVEL: Setting = live(
    "level",
    Kind::Text { default: Some("info"), max: 1024 },
    "The amount of logging: error, warn, info, debug, trace or off, or a list like \"info,sqluice_proxy=debug\".",
)
.restart();

/// `[admin]`
pub static ADMIN: Section = Section {
    key: "admin",
    form: Form::Single,
    doc: "The admin listener: the operator's page at /, Prometheus metrics at /metrics, health at /healthz and /readyz, \
         and the API at /api/v1. The API and the page are closed without a key. Each role has a key of its own \
         (docs/guides/page.md#roles): in this file, in a file of its own, or in the environment. Without `address` \
         Sqluice opens no admin listener.",
    settings: &[
        &ADDRESS,
        &SQL_ADDRESS,
        &KEY,
        &KEY_FILE,
        &KEY_ENV,
        &OPERATE_KEY,
        &OPERATE_KEY_FILE,
        &OPERATE_KEY_ENV,
        &VIEW_KEY,
        &VIEW_KEY_FILE,
        &VIEW_KEY_ENV,
    ],
    sections: &[&ADMIN_TLS],
};

/// `address`
pub static ADDRESS: Setting = live(
    "address",
    Kind::Address { port_zero: true },
    "The address of the admin listener (HTTP). Without it there is none.",
)
.restart()
.example("\"127.0.0.1:9104\"");
/// `sql_address`
pub static SQL_ADDRESS: Setting = live(
    "sql_address",
    Kind::Address { port_zero: true },
    "The address of the SQL console (docs/guides/sql-console.md), in the MySQL protocol. Without it there is none. It needs \
     `address`, and refuses every login without a key. Keep it on a loopback address, or demand TLS (`admin.tls`).",
)
.restart()
.example("\"127.0.0.1:6032\"");
/// `key`
pub static KEY: Setting = live(
    "key",
    Kind::Secret,
    "The key of the role admin, which may do everything. Requests to the API show a key as \
     `Authorization: Bearer KEY`. A file or the environment keeps it out of this file.",
)
.example("\"…\"");
/// `key_file`
pub static KEY_FILE: Setting = live(
    "key_file",
    Kind::Path,
    "A file with the key; Sqluice ignores one line end after it. Only Sqluice's user should be able to read it.",
)
.example("\"/etc/sqluice/admin.key\"");
/// `key_env`
pub static KEY_ENV: Setting =
    live("key_env", Kind::Variable, "An environment variable with the key.").example("\"SQLUICE_ADMIN_KEY\"");
/// `operate_key`
pub static OPERATE_KEY: Setting = live(
    "operate_key",
    Kind::Secret,
    "The key of the role operate. It may read, kill, drain, set maintenance and marks.",
)
.example("\"…\"");
/// `operate_key_file`
pub static OPERATE_KEY_FILE: Setting =
    live("operate_key_file", Kind::Path, "A file with that key.").example("\"/etc/sqluice/operate.key\"");
/// `operate_key_env`
pub static OPERATE_KEY_ENV: Setting = live("operate_key_env", Kind::Variable, "An environment variable with that key.")
    .example("\"SQLUICE_OPERATE_KEY\"");
/// `view_key`
pub static VIEW_KEY: Setting =
    live("view_key", Kind::Secret, "The key of the role view. It may read and change nothing.").example("\"…\"");
/// `view_key_file`
pub static VIEW_KEY_FILE: Setting =
    live("view_key_file", Kind::Path, "A file with that key.").example("\"/etc/sqluice/view.key\"");
/// `view_key_env`
pub static VIEW_KEY_ENV: Setting =
    live("view_key_env", Kind::Variable, "An environment variable with that key.").example("\"SQLUICE_VIEW_KEY\"");

/// `[admin.tls]`
pub static ADMIN_TLS: Section = Section {
    key: "tls",
    form: Form::Single,
    doc: "TLS of the admin listener (HTTPS) and of the SQL console. A reload takes a renewed certificate. The SQL console \
          offers TLS in any case: without `cert_file` with a certificate that Sqluice makes at start.",
    settings: &[&ADMIN_TLS_MODE, &ADMIN_TLS_MIN_VERSION, &ADMIN_CERT_FILE, &ADMIN_KEY_FILE],
    sections: &[],
};

/// `mode` of `admin.tls`
pub static ADMIN_TLS_MODE: Setting = live(
    "mode",
    Kind::Choice {
        default: None,
        words: &[
            Word::new(
                TlsMode::Required.word(),
                "HTTPS only, and the SQL console refuses a client without TLS; the default with `cert_file`",
            ),
            Word::new(TlsMode::Optional.word(), "HTTPS and HTTP at the same address"),
            Word::new(TlsMode::Off.word(), "HTTP only; the default without `cert_file`"),
        ],
    },
    "Whether clients of the admin listener may or must encrypt.",
)
.example("\"required\"");
/// `min_version` of `admin.tls`
pub static ADMIN_TLS_MIN_VERSION: Setting = live(
    "min_version",
    Kind::Choice { default: Some(TlsVersion::V12.word()), words: TLS_VERSIONS },
    "The lowest version of TLS for clients of the admin listener.",
);
/// `cert_file` of `admin.tls`
pub static ADMIN_CERT_FILE: Setting = live(
    "cert_file",
    Kind::Path,
    "The certificate chain (PEM) of the admin listener and of the SQL console. Needs `key_file`.",
)
.example("\"/etc/sqluice/admin.pem\"");
/// `key_file` of `admin.tls`
pub static ADMIN_KEY_FILE: Setting =
    live("key_file", Kind::Path, "Private key (PEM) of `cert_file`.").example("\"/etc/sqluice/admin-tls.key\"");
