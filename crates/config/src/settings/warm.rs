//! `[warm.NAME]`

use super::{Form, Kind, Section, Setting, count, live};

/// `[warm.NAME]`
pub static WARM: Section = Section {
    key: "warm",
    form: Form::Named,
    doc: "Statements that fill the result cache before clients come (docs/guides/cache.md): before the first client, \
         after a change of primary, and at `sqluice cache warm`. Rules decide which results the cache keeps.",
    settings: &[&CLUSTER, &USER, &SCHEMA, &FILE, &SESSIONS],
    sections: &[],
};

/// `cluster`
pub static CLUSTER: Setting = live(
    "cluster",
    Kind::Text { default: None, max: 64 },
    "The cluster whose results the cache \
         gets.",
)
.required()
.example("\"main\"");
/// `user`
pub static USER: Setting =
    live("user", Kind::Text { default: None, max: 128 }, "The user for whose clients the results are.")
        .required()
        .example("\"app\"");
/// `schema`
pub static SCHEMA: Setting = live(
    "schema",
    Kind::Text { default: None, max: 256 },
    "The schema of these clients. Without it, clients without a schema.",
)
.example("\"shop\"");
/// `file`
pub static FILE: Setting = live(
    "file",
    Kind::Path,
    "A file with the statements, byte for byte as clients send them, each followed by `;` at the end of a line. \
     Sqluice ignores empty lines, and lines that begin with `#` or `-- `, between two statements. It reads the file \
     with the configuration; 4 MiB at most.",
)
.required()
.example("\"/etc/sqluice/warm.sql\"");
/// `sessions`
pub static SESSIONS: Setting = count("sessions", 4, 1, 64, "Number of statements that run at a time.");
