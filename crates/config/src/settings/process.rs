//! `[proxy]`, `[log]` and `[admin]`.

use super::{Form, Kind, Section, Setting, Word, limit, live, millis};
use crate::LogFormat;

/// `[proxy]`
pub static PROXY: Section = Section {
    key: "proxy",
    form: Form::Single,
    doc: "The process itself.",
    settings: &[&WORKERS, &BUSY_POLL, &DIGESTS_MAX, &DRAIN, &ZONE, &LOGIN_MEMORY_MAX, &PREPARED_MEMORY_MAX],
    sections: &[],
};

/// `workers`
pub static WORKERS: Setting = limit(
    "workers",
    0,
    1024,
    "one per core",
    "How many threads serve sessions. Each has its own event loop, sessions and connections.",
)
.restart();
/// `busy_poll_us`
pub static BUSY_POLL: Setting = limit(
    "busy_poll_us",
    0,
    1000,
    "off",
    "How many microseconds a worker looks for the next event before it goes to sleep, which takes less time than being \
     woken; 50 is a good first try. It takes the time of a core while statements run; leave it off where a \
     database runs on the same machine.",
);
/// `digests_max`
pub static DIGESTS_MAX: Setting = limit(
    "digests_max",
    1_000,
    100_000,
    "off",
    "How many forms of statements each worker counts apart, for each user and schema; the rest is counted together. \
     An entry takes up to 2 KiB for the text and about 1,200 bytes more.",
);
/// `drain_ms`
pub static DRAIN: Setting = millis(
    "drain_ms",
    30_000,
    0,
    3_600_000,
    "How long sessions may finish their work when the process is asked to stop (SIGTERM).",
);
/// `zone`
pub static ZONE: Setting = live(
    "zone",
    Kind::Text { default: Some(""), max: 64 },
    "Where this proxy stands. Servers of the same zone are preferred for reads; empty is no preference.",
)
.example("\"a\"");
/// `login_memory_max`
pub static LOGIN_MEMORY_MAX: Setting = live(
    "login_memory_max",
    Kind::Size { default: 192 << 20, min: 1 << 20, max: 1 << 36 },
    "How much memory all clients that have not logged in may take together. A connection counts as 12 KiB, a TLS handshake as \
     32 KiB more, a longer login with its bytes. A connection beyond it is refused, a login that needs more waits.",
)
.restart();
/// `prepared_memory_max` of the process
pub static PREPARED_MEMORY_MAX: Setting = live(
    "prepared_memory_max",
    Kind::Size { default: 512 << 20, min: 1 << 20, max: 1 << 40 },
    "How long the texts of all sessions' prepared statements may be together.",
);

/// `[log]`
pub static LOG: Section = Section {
    key: "log",
    form: Form::Single,
    doc: "Log lines, which go to standard error.",
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
    "How log lines look.",
)
.restart();
/// `level`
pub static LEVEL: Setting = live(
    "level",
    Kind::Text { default: Some("info"), max: 1024 },
    "How much is logged: error, warn, info, debug, trace or off, or a list like \"info,sqluice_proxy=debug\".",
)
.restart();

/// `[admin]`
pub static ADMIN: Section = Section {
    key: "admin",
    form: Form::Single,
    doc: "The admin listener: Prometheus metrics at /metrics, health at /healthz and /readyz, and the API at /api/v1, which is \
          closed until a key is given: by one of `key`, `key_file` and `key_env`. Without `address` nothing listens.",
    settings: &[&ADDRESS, &KEY, &KEY_FILE, &KEY_ENV],
    sections: &[],
};

/// `address`
pub static ADDRESS: Setting = live(
    "address",
    Kind::Address { port_zero: true },
    "Where the admin listener waits for HTTP. Without it there is none.",
)
.restart()
.example("\"127.0.0.1:9104\"");
/// `key`
pub static KEY: Setting = live(
    "key",
    Kind::Secret,
    "What requests to the API must show, as `Authorization: Bearer KEY`. A file or the environment keeps it out of this file.",
)
.example("\"…\"");
/// `key_file`
pub static KEY_FILE: Setting = live(
    "key_file",
    Kind::Path,
    "A file whose content is the key; one line end after it is ignored. Nobody else should be able to read it.",
)
.example("\"/etc/sqluice/admin.key\"");
/// `key_env`
pub static KEY_ENV: Setting =
    live("key_env", Kind::Variable, "An environment variable whose value is the key.").example("\"SQLUICE_ADMIN_KEY\"");
