//! `[user.NAME]`.

use super::listener::{CONSISTENCY_WORDS, PIPELINES_WORDS, SPLIT_WORDS};
use super::{Form, Kind, Section, Setting, limit, live};

/// `[user.NAME]`
pub static USER: Section = Section {
    key: "user",
    form: Form::Named,
    doc: "Settings of one user. Users need no entry: their accounts are those of the servers. Give at most one of \
         `password`, `password_file`, `password_env` and `native_hash`.",
    settings: &[
        &PASSWORD,
        &PASSWORD_FILE,
        &PASSWORD_ENV,
        &NATIVE_HASH,
        &MAX_SESSIONS,
        &MAX_CONNECTIONS,
        &SPLIT,
        &PIPELINES,
        &CONSISTENCY,
        &CLUSTER,
    ],
    sections: &[],
};

/// `password`
pub static PASSWORD: Setting =
    live("password", Kind::Secret, "The password, for servers whose accounts the monitor may not read.")
        .example("\"…\"");
/// `password_file`
pub static PASSWORD_FILE: Setting =
    live("password_file", Kind::Path, "A file with the password; Sqluice ignores one line end after it.")
        .example("\"/etc/sqluice/app.pw\"");
/// `password_env`
pub static PASSWORD_ENV: Setting = live("password_env", Kind::Variable, "An environment variable with the password.")
    .example("\"SQLUICE_APP_PASSWORD\"");
/// `native_hash`
pub static NATIVE_HASH: Setting = live(
    "native_hash",
    Kind::Secret,
    "The password's hash as mysql_native_password stores it: `*` and 40 hexadecimal digits.",
)
.example("\"*…\"");
/// `max_sessions` of a user
pub static MAX_SESSIONS: Setting = limit(
    "max_sessions",
    0,
    1_000_000,
    "only the listener's limits",
    "Most sessions of this user at a time, over all listeners.",
);
/// `max_connections` of a user
pub static MAX_CONNECTIONS: Setting =
    limit("max_connections", 0, 100_000, "only the pool's limits", "Most connections to servers for this user.");
/// `split` of a user
pub static SPLIT: Setting = live(
    "split",
    Kind::Choice { default: None, words: SPLIT_WORDS },
    "The servers for this user's statements. Without it, the listener's setting applies.",
)
.example("\"primary\"");
/// `consistency` of a user
pub static CONSISTENCY: Setting = live(
    "consistency",
    Kind::Choice { default: None, words: CONSISTENCY_WORDS },
    "The writes that this user's reads are sure to see. Without it, the listener's setting applies.",
)
.example("\"none\"");
/// `pipelines` of a user
pub static PIPELINES: Setting = live(
    "pipelines",
    Kind::Choice { default: None, words: PIPELINES_WORDS },
    "Whether this user's reads share connections to the servers. Without it, the listener's setting applies.",
)
.example("\"off\"");
/// `cluster` of a user
pub static CLUSTER: Setting =
    live("cluster", Kind::Text { default: None, max: 64 }, "The only cluster that this user may use. Without it, any.")
        .example("\"main\"");
