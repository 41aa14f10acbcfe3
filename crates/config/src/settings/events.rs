//! `[events]`

pub mod kafka;
pub mod otlp;

use super::{Form, Kind, Section, Setting, Unit, Word, count, limit, live, millis, whole};
use crate::{EventQueries, EventText, EventsWhenFull, SinkQueries, SyslogFacility, SyslogProtocol, TraceKeep};

/// Most masks of a sink.
pub const MASKS_MAX: usize = 64;

/// Fields that can be masked.
pub const MASKED_FIELDS: [&str; 9] =
    ["client", "user", "schema", "form", "text", "reason", "order", "error.text", "tags"];

/// `[events]`
pub static EVENTS: Section = Section {
    key: "events",
    form: Form::Single,
    doc: "Events: one JSON object for each login, refused login and end of a session, and for the queries that are \
          chosen here (docs/guides/query-log.md). `sqluice log tail` shows the last ones.",
    settings: &[
        &QUERIES,
        &SLOW,
        &SAMPLE,
        &NODE,
        &TAGS,
        &TRACE_SAMPLE,
        &TRACE_KEEP,
        &WHEN_FULL,
        &WAIT_MAX,
        &HMAC_KEY,
        &HMAC_KEY_FILE,
        &HMAC_KEY_ENV,
    ],
    sections: &[&SPOOL, &FILE, &FILES, &STDOUT, &SYSLOG, &kafka::KAFKA, &otlp::OTLP],
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

/// `tags`
pub static TAGS: Setting = live(
    "tags",
    Kind::Text { default: Some("application, controller, action, route, framework, db_driver, job"), max: 1024 },
    "Names of the tags that events keep, with commas between: clients send them in a comment (sqlcommenter, marginalia) \
     or as attributes of a query. Values are kept up to 256 bytes. `off` is none.",
);
/// `trace_sample`
pub static TRACE_SAMPLE: Setting = limit(
    "trace_sample",
    0,
    1_000_000,
    "off",
    "Of the queries that come without a trace, one in so many begins a trace of its own. It needs a sink with `traces` \
     (`[events.otlp.NAME]`).",
);
/// `trace_keep`
pub static TRACE_KEEP: Setting = live(
    "trace_keep",
    Kind::Choice {
        default: Some(TraceKeep::Off.word()),
        words: &[
            Word::new(TraceKeep::Off.word(), "none"),
            Word::new(TraceKeep::Errors.word(), "those that end in an error"),
            Word::new(TraceKeep::Slow.word(), "the same, and those that take `slow_ms` or longer"),
        ],
    },
    "The queries that become spans although their client does not record the trace, and `trace_sample` has not chosen \
     them. Sqluice decides at the end of the query. It needs a sink with `traces` (`[events.otlp.NAME]`).",
);
/// `when_full`
pub static WHEN_FULL: Setting = live(
    "when_full",
    Kind::Choice {
        default: Some(EventsWhenFull::Drop.word()),
        words: &[
            Word::new(EventsWhenFull::Drop.word(), "events are lost; a gap event says which"),
            Word::new(EventsWhenFull::Wait.word(), "sessions wait before their next statement, up to `wait_max_ms`"),
        ],
    },
    "The effect of a sink, or of the spool, that cannot take events as fast as they come, when there is no more room.",
);
/// `wait_max_ms`
pub static WAIT_MAX: Setting = millis(
    "wait_max_ms",
    10_000,
    100,
    600_000,
    "With `when_full = \"wait\"`: the longest wait. If there is still no room, events are lost until there is, and the log \
     of the process says so.",
);
/// `hmac_key`
pub static HMAC_KEY: Setting = live(
    "hmac_key",
    Kind::Secret,
    "The key of sinks with `text = \"hmac\"`, at least 16 bytes. A file or the environment keeps it out of this file. With \
     another key the same literals have other hashes.",
);
/// `hmac_key_file`
pub static HMAC_KEY_FILE: Setting =
    live("hmac_key_file", Kind::Path, "A file with the key; Sqluice ignores one line end after it.")
        .example("\"/etc/sqluice/hmac-key\"");
/// `hmac_key_env`
pub static HMAC_KEY_ENV: Setting = live("hmac_key_env", Kind::Variable, "An environment variable with the key.");

/// `spool` of the events
pub static SPOOL: Section = Section {
    key: "spool",
    form: Form::Single,
    doc: "A folder in which events stand until every sink has them, over outages, restarts and crashes. Without `path` \
          there is none: events wait for each sink in memory, up to 8 MiB.",
    settings: &[&SPOOL_PATH, &SPOOL_BYTES, &SPOOL_AGE],
    sections: &[],
};

/// `path` of the spool
pub static SPOOL_PATH: Setting =
    live("path", Kind::Path, "The folder, which no other process may use. Sqluice makes it if it is not there.")
        .restart()
        .example("\"/var/lib/sqluice/spool\"");
/// `max_bytes`
pub static SPOOL_BYTES: Setting = live(
    "max_bytes",
    Kind::Size { default: 10 << 30, min: 1 << 20, max: 1 << 40 },
    "The size of the spool. If it is reached, the oldest events go, and sinks that lack them get a gap event.",
)
.restart();
/// `max_age_s`
pub static SPOOL_AGE: Setting = whole(
    "max_age_s",
    Unit::Seconds,
    0,
    0,
    31_536_000,
    Some("off"),
    "Events that are older go, too, whether every sink has them or not.",
)
.restart();

/// `file` of the events
pub static FILE: Section = Section {
    key: "file",
    form: Form::Single,
    doc: "A file with events, one JSON object a line. Without `path` there is none.",
    settings: &[&PATH, &SINK_QUERIES, &TEXT, &MASK, &MASK_FIELDS, &ROTATE_SIZE, &ROTATE_AGE, &KEEP, &COMPRESS],
    sections: &[],
};

/// `files` of the events
pub static FILES: Section = Section {
    key: "files",
    form: Form::Named,
    doc: "Further files with events, each with a choice and a form of its own.",
    settings: &[&FURTHER_PATH, &SINK_QUERIES, &TEXT, &MASK, &MASK_FIELDS, &ROTATE_SIZE, &ROTATE_AGE, &KEEP, &COMPRESS],
    sections: &[],
};

/// `stdout` of the events
pub static STDOUT: Section = Section {
    key: "stdout",
    form: Form::Single,
    doc: "Events on standard output, one JSON object a line. The log of Sqluice itself is on standard error.",
    settings: &[&STDOUT_ENABLED, &SINK_QUERIES, &TEXT, &MASK, &MASK_FIELDS],
    sections: &[],
};

/// `syslog` of the events
pub static SYSLOG: Section = Section {
    key: "syslog",
    form: Form::Named,
    doc: "Receivers of syslog (RFC 5424). The message of each event is its JSON object.",
    settings: &[&SYSLOG_ADDRESS, &SYSLOG_PROTOCOL, &SYSLOG_FACILITY, &SINK_QUERIES, &TEXT, &MASK, &MASK_FIELDS],
    sections: &[],
};

/// `enabled`
pub static STDOUT_ENABLED: Setting =
    live("enabled", Kind::Flag { default: false }, "Whether events are written to standard output.");
/// `address`
pub static SYSLOG_ADDRESS: Setting = live(
    "address",
    Kind::Address { port_zero: false },
    "The address of the receiver: host and port, or a datagram socket of this machine (unix:/dev/log).",
)
.required()
.example("\"10.0.0.9:6514\"");
/// `protocol`
pub static SYSLOG_PROTOCOL: Setting = live(
    "protocol",
    Kind::Choice {
        default: Some(SyslogProtocol::Tcp.word()),
        words: &[
            Word::new(SyslogProtocol::Tcp.word(), "one connection, messages with their length ahead (RFC 6587)"),
            Word::new(SyslogProtocol::Udp.word(), "a datagram for each message (RFC 5426); nothing shows a loss"),
        ],
    },
    "The protocol, unless `address` is a socket of this machine.",
);
/// `facility`
pub static SYSLOG_FACILITY: Setting = live(
    "facility",
    Kind::Choice {
        default: Some(SyslogFacility::Local0.word()),
        words: &[
            Word::new(SyslogFacility::User.word(), "1"),
            Word::new(SyslogFacility::Daemon.word(), "3"),
            Word::new(SyslogFacility::Auth.word(), "4"),
            Word::new(SyslogFacility::Authpriv.word(), "10"),
            Word::new(SyslogFacility::Local0.word(), "16"),
            Word::new(SyslogFacility::Local1.word(), "17"),
            Word::new(SyslogFacility::Local2.word(), "18"),
            Word::new(SyslogFacility::Local3.word(), "19"),
            Word::new(SyslogFacility::Local4.word(), "20"),
            Word::new(SyslogFacility::Local5.word(), "21"),
            Word::new(SyslogFacility::Local6.word(), "22"),
            Word::new(SyslogFacility::Local7.word(), "23"),
        ],
    },
    "The facility of the messages. Their severity is warning for errors and gaps, informational for the others.",
);
/// `queries` of a sink
pub static SINK_QUERIES: Setting = live(
    "queries",
    Kind::Choice {
        default: Some(SinkQueries::All.word()),
        words: &[
            Word::new(SinkQueries::Off.word(), "none"),
            Word::new(SinkQueries::Errors.word(), "those that end in an error"),
            Word::new(SinkQueries::Slow.word(), "the same, and those that take `events.slow_ms` or longer"),
            Word::new(SinkQueries::Writes.word(), "those that end in an error, and those that may change data"),
            Word::new(SinkQueries::All.word(), "all"),
        ],
    },
    "Which of the queries that `events` chooses are written here. Logins and gaps always are.",
);
/// `path` of a further file
pub static FURTHER_PATH: Setting = Setting { required: true, ..PATH };

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
            Word::new(
                EventText::Hmac.word(),
                "the same, and the statement with a keyed hash (HMAC-SHA256, 64 bits) in place of each literal; statements \
                 that may hold passwords stay without",
            ),
            Word::new(EventText::Text.word(), "the statement with all literals, too, and the messages of errors"),
        ],
    },
    "The part of a statement's text that stands there. With `text` the sink holds whatever clients send, passwords \
     within statements included.",
);
/// `mask`
pub static MASK: Setting = live(
    "mask",
    Kind::Texts { count: MASKS_MAX, max: 4_096 },
    "Regular expressions: all that they find in a form, a text, a message, a reason, a tag or an order becomes `***` \
     here. They have the syntax of `digest_regex` of rules.",
)
.example("['[0-9]{13,19}', '[a-z.]+@[a-z.]+']");
/// `mask_fields`
pub static MASK_FIELDS: Setting = live(
    "mask_fields",
    Kind::Texts { count: MASKS_MAX, max: 64 },
    "Fields whose values become `***` here, if they are there: `client`, `user`, `schema`, `form`, `text`, `reason`, \
     `order`, `error.text`, `tags`.",
)
.example("[\"client\", \"user\"]");
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
