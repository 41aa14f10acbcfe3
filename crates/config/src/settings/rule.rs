//! `[[rule]]`

use std::time::Duration;

use super::listener::PIPELINES_WORDS;
use super::{Form, Kind, Section, Setting, Unit, Word, count, live, millis, whole};
use crate::{CacheFreshness, CacheMode, Consistency, LogMode, RuleAccess};

/// Most rules of a file.
pub const RULES_MAX: usize = 10_000;

/// Most bytes of a regular expression.
const REGEX_MAX: usize = 4_096;

/// Most bytes of a comment that a rule knows.
pub const COMMENT_MAX: usize = 256;

/// `[[rule]]`
pub static RULE: Section = Section {
    key: "rule",
    form: Form::List,
    doc: "A rule (docs/guides/rules.md). If all its matchers fit a statement, its actions apply. The first rule that \
         fits decides, in the order of the file; for the action `log` the first one that has it. A rule needs at least \
         one matcher (`listener` to `comment`) and one action (`route`, `consistency`, `max_lag_ms`, `cache`, \
         `refuse`, `log`). At most 10,000 rules; the regular expressions of all of them may take 64 MiB, a single \
         one 1 MiB.",
    settings: &[
        &NAME,
        &ENABLED,
        &LISTENER,
        &CLUSTER,
        &USER,
        &SCHEMA,
        &CLIENT,
        &DIGEST,
        &DIGEST_REGEX,
        &TEXT_REGEX,
        &ACCESS,
        &TABLE,
        &COMMENT,
        &ROUTE,
        &CONSISTENCY,
        &MAX_LAG,
        &PIPELINES,
        &CACHE,
        &CACHE_FRESHNESS,
        &CACHE_TTL,
        &CACHE_STALE,
        &CACHE_SHARED,
        &CACHE_TIER,
        &REFUSE,
        &LOG,
        &LOG_SAMPLE,
    ],
    sections: &[],
};

const fn text(key: &'static str, max: usize, doc: &'static str) -> Setting {
    live(key, Kind::Text { default: None, max }, doc)
}

/// `name`
pub static NAME: Setting = text(
    "name",
    64,
    "The rule's name in errors, metrics and the API: letters, digits, `-` and `_`. Each name may be used once.",
)
.required()
.example("\"reports\"");
/// `enabled`
pub static ENABLED: Setting =
    live("enabled", Kind::Flag { default: true }, "Whether the rule applies. Sqluice also checks rules that do not.");
/// `listener`
pub static LISTENER: Setting = text("listener", 64, "Matcher: the listener of the client.").example("\"app\"");
/// `cluster`
pub static CLUSTER: Setting = text("cluster", 64, "Matcher: the cluster of the session.").example("\"main\"");
/// `user`
pub static USER: Setting =
    text("user", 128, "Matcher: the user's name, as it is on the servers.").example("\"reports\"");
/// `schema`
pub static SCHEMA: Setting = text(
    "schema",
    256,
    "Matcher: the session's schema when the statement arrives, in the client's spelling. Schemas that the statement \
     names do not count.",
)
.example("\"shop\"");
/// `client`
pub static CLIENT: Setting = text(
    "client",
    64,
    "Matcher: the network of the client's address, such as 10.0.0.0/8. A client on a Unix socket is in no network.",
)
.example("\"10.0.0.0/8\"");
/// `digest`
pub static DIGEST: Setting = text(
    "digest",
    16,
    "Matcher: the hash of the statement's digest, 16 hexadecimal digits as `GET /api/v1/digests` shows it.",
)
.example("\"8d3c0b6e51a7f924\"");
/// `digest_regex`
pub static DIGEST_REGEX: Setting = text(
    "digest_regex",
    REGEX_MAX,
    "Matcher: a regular expression that finds a part of the statement's digest (its text without literals; the first \
     2 KiB count).",
)
.example("'^SELECT .* FROM orders '");
/// `text_regex`
pub static TEXT_REGEX: Setting = text(
    "text_regex",
    REGEX_MAX,
    "Matcher: a regular expression that finds a part of the statement's text as the client sent it; the first 64 KiB \
     count. Sqluice evaluates it for every statement; it remembers the result of all other matchers.",
)
.example("'/\\* job=nightly \\*/'");

const ACCESS_WORDS: &[Word] = &[
    Word::new(RuleAccess::Read.word(), "it only reads"),
    Word::new(RuleAccess::Write.word(), "everything else, such as changes, SET, BEGIN and COMMIT"),
];

/// `access`
pub static ACCESS: Setting =
    live("access", Kind::Choice { default: None, words: ACCESS_WORDS }, "Matcher: the effect of the statement.")
        .example("\"read\"");
/// `table`
pub static TABLE: Setting = text(
    "table",
    256,
    "Matcher: a table or view that the statement names, to read or to write, as `SCHEMA.TABLE`, or as `TABLE` in any \
     schema. Tables that a view uses do not count. Statements whose tables are unknown do not match.",
)
.example("\"shop.products\"");
/// `comment`
pub static COMMENT: Setting = text(
    "comment",
    COMMENT_MAX,
    "Matcher: the comment at the beginning of the statement, `/* … */`, is exactly this, except for spaces around it.",
)
.example("\"page: products\"");
/// `route`
pub static ROUTE: Setting = text(
    "route",
    80,
    "Action: `primary`, `replica`, `server:NAME` (a server of the cluster), or `auto` as with `split = \"auto\"`. \
     `replica` and `server:NAME` apply only to statements that read and leave no state; all others go where they \
     would go without the rule.",
)
.example("\"replica\"");

const CONSISTENCY_WORDS: &[Word] = &[
    Word::new(Consistency::Session.word(), "the writes of its session"),
    Word::new(Consistency::Cluster.word(), "the writes of all sessions of this process"),
    Word::new(Consistency::Table.word(), "the writes of all sessions of this process to the tables that it names"),
    Word::new(Consistency::None.word(), "no particular writes"),
];

/// `consistency`
pub static CONSISTENCY: Setting = live(
    "consistency",
    Kind::Choice { default: None, words: CONSISTENCY_WORDS },
    "Action: the writes that a read is sure to see, instead of the settings of listener and user.",
)
.example("\"none\"");

/// `max_lag_ms`
pub static MAX_LAG: Setting = whole(
    "max_lag_ms",
    Unit::Millis,
    0,
    0,
    86_400_000,
    Some("the cluster's `max_lag_ms` alone"),
    "Action: reads go to no replica with a longer lag at its last probe. This can only be shorter than the cluster's \
     `max_lag_ms`. If no replica is near enough, the primary serves the read.",
)
.example("500");

/// `pipelines` of a rule
pub static PIPELINES: Setting = live(
    "pipelines",
    Kind::Choice { default: None, words: PIPELINES_WORDS },
    "Action: whether the reads share connections to the servers, instead of the settings of listener and user.",
)
.example("\"off\"");

const CACHE_WORDS: &[Word] = &[
    Word::new(CacheMode::On.word(), "the cache answers, if it may (docs/guides/cache.md)"),
    Word::new(CacheMode::Advise.word(), "servers answer; Sqluice counts what the cache would have saved"),
    Word::new(CacheMode::Off.word(), "servers answer, even if a comment requests the cache"),
];

/// `cache`
pub static CACHE: Setting = live(
    "cache",
    Kind::Choice { default: None, words: CACHE_WORDS },
    "Action: whether the result cache answers reads. Statements that it cannot answer go to a server, and Sqluice \
     counts the reason.",
)
.example("\"on\"");
const FRESHNESS_WORDS: &[Word] = &[
    Word::new(CacheFreshness::Ttl.word(), "the results are used up to `cache_ttl_ms` longer"),
    Word::new(
        CacheFreshness::Follow.word(),
        "Sqluice follows the primary's binary log and invalidates them (docs/guides/cache.md); if it cannot follow \
         the log, servers answer",
    ),
];

/// `cache_freshness`
pub static CACHE_FRESHNESS: Setting = live(
    "cache_freshness",
    Kind::Choice { default: Some(CacheFreshness::Ttl.word()), words: FRESHNESS_WORDS },
    "With `cache`: the effect of writes outside this process on cached results. Writes through it invalidate them at \
     once.",
)
.example("\"follow\"");
/// `cache_ttl_ms`
pub static CACHE_TTL: Setting = millis(
    "cache_ttl_ms",
    1_000,
    1,
    86_400_000,
    "With `cache`: the longest age of a cached result. It matters for writes outside Sqluice; writes through Sqluice \
     invalidate results at once. The default with `cache_freshness = \"follow\"` is an hour.",
);
/// `cache_ttl_ms` where the log is followed and nothing is said.
pub(crate) const FOLLOWED_TTL: Duration = Duration::from_secs(3_600);
/// `cache_stale_ms`
pub static CACHE_STALE: Setting = millis(
    "cache_stale_ms",
    0,
    0,
    86_400_000,
    "With `cache`: Sqluice uses a result this much longer while one session reads it anew from a server.",
);
/// `cache_shared`
pub static CACHE_SHARED: Setting = live(
    "cache_shared",
    Kind::Flag { default: false },
    "With `cache`: all users share results. Without it only users with the same privileges do, as far as that is \
     certain. Share only data that all users of the rule may read: Sqluice does not check their privileges.",
);
/// `cache_tier`
pub static CACHE_TIER: Setting = live(
    "cache_tier",
    Kind::Flag { default: false },
    "With `cache = \"on\"`: other Sqluice processes share the results through `[cache.tier]`, and their writes \
     invalidate the results at once. Each result costs one request to the shared cache; if it does not reply, \
     servers answer.",
);
/// `refuse`
pub static REFUSE: Setting = text(
    "refuse",
    400,
    "Action: Sqluice does not run the statement; the client gets error 1644 (SQLSTATE 45000) with the rule's name \
     and this text.",
)
.example("\"add a WHERE\"");

const LOG_WORDS: &[Word] = &[
    Word::new(LogMode::On.word(), "the query becomes an event (docs/guides/query-log.md)"),
    Word::new(LogMode::Off.word(), "it becomes none, also if it fails or is slow"),
];

/// `log`
pub static LOG: Setting = live(
    "log",
    Kind::Choice { default: None, words: LOG_WORDS },
    "Action: whether the query becomes an event, instead of the choice of `[events]`. Other actions of the rule, and of \
     other rules, stay as they are: of all rules that fit, the first one with `log` decides this.",
)
.example("\"on\"");
/// `log_sample`
pub static LOG_SAMPLE: Setting = count(
    "log_sample",
    1,
    1,
    1_000_000,
    "With `log = \"on\"`: queries of one session in so many become events. For the other sessions `[events]` decides.",
);
