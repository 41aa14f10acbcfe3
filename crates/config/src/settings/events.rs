//! `[events]`

use super::{Form, Kind, Section, Setting, Word, count, limit, live};
use crate::{EventQueries, EventText};

/// `[events]`
pub static EVENTS: Section = Section {
    key: "events",
    form: Form::Single,
    doc: "Events: one JSON object for each login, refused login and end of a session, and for the queries that are \
          chosen here (docs/guides/query-log.md). `sqluice log tail` shows the last ones.",
    settings: &[&QUERIES, &SLOW, &SAMPLE, &NODE],
    sections: &[&FILE],
};

/// `queries`
pub static QUERIES: Setting = live(
    "queries",
    Kind::Choice {
        default: Some(EventQueries::Off.word()),
        words: &[
            Word::new(EventQueries::Off.word(), "none"),
            Word::new(EventQueries::Errors.word(), "those that end in an error"),
            Word::new(EventQueries::Writes.word(), "the same, and those that may change data"),
            Word::new(EventQueries::All.word(), "all"),
        ],
    },
    "The queries that become events.",
);
/// `slow_ms`
pub static SLOW: Setting = limit(
    "slow_ms",
    0,
    86_400_000,
    "off",
    "A query that takes this many milliseconds or longer becomes an event, whatever `queries` and `sample` say.",
);
/// `sample`
pub static SAMPLE: Setting = count(
    "sample",
    1,
    1,
    1_000_000,
    "Of the queries that `queries` chooses, those of one session in so many become events. Errors and slow queries \
     are never left out.",
);
/// `node`
pub static NODE: Setting = live(
    "node",
    Kind::Text { default: None, max: 128 },
    "The name of this process in its events. Without it, the name of the machine.",
)
.example("\"proxy-1\"");

/// `file` of the events
pub static FILE: Section = Section {
    key: "file",
    form: Form::Single,
    doc: "A file with all events, one JSON object a line. Without `path` there is none.",
    settings: &[&PATH, &TEXT, &ROTATE_SIZE, &ROTATE_AGE, &KEEP, &COMPRESS],
    sections: &[],
};

/// `path`
pub static PATH: Setting = live(
    "path",
    Kind::Path,
    "The file. Its name stays; the folder must be writable for Sqluice's user. If another program moves the file, \
     Sqluice makes a new one within a second.",
)
.example("\"/var/log/sqluice/events.jsonl\"");
/// `text`
pub static TEXT: Setting = live(
    "text",
    Kind::Choice {
        default: Some(EventText::Form.word()),
        words: &[
            Word::new(EventText::Form.word(), "the form of each statement, with `?` for literals; of errors the code"),
            Word::new(EventText::Text.word(), "the statement with all literals, too, and the messages of errors"),
        ],
    },
    "The part of a statement's text that stands in the file. With `text` the file holds whatever clients send, \
     passwords within statements included.",
);
/// `rotate_size`
pub static ROTATE_SIZE: Setting = live(
    "rotate_size",
    Kind::Size { default: 256 << 20, min: 0, max: 1 << 40 },
    "A file of this size gets another name, with the time behind it; 0 is never.",
);
/// `rotate_s`
pub static ROTATE_AGE: Setting =
    limit("rotate_s", 0, 31_536_000, "off", "A file gets another name after so many seconds, too.");
/// `keep`
pub static KEEP: Setting =
    count("keep", 10, 0, 100_000, "Number of files with other names that stay. Sqluice removes the oldest ones.");
/// `compress`
pub static COMPRESS: Setting =
    live("compress", Kind::Flag { default: true }, "Whether files with other names are compressed (zstd).");
