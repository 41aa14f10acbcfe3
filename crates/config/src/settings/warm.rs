//! `[warm.NAME]`

use super::{Form, Kind, Section, Setting, count, live};

/// `[warm.NAME]`
pub static WARM: Section = Section {
    key: "warm",
    form: Form::Named,
    doc: "Statements that fill the result cache before clients ask (docs/guides/cache.md): when the first client is there, after another server \
          became the primary, and when `sqluice cache warm` says so. Rules say what of that is kept.",
    settings: &[&CLUSTER, &USER, &SCHEMA, &FILE, &SESSIONS],
    sections: &[],
};

/// `cluster`
pub static CLUSTER: Setting =
    live("cluster", Kind::Text { default: None, max: 64 }, "Whose answers they are.").required().example("\"main\"");
/// `user`
pub static USER: Setting =
    live("user", Kind::Text { default: None, max: 128 }, "The user whose clients shall find the answers.")
        .required()
        .example("\"app\"");
/// `schema`
pub static SCHEMA: Setting = live(
    "schema",
    Kind::Text { default: None, max: 256 },
    "The schema in which these clients are. Without it, clients without a schema.",
)
.example("\"shop\"");
/// `file`
pub static FILE: Setting = live(
    "file",
    Kind::Path,
    "The statements, each as clients send it, byte for byte, and then `;` at the end of a line, which is no part of it. Empty lines and \
     lines that begin with `#` or `-- ` between two statements do not count. Read with the configuration; 4 MiB at most.",
)
.required()
.example("\"/etc/sqluice/warm.sql\"");
/// `sessions`
pub static SESSIONS: Setting = count("sessions", 4, 1, 64, "How many statements run at a time.");
